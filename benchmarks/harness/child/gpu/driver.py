"""The CUDA driver through ctypes: what recording, replaying and timing a call need of it.

No torch, so that a process without it can launch what another one has recorded. Tests put a fake library in its place.
"""

import ctypes
from typing import Any

MEMORY_HANDLE_FD = 1
READ, READ_WRITE = 1, 3
GRANULE_BYTES = 2 << 20
ROOM_BYTES = 1 << 30  # of addresses: the driver places what is smaller where it likes, whatever it is asked
_ON_DEVICE = 1
VALUE_BYTES = 64  # of a launch attribute
_PARAMETERS_MAX = 4096  # of a kernel
_REACHES_THE_HOST = {88: "PAGEABLE_MEMORY_ACCESS", 100: "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"}

u64 = ctypes.c_uint64
size_t = ctypes.c_size_t
pointer = ctypes.c_void_p


class DriverError(Exception):
    """A call of the driver that failed; the text holds the driver's own name of the failure."""


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class AccessDescription(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", ctypes.c_int))


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", pointer),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.POINTER(pointer)),
        ("extra", ctypes.POINTER(pointer)),
        ("kernel", pointer),
        ("context", pointer),
    )


class MemsetNode(ctypes.Structure):
    _fields_ = (
        ("to", u64),
        ("pitch", size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", size_t),
        ("height", size_t),
    )


class CopyNode(ctypes.Structure):
    """CUDA_MEMCPY3D_v2."""

    _fields_ = (
        ("from_x", size_t),
        ("from_y", size_t),
        ("from_z", size_t),
        ("from_lod", size_t),
        ("from_type", ctypes.c_int),
        ("from_host", pointer),
        ("from_device", u64),
        ("from_array", pointer),
        ("reserved0", pointer),
        ("from_pitch", size_t),
        ("from_height", size_t),
        ("to_x", size_t),
        ("to_y", size_t),
        ("to_z", size_t),
        ("to_lod", size_t),
        ("to_type", ctypes.c_int),
        ("to_host", pointer),
        ("to_device", u64),
        ("to_array", pointer),
        ("reserved1", pointer),
        ("to_pitch", size_t),
        ("to_height", size_t),
        ("width_bytes", size_t),
        ("height", size_t),
        ("depth", size_t),
    )


class EdgeData(ctypes.Structure):
    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_ubyte * VALUE_BYTES))


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", pointer),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


class Driver:
    """The driver's functions by their names, and the memory that processes share."""

    def __init__(self, library: Any = None) -> None:
        self.library = library or ctypes.CDLL("libcuda.so.1")

    def open(self) -> None:
        """The primary context of the one GPU that this process sees, which torch uses as well."""
        context = pointer()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(0))
        self.call("cuCtxSetCurrent", context)

    def demand_own_memory(self) -> None:
        """Raises DriverError where device code reaches all memory of a process, or uses the host's page tables."""
        found = ctypes.c_int()
        for number, name in _REACHES_THE_HOST.items():
            self.call("cuDeviceGetAttribute", ctypes.byref(found), ctypes.c_int(number), ctypes.c_int(0))
            if found.value:
                raise DriverError(f"{name}: device code can reach all memory of a process of this machine")

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, getattr(self.library, name)(*arguments))

    def check(self, name: str, code: int) -> None:
        if code != 0:
            raise DriverError(f"{name}: {self._name_of(code)}")

    def succeeds(self, name: str, *arguments: Any) -> bool:
        return bool(getattr(self.library, name)(*arguments) == 0)

    def text(self, name: str, handle: pointer) -> str:
        """What a function such as cuFuncGetName says of a handle."""
        found = ctypes.c_char_p()
        self.call(name, ctypes.byref(found), handle)
        return (found.value or b"").decode("ascii", errors="replace")

    def parameter_places(self, function: pointer) -> list[tuple[int, int]]:
        """Offset and size in bytes of each parameter of a kernel."""
        found: list[tuple[int, int]] = []
        offset, size = size_t(), size_t()
        while len(found) < _PARAMETERS_MAX and self.succeeds(
            "cuFuncGetParamInfo", function, size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)
        ):
            found.append((offset.value, size.value))
        return found

    def stream(self) -> pointer:
        made = pointer()
        self.call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))  # does not wait for the default stream
        return made

    def adopt(self, fd: int, size_bytes: int, at: int, *, writable: bool) -> None:
        """Maps memory of another process at `at` and nowhere else. The descriptor stays the caller's."""
        handle, place = u64(), u64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), pointer(fd), ctypes.c_int(MEMORY_HANDLE_FD))
        size, room = (size_t(-(-size_bytes // unit) * unit) for unit in (GRANULE_BYTES, ROOM_BYTES))
        self.call("cuMemAddressReserve", ctypes.byref(place), room, size_t(0), u64(at), u64(0))
        if place.value != at:
            raise DriverError(f"the address {at:#x} is taken: the driver offers {place.value:#x}")
        self.call("cuMemMap", place, size, size_t(0), handle, u64(0))
        access = AccessDescription(Location(_ON_DEVICE, 0), READ_WRITE if writable else READ)
        self.call("cuMemSetAccess", place, size, ctypes.byref(access), size_t(1))

    def allocate(self, size_bytes: int) -> u64:
        place = u64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), size_t(size_bytes))
        return place

    def _name_of(self, code: int) -> str:
        found = ctypes.c_char_p()
        self.library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(found))
        return (found.value or str(code).encode()).decode()
