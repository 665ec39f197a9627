"""The stand-in for a GPU: ordinary shared memory and the host's clock. For tests of what surrounds a GPU."""

import mmap
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .accelerator import Arena, MemoryRoom
from .sample import SampleRows


class HostAccelerator:
    device = torch.device("cpu")

    def create(self, size_bytes: int) -> Arena:
        # a filter refuses memfd_create, which a GPU does not need
        fd = os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC)  # noqa: S108
        os.ftruncate(fd, size_bytes)
        return self.adopt(fd, size_bytes, writable=True)

    def adopt(self, fd: int, size_bytes: int, *, writable: bool, at: int = 0) -> Arena:
        memory = mmap.mmap(fd, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that read-only memory is read-only
            return Arena(torch.frombuffer(memory, dtype=torch.uint8), fd)

    def timer(self) -> "HostTimer":
        return HostTimer()

    def sampler(self) -> "HostSampler":
        return HostSampler()

    def synchronize(self) -> None:
        """Nothing runs beside the caller."""

    def forget_cached(self) -> None:
        """There is no reserved cache."""

    def occupy(self, step: int, after_us: float) -> None:
        """The host is nobody's alone."""

    def release(self, step: int) -> None:
        """Nothing was occupied."""

    @contextmanager
    def results_in(self, arena: Arena, first_byte: int, library: str) -> Iterator[None]:
        """torch's host allocator cannot be replaced, so results are copied."""
        yield

    def give_back_cached(self) -> None:
        """Results do not lie in the arena."""

    def room(self) -> MemoryRoom:
        return ()

    def state(self) -> dict[str, Any]:
        return {"clock_mhz": None, "memory_clock_mhz": None, "temperature_c": None, "power_w": None}

    def throttle(self) -> list[str]:
        return []

    def energy_mj(self) -> int | None:
        return None


class HostTimer:
    def __init__(self) -> None:
        self._started_ns = self._stopped_ns = 0

    def start(self) -> None:
        self._started_ns = time.perf_counter_ns()

    def stop(self) -> None:
        self._stopped_ns = time.perf_counter_ns()

    def elapsed_us(self) -> float:
        return (self._stopped_ns - self._started_ns) / 1e3


class HostSampler:
    def __init__(self) -> None:
        self._views: list[torch.Tensor] = []

    def aim(self, arena: Arena, rows: Sequence[SampleRows]) -> None:
        self._views = [item.of(arena.data) for item in rows]

    def take(self) -> list[torch.Tensor]:
        return [view.clone() for view in self._views]


def open_device() -> HostAccelerator:
    torch.set_num_threads(1)
    return HostAccelerator()
