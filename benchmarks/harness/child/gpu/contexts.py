"""Calls that show how fast the context of this process is: empty ones, and ones of kernels that do nothing.

They are made before device code of a submission is loaded here, and the kernel is gone then. Not covered: what follows
from their times (`gpu/contexts.py`).
"""

import ctypes
from dataclasses import asdict
from typing import Any

from .clock import Clock
from .driver import Driver, DriverError, pointer
from .launches import GraphNode, program

_CALLS, _IN_A_ROW = 20, 4
_NOT_COMPILED = ("PTX", "JIT")  # in the names of the driver's errors
_PTX = b".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n"
_NODE: GraphNode = {
    "kind": "kernel",
    "name": "nothing",
    "grid": (1, 1, 1),
    "block": (1, 1, 1),
    "shared_bytes": 0,
    "parameters": "",
    "attributes": {},
    "max_dynamic_bytes": 0,
    "carveout": 0,
    "non_portable": 0,
    "after": (),
}


def context_calls(driver: Driver, clock: Clock) -> dict[str, Any]:
    """The times of `empty` calls and of calls of `kernels` by turns.

    There are none of `kernels` if the driver cannot compile one.

    Raises DriverError.
    """
    module, function = pointer(), pointer()
    try:
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
    except DriverError as error:
        if not any(word in str(error) for word in _NOT_COMPILED):
            raise
        return {"empty": [asdict(clock.measure([])) for _ in range(_CALLS)], "kernels": []}
    try:
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"nothing"))
        kernels = [program(driver, clock.lanes, [_NODE], lambda _: function)] * _IN_A_ROW
        pairs = [(asdict(clock.measure([])), asdict(clock.measure(kernels))) for _ in range(_CALLS)]
    finally:
        driver.call("cuModuleUnload", module)
    return {"empty": [empty for empty, _ in pairs], "kernels": [kernels for _, kernels in pairs]}
