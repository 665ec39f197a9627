"""What an empty call takes on a GPU, and on what of a process it depends: `python -m lab.gpu.gaps --out FILE`.

Of replayed calls that take a few microseconds, the gaps between two kernels are a large part, and they differ from
process to process. Each of `--processes` processes in turn measures an empty call and calls of `--kernels` trivial
kernels with the judge's own clock: again and again, then on other streams, with other copies of the clock's code, with
other memory for the stamps, and in other contexts of the process. FILE gets a JSON line for each process. Not covered:
kernels that do something.
"""

import argparse
import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.child.gpu import appointment
from benchmarks.harness.child.gpu.appointment import Clock
from benchmarks.harness.child.gpu.driver import Driver, pointer, size_t, u64

_FLUSH_BYTES = 256 << 20
_STAMP_WORDS = 1 << 20


def main() -> int:
    options = read_options()
    if options.one:
        print(json.dumps(measured(options)))
        return 0
    arguments = ["--kernels", options.kernels, "--calls", str(options.calls), "--others", str(options.others)]
    arguments += ["--contexts", str(options.contexts)]
    for _ in range(options.processes):
        done = subprocess.run(
            [sys.executable, "-m", "lab.gpu.gaps", "--one", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(done.stderr[-2000:], flush=True)
            return 1
        line = done.stdout.splitlines()[-1]
        print(line, flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(line + "\n")
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--kernels", default="1,2,4", help="of a call, with commas")
    parser.add_argument("--calls", type=int, default=21, help="of which a figure is the median")
    parser.add_argument("--others", type=int, default=8, help="streams, copies of code and pieces of memory to try")
    parser.add_argument("--contexts", type=int, default=6, help="contexts to try")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a process of its own
    return parser.parse_args()


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of empty calls by what was changed, and of calls of so many kernels."""
    driver = Driver()
    driver.open()
    clock = Clock(driver, _FLUSH_BYTES)
    warm = [taken_us(clock, 0, options.calls) for _ in range(2)]
    counts = [int(number) for number in options.kernels.split(",")]
    found: dict[str, Any] = {"again": [taken_us(clock, 0, options.calls) for _ in range(4)], "warm": warm}
    found["kernels"] = {str(count): taken_us(clock, count, options.calls) for count in counts}
    for name, change in (("streams", other_stream), ("codes", other_code), ("stamps", other_stamps)):
        found[name] = [changed(clock, change, options.calls, counts[-1]) for _ in range(options.others)]
    found["again_last"] = taken_us(clock, 0, options.calls)
    found["contexts"] = [in_another_context(driver, options.calls, counts[-1]) for _ in range(options.contexts)]
    return found


def in_another_context(driver: Driver, calls: int, kernels: int) -> list[float]:
    """As `changed`, with a clock of its own. The context is kept, so that the next one lies elsewhere."""
    driver.call("cuCtxCreate_v2", ctypes.byref(pointer()), ctypes.c_uint(0), ctypes.c_int(0))
    clock = Clock(driver, _FLUSH_BYTES)
    taken_us(clock, 0, calls)
    return [taken_us(clock, 0, calls), taken_us(clock, kernels, calls)]


def changed(clock: Clock, change: Callable[[Clock], Callable[[], None]], calls: int, kernels: int) -> list[float]:
    """An empty call, and one of so many kernels, while something is another one."""
    restore = change(clock)
    try:
        return [taken_us(clock, 0, calls), taken_us(clock, kernels, calls)]
    finally:
        restore()


def other_stream(clock: Clock) -> Callable[[], None]:
    lanes, before = clock.lanes, clock.lanes.first
    lanes.first = clock._driver.stream()

    def restore() -> None:
        lanes.first = before

    return restore


def other_code(clock: Clock) -> Callable[[], None]:
    before = (clock._wait, clock._stamp)
    module = pointer()
    code = Path(appointment.__file__).with_name("appointment.ptx").read_bytes()
    clock._driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
    clock._wait, clock._stamp = (clock._function(module, name) for name in (b"kbench_wait", b"kbench_stamp"))

    def restore() -> None:
        clock._wait, clock._stamp = before

    return restore


def other_stamps(clock: Clock) -> Callable[[], None]:
    before = (clock._stamps, clock._stamps_at)
    host, place = pointer(), u64()
    clock._driver.call("cuMemHostAlloc", ctypes.byref(host), size_t(_STAMP_WORDS * 8), ctypes.c_uint(2))
    clock._driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(place), host, ctypes.c_uint(0))
    clock._stamps = (ctypes.c_uint64 * _STAMP_WORDS).from_address(int(host.value or 0))
    clock._stamps_at = place.value

    def restore() -> None:
        clock._stamps, clock._stamps_at = before

    return restore


class Trivial:
    """A program of so many kernels of one thread, which write one word each."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self.operations = clock, count
        self._places = [clock._stamps_at + 8 * place for place in clock._draw(count)]

    def launch(self) -> None:
        for place in self._places:
            self._clock._launch(self._clock._wait, 0, place)


def taken_us(clock: Clock, kernels: int, calls: int) -> float:
    found = []
    for _ in range(calls):
        times = clock.keep([Trivial(clock, kernels)] if kernels else [])  # type: ignore[list-item]
        if not times.is_late:
            found.append(times.first_us)
    return round(median(found), 3) if found else float("nan")


if __name__ == "__main__":
    sys.exit(main())
