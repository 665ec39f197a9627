"""Bundles of recorded results for tests: one line of each kind that is in order, to be changed field by field."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded.bundles import sha256_of

HEADER: dict[str, Any] = {
    "format": "kbench-recorded",
    "version": 1,
    "name": "bundle",
    "title": "A device, rule set rk-1",
    "about": "For a test.",
    "device": "nvidia-b200",
    "device_title": "NVIDIA B200",
    "device_class": "cuda",
    "machine": {"gpu": "NVIDIA B200"},
    "ruleset": "rk-1",
}
CONFIG: dict[str, Any] = {
    "key": "batch_size=64",
    "group": "single",
    "correct": True,
    "max_abs_error": 1e-6,
    "max_rel_error": 1e-7,
    "kernel_us": 10.0,
    "eager_us": 20.0,
    "compile_us": 15.0,
    "kernel_iqr_us": 0.1,
    "eager_iqr_us": 0.1,
    "compile_iqr_us": 0.1,
    "speedup": 1.5,
    "ci95": [1.4, 1.6],
    "roofline_fraction": 0.5,
    "calls": 30,
    "checked_calls": 30,
}
SOURCE = "torch::Tensor forward(torch::Tensor x) { return x; }\n"


def entry(**changes: Any) -> dict[str, Any]:
    """An entry of 1.5×; `speedup` changes score, interval and configuration together."""
    speedup, source = changes.pop("speedup", 1.5), changes.get("source", SOURCE)
    score = {
        "speedup": speedup,
        "ci95": [speedup * 0.98, speedup * 1.02],
        "vs_eager": speedup * 2,
        "vs_compile": speedup,
        "worst_config": "batch_size=64",
        "timing_trust": "bounded",
    }
    return {
        "id": "first",
        "task": "robust-kbench/mnist_linear_relu/forward",
        "by": "somebody",
        "method": {"slug": "reference-cuda", "title": "Reference kernels, CUDA C++", "kind": "library"},
        "language": "cuda",
        "judged_at": "2026-11-21T12:00:00Z",
        "score": score,
        "source_sha256": sha256_of(source) if source is not None else "0" * 64,
        "source": source,
        "configs": [{**CONFIG, "speedup": speedup, "ci95": score["ci95"]}],
        **changes,
    }


def bundle_file(path: Path, header: Mapping[str, Any] | None = None, entries: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Entries are changes to `entry()`; without any there is one."""
    lines = [{**HEADER, **(header or {})}, *(entry(**changes) for changes in entries or [{}])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
