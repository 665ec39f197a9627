"""Hostile records and device code, and launches against a driver that only writes down what it is asked for."""

import ctypes
import json
import os
import struct
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.child.gpu.driver import Driver, DriverError, LaunchConfig, pointer
from benchmarks.harness.child.gpu.launches import Lanes, program
from benchmarks.harness.gpu import device_code as device_code_module
from benchmarks.harness.gpu.device_code import device_code, fat_binaries
from benchmarks.harness.gpu.record import (
    MemorySpans,
    NotReplayable,
    RecordedCall,
    Span,
    demand_little_moved,
    read_record,
    summary,
)

IN, OUT = 0x5000_0000_0000, 0x6000_0000_0000
MEMORY = MemorySpans(Span(IN, 1 << 20), Span(OUT, 1 << 20))
KERNEL = {
    "kind": "kernel",
    "name": "_Z5scalePKfPfi",
    "code": "",
    "grid": [4, 1, 1],
    "block": [256, 1, 1],
    "shared_bytes": 0,
    "parameters": "00" * 12,
    "attributes": {},
    "max_dynamic_bytes": 49152,
    "carveout": -1,
    "non_portable": 0,
    "after": [],
}
MEMSET = {"kind": "memset", "to": OUT, "value": 0, "element_bytes": 4, "width": 16, "height": 1, "after": []}
COPY = {"kind": "copy", "from": IN, "to": OUT, "bytes": 64, "rows": 1, "memory": [2, 2], "after": []}


def read(nodes: Any, places: Any = (0,), sets: int = 1) -> Any:
    text = json.dumps([{"nodes": nodes, "places": list(places)} for _ in range(sets)])
    return read_record(text, MEMORY, [4096], sets)


def test_what_may_be_launched_comes_out_as_it_went_in() -> None:
    nodes = [KERNEL, {**MEMSET, "after": [[0, 0, 0]]}, {**COPY, "after": [[1, 0, 0]]}, {"kind": "empty", "after": []}]
    (call,) = read(nodes)
    assert [node["kind"] for node in call.nodes] == ["kernel", "memset", "copy", "empty"]
    assert call.nodes[0] == {**KERNEL, "carveout": 0}
    assert summary([call])["nodes"][0]["kernel"] == KERNEL["name"]


@pytest.mark.parametrize(
    "other", [[KERNEL] * 201, [{**KERNEL, "parameters": "00" * 30_000}], [{**COPY, "after": [], "bytes": 1}]]
)
def test_calls_that_are_not_alike_are_not_replayed(other: list[dict[str, Any]]) -> None:
    """Bursts hold as many calls as the stream holds of the largest one, which need not be timed alone."""
    nodes = [[KERNEL]] * 7 + [other]
    text = json.dumps([{"nodes": items, "places": [512 * number]} for number, items in enumerate(nodes)])
    with pytest.raises(NotReplayable, match=r"not alike: 1 launches with (12|0) bytes"):
        read_record(text, MEMORY, [512], 8)


def test_a_call_copies_little_more_than_its_data() -> None:
    """Behind a long copy the rest of the GPU is idle, so nobody would see that the call goes on."""
    calls = [RecordedCall(({**COPY, "after": [], "bytes": 50 << 20}, {**MEMSET, "after": []}), (0,))]
    demand_little_moved(calls, 1 << 20)
    calls = [RecordedCall((*calls[0].nodes, *calls[0].nodes), (0,))]
    demand_little_moved(calls, 10 << 20)
    with pytest.raises(NotReplayable, match="a call copies and sets 10"):
        demand_little_moved(calls, 1 << 20)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "a b"}, "name"),
        ({"name": "x" * 5000}, "name"),
        ({"grid": [0, 1, 1]}, "grid"),
        ({"grid": [1, 1]}, "grid"),
        ({"block": [2048, 1, 1]}, "block"),
        ({"shared_bytes": -1}, "shared memory"),
        ({"shared_bytes": True}, "shared memory"),
        ({"parameters": "0"}, "parameters"),
        ({"parameters": "00" * 32765}, "parameters"),
        ({"code": "../x"}, "code"),
        ({"attributes": {"6": "01" + "00" * 63}}, "attribute"),
        ({"attributes": {"0000000012": "01" + "00" * 63}}, "attribute"),
        ({"attributes": {"02": "01" + "00" * 63}}, "attribute"),
        ({"attributes": {"²": "01" + "00" * 63}}, "attribute"),
        ({"attributes": {"2" + "0" * 5000: "01" + "00" * 63}}, "attribute"),
        ({"attributes": {"2": "01"}}, "wrong size"),
        ({"attributes": {"1": (0x204800000).to_bytes(8, "little").hex() + "ff" + "00" * 55}}, "cache window"),
        ({"after": [[0, 0, 0]]}, "later one"),
        ({"after": [[0]]}, "edge"),
        ({"kind": "an allocation (cudaMallocAsync)"}, "cudaMallocAsync"),
        ({"kind": ["kernel"]}, "kind"),
    ],
)
def test_a_kernel_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotReplayable, match=reason):
        read([{**KERNEL, **change}])


HOSTILE = (
    None,
    True,
    -1,
    1 << 64,
    1e308,
    float("nan"),
    "",
    "x",
    "²",
    "\ud800",
    "0" * 10_000,
    [],
    {},
    [[]],
    [None],
    {"x": 1},
)


@pytest.mark.parametrize("field", [*KERNEL, "to", "from", "bytes", "rows", "memory", "value", "width"])
@pytest.mark.parametrize("kind", ["kernel", "memset", "copy", "empty", "²", "\ud800"])
def test_whatever_stands_in_a_field_the_record_is_read_or_refused(field: str, kind: str) -> None:
    for value in HOSTILE:
        try:
            read([{**KERNEL, "kind": kind, field: value}])
        except NotReplayable as error:
            str(error).encode()  # the text goes into reports
        for key in ("²", "\ud800", "0" * 10_000):
            with pytest.raises(NotReplayable) as found:
                read([{**KERNEL, "attributes": {key: value}}])
            str(found.value).encode()


@pytest.mark.parametrize(
    "node",
    [
        {**MEMSET, "to": 0x20480FF68},  # where the driver keeps the times of events
        {**MEMSET, "to": OUT + (1 << 20) - 32},
        {**MEMSET, "width": 1 << 62},
        {**MEMSET, "value": 1 << 40},
        {**MEMSET, "height": 2},
        {**MEMSET, "to": IN},
        {**COPY, "to": 0x20480FF68},
        {**COPY, "from": 0x20480FF68},
        {**COPY, "to": IN},
        {**COPY, "memory": [1, 2]},
        {**COPY, "bytes": (1 << 20) + 1},
        {**COPY, "rows": 2},
        {**COPY, "bytes": -1},
    ],
)
def test_memory_outside_of_what_is_shared_is_never_written_or_read(node: dict[str, Any]) -> None:
    with pytest.raises(NotReplayable):
        read([node])


@pytest.mark.parametrize(("nodes", "places"), [([], (0,)), ([KERNEL] * 401, (0,)), ([KERNEL], ()), ([KERNEL], (4,))])
def test_a_call_has_nodes_and_all_its_results(nodes: Any, places: Any) -> None:
    with pytest.raises(NotReplayable):
        read(nodes, places)


def test_a_call_has_no_more_than_a_stream_holds_and_can_be_queued_in_time() -> None:
    """Waiting for many other nodes takes as long as launching them, and parameters take room in the queue."""
    roots = [{**KERNEL, "after": []} for _ in range(40)]
    waiting = {**KERNEL, "after": [[number, 0, 0] for number in range(40)]}
    assert read([*roots, *[waiting] * 40])
    with pytest.raises(NotReplayable, match="edges"):
        read([*roots, *[waiting] * 41])
    with pytest.raises(NotReplayable, match="edges"):
        read([KERNEL, {**KERNEL, "after": [[0, 0, 0]] * 1601}])
    (call,) = read([KERNEL, {**KERNEL, "after": [[0, 0, 0]] * 1600}])
    assert call.nodes[1]["after"] == [[0, 0, 0]]
    large = {**KERNEL, "parameters": "00" * 32_000}
    assert read([large] * 65)
    with pytest.raises(NotReplayable, match="parameters"):
        read([large] * 66)


def test_results_of_two_calls_in_one_place_are_refused() -> None:
    with pytest.raises(NotReplayable, match="same memory"):
        read([KERNEL], (0,), sets=2)


@pytest.mark.parametrize("first", [{"kind": "empty", "after": []}, {**MEMSET, "width": 0}, {**COPY, "bytes": 0}])
def test_a_kernel_starts_early_behind_a_kernel_of_its_call_only(first: dict[str, Any]) -> None:
    """Nothing is launched for the first node, so it would start early behind what comes before the call."""
    with pytest.raises(NotReplayable, match="not a kernel"):
        read([first, {**KERNEL, "after": [[0, 1, 1]]}])
    assert read([KERNEL, {**KERNEL, "after": [[0, 1, 1]]}])


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, "null", '[{"nodes": 1}]'])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(NotReplayable):
        read_record(text, MEMORY, [4096], 1)


def elf(section: bytes, *, name: bytes = b".nv_fatbin", table_at: int | None = None) -> bytes:
    names = b"\0" + name + b"\0.shstrtab\0"
    start = 64
    body = section + names
    table = start + len(body) if table_at is None else table_at
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    entries = [(0,) * 10, (1, 1, 0, 0, start, len(section), 0, 0, 8, 0)]
    entries.append((len(name) + 2, 3, 0, 0, start + len(section), len(names), 0, 0, 1, 0))
    return header + body + b"".join(struct.pack("<IIQQQQIIQQ", *entry) for entry in entries)


def fat(body: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_fat_binaries_are_found_one_behind_the_other() -> None:
    first, second = fat(b"a" * 5), fat(b"b" * 16)
    padded = first + b"\0" * (-len(first) % 8)
    assert list(fat_binaries(elf(padded + second))) == [first, second]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        elf(fat(b"x")[:-1] + b""),
        elf(fat(b"x"), name=b".text"),
        elf(fat(b"x"), table_at=1 << 40),
        elf(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 63)),
        elf(struct.pack("<IHHQ", 0xBA55ED50, 1, 0, 0)),
    ],
)
def test_a_damaged_library_has_none(data: bytes) -> None:
    assert list(fat_binaries(data)) == []


def test_images_are_counted_while_they_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, taken = tmp_path / "k.so", []
    real = device_code_module.fat_binaries
    monkeypatch.setattr(device_code_module, "fat_binaries", lambda data: (taken.append(0) or it for it in real(data)))
    library.write_bytes(elf(fat(b"") * 16_384))
    with pytest.raises(NotReplayable, match="more device code"):
        device_code(library, tmp_path)
    assert len(taken) == 1025


def test_links_and_pipes_are_no_device_code(tmp_path: Path) -> None:
    library, cache = tmp_path / "k.so", tmp_path / "triton"
    library.write_bytes(elf(fat(b"code")))
    cache.mkdir()
    assert device_code(library, cache) == [fat(b"code")]
    (cache / "a.cubin").symlink_to("/etc/hostname")
    with pytest.raises(NotReplayable):
        device_code(library, cache)
    (cache / "a.cubin").unlink()
    os.mkfifo(cache / "a.cubin")
    with pytest.raises(NotReplayable):
        device_code(library, cache)


class FakeCuda:
    """A driver that writes down launches; kernels take one pointer and one number."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.made = 100

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.log.append((name, *(getattr(item, "value", item) for item in arguments)))
            return 0

        return call

    def cuFuncGetParamInfo(self, _: Any, index: Any, offset: Any, size: Any) -> int:
        if index.value > 1:
            return 1
        offset._obj.value, size._obj.value = (0, 8) if index.value == 0 else (8, 4)
        return 0

    def cuStreamCreate(self, place: Any, _: Any) -> int:
        self.made += 1
        place._obj.value = self.made
        return 0

    cuEventCreate = cuStreamCreate

    def cuLaunchKernelEx(self, config: Any, function: Any, parameters: Any, _: Any) -> int:
        found: LaunchConfig = config._obj
        values = bytes(ctypes.string_at(parameters[0], 8) + ctypes.string_at(parameters[1], 4))
        early = any(found.attributes[i].id == 6 for i in range(found.attribute_count))
        self.log.append(("kernel", function.value, found.stream, list(found.grid), values, early))
        return 0


@pytest.mark.parametrize("reached", [88, 100])
def test_where_device_code_reaches_the_whole_process_nothing_is_replayed(reached: int) -> None:
    def says(place: Any, number: Any, _: Any) -> int:
        place._obj.value = int(number.value == reached)
        return 0

    with pytest.raises(DriverError, match="all memory"):
        Driver(SimpleNamespace(cuDeviceGetAttribute=says)).demand_own_memory()


def launched(nodes: list[dict[str, Any]]) -> list[Any]:
    library = FakeCuda()
    driver = Driver(library)
    made = program(driver, Lanes(driver), nodes, lambda node: pointer(int(node["name"][1:])))
    library.log.clear()
    made.launch()
    return library.log


def kernel(number: int, *after: int, early: bool = False) -> dict[str, Any]:
    edges = [[one, int(early), int(early)] for one in after]
    return {**deepcopy(KERNEL), "name": f"k{number}", "parameters": f"{number:024x}", "after": edges}


def test_a_chain_is_launched_on_one_stream_in_its_order() -> None:
    log = launched([kernel(1), kernel(2, 0), kernel(3, 1, early=True)])
    assert [(item[0], item[1], item[2], item[5]) for item in log] == [
        ("kernel", 1, 101, False),
        ("kernel", 2, 101, False),
        ("kernel", 3, 101, True),
    ]
    assert log[1][4] == bytes.fromhex(f"{2:024x}")


def test_a_fork_waits_for_its_beginning_and_is_waited_for_at_its_join() -> None:
    log = launched([kernel(1), kernel(2, 0), kernel(3, 0), kernel(4, 1, 2), kernel(5)])
    streams = {item[1]: item[2] for item in log if item[0] == "kernel"}
    assert streams[1] == streams[2] == streams[4]
    assert len({streams[2], streams[3], streams[5]}) == 3
    order = [item[0] if item[0] != "kernel" else item[1] for item in log]
    assert order.index(1) < order.index("cuStreamWaitEvent") < order.index(3) < order.index(4)
    assert [item for item in log[-2:] if item[0] == "cuStreamWaitEvent" and item[1] == 101]  # the end waits for all


def test_memsets_and_copies_keep_their_numbers() -> None:
    log = launched([MEMSET, {**COPY, "after": [[0, 0, 0]]}])
    assert log == [("cuMemsetD32Async", OUT, 0, 16, 101), ("cuMemcpyDtoDAsync_v2", OUT, IN, 64, 101)]


def test_parameters_of_another_size_are_not_launched() -> None:
    with pytest.raises(DriverError, match="another size"):
        launched([{**kernel(1), "parameters": "00" * 16}])


def test_a_kernel_that_starts_early_has_one_before_it() -> None:
    with pytest.raises(DriverError, match="early"):
        launched([kernel(1), kernel(2, 0), kernel(3, 0), kernel(4, 1, 2, early=True)])
