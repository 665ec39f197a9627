"""Writes the values that real work has for the suite `real-inputs`: `python -m lab.bench.serving_values`.

Made by rule and not recorded from a served model, since none can be reached here: lengths of requests are log-normal
with some empty ones, as traces of servers show them, and gates lie near 1, as in trained state space models. Whoever
has a trace of their own writes the same tensors from it.
"""

import sys

import numpy as np
from safetensors.numpy import save_file

from benchmarks.harness import default_suites

SEED = 20261125
VARIANTS = 8  # batches, of which a call gets one


def main() -> int:
    suite = default_suites() / "real_inputs"
    draw = np.random.default_rng(SEED)
    batches = {"batch/bounds": bounds(draw, 2048, 64), "other_batch/bounds": bounds(draw, 1000, 33)}
    save_file(batches, suite / "segment_sum" / "values.safetensors")
    gates = np.sort(1 - 10 ** draw.uniform(-3.0, -0.7, size=4096))
    quantiles = np.quantile(gates, np.linspace(0, 1, 65)).astype(np.float32)
    save_file({"trained/gates.quantiles": quantiles}, suite / "gated_scan" / "values.safetensors")
    return 0


def bounds(draw: np.random.Generator, tokens: int, parts: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Where the requests of each batch begin and end, shape (VARIANTS, parts + 1)."""
    lengths = draw.lognormal(0.0, 1.2, size=(VARIANTS, parts)) * (draw.random((VARIANTS, parts)) > 0.1)
    ends = np.floor(lengths.cumsum(1) / lengths.sum(1, keepdims=True) * tokens + 0.5)
    found: np.ndarray[tuple[int, int], np.dtype[np.int64]] = np.zeros((VARIANTS, parts + 1), dtype=np.int64)
    found[:, 1:] = ends
    found[:, -1] = tokens
    return found


if __name__ == "__main__":
    sys.exit(main())
