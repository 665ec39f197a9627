"""Captures one call of a function into a list of what it asks the GPU for: kernels, memsets, copies and their order.

Runs where the function lives, so what it says of a submission is that submission's own word. Not covered: launching
the list (`launches.py`) and whether it may be launched at all (`gpu/record.py`).
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from ..shell import Function
from .driver import CopyNode, Driver, DriverError, EdgeData, KernelNode, MemsetNode, pointer, size_t

_RELAXED = 2
_KERNEL, _COPY, _MEMSET, _EMPTY = 0, 1, 2, 5
_OTHER_NODES = {
    3: "a function of the host",
    4: "a graph",
    6: "waiting for an event from outside",
    7: "an event for the outside",
    8: "a semaphore",
    9: "a semaphore",
    10: "an allocation (cudaMallocAsync)",
    11: "a release (cudaFreeAsync)",
    12: "a batch of memory operations",
    13: "a condition",
}
_ATTRIBUTES = (1, 2, 4, 5, 11, 13, 14)  # of kernel nodes, those that are looked at
_MAX_DYNAMIC, _CARVEOUT, _NON_PORTABLE = 8, 9, 14
_END, _BUFFER = 0, 1  # in the list of a launch whose parameters are one buffer


class NotCaptured(Exception):
    """The call cannot be written down; the text says why."""


class Capture:
    """Captures calls on a stream of its own, which is torch's current one meanwhile."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._stream = torch.cuda.Stream()

    def run(self, function: Function, arguments: Sequence[Any]) -> None:
        """A call that is not captured, on the same stream."""
        with torch.cuda.stream(self._stream):
            function(*arguments)
        torch.cuda.synchronize()

    def record(self, function: Function, arguments: Sequence[Any]) -> tuple[list[dict[str, Any]], Any]:
        """The nodes of one call, each after those that it waits for, and what the call returned. Nothing runs."""
        stream, graph = pointer(self._stream.cuda_stream), pointer()
        with torch.cuda.stream(self._stream):
            self._driver.call("cuStreamBeginCapture_v2", stream, ctypes.c_int(_RELAXED))
            try:
                results = function(*arguments)
            except Exception as error:
                self._driver.succeeds("cuStreamEndCapture", stream, ctypes.byref(graph))
                raise NotCaptured(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}") from error
        try:
            self._driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
            nodes = describe(self._driver, graph)
            self._driver.call("cuGraphDestroy", graph)
        except DriverError as error:
            raise NotCaptured(str(error)) from error
        return nodes, results


def describe(driver: Driver, graph: pointer) -> list[dict[str, Any]]:
    """The nodes of `graph` as plain values; `function` of a kernel is its handle in this process."""
    count = size_t()
    driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    if count.value == 0:
        raise NotCaptured("nothing is launched on the current stream")
    handles = (pointer * count.value)()
    driver.call("cuGraphGetNodes", graph, handles, ctypes.byref(count))
    edges = _edges(driver, graph)
    order = _ordered([int(handle or 0) for handle in handles], edges)
    place = {handle: number for number, handle in enumerate(order)}
    after: dict[int, list[list[int]]] = {handle: [] for handle in order}
    for first, second, kind, port in edges:
        after[second].append([place[first], kind, port])
    return [{**_node(driver, pointer(handle)), "after": sorted(after[handle])} for handle in order]


def _edges(driver: Driver, graph: pointer) -> list[tuple[int, int, int, int]]:
    count = size_t()
    driver.call("cuGraphGetEdges_v2", graph, None, None, None, ctypes.byref(count))
    first, second, data = (pointer * count.value)(), (pointer * count.value)(), (EdgeData * count.value)()
    if count.value:
        driver.call("cuGraphGetEdges_v2", graph, first, second, data, ctypes.byref(count))
    found = zip(first, second, data, strict=True)
    return [(int(one or 0), int(other or 0), item.type, item.from_port) for one, other, item in found]


def _ordered(handles: list[int], edges: list[tuple[int, int, int, int]]) -> list[int]:
    """Every node after those that it waits for, else as they were captured."""
    waits = {handle: {edge[0] for edge in edges if edge[1] == handle} for handle in handles}
    order: list[int] = []
    while len(order) < len(handles):
        ready = next((handle for handle in handles if handle in waits and not waits[handle]), None)
        if ready is None:
            raise NotCaptured("the graph of the call has a cycle")
        order.append(ready)
        del waits[ready]
        for others in waits.values():
            others.discard(ready)
    return order


def _node(driver: Driver, handle: pointer) -> dict[str, Any]:
    kind = ctypes.c_int()
    driver.call("cuGraphNodeGetType", handle, ctypes.byref(kind))
    if kind.value == _KERNEL:
        return _kernel(driver, handle)
    if kind.value == _MEMSET:
        memset = MemsetNode()
        driver.call("cuGraphMemsetNodeGetParams", handle, ctypes.byref(memset))
        values = {name: int(getattr(memset, name)) for name in ("to", "value", "element_bytes", "width", "height")}
        return {"kind": "memset", **values}
    if kind.value == _COPY:
        copy = CopyNode()
        driver.call("cuGraphMemcpyNodeGetParams", handle, ctypes.byref(copy))
        return {
            "kind": "copy",
            "from": int(copy.from_device),
            "to": int(copy.to_device),
            "bytes": int(copy.width_bytes),
            "rows": int(copy.height * copy.depth),
            "memory": [int(copy.from_type), int(copy.to_type)],
        }
    return {"kind": "empty"} if kind.value == _EMPTY else {"kind": _OTHER_NODES.get(kind.value, f"kind {kind.value}")}


def _kernel(driver: Driver, handle: pointer) -> dict[str, Any]:
    node = KernelNode()
    driver.call("cuGraphKernelNodeGetParams_v2", handle, ctypes.byref(node))
    function = pointer(node.function)
    if not node.function:
        driver.call("cuKernelGetFunction", ctypes.byref(function), pointer(node.kernel))
    return {
        "kind": "kernel",
        "name": driver.text("cuFuncGetName", function),
        "function": int(function.value or 0),
        "grid": list(node.grid),
        "block": list(node.block),
        "shared_bytes": int(node.shared_bytes),
        "parameters": _parameters(driver, function, node).hex(),
        "attributes": _attributes(driver, handle),
        "max_dynamic_bytes": _function_attribute(driver, function, _MAX_DYNAMIC),
        "carveout": _function_attribute(driver, function, _CARVEOUT),
        "non_portable": _function_attribute(driver, function, _NON_PORTABLE),
    }


def _parameters(driver: Driver, function: pointer, node: KernelNode) -> bytes:
    places = driver.parameter_places(function)
    data = bytearray(max((offset + size for offset, size in places), default=0))
    if node.parameters:
        for number, (offset, size) in enumerate(places):
            data[offset : offset + size] = ctypes.string_at(node.parameters[number], size)
    elif node.extra and data:
        number = 0
        while (word := node.extra[number] or _END) != _END:
            if word == _BUFFER:
                data[:] = ctypes.string_at(node.extra[number + 1], len(data))
            number += 2
    return bytes(data)


def _attributes(driver: Driver, handle: pointer) -> dict[str, str]:
    found = {}
    for number in _ATTRIBUTES:
        value = (ctypes.c_ubyte * 64)()
        if driver.succeeds("cuGraphKernelNodeGetAttribute", handle, ctypes.c_int(number), value) and any(value):
            found[str(number)] = bytes(value).hex()
    return found


def _function_attribute(driver: Driver, function: pointer, which: int) -> int:
    value = ctypes.c_int()
    known = driver.succeeds("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(which), function)
    return value.value if known else 0
