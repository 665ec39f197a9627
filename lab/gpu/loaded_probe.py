"""Whether loaded device code makes calls longer, or only empty ones: `python -m lab.gpu.loaded_probe`.

In each of several processes it times empty calls and calls of one and four kernels that do nothing, by turns and with
a cold cache: at first, with memory mapped as for inputs and results, with device code loaded as in an executor, when
a kernel of that code has run, with memory of another process mapped, with a pause before each call, and while another
context writes to the cache, as the referee does. Each line of stdout is JSON: the medians of one such stage in
microseconds. The last line says for each stage by how much each sort of call became longer since the first one, as mean
and standard error over processes. Where calls of kernels become longer by as much as empty ones, what an empty call
takes may be subtracted from them. One context per process, since its addresses stay taken. Needs nvcc.
"""

import ctypes
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.harness.child.gpu.driver import MEMORY_HANDLE_FD, Driver, Location, pointer, size_t, u64
from benchmarks.harness.gpu.shared_memory import INPUTS_AT, OUTPUTS_AT
from lab.gpu.context_probe import BesideClock, Chain
from lab.gpu.placement_probe import (
    KERNELS,
    ProbeKernel,
    function_of,
    in_contexts,
    measured_in_processes,
    medians_by_turns_us,
    read_options,
)

_MAPPED_BYTES = 256 << 20
_LAUNCHES = 50
_PINNED, _ON_DEVICE = 1, 1


class _Allocation(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


def main(argv: Sequence[str] | None = None) -> int:
    options = read_options(argv, __doc__, calls=100)
    if options.image:
        measure(options.image, options.contexts, options.calls)
        return 0
    print(json.dumps(longer(measured_in_processes("lab.gpu.loaded_probe", options))))
    return 0


def measure(image: Path, contexts: int, calls: int) -> None:
    code = image.read_bytes()
    for context, driver in in_contexts(contexts):
        cold = BesideClock(driver)
        nothing = ProbeKernel(cold, function_of(driver, code, "nothing"), (), 1)
        programs: dict[str, Any] = {"empty": None, "1 of nothing": nothing, "4 of nothing": Chain(nothing, 4)}
        for stage, prepare in _stages(cold, code).items():
            prepare()
            medians = {name: round(us, 3) for name, us in medians_by_turns_us(cold, programs, calls).items()}
            print(json.dumps({"context": context, "stage": stage, **medians}))


def _stages(cold: BesideClock, code: bytes) -> dict[str, Callable[[], object]]:
    """What is done before each, in this order."""
    driver, loaded = cold.driver, list[pointer]()

    def map_memory() -> None:
        for _ in range(2):
            driver.allocate(_MAPPED_BYTES)

    def adopt() -> None:
        for at, writable in ((INPUTS_AT, False), (OUTPUTS_AT, True)):
            fd = _shareable(driver)
            driver.adopt(fd, _MAPPED_BYTES, at, writable=writable)
            os.close(fd)

    def launch() -> None:
        blocks, count = KERNELS["all processors"]
        words = (driver.allocate(4 * count), driver.allocate(4 * count), ctypes.c_int(count))
        cold.times_us(ProbeKernel(cold, loaded[0], words, blocks), _LAUNCHES)

    return {
        "first": lambda: None,
        "again": lambda: None,
        "memory": map_memory,
        "loaded": lambda: loaded.append(_library_function(driver, code, b"sum")),
        "launched": launch,
        "launched, again": lambda: None,
        "adopted": adopt,
        "pauses": cold.pause,
        "pauses, another context": cold.open_another_context,
        "another context": cold.do_not_pause,
        "neither": cold.close_another_context,
    }


def _shareable(driver: Driver) -> int:
    handle, fd = u64(), ctypes.c_int(-1)
    properties = _Allocation(_PINNED, MEMORY_HANDLE_FD, Location(_ON_DEVICE, 0))
    driver.call("cuMemCreate", ctypes.byref(handle), size_t(_MAPPED_BYTES), ctypes.byref(properties), u64(0))
    driver.call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, ctypes.c_int(MEMORY_HANDLE_FD), u64(0))
    return fd.value


def _library_function(driver: Driver, code: bytes, name: bytes) -> pointer:
    library, kernel, function, nothing, none = pointer(), pointer(), pointer(), pointer(None), ctypes.c_uint(0)
    options = (nothing, nothing, none, nothing, nothing, none)
    driver.call("cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(code), *options)
    driver.call("cuLibraryGetKernel", ctypes.byref(kernel), library, ctypes.c_char_p(name))
    driver.call("cuKernelGetFunction", ctypes.byref(function), kernel)
    return function


def longer(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """By stage and sort of call, in microseconds."""
    first = {(line["process"], line["context"]): line for line in lines if line["stage"] == "first"}
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for stage in dict.fromkeys(line["stage"] for line in lines if line["stage"] != "first"):
        chosen = [line for line in lines if line["stage"] == stage]
        for name in ("empty", "1 of nothing", "4 of nothing"):
            more_us = [line[name] - first[line["process"], line["context"]][name] for line in chosen]
            error_us = stdev(more_us) / math.sqrt(len(more_us))
            found.setdefault(stage, {})[name] = (round(fmean(more_us), 3), round(error_us, 3))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
