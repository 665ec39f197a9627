"""The GPU as children see it: memory shared between processes through the driver's API, events, NVML.

Device memory comes from cuMemCreate with a file descriptor as its handle; whoever gets the descriptor maps the same
memory. The driver is called through ctypes, so nothing beside torch is needed. Not covered: more than one GPU; a child
sees only the one it was given.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from .accelerator import Arena, MemoryRoom
from .driver import ROOM_BYTES
from .sample import SAMPLE_MAX_BYTES, SampleRows

_PINNED, _FILE_DESCRIPTOR, _DEVICE = 1, 1, 1
_IN_HOST, _IN_DEVICE = 1, 2
_READ, _READ_WRITE = 1, 3
_GRANULE_BYTES = 2 << 20
_GATE_LIMIT_US = 20_000.0
_RELEASE_THRESHOLD, _NEVER = 4, 2**64 - 1
# NVML's bits for clocks that are lower than they should be. The power cap is not among them: a kernel that keeps the
# arithmetic units busy always meets it, so do the baselines beside it, and the report shows power and clocks.
_THROTTLE_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D_v2."""

    _fields_ = (
        ("from_x", ctypes.c_size_t),
        ("from_y", ctypes.c_size_t),
        ("from_type", ctypes.c_int),
        ("from_host", ctypes.c_void_p),
        ("from_device", ctypes.c_uint64),
        ("from_array", ctypes.c_void_p),
        ("from_pitch", ctypes.c_size_t),
        ("to_x", ctypes.c_size_t),
        ("to_y", ctypes.c_size_t),
        ("to_type", ctypes.c_int),
        ("to_host", ctypes.c_void_p),
        ("to_device", ctypes.c_uint64),
        ("to_array", ctypes.c_void_p),
        ("to_pitch", ctypes.c_size_t),
        ("width_bytes", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class _Bytes:
    """Raw device memory in the form that torch takes over without a copy."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class CudaAccelerator:
    device = torch.device("cuda", 0)

    def __init__(self) -> None:
        torch.zeros(1, device=self.device)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._nvml = _open_nvml()
        self._gate: Gate | None = None
        self._pool = ExitStack()
        self._allocator: torch.cuda.memory.CUDAPluggableAllocator | None = None
        self._keep_freed_memory()

    def create(self, size_bytes: int) -> Arena:
        size_bytes = _rounded(size_bytes)
        properties = _Properties(_PINNED, _FILE_DESCRIPTOR, _Location(_DEVICE, 0))
        handle, fd = ctypes.c_uint64(), ctypes.c_int(-1)
        self._call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size_bytes), ctypes.byref(properties), _u64(0))
        self._call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, _FILE_DESCRIPTOR, _u64(0))
        arena = Arena(self._mapped(handle, size_bytes, writable=True), fd.value)
        arena.data.zero_()
        return arena

    def adopt(self, fd: int, size_bytes: int, *, writable: bool, at: int = 0) -> Arena:
        handle = ctypes.c_uint64()
        self._call(
            "cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), ctypes.c_int(_FILE_DESCRIPTOR)
        )
        os.close(fd)  # whoever has it could map the memory again
        return Arena(self._mapped(handle, _rounded(size_bytes), writable=writable, at=at), -1)

    def timer(self) -> "CudaTimer":
        return CudaTimer()

    def sampler(self) -> "CudaSampler":
        return CudaSampler(self._driver, self._call)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def forget_cached(self) -> None:
        self._call("cuCtxResetPersistingL2Cache")

    def occupy(self, step: int, after_us: float) -> None:
        if self._gate is None:
            self._gate = Gate(self._call, _max_clock_mhz(self._nvml))
        self._gate.close(step, after_us)

    def release(self, step: int) -> None:
        if self._gate is not None:
            self._gate.flag.value = step

    @contextmanager
    def results_in(self, arena: Arena, first_byte: int, library: str) -> Iterator[None]:
        """torch's own caching allocator goes on, over segments that `library` hands out from the arena."""
        shared = ctypes.CDLL(library)
        shared.kbench_open(_u64(arena.base + first_byte), _u64(arena.size_bytes - first_byte))
        self._allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "kbench_allocate", "kbench_release")
        with self._pool:
            self.give_back_cached()
            yield

    def give_back_cached(self) -> None:
        if self._allocator is not None:
            self._pool.close()  # torch returns the free segments of a pool once nobody uses the pool
            self._pool.enter_context(torch.cuda.use_mem_pool(torch.cuda.MemPool(self._allocator.allocator())))

    def room(self) -> MemoryRoom:
        try:
            free_bytes, total_bytes = torch.cuda.mem_get_info()
        except RuntimeError:  # a kernel before has failed, and then every call does
            return ()
        return free_bytes + torch.cuda.memory_reserved(), total_bytes

    def state(self) -> dict[str, Any]:
        import pynvml

        return {
            "clock_mhz": pynvml.nvmlDeviceGetClockInfo(self._nvml, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": pynvml.nvmlDeviceGetClockInfo(self._nvml, pynvml.NVML_CLOCK_MEM),
            "temperature_c": pynvml.nvmlDeviceGetTemperature(self._nvml, pynvml.NVML_TEMPERATURE_GPU),
            "power_w": pynvml.nvmlDeviceGetPowerUsage(self._nvml) / 1e3,
        }

    def throttle(self) -> list[str]:
        import pynvml

        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._nvml)
        return [name for bit, name in _THROTTLE_REASONS.items() if reasons & bit]

    def energy_mj(self) -> int | None:
        import pynvml

        try:
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._nvml))
        except pynvml.NVMLError:  # older than Volta, or a slice of a GPU
            return None

    def _keep_freed_memory(self) -> None:
        """cudaFreeAsync otherwise gives memory back to the system at the next synchronisation, which takes 50 µs."""
        pool = ctypes.c_void_p()
        self._call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), ctypes.c_int(0))
        self._call("cuMemPoolSetAttribute", pool, ctypes.c_int(_RELEASE_THRESHOLD), ctypes.byref(_u64(_NEVER)))

    def _mapped(self, handle: ctypes.c_uint64, size_bytes: int, *, writable: bool, at: int = 0) -> torch.Tensor:
        address, size = ctypes.c_uint64(), ctypes.c_size_t(size_bytes)
        room = ctypes.c_size_t(-(-size_bytes // ROOM_BYTES) * ROOM_BYTES) if at else size
        self._call("cuMemAddressReserve", ctypes.byref(address), room, ctypes.c_size_t(0), _u64(at), _u64(0))
        self._call("cuMemMap", address, size, ctypes.c_size_t(0), handle, _u64(0))
        access = _Access(_Location(_DEVICE, 0), _READ_WRITE if writable else _READ)
        self._call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return torch.as_tensor(_Bytes(int(address.value), size_bytes), device=self.device)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")


class Gate:
    """A kernel of one thread that ends when the host says so (`gate.ptx`), and keeps everybody else off the GPU."""

    def __init__(self, call: Callable[..., None], clock_mhz: int) -> None:
        self._call, self._clock_mhz = call, clock_mhz
        self._memory = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self.flag = ctypes.c_int64.from_address(self._memory.data_ptr())
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        code = Path(__file__).with_name("gate.ptx").read_bytes()
        call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
        call("cuModuleGetFunction", ctypes.byref(self._function), module, ctypes.c_char_p(b"kbench_gate"))

    def close(self, step: int, after_us: float) -> None:
        cycles = (int(time_us * self._clock_mhz) for time_us in (after_us, _GATE_LIMIT_US))
        values = [ctypes.c_int64(value) for value in (self._memory.data_ptr(), step, *cycles)]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        one, none = ctypes.c_uint(1), ctypes.c_void_p(None)
        self._call("cuLaunchKernel", self._function, *(one,) * 6, ctypes.c_uint(0), none, places, none)


class CudaSampler:
    """By a copy engine: copies to pinned memory of the host do not wait until kernels of other processes have ended."""

    def __init__(self, driver: ctypes.CDLL, call: Callable[..., None]) -> None:
        self._copy, self._call = driver.cuMemcpy2DAsync_v2, call
        self._memory = torch.zeros(SAMPLE_MAX_BYTES, dtype=torch.uint8, pin_memory=True)
        self._stream = ctypes.c_void_p(torch.cuda.Stream().cuda_stream)
        self._copies: list[_Copy2D] = []
        self._taken: list[torch.Tensor] = []

    def aim(self, arena: Arena, rows: Sequence[SampleRows]) -> None:
        self._copies, self._taken, offset = [], [], 0
        for item in rows:
            copied = self._memory[offset : offset + item.total_bytes]
            self._copies.append(_copy_of(arena.base, item, copied.data_ptr()))
            self._taken.append(copied.view(item.count, item.width_bytes))
            offset += item.total_bytes

    def take(self) -> list[torch.Tensor]:
        codes = [self._copy(ctypes.byref(item), self._stream) for item in self._copies]
        self._call("cuStreamSynchronize", self._stream)
        if any(codes):
            raise RuntimeError(f"cuMemcpy2DAsync: {max(codes)}")
        return self._taken


def _copy_of(base: int, rows: SampleRows, to: int) -> "_Copy2D":
    return _Copy2D(
        from_type=_IN_DEVICE,
        from_device=base + rows.first_byte,
        from_pitch=rows.pitch_bytes,
        to_type=_IN_HOST,
        to_host=to,
        to_pitch=rows.width_bytes,
        width_bytes=rows.width_bytes,
        height=rows.count,
    )


class CudaTimer:
    """A pair of events on the current stream, which is the default stream unless the called code changed it."""

    def __init__(self) -> None:
        self._first = torch.cuda.Event(enable_timing=True)
        self._last = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self._first.record()

    def stop(self) -> None:
        self._last.record()

    def elapsed_us(self) -> float:
        return float(self._first.elapsed_time(self._last)) * 1e3


def open_device() -> CudaAccelerator:
    return CudaAccelerator()


def _open_nvml() -> Any:
    import pynvml

    pynvml.nvmlInit()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())


def _max_clock_mhz(handle: Any) -> int:
    import pynvml

    return int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _GRANULE_BYTES) * _GRANULE_BYTES


def _u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)
