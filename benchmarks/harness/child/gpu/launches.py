"""Launches what a call was recorded as: kernels, memsets and copies, on one stream or, where it forks, on several.

Not covered: the clock around it (`clock.py`) and whether a record may be launched at all (`gpu/record.py`).
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from .driver import VALUE_BYTES, Attribute, Driver, DriverError, LaunchConfig, pointer, size_t, u64

_EARLY = 6  # the attribute of a launch that may start before the one in front of it has ended
_NO_TIMING = 2
_LANES_MAX = 16  # to look for the words of so many takes the host less than it may be blind for
_FUNCTION_ATTRIBUTES = {"max_dynamic_bytes": 8, "carveout": 9, "non_portable": 14}
_MEMSETS = {
    1: ("cuMemsetD8Async", ctypes.c_ubyte),
    2: ("cuMemsetD16Async", ctypes.c_ushort),
    4: ("cuMemsetD32Async", ctypes.c_uint),
}

GraphNode = dict[str, Any]
FunctionOf = Callable[[GraphNode], pointer]


class Lanes:
    """The streams on which programs run: the first is that of the clock, further ones are made as they are needed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._streams = [driver.stream()]
        self.first = self._streams[0]

    def __getitem__(self, number: int) -> pointer:
        while number >= len(self._streams):
            self._streams.append(self._driver.stream())
        return self._streams[number]

    def of(self, programs: Sequence["Program"]) -> list[pointer]:
        """All that `programs` launch on; the first, which waits for the others, comes last."""
        numbers = {0, *(step.lane for made in programs for step in made.steps)}
        return [self[number] for number in sorted(numbers, reverse=True)]


@dataclass
class _Step:
    """One node on its stream: what it waits for, what it launches, what others wait for."""

    lane: int
    waits: list[int]  # nodes of other streams; -1 is the beginning
    launch: Callable[[], None]
    is_awaited: bool = False


@dataclass
class Program:
    """One recorded call, ready to be launched as often as wanted."""

    driver: Driver
    lanes: Lanes
    steps: list[_Step] = field(default_factory=list)
    kernels: int = 0  # of them
    _events: dict[int, pointer] = field(default_factory=dict)
    _last: list[int] = field(default_factory=list)  # the last node of each further stream

    def launch(self) -> None:
        if -1 in self._events:
            self._record(-1, self.lanes.first)
        for number, step in enumerate(self.steps):
            stream = self.lanes[step.lane]
            for awaited in step.waits:
                self._wait(awaited, stream)
            step.launch()
            if step.is_awaited:
                self._record(number, stream)
        for number in self._last:
            self._wait(number, self.lanes.first)

    def prepare_events(self) -> None:
        tails = {step.lane: number for number, step in enumerate(self.steps)}
        self._last = [number for lane, number in tails.items() if lane != 0]
        for number in {*self._last, *(awaited for step in self.steps for awaited in step.waits)}:
            event = pointer()
            self.driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_NO_TIMING))
            self._events[number] = event
            if number >= 0:
                self.steps[number].is_awaited = True

    def _record(self, number: int, stream: pointer) -> None:
        self.driver.call("cuEventRecord", self._events[number], stream)

    def _wait(self, number: int, stream: pointer) -> None:
        self.driver.call("cuStreamWaitEvent", stream, self._events[number], ctypes.c_uint(0))


def program(driver: Driver, lanes: Lanes, nodes: Sequence[GraphNode], function_of: FunctionOf) -> Program:
    """Raises DriverError for a node that cannot be launched."""
    made = Program(driver, lanes, kernels=sum(node["kind"] == "kernel" for node in nodes))
    tails: dict[int, int] = {}
    before: list[int] = []  # of each node those that end before it begins, as bits
    for number, node in enumerate(nodes):
        awaited = [edge[0] for edge in node["after"]]
        before.append(reduce(or_, (before[one] | 1 << one for one in awaited), 0))
        lane = _lane_behind(awaited, before[number], tails)
        if lane >= _LANES_MAX:
            raise DriverError(f"a call has more than {_LANES_MAX} branches at a time")
        waits = [one for one in awaited if made.steps[one].lane != lane]
        if number > 0 and not awaited:
            waits = [-1]
        if any(edge[1] for edge in node["after"]) and (waits or len(awaited) != 1):
            raise DriverError("a kernel that starts early waits for more than the one in front of it")
        made.steps.append(_Step(lane, waits, _launch_of(driver, lanes[lane], node, function_of)))
        tails[lane] = number
    made.prepare_events()
    return made


def _lane_behind(awaited: Sequence[int], before: int, tails: Mapping[int, int]) -> int:
    """A stream whose last node ends before: one that is awaited, else any, else a new one."""
    free = [lane for lane, tail in tails.items() if before >> tail & 1]
    return next((lane for lane in free if tails[lane] in awaited), free[0] if free else len(tails))


def _launch_of(driver: Driver, stream: pointer, node: GraphNode, function_of: FunctionOf) -> Callable[[], None]:
    if node["kind"] == "kernel":
        return _kernel(driver, stream, node, function_of(node))
    if node["kind"] == "memset":
        name, value = _MEMSETS[node["element_bytes"]]
        arguments = (u64(node["to"]), value(node["value"]), size_t(node["width"] * node["height"]), stream)
        return lambda: driver.call(name, *arguments)
    if node["kind"] == "copy":
        places = (u64(node["to"]), u64(node["from"]), size_t(node["bytes"] * node["rows"]), stream)
        return lambda: driver.call("cuMemcpyDtoDAsync_v2", *places)
    if node["kind"] == "empty":
        return lambda: None
    raise DriverError(f"{node['kind']} cannot be launched")


def _kernel(driver: Driver, stream: pointer, node: GraphNode, function: pointer) -> Callable[[], None]:
    places, data = driver.parameter_places(function), bytes.fromhex(node["parameters"])
    if max((offset + size for offset, size in places), default=0) != len(data):
        raise DriverError(f"{node['name']} takes parameters of another size than were recorded")
    for name, which in _FUNCTION_ATTRIBUTES.items():
        _allow(driver, function, which, node[name])
    block = ctypes.create_string_buffer(data, max(1, len(data)))
    parameters = (pointer * max(1, len(places)))(*(ctypes.addressof(block) + offset for offset, _ in places))
    attributes = _attributes(node)
    config = LaunchConfig(
        (ctypes.c_uint * 3)(*node["grid"]),
        (ctypes.c_uint * 3)(*node["block"]),
        node["shared_bytes"],
        stream,
        attributes,
        len(attributes),
    )
    kept = (block, parameters, attributes, config)  # alive as long as the launch may be made
    launch, where = driver.library.cuLaunchKernelEx, ctypes.byref(config)

    def call() -> None:
        if code := launch(where, function, kept[1], None):
            driver.check(f"launching {node['name']}", code)

    return call


def _allow(driver: Driver, function: pointer, which: int, wanted: int) -> None:
    """Raises the limit `which` of a function if need be; another call may want more of it."""
    now = ctypes.c_int(0)
    driver.call("cuFuncGetAttribute", ctypes.byref(now), ctypes.c_int(which), function)
    if wanted > max(0, now.value):
        driver.call("cuFuncSetAttribute", function, ctypes.c_int(which), ctypes.c_int(wanted))


def _attributes(node: GraphNode) -> Any:
    values = {int(number): bytes.fromhex(value) for number, value in node["attributes"].items()}
    if any(edge[1] == 1 for edge in node["after"]):
        values[_EARLY] = (1).to_bytes(VALUE_BYTES, "little")
    made = (Attribute * len(values))()
    for item, (number, value) in zip(made, values.items(), strict=True):
        item.id = number
        item.value[:] = value
    return made
