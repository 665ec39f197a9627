"""The shipped CUDA kernels in the emulator: verdicts, times, and how much slower than a plain C++ loop a kernel runs.

    python -m lab.bench.emulated > docs/results/emulator/shipped.jsonl

One JSON document per kernel, then one about speed. Needs no GPU. Not covered: whether the emulator's word is right.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.emulator import check
from benchmarks.harness import Paths, Source, default_rules, default_suites, load_suite

_LOOP = """
extern "C" void linear(const float* x, const float* w, const float* b, float* y, int rows, int outputs, int depth) {
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < outputs; ++column) {
            float sum = 0;
            for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[column * depth + k];
            sum += b[column];
            y[row * outputs + column] = sum > 0 ? sum : 0;
        }
}
"""
_SHAPE = (64, 128, 1600)
_KERNEL = Path(__file__).parents[1] / "tests/emulator/kernels/right/naive.cu"


def main() -> None:
    suites, rules = default_suites(), default_rules()
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(Path(sys.argv[1] if len(sys.argv) > 1 else folder))
        for task in load_suite(suites / "robust_kbench"):
            file = task.folder / "kernels" / f"{task.direction}_cuda.cu"
            if not file.is_file():
                continue
            text = file.read_text() + f"// {time.time()}\n"  # so that nothing comes from the cache
            report = check(Source(text, "cuda"), task, rules, paths, budget_s=120)
            print(json.dumps({"task": task.name, **report.to_json()}), flush=True)
        print(json.dumps({"loop": plain_loop(Path(folder)), "kernel": str(_KERNEL.name)}))


def plain_loop(folder: Path) -> dict[str, float]:
    """The time of the plain loop for the shape of the largest configuration, per multiplication."""
    (folder / "loop.cpp").write_text(_LOOP)
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", folder / "loop.cpp", "-o", folder / "loop.so"], check=True)
    function = ctypes.CDLL(str(folder / "loop.so")).linear
    rows, outputs, depth = _SHAPE
    buffers = [(ctypes.c_float * count)() for count in (rows * depth, outputs * depth, outputs, rows * outputs)]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        function(*buffers, *_SHAPE)
        times.append(time.perf_counter() - started)
    return {"seconds": min(times), "ns_per_product": 1e9 * min(times) / (rows * outputs * depth)}


if __name__ == "__main__":
    main()
