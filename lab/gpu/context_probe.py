"""Whether a small call tells how slow the context of a process is: `python -m lab.gpu.context_probe`.

In each of several contexts of several processes it times empty calls, one to eight kernels that do nothing, and two
that read memory, alone and four times, by the clock of replayed calls, in turn and with a cold cache: once when the
same context has emptied it, and once when another one has, as the referee does. Each line of stdout is JSON: the
medians of one context in microseconds, of all but the empty call less that one. The last line says how far each
scatters from context to context, and how far it does less the time of another one. Needs nvcc.
"""

import ctypes
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from benchmarks.harness.child.gpu.driver import pointer
from lab.gpu.placement_probe import (
    KERNELS,
    ProbeClock,
    ProbeKernel,
    function_of,
    in_contexts,
    measured_in_processes,
    medians_by_turns_us,
    read_options,
)

CHAINS = (1, 2, 3, 4, 6, 8)  # kernels in a row
_BESIDE = ", another context"
_REFERENCES = tuple(f"{name}{which}" for which in ("", _BESIDE) for name in ("empty", "1 of nothing", "4 of nothing"))


class BesideClock(ProbeClock):
    """One whose cache can be emptied by another context, and which can pause before each call."""

    _other: pointer | None = None
    _pause_s = 0.0

    def open_another_context(self) -> None:
        self._other, own = pointer(), pointer()
        self.driver.call("cuCtxGetCurrent", ctypes.byref(own))
        self.driver.call("cuCtxCreate_v2", ctypes.byref(self._other), ctypes.c_uint(0), ctypes.c_int(0))
        self._flush_of_other = ProbeClock(self.driver)
        self.driver.call("cuCtxSetCurrent", own)

    def flush(self) -> None:
        if self._other is None:
            super().flush()
        else:
            own = pointer()
            self.driver.call("cuCtxGetCurrent", ctypes.byref(own))
            self.driver.call("cuCtxSetCurrent", self._other)
            self._flush_of_other.flush()
            self.driver.call("cuCtxSetCurrent", own)
        time.sleep(self._pause_s)

    def pause(self) -> None:
        self._pause_s = 0.001

    def do_not_pause(self) -> None:
        self._pause_s = 0.0

    def close_another_context(self) -> None:
        if self._other is not None:
            self.driver.call("cuCtxDestroy_v2", self._other)
            self._other = None


class Chain:
    """One program several times."""

    steps = ()

    def __init__(self, program: ProbeKernel, count: int) -> None:
        self._program, self._count = program, count

    def launch(self) -> None:
        for _ in range(self._count):
            self._program.launch()


def main(argv: Sequence[str] | None = None) -> int:
    options = read_options(argv, __doc__, calls=60)
    if options.image:
        measure(options.image, options.contexts, options.calls)
        return 0
    lines = measured_in_processes("lab.gpu.context_probe", options)
    print(json.dumps(left(lines)))
    return 0


def measure(image: Path, contexts: int, calls: int) -> None:
    code = image.read_bytes()
    for context, driver in in_contexts(contexts):
        cold = BesideClock(driver)
        nothing = ProbeKernel(cold, function_of(driver, code, "nothing"), (), 1)
        programs: dict[str, Any] = {
            "empty": None,
            **{f"{count} of nothing": Chain(nothing, count) for count in CHAINS},
        }
        for name, (blocks, count) in KERNELS.items():
            words = (driver.allocate(4 * count), driver.allocate(4 * count), ctypes.c_int(count))
            programs[name] = ProbeKernel(cold, function_of(driver, code, "sum"), words, blocks)
            programs[f"4 of {name}"] = Chain(programs[name], 4)
        told = _medians_us(cold, programs, calls)
        cold.open_another_context()
        cold.pause()
        beside = _medians_us(cold, programs, calls)
        cold.close_another_context()
        told |= {f"{name}{_BESIDE}": us for name, us in beside.items()}
        print(json.dumps({"context": context, **told}))


def _medians_us(cold: BesideClock, programs: Mapping[str, Any], calls: int) -> dict[str, float]:
    """Of all but the empty call less that one."""
    medians = medians_by_turns_us(cold, programs, calls)
    return {name: round(us - (name != "empty") * medians["empty"], 3) for name, us in medians.items()}


def left(lines: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Standard deviations in microseconds: of each time, and of it less a reference's."""
    found = {}
    for name in (name for name in lines[0] if name not in ("process", "context")):
        found[name] = {"alone": round(stdev(line[name] for line in lines), 3)}
        for reference in _REFERENCES:
            found[name][f"less {reference}"] = round(stdev(line[name] - line[reference] for line in lines), 3)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
