"""Parses the record of a submission's calls.

The record is hostile data; only launches that are allowed are accepted. A record is a list of nodes (kernels, memsets
and copies), each with the nodes that it waits for. Sizes, numbers and words have limits. A memset or copy may only use
shared memory, because other memory in the executor may belong to the driver. The parameters of kernels are not
restricted. Pure, no GPU.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..measuring.faults import may_lack_gpu_memory

RECORD_MAX_CHARACTERS = 16 << 20  # of one configuration
NODES_MAX, EDGES_MAX = 400, 1600  # of one call: what the queue of a stream holds, and what is queued in time
ALL_PARAMETERS_MAX_BYTES = 2 << 20  # of one call or burst: with six times as much the queue was full
_PARAMETERS_MAX_BYTES = 32_764
_MOVED_BYTES, _MOVED_TIMES = 64 << 20, 4  # what memsets and copies of a call may write, the latter times its data
_NAME = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII)
_DIGEST = re.compile(r"(?:[0-9a-f]{64})?", re.ASCII)
_WORD_MAX = (1 << 64) - 1
_GRID_MAX, _BLOCK_MAX, _SHARED_MAX_BYTES = (1 << 31) - 1, 1024, 1 << 20
# access policy window, cooperative, cluster dimension, its scheduling, preferred cluster, carveout
_WINDOW, _ATTRIBUTES = "1", frozenset(("1", "2", "4", "5", "11", "14"))
_VALUE_HEX = 128
_SHOWN_NODES = 12
_EARLY = 1  # the type of an edge; from port 1 of a kernel, when all its blocks allow it or have ended


class NotReplayable(Exception):
    """The calls cannot be launched by another process; the text says why and names the node.

    `because` tells more than may be shown. With `lacks_gpu_memory` the reason may be too little memory on the GPU.
    """

    def __init__(self, why: str, *, because: str = "") -> None:
        super().__init__(why)
        self.lacks_gpu_memory = may_lack_gpu_memory(because or why)


@dataclass(frozen=True)
class Span:
    """Shared memory at its agreed address."""

    at: int
    size_bytes: int

    def holds(self, at: int, size_bytes: int) -> bool:
        return self.at <= at and at + size_bytes <= self.at + self.size_bytes


@dataclass(frozen=True)
class MemorySpans:
    inputs: Span
    outputs: Span


@dataclass(frozen=True)
class RecordedCall:
    """One call on one input set."""

    nodes: tuple[dict[str, Any], ...]
    places: tuple[int, ...]  # of the results, in bytes from the beginning of the results' memory

    @property
    def edges(self) -> int:
        return sum(len(node["after"]) for node in self.nodes)

    @property
    def launches(self) -> int:
        """How many nodes the GPU has work with: what costs nothing would only make bursts short."""
        return sum(node["kind"] == "kernel" or node.get("width", node.get("bytes", 0)) > 0 for node in self.nodes)

    @property
    def kernels(self) -> int:
        return sum(node["kind"] == "kernel" for node in self.nodes)

    @property
    def moved_bytes(self) -> int:
        """How much its memsets and copies write."""
        return sum(node.get("bytes", 0) + node.get("width", 0) * node.get("element_bytes", 0) for node in self.nodes)

    @property
    def parameter_bytes(self) -> int:
        return sum(len(node.get("parameters", "")) // 2 for node in self.nodes)


def read_record(text: str, memory: MemorySpans, result_bytes: Sequence[int], sets: int) -> tuple[RecordedCall, ...]:
    """The calls of one configuration, one for each input set. Raises NotReplayable."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotReplayable("the record is not JSON") from error
    if not isinstance(data, list) or len(data) != sets:
        raise NotReplayable(f"the record does not have {sets} calls")
    calls = tuple(_call(item, memory, result_bytes) for item in data)
    _demand_alike(calls)
    _demand_distinct(calls, result_bytes)
    return calls


def summary(calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """What a report says of a configuration's record: the nodes of its first call."""
    return {
        "calls": len(calls),
        "nodes": [_short(node) for node in calls[0].nodes[:_SHOWN_NODES]],
        "count": len(calls[0].nodes),
    }


def _call(data: Any, memory: MemorySpans, result_bytes: Sequence[int]) -> RecordedCall:
    nodes, places = _field(data, "nodes", list), _field(data, "places", list)
    if not nodes:
        raise NotReplayable("nothing is launched on the current stream")
    if len(nodes) > NODES_MAX:
        raise NotReplayable(f"{len(nodes)} nodes in a call, more than {NODES_MAX}")
    if len(places) != len(result_bytes):
        raise NotReplayable("a call lacks some of its results")
    for place, size_bytes in zip(places, result_bytes, strict=True):
        _number(place, memory.outputs.size_bytes, "the place of a result")
        if place % 8 or place + size_bytes > memory.outputs.size_bytes:
            raise NotReplayable("a result lies outside the shared memory")
    read = tuple(_node(node, number, memory) for number, node in enumerate(nodes))
    _demand_early_behind_kernels(read)
    call = RecordedCall(read, tuple(places))
    if call.edges > EDGES_MAX:
        raise NotReplayable(f"{call.edges} edges in a call, more than {EDGES_MAX}")
    if call.parameter_bytes > ALL_PARAMETERS_MAX_BYTES:
        raise NotReplayable(f"the kernels of a call have more than {ALL_PARAMETERS_MAX_BYTES} bytes of parameters")
    return call


def _demand_early_behind_kernels(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Behind anything else in its call, a kernel that starts early would overlap what is launched before the call.

    In a burst that is the call before.
    """
    for number, node in enumerate(nodes):
        early = [edge[0] for edge in node["after"] if edge[1] == _EARLY]
        if any(nodes[place]["kind"] != "kernel" for place in early):
            raise NotReplayable(f"node {number} starts early behind something that is not a kernel")


def _demand_alike(calls: Sequence[RecordedCall]) -> None:
    """One large call among small ones would make bursts of all of them short, or take long in bursts alone."""
    sizes = sorted({(call.launches, call.parameter_bytes, call.moved_bytes) for call in calls})
    if len(sizes) > 1:
        shown = " and ".join(
            f"{launches} launches with {told} bytes of parameters and {moved} bytes copied or set"
            for launches, told, moved in (sizes[0], sizes[-1])
        )
        raise NotReplayable(f"its calls are not alike: {shown}")


def demand_little_moved(calls: Sequence[RecordedCall], data_bytes: int) -> None:
    """A copy engine leaves the rest of the GPU idle, so work behind a long copy could look as if there was none.

    `data_bytes` is the size of a call's arguments and results.
    """
    most = _MOVED_BYTES + _MOVED_TIMES * data_bytes
    if calls[0].moved_bytes > most:
        raise NotReplayable(f"a call copies and sets {calls[0].moved_bytes} bytes, more than {most}")


def _demand_distinct(calls: Sequence[RecordedCall], result_bytes: Sequence[int]) -> None:
    pairs = (pair for call in calls for pair in zip(call.places, result_bytes, strict=True))
    spans = sorted((place, place + size_bytes) for place, size_bytes in pairs)
    if any(first[1] > second[0] for first, second in pairwise(spans)):
        raise NotReplayable("results of several calls lie in the same memory")


def _node(data: Any, number: int, memory: MemorySpans) -> dict[str, Any]:
    kind = _field(data, "kind", str)
    after = _edges(_field(data, "after", list), number)
    if kind == "kernel":
        return {"kind": kind, "after": after, **_kernel(data, memory)}
    if kind == "memset":
        return {"kind": kind, "after": after, **_memset(data, memory, number)}
    if kind == "copy":
        return {"kind": kind, "after": after, **_copy(data, memory, number)}
    if kind == "empty":
        return {"kind": kind, "after": after}
    raise NotReplayable(f"node {number} is {kind[:80]!a}")


def _edges(data: Sequence[Any], number: int) -> list[list[int]]:
    """Each once."""
    if len(data) > EDGES_MAX:
        raise NotReplayable(f"{len(data)} edges in a call, more than {EDGES_MAX}")
    return [list(edge) for edge in dict.fromkeys(tuple(_edge(edge, number)) for edge in data)]


def _edge(data: Any, number: int) -> list[int]:
    """[node, type, port]: of an earlier node, when it has ended or, from kernel to kernel, early."""
    if not isinstance(data, list) or len(data) != 3:
        raise NotReplayable(f"node {number} has an invalid edge")
    node, kind, port = (_number(item, NODES_MAX, "an edge") for item in data)
    if node >= number:
        raise NotReplayable(f"node {number} waits for a later one")
    if (kind, port) not in {(0, 0), (_EARLY, 1)}:
        raise NotReplayable(f"node {number} waits for another in a way that is not replayed ({kind}, {port})")
    return [node, kind, port]


def _kernel(data: Mapping[str, Any], memory: MemorySpans) -> dict[str, Any]:
    name, parameters = _word(data, "name", _NAME), _word(data, "parameters", _HEX)
    if len(parameters) > 2 * _PARAMETERS_MAX_BYTES:
        raise NotReplayable(f"kernel {name[:200]} has too many parameters")
    return {
        "name": name,
        "code": _word(data, "code", _DIGEST),
        "grid": _three(data, "grid", _GRID_MAX),
        "block": _three(data, "block", _BLOCK_MAX),
        "shared_bytes": _number(data.get("shared_bytes"), _SHARED_MAX_BYTES, "shared memory"),
        "parameters": parameters,
        "attributes": _attributes(_field(data, "attributes", dict), name, memory),
        "max_dynamic_bytes": _number(data.get("max_dynamic_bytes"), _SHARED_MAX_BYTES, "shared memory"),
        "carveout": max(0, _number(data.get("carveout"), 100, "a carveout", least=-2)),
        "non_portable": _number(data.get("non_portable"), 1, "a flag"),
    }


def _attributes(data: Mapping[str, Any], name: str, memory: MemorySpans) -> dict[str, str]:
    found = {}
    for key in data:
        if key not in _ATTRIBUTES:
            raise NotReplayable(f"kernel {name[:200]} has a launch attribute that is not replayed ({key[:20]!a})")
        value = _word(data, key, _HEX)
        if len(value) != _VALUE_HEX:
            raise NotReplayable(f"kernel {name[:200]} has a launch attribute of a wrong size")
        raw = bytes.fromhex(value)
        window = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:16], "little")
        if key == _WINDOW and not (memory.inputs.holds(*window) or memory.outputs.holds(*window)):
            raise NotReplayable(f"kernel {name[:200]} has a cache window outside of the shared memory")
        found[key] = value
    return found


def _memset(data: Mapping[str, Any], memory: MemorySpans, number: int) -> dict[str, Any]:
    names = ("to", "value", "element_bytes", "width", "height")
    to, value, element_bytes, width, height = (_number(data.get(name), _WORD_MAX, name) for name in names)
    if height != 1 or element_bytes not in (1, 2, 4) or value >= 1 << (8 * element_bytes):
        raise NotReplayable(f"node {number} is a memset in a form that is not replayed")
    if not memory.outputs.holds(to, width * element_bytes):
        raise NotReplayable(f"node {number} is a memset outside of the memory that torch allocates")
    return {"to": to, "value": value, "element_bytes": element_bytes, "width": width, "height": 1}


def _copy(data: Mapping[str, Any], memory: MemorySpans, number: int) -> dict[str, Any]:
    names = ("from", "to", "bytes", "rows")
    source, to, size_bytes, rows = (_number(data.get(name), _WORD_MAX, name) for name in names)
    if data.get("memory") not in ([2, 2], [4, 4], [2, 4], [4, 2]):
        raise NotReplayable(f"node {number} copies from or to the host")
    if rows != 1:
        raise NotReplayable(f"node {number} copies {rows} rows")
    if not memory.outputs.holds(to, size_bytes):
        raise NotReplayable(f"node {number} copies to a place outside of the memory that torch allocates")
    if not (memory.inputs.holds(source, size_bytes) or memory.outputs.holds(source, size_bytes)):
        raise NotReplayable(f"node {number} copies from a place outside of the shared memory")
    return {"from": source, "to": to, "bytes": size_bytes, "rows": 1}


def _short(node: Mapping[str, Any]) -> dict[str, Any]:
    if node["kind"] != "kernel":
        return {name: node[name] for name in ("kind", "width", "element_bytes", "bytes") if name in node}
    shown = {name: node[name] for name in ("grid", "block", "shared_bytes")}
    early = any(edge[1] == _EARLY for edge in node["after"])
    return {"kernel": node["name"][:200], **shown, "parameter_bytes": len(node["parameters"]) // 2, "early": early}


def _field(data: Any, name: str, kind: type[Any]) -> Any:
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise NotReplayable(f"the record lacks a {name}")
    return value


def _word(data: Mapping[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = _field(data, name, str)
    if len(value) > 2 * _PARAMETERS_MAX_BYTES or not form.fullmatch(value):
        raise NotReplayable(f"the record has an invalid {name}")
    return str(value)


def _three(data: Mapping[str, Any], name: str, most: int) -> list[int]:
    values = _field(data, name, list)
    if len(values) != 3:
        raise NotReplayable(f"the record has an invalid {name}")
    return [_number(value, most, name, least=1) for value in values]


def _number(value: Any, most: int, what: str, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise NotReplayable(f"{what} is out of range in the record")
    return value
