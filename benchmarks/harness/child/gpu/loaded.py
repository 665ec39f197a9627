"""Writes down the device code that a package of this process loads: which image a kernel's handle comes from.

CUPTI, which comes with torch for CUDA, tells of every module and library that the driver loads, whichever package asks
for it. Images are read from the caller's own memory while the call lasts. Runs where the submission lives, so what it
says is the submission's word. Not covered: modules that were loaded before, and text (PTX), which is no device code.
"""

import ctypes
import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any

from .driver import Driver, pointer

# of cupti_callbacks.h and cupti_driver_cbid.h, whose numbers never change
_DRIVER_API, _EXIT = 1, 1
_MODULES = (19, 20, 21)  # cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary
_LIBRARY = 678  # cuLibraryLoadData
_LIBRARIES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
_ELF_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_FATBIN, _WRAPPER = struct.Struct("<IHHQ"), struct.Struct("<IIQ")
_FATBIN_MAGIC, _WRAPPER_MAGIC = 0xBA55ED50, 0x466243B1
_NO_BITS = 8  # the type of a section that takes no room in the file
_IMAGES_MAX, _IMAGE_MAX_BYTES = 1024, 64 << 20
Read = Callable[[int, int], bytes]


class _Call(ctypes.Structure):
    """The beginning of CUpti_CallbackData."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("parameters", ctypes.POINTER(pointer)),  # of all four calls: where the handle goes, then the image
        ("result", ctypes.POINTER(ctypes.c_int)),
    )


_Callback = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Call))


class LoadedCode:
    """Listens from `listen` on. `unknown` says why nothing is known, where that is so."""

    def __init__(self, driver: Driver, cupti: Any = None) -> None:
        self.unknown = ""
        self._driver, self._cupti = driver, cupti
        self._subscriber = pointer()
        self._callback = _Callback(self._loaded)  # alive as long as it may be called
        self._modules: dict[int, bytes] = {}  # by handle
        self._libraries: dict[int, bytes] = {}
        self._digests: dict[int, str] = {}  # of functions

    def listen(self) -> None:
        try:
            self._cupti = self._cupti or _library()
            self._check("cuptiSubscribe", ctypes.byref(self._subscriber), self._callback, None)
            for number in (*_MODULES, _LIBRARY):
                enable = (ctypes.c_uint32(1), self._subscriber, ctypes.c_int(_DRIVER_API), ctypes.c_uint32(number))
                self._check("cuptiEnableCallback", *enable)
        except (OSError, AttributeError) as error:
            self.unknown = f"the device code that it loads is not seen: {error}"

    def end(self) -> None:
        """No call is slower for it from here on."""
        if self._subscriber:
            self._cupti.cuptiUnsubscribe(self._subscriber)
            self._subscriber = pointer()

    def digest_of(self, function: int) -> str:
        """Of the image that the kernel comes from; empty where that is not known."""
        if function not in self._digests:
            module = pointer()
            known = self._driver.succeeds("cuFuncGetModule", ctypes.byref(module), pointer(function))
            image = self._image_of(int(module.value or 0)) if known else None
            self._digests[function] = hashlib.sha256(image).hexdigest() if image else ""
        return self._digests[function]

    def images(self, digests: Iterable[str]) -> list[bytes]:
        """Those that are wanted, each once."""
        wanted = set(digests)
        found = {hashlib.sha256(image).hexdigest(): image for image in self._all()}
        return [image for digest, image in found.items() if digest in wanted]

    def _all(self) -> list[bytes]:
        return [*self._modules.values(), *self._libraries.values()]

    def _image_of(self, module: int) -> bytes | None:
        for library, image in self._libraries.items():
            made = pointer()
            if self._driver.succeeds("cuLibraryGetModule", ctypes.byref(made), pointer(library)):
                self._modules[int(made.value or 0)] = image
        return self._modules.get(module)

    def _loaded(self, _user: Any, _domain: int, number: int, call: Any) -> None:
        seen = call.contents
        if seen.site != _EXIT or (seen.result and seen.result.contents.value != 0) or len(self._all()) >= _IMAGES_MAX:
            return
        handle, image = seen.parameters[0], seen.parameters[1]
        found = image_at(int(image or 0)) if handle else None
        if found is not None:
            place = self._libraries if number == _LIBRARY else self._modules
            place[int(pointer.from_address(handle).value or 0)] = found

    def _check(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._cupti, name)(*arguments):
            raise OSError(f"{name} failed with {code}")


def image_at(address: int, read: Read = ctypes.string_at) -> bytes | None:
    """The cubin or fat binary that begins there; None for anything else. `read` takes an address and a size."""
    if not address:
        return None
    magic = int.from_bytes(read(address, 4), "little")
    if magic == _WRAPPER_MAGIC:
        return image_at(_WRAPPER.unpack(read(address, _WRAPPER.size))[2], read)
    if magic == _FATBIN_MAGIC:
        _, _, header_bytes, body_bytes = _FATBIN.unpack(read(address, _FATBIN.size))
        size_bytes = header_bytes + body_bytes
    elif magic == int.from_bytes(b"\x7fELF", "little"):
        size_bytes = _elf_bytes(address, read)
    else:
        return None
    return read(address, size_bytes) if size_bytes <= _IMAGE_MAX_BYTES else None


def _elf_bytes(address: int, read: Read) -> int:
    """Up to the end of the last of its tables and sections."""
    header = _ELF_HEADER.unpack(read(address, _ELF_HEADER.size))
    segments_at, sections_at, _, _, segment_bytes, segments, section_bytes, sections = header[5:13]
    ends = [segments_at + segment_bytes * segments, sections_at + section_bytes * sections]
    if section_bytes == _SECTION.size and ends[1] <= _IMAGE_MAX_BYTES:
        table = read(address + sections_at, section_bytes * sections)
        ends += [item[4] + item[5] for item in _SECTION.iter_unpack(table) if item[1] != _NO_BITS]
    return int(max(ends))


def _library() -> Any:
    """The one that torch has loaded already, if any."""
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("there is no libcupti")
