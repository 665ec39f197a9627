"""What a short replayed call owes to where its memory lies: `python -m lab.gpu.placement_probe`.

Two small kernels are timed by the clock of replayed calls, with a cold cache, in several processes and in several
contexts of each. Their inputs, their results or their code lie at other places each time: 256 bytes to 2 MiB apart, or
in allocations of their own. Each line of stdout is JSON: the median time of one combination less an empty call, in
microseconds. The last line says for each kernel how far the medians scatter (standard deviations) from context to
context and from place to place, and how far they would by the scatter of single calls alone. Needs nvcc.
"""

import argparse
import ctypes
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev, variance
from typing import Any, NamedTuple

from benchmarks.harness.child.gpu.clock import Clock
from benchmarks.harness.child.gpu.driver import Driver, pointer, size_t, u64
from benchmarks.harness.gpu.word_times import BLIND_MAX_US

KERNELS = {"one block": (1, 640), "all processors": (132, 409_600)}  # blocks, and values that they read
STEPS_BYTES = {"256 B": 256, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "2 MiB": 2 << 20, "own": 0}
_LEVELS = 6
_THREADS = 256
_ROOM_BYTES = 16 << 20
_APART_BYTES = 256 << 20
_FLUSH_BYTES = 256 << 20


class ProbePlace(NamedTuple):
    """One combination: the `moved` part lies at place number `level` of a kind."""

    moved: str  # inputs, results, code
    kind: str
    level: int


class ProbeClock:
    """A clock, and memory that empties the cache when it is written."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.clock = driver, Clock(driver)
        self._flush = driver.allocate(_FLUSH_BYTES)

    def times_us(self, program: Any, calls: int) -> list[float]:
        """Of so many calls of a program, or empty ones, without those whose times are worth nothing."""
        found = []
        for _ in range(calls):
            self.flush()
            times = self.clock.measure([] if program is None else [program])
            if not times.is_late and times.blind_us <= BLIND_MAX_US:
                found.append(times.call_us)
        return found

    def flush(self) -> None:
        self.driver.call("cuMemsetD8_v2", self._flush, ctypes.c_ubyte(1), size_t(_FLUSH_BYTES))
        self.driver.call("cuCtxSynchronize")


class ProbeKernel:
    """One kernel at one place, as a program for the clock."""

    steps = ()  # all on the first stream

    def __init__(self, cold: ProbeClock, function: pointer, words: Sequence[Any], blocks: int) -> None:
        self._cold, self._function, self._blocks, self._words = cold, function, blocks, words
        self._places = (pointer * max(1, len(words)))(*(ctypes.addressof(word) for word in words))

    def launch(self) -> None:
        blocks, threads, one, none = map(ctypes.c_uint, (self._blocks, _THREADS, 1, 0))
        shape = (blocks, one, one, threads, one, one, none)
        stream = self._cold.clock.lanes.first
        self._cold.driver.call("cuLaunchKernel", self._function, *shape, stream, self._places, pointer(None))


def main(argv: Sequence[str] | None = None) -> int:
    options = read_options(argv, __doc__, calls=30)
    if options.image:
        measure(options.image, options.contexts, options.calls)
        return 0
    lines = measured_in_processes("lab.gpu.placement_probe", options)
    for name in KERNELS:
        print(json.dumps({"kernel": name, **scatter([line for line in lines if line["kernel"] == name])}))
    return 0


def measured_in_processes(module: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What `module` prints in each of several processes, with the compiled kernels; printed here as well."""
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "kernels.cubin"
        source = Path(__file__).with_suffix(".cu")
        subprocess.run(["nvcc", "-cubin", "-arch=native", "-o", str(image), str(source)], check=True)
        command = [sys.executable, "-m", module, "--image", str(image)]
        command += ["--contexts", str(options.contexts), "--calls", str(options.calls)]
        for process in range(options.processes):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for text in done.stdout.splitlines():
                lines.append({"process": process, **json.loads(text)})
                print(json.dumps(lines[-1]), flush=True)
    return lines


def in_contexts(contexts: int) -> Iterator[tuple[int, Driver]]:
    """One context of this process after the other, by its number."""
    driver = Driver()
    driver.open()
    gc.disable()
    for context in range(contexts):
        if context:
            driver.call("cuDevicePrimaryCtxReset_v2", ctypes.c_int(0))
            driver.open()
        yield context, driver


def medians_by_turns_us(cold: ProbeClock, programs: Mapping[str, Any], calls: int) -> dict[str, float]:
    """Of so many calls of each program; of a program that is None of empty calls."""
    times_us: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(calls):
        for name in random.sample(list(programs), len(programs)):
            times_us[name] += cold.times_us(programs[name], 1)
    return {name: median(found) for name, found in times_us.items()}


def measure(image: Path, contexts: int, calls: int) -> None:
    code = image.read_bytes()
    for context, driver in in_contexts(contexts):
        cold = ProbeClock(driver)
        empty_us = median(cold.times_us(None, 5 * calls))
        codes, rooms = (
            [function_of(driver, code, "sum") for _ in range(_LEVELS)],
            [_apart(driver) for _ in range(2 * _LEVELS)],
        )
        for name, (blocks, count) in KERNELS.items():
            made = {
                place: ProbeKernel(cold, codes[place.level if place.moved == "code" else 0], words, blocks)
                for place, words in _placed(rooms, count)
            }
            times_us = defaultdict[ProbePlace, list[float]](list)
            for _ in range(calls):
                for place in random.sample(list(made), len(made)):
                    times_us[place] += cold.times_us(made[place], 1)
            for place, found in times_us.items():
                sd_us = _robust_sd(found)
                line = {"context": context, "kernel": name, **place._asdict(), "empty_us": round(empty_us, 3)}
                print(json.dumps({**line, "median_us": round(median(found) - empty_us, 3), "sd_us": round(sd_us, 3)}))


def _placed(rooms: Sequence[int], count: int) -> Iterable[tuple[ProbePlace, Sequence[Any]]]:
    """All combinations with the kernel's parameters. Inputs lie in even rooms, results in odd ones."""
    for level in range(_LEVELS):
        for kind, step_bytes in STEPS_BYTES.items():
            inputs, results = rooms[2 * level if not step_bytes else 0], rooms[2 * level + 1 if not step_bytes else 1]
            away = level * step_bytes
            yield ProbePlace("inputs", kind, level), (u64(inputs + away), u64(rooms[1]), ctypes.c_int(count))
            yield ProbePlace("results", kind, level), (u64(rooms[0]), u64(results + away), ctypes.c_int(count))
        yield ProbePlace("code", "own", level), (u64(rooms[0]), u64(rooms[1]), ctypes.c_int(count))


def scatter(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Standard deviations in microseconds."""
    contexts = _means(lines, ("process", "context"))
    found = {"contexts": stdev(contexts.values())}
    for group in {(line["moved"], line["kind"]) for line in lines}:
        chosen = [line for line in lines if (line["moved"], line["kind"]) == group]
        spread = [variance(values) for values in _grouped(chosen, ("process", "context")).values()]
        found[" ".join(group)] = math.sqrt(fmean(spread))
    found["single calls"] = fmean(line["sd_us"] for line in lines)
    return {name: round(value, 3) for name, value in sorted(found.items())}


def _grouped(lines: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[tuple[Any, ...], list[float]]:
    found = defaultdict[tuple[Any, ...], list[float]](list)
    for line in lines:
        found[tuple(line[name] for name in names)].append(line["median_us"])
    return found


def _means(lines: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[tuple[Any, ...], float]:
    return {key: fmean(values) for key, values in _grouped(lines, names).items()}


def _robust_sd(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]) / 1.349


def _apart(driver: Driver) -> int:
    """Memory that lies far from what was allocated before."""
    driver.allocate(_APART_BYTES)
    return driver.allocate(_ROOM_BYTES).value


def function_of(driver: Driver, code: bytes, name: str) -> pointer:
    """A kernel, in a copy of its code."""
    module, function = pointer(), pointer()
    driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
    return function


def read_options(argv: Sequence[str] | None, told: str | None, calls: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(told or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--contexts", type=int, default=2, help="of each process")
    parser.add_argument("--calls", type=int, default=calls, help="of each combination")
    parser.add_argument("--image", type=Path, help=argparse.SUPPRESS)  # a process of its own
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
