"""What compiling a CUDA submission costs, by choice of headers: `python -m lab.bench.compile [--sources NAME ...]`.

Every source is compiled from scratch with plain nvcc and the stock headers, the thin ones, the thinnest ones, these
with the small binding, and then as kbench does it: more headers where a name is missing, nvcc's two front ends side by
side. Prints a table and one line of JSON, in seconds of the wall clock; on a busy machine they say little, so the load
stands beside them. Not covered: loading the result.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import nvcc, toolchain

SOURCES = Path(__file__).parents[2] / "tests/harness/cuda_sources"
RULES = replace(default_rules(), compile=replace(default_rules().compile, timeout_s=1800))
WAYS = ("stock", "thin", "thinnest", "binding", "kbench")


def main(arguments: Sequence[str] | None = None) -> None:
    names = sorted(path.stem for path in SOURCES.glob("*.cu"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="*", choices=names, default=names)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    chosen = parser.parse_args(arguments)
    machine = {**nvcc.environment(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(f"{'source':14}" + "".join(f"{way:>12}" for way in chosen.ways))
    rows = {}
    for name in chosen.sources:
        rows[name] = {way: measure(name, way) for way in chosen.ways}
        print(f"{name:14}" + "".join(_cell(rows[name][way]) for way in chosen.ways), flush=True)
    print(json.dumps({"machine": machine, "seconds": rows}))


def measure(name: str, way: str) -> float | None:
    """Seconds of one compilation; None if these headers are not enough for the source."""
    source = Source((SOURCES / f"{name}.cu").read_text(), "cuda")
    compiler = nvcc.Nvcc(None) if way == "kbench" else nvcc.Nvcc(None, tiers=(way,), side_by_side=False)
    with tempfile.TemporaryDirectory() as data:
        paths = Paths(Path(data))
        folder = paths.scratch / "work"
        folder.mkdir()
        started = time.perf_counter()
        outcome = compiler.compile(source, toolchain.Workshop(folder, RULES, paths))
        return round(time.perf_counter() - started, 1) if outcome.exit_code == 0 else None


def _cell(seconds: float | None) -> str:
    return f"{'–' if seconds is None else seconds:>12}"


if __name__ == "__main__":
    main()
