"""What the processor can do at most on a number of threads: copying, and float32 arithmetic out of registers.

A matrix product of torch is no measure of the arithmetic: a library may use half of the vector unit.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

_COPY_SIZES_BYTES = tuple(1 << power for power in range(14, 28, 2))
_CHAINS_SOURCE = """
#ifdef __AVX512F__
#define BYTES 64
#else
#define BYTES 32
#endif
#define CHAINS 12  /* as many as hide the latency of two units and still lie in 16 registers */
typedef float lanes __attribute__((vector_size(BYTES)));

extern "C" double chains(long steps) {
    lanes sum[CHAINS], factor = {}, offset = {};
    for (int c = 0; c < CHAINS; ++c) sum[c] = lanes{} + float(c);
    factor += 0.999f;
    offset += 0.001f;
    for (long step = 0; step < steps; ++step)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; ++c) sum[c] = sum[c] * factor + offset;
    for (int c = 1; c < CHAINS; ++c) sum[0] += sum[c];
    return sum[0][0];
}

extern "C" long flops_per_step() { return 2 * CHAINS * (BYTES / sizeof(float)); }
"""
_CHAIN_STEPS = 100_000  # about half a millisecond


def measure_peaks(threads: int) -> dict[str, Any]:
    """The best copy bandwidth in bytes (read and written) per second by size, and float32 flops per second."""
    return {
        "copy_bytes_per_s": [[size, _copy_rate(size)] for size in _COPY_SIZES_BYTES],
        "flops_per_s": _arithmetic_rate(threads),
    }


def _copy_rate(size_bytes: int) -> float:
    source, target = torch.ones(size_bytes // 8), torch.ones(size_bytes // 8)
    return size_bytes / _best_s(lambda: target.copy_(source))


def _arithmetic_rate(threads: int) -> float:
    """Multiply-adds in independent chains of full vectors, on `threads` threads side by side."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(threads) as pool:
        library = _compiled(Path(folder))
        run = lambda: list(pool.map(library.chains, [_CHAIN_STEPS] * threads))  # noqa: E731 - timed as one call
        return float(threads * _CHAIN_STEPS * library.flops_per_step() / _best_s(run))


def _compiled(folder: Path) -> ctypes.CDLL:
    source, library = folder / "chains.cpp", folder / "chains.so"
    source.write_text(_CHAINS_SOURCE)
    compiler = shutil.which("g++") or shutil.which("c++") or "clang++"
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    loaded.chains.argtypes, loaded.chains.restype = [ctypes.c_long], ctypes.c_double
    return loaded


def _best_s(work: Callable[[], Any], repeats: int = 30) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
