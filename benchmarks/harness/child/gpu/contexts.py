"""Calls that show how fast the context of this process is: empty ones, and ones of a kernel that does nothing.

They are made before device code of a submission is loaded here, and the kernel is gone then. Not covered: what follows
from their times (`gpu/contexts.py`).
"""

import ctypes
from dataclasses import asdict
from typing import Any

from .clock import Clock
from .driver import Driver, DriverError, pointer
from .launches import GraphNode, program

_CALLS = 40
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
    """The times of `empty` and `kernel` calls by turns; neither if the driver cannot compile the kernel."""
    module, function = pointer(), pointer()
    try:
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
    except DriverError:
        return {"empty": [], "kernel": []}
    try:
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"nothing"))
        nothing = program(driver, clock.lanes, [_NODE], lambda _: function)
        pairs = [(asdict(clock.measure([])), asdict(clock.measure([nothing]))) for _ in range(_CALLS)]
    finally:
        driver.call("cuModuleUnload", module)
    return {"empty": [empty for empty, _ in pairs], "kernel": [kernel for _, kernel in pairs]}
