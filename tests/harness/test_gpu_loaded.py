"""Device code that a recorder sees its packages load: what it notes, what it hands over, what is believed of that.

A fake driver and a fake CUPTI take the place of the real ones; memory is this process's own.
"""

import base64
import ctypes
import json
import struct
from typing import Any

import pytest

from benchmarks.harness.child.gpu.driver import Driver
from benchmarks.harness.child.gpu.loaded import LoadedCode, _Call, image_at
from benchmarks.harness.gpu.device_code import handed_over
from benchmarks.harness.gpu.record import NotReplayable

LIBRARY, MODULE = 678, 19


def cubin(content: bytes = b"code", machine: int = 190) -> bytes:
    """An ELF file with one section, whose table stands before its content."""
    header_bytes, section_bytes = 64, 64
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        *(2, machine, 1, 0, 0, header_bytes, 0, header_bytes, 56, 0, section_bytes, 1, 0),
    )
    section = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, header_bytes + section_bytes, len(content), 0, 0, 1, 0)
    return header + section + content


def fat(content: bytes = b"fat code") -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


class Cuda:
    """Modules by function, and modules by library."""

    def __init__(self) -> None:
        self.of_function = {70: 7, 80: 8, 90: 9}
        self.of_library = {5: 8}

    def cuFuncGetModule(self, place: Any, function: Any) -> int:
        place._obj.value = self.of_function.get(function.value)
        return 0 if function.value in self.of_function else 400

    def cuLibraryGetModule(self, place: Any, library: Any) -> int:
        place._obj.value = self.of_library[library.value]
        return 0


class Cupti:
    """Calls back as CUPTI does, on leaving a call of the driver."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.enabled, self.ended = code, list[int](), False

    def cuptiSubscribe(self, place: Any, callback: Any, _: Any) -> int:
        place._obj.value, self.callback = 1, callback
        return self.code

    def cuptiEnableCallback(self, _on: Any, _who: Any, domain: Any, number: Any) -> int:
        assert domain.value == 1
        self.enabled.append(number.value)
        return 0

    def cuptiUnsubscribe(self, _: Any) -> int:
        self.ended = True
        return 0

    def load(self, number: int, handle: int, image: bytes, *, site: int = 1, result: int = 0) -> None:
        memory, place, code = ctypes.create_string_buffer(image), ctypes.c_void_p(handle), ctypes.c_int(result)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(memory))
        call = _Call(site, b"", parameters, ctypes.pointer(code))
        self.callback(None, 1, number, ctypes.pointer(call))


def listening(cupti: Cupti) -> LoadedCode:
    loaded = LoadedCode(Driver(Cuda()), cupti)
    loaded.listen()
    return loaded


def test_a_kernel_is_known_by_the_module_or_the_library_that_it_comes_from() -> None:
    loaded = listening(cupti := Cupti())
    cupti.load(MODULE, 7, cubin(b"one"))
    cupti.load(LIBRARY, 5, cubin(b"two"))
    digests = [loaded.digest_of(function) for function in (70, 80, 90, 100)]
    assert digests[2:] == ["", ""]  # one of a library of torch, one that is no function
    assert loaded.images(digests[:1]) == [cubin(b"one")]
    assert loaded.images(digests) == [cubin(b"one"), cubin(b"two")]
    assert cupti.enabled == [19, 20, 21, LIBRARY]


def test_a_call_that_failed_or_only_begins_loads_nothing() -> None:
    loaded = listening(cupti := Cupti())
    cupti.load(MODULE, 7, cubin(), site=0)
    cupti.load(MODULE, 7, cubin(), result=200)
    cupti.load(MODULE, 7, b".version 8.0\n.target sm_90\n" + bytes(64))
    assert loaded.digest_of(70) == ""


def test_nothing_is_known_where_cupti_fails_or_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cuptiSubscribe failed with 39" in listening(Cupti(39)).unknown
    monkeypatch.setattr("benchmarks.harness.child.gpu.loaded._LIBRARIES", ("libnosuch.so.1",))
    loaded = LoadedCode(Driver(Cuda()))
    loaded.listen()
    assert "there is no libcupti" in loaded.unknown
    assert loaded.digest_of(70) == ""
    loaded.end()


def test_after_its_end_nobody_listens() -> None:
    loaded = listening(cupti := Cupti())
    loaded.end()
    assert cupti.ended


@pytest.mark.parametrize("image", [cubin(), fat(), cubin(b"")])
def test_an_image_in_memory_ends_where_its_tables_say(image: bytes) -> None:
    memory = ctypes.create_string_buffer(image + b"what follows it")
    assert image_at(ctypes.addressof(memory)) == image


def test_a_wrapped_fat_binary_is_followed() -> None:
    memory = ctypes.create_string_buffer(fat())
    wrapper = ctypes.create_string_buffer(struct.pack("<IIQ", 0x466243B1, 1, ctypes.addressof(memory)))
    assert image_at(ctypes.addressof(wrapper)) == fat()


@pytest.mark.parametrize("data", [b"not an image", fat()[:8] + struct.pack("<Q", 1 << 40)])
def test_what_is_no_image_or_too_large_is_left(data: bytes) -> None:
    memory = ctypes.create_string_buffer(data + bytes(64))
    assert image_at(ctypes.addressof(memory)) is None
    assert image_at(0) is None


def told(*images: bytes, unseen: Any = False) -> str:
    return json.dumps({"images": [base64.b64encode(image).decode() for image in images], "unseen": unseen})


def test_images_that_are_handed_over_are_taken() -> None:
    assert handed_over(told(cubin(), fat())) == ([cubin(), fat()], False)
    assert handed_over(told(unseen=True)) == ([], True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        told()[:-1],
        json.dumps({"images": "abc", "unseen": False}),
        json.dumps({"images": ["§§§§"], "unseen": False}),
        json.dumps({"images": [7], "unseen": False}),
        json.dumps({"images": [""] * 1025, "unseen": False}),
        told(cubin(machine=62)),
        told(cubin()[:20]),
        told(b"#!/bin/sh"),
        told(unseen="a hidden configuration has 4093 features"),
    ],
)
def test_anything_else_is_not_replayed(text: str) -> None:
    with pytest.raises(NotReplayable) as caught:
        handed_over(text)
    assert "4093" not in str(caught.value)
