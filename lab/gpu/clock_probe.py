"""How exact the clock of replayed calls is: `python -m lab.gpu.clock_probe [--calls 150] [--processes 3]`.

Measures an empty call, kernels that take a known time, and sixty-four of them back to back, in several processes one
after the other: alone, then beside a busy process for each other processor. Prints a JSON line for each: percentiles of
what the host's clock says, less what an empty call takes, and the median of what the kernel says of itself by the GPU's
clock. How many calls were worthless is in it, too. Needs nvcc. Not covered: kernels that use memory.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.child.gpu.clock import Clock
from benchmarks.harness.child.gpu.driver import Driver, pointer, size_t, u64
from benchmarks.harness.gpu.word_times import BLIND_MAX_US

_BLOCKS, _THREADS = 132, 128
_BURST = 64
_PROGRAMS = {
    "kernel of 0 us": (0, 1),
    "2 us": (2_000, 1),
    "5 us": (5_000, 1),
    "20 us": (20_000, 1),
    "2 ms": (2_000_000, 1),
    "10 ms": (10_000_000, 1),
}
_PROGRAMS |= {"100 us": (100_000, 1), "three of 5 us": (5_000, 3), "burst of 5 us": (5_000, _BURST)}
_PERCENTILES = (1, 10, 50, 90, 99)


class Spins:
    """A program of so many kernels of so many nanoseconds each."""

    steps = ()  # all on the first stream

    def __init__(self, driver: Driver, clock: Clock, function: pointer, least_ns: int, count: int) -> None:
        self._driver, self._stream, self._function = driver, clock.lanes.first, function
        self._count = count
        self._told = driver.allocate(8)
        self._words = (u64(least_ns), self._told)
        self._places = (pointer * 2)(*(ctypes.addressof(word) for word in self._words))

    def launch(self) -> None:
        blocks, threads, one, none = map(ctypes.c_uint, (_BLOCKS, _THREADS, 1, 0))
        shape = (blocks, one, one, threads, one, one, none)
        for _ in range(self._count):
            self._driver.call("cuLaunchKernel", self._function, *shape, self._stream, self._places, pointer(None))

    def took_us(self) -> float:
        """The last of them, by the GPU's clock."""
        found = u64()
        self._driver.call("cuMemcpyDtoH_v2", ctypes.byref(found), self._told, size_t(8))
        return found.value / 1e3


def main() -> int:
    options = read_options()
    if options.one:
        measure(options.calls)
        return 0
    for beside in (0, (os.cpu_count() or 1) - 1):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(beside)]
        try:
            for number in range(options.processes):
                told = one_process(options.calls)
                for line in told:
                    print(json.dumps({"busy": beside, "process": number, **line}), flush=True)
        finally:
            for process in busy:
                process.kill()
    return 0


def one_process(calls: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "lab.gpu.clock_probe", "--one", "--calls", str(calls)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=150, help="of each program")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a process of its own
    return parser.parse_args()


def measure(calls: int) -> None:
    driver = Driver()
    driver.open()
    clock = Clock(driver)
    function = spin(driver)
    gc.collect()
    gc.disable()
    nothing_us, worthless = kept_us(clock, [], calls)
    empty_us = median(nothing_us)
    print(json.dumps({"program": "nothing", "worthless": worthless, "call_us": percentiles(nothing_us)}))
    for name, (least_ns, count) in _PROGRAMS.items():
        program = Spins(driver, clock, function, least_ns, count)
        times_us, worthless = kept_us(clock, [program], calls)
        shown = percentiles([time - empty_us for time in times_us])
        line = {"program": name, "worthless": worthless, "call_us": shown, "of_itself_us": round(program.took_us(), 2)}
        print(json.dumps(line))


def kept_us(clock: Clock, programs: Sequence[Any], calls: int) -> tuple[list[float], int]:
    """The times of calls that were worth something, after two that do not count, and how many were not."""
    found = [clock.measure(programs) for _ in range(calls + 2)][2:]
    kept = [times.call_us for times in found if not times.is_late and times.blind_us <= BLIND_MAX_US]
    return kept, calls - len(kept)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{percent}": round(ordered[percent * (len(ordered) - 1) // 100], 2) for percent in _PERCENTILES}


def spin(driver: Driver) -> pointer:
    module, function = pointer(), pointer()
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "spin.cubin"
        source = Path(__file__).with_suffix(".cu")
        subprocess.run(["nvcc", "-cubin", "-arch=native", "-o", str(image), str(source)], check=True)
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image.read_bytes()))
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"spin"))
    return function


if __name__ == "__main__":
    raise SystemExit(main())
