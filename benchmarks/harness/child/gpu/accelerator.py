"""What the children of the GPU track ask of a device: shared memory, timers, its state. Two devices answer.

`cuda` is the GPU. `host` is a stand-in that keeps the same protocol in ordinary memory, so that everything around a
GPU can be tested where there is none; nothing is ever ranked on it. Not covered: what is computed on the device.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

import torch

from ...dtypes import DTYPES
from ..shell import TORCH_DTYPES
from .sample import SampleRows

MemoryRoom = tuple[int, int] | tuple[()]


class Arena:
    """Device memory that several processes share: `data` is all of it as bytes."""

    def __init__(self, data: torch.Tensor, fd: int) -> None:
        self.data = data
        self.fd = fd
        self.base = data.data_ptr()
        self.size_bytes = data.numel()

    def bytes_of(self, item: dict[str, Any], offset_bytes: int) -> torch.Tensor:
        """The bytes of a tensor of the shape and dtype of `item` at `offset_bytes`."""
        return self.data[offset_bytes : offset_bytes + item_bytes(item)]

    def view(self, item: dict[str, Any], offset_bytes: int) -> torch.Tensor:
        return self.bytes_of(item, offset_bytes).view(TORCH_DTYPES[item["dtype"]]).view(item["shape"])

    def holds(self, item: dict[str, Any], offset_bytes: int) -> bool:
        return bool(offset_bytes + item_bytes(item) <= self.size_bytes)

    def place_of(self, tensor: torch.Tensor) -> int | None:
        """The offset of a contiguous tensor in bytes; None if it does not lie in here as a whole."""
        offset = tensor.data_ptr() - self.base
        inside = offset >= 0 and offset + tensor.numel() * tensor.element_size() <= self.size_bytes
        return offset if inside and tensor.is_contiguous() else None


class Timer(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def elapsed_us(self) -> float:
        """Between the last `start` and the last `stop`, both of which the device has passed."""
        ...


class Sampler(Protocol):
    """Copies rows of shared memory to the host at once, whatever other processes do on the device."""

    def aim(self, arena: Arena, rows: Sequence[SampleRows]) -> None:
        """Prepares `take`, of which each microsecond counts."""
        ...

    def take(self) -> list[torch.Tensor]:
        """The rows as they are now, each a tensor of bytes in memory of the host. The next `take` overwrites them."""
        ...


class Accelerator(Protocol):
    device: torch.device

    def create(self, size_bytes: int) -> Arena:
        """New shared memory, all zero."""
        ...

    def adopt(self, fd: int, size_bytes: int, *, writable: bool, at: int = 0) -> Arena:
        """The memory that another process created, at the address `at` if that is free and not 0."""
        ...

    def timer(self) -> Timer: ...

    def sampler(self) -> Sampler: ...

    def synchronize(self) -> None:
        """Returns when the device has finished everything that this process asked for."""
        ...

    def forget_cached(self) -> None:
        """Nothing keeps a reserved place in the L2 cache."""
        ...

    def occupy(self, step: int, after_us: float) -> None:
        """Keeps the device busy on behalf of this process until `after_us` after `release(step)`; returns at once."""
        ...

    def release(self, step: int) -> None: ...

    def results_in(self, arena: Arena, first_byte: int, library: str) -> AbstractContextManager[None]:
        """While it is entered, what torch allocates lies in `arena` behind `first_byte`, as far as that lasts."""
        ...

    def give_back_cached(self) -> None:
        """What torch has freed but kept for later goes back to the arena, so that other sizes can have it."""
        ...

    def room(self) -> MemoryRoom:
        """The bytes that are free or torch's in this process, and all of the device; () if nobody knows."""
        ...

    def state(self) -> dict[str, Any]:
        """Clocks in MHz, temperature in °C, power in W."""
        ...

    def throttle(self) -> list[str]:
        """Why clocks are lowered now, by name."""
        ...

    def energy_mj(self) -> int | None:
        """What the device has used since its driver was loaded; None where nothing counts it."""
        ...


def item_bytes(item: dict[str, Any]) -> int:
    """The size of a tensor of the shape and dtype of `item`."""
    return int(math.prod(item["shape"]) * DTYPES[item["dtype"]].nbytes)


def open_accelerator(name: str) -> Accelerator:
    """`cuda` or `host`; the process holds a context on the device from here on."""
    module = import_module(f".{name}_accelerator", __package__)
    accelerator: Accelerator = module.open_device()
    return accelerator


def exact_arithmetic() -> None:
    """float32 means float32: no TF32 in library calls."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)


def results_of(config: dict[str, Any], arena: Arena, offsets: Sequence[int]) -> tuple[torch.Tensor, ...]:
    pairs = zip(config["results"], offsets, strict=True)
    return tuple(arena.view(item, offset) for item, offset in pairs)


def tensors_of(config: dict[str, Any], arena: Arena, offsets: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The tensor arguments of one input set, in their order."""
    items = [item for item in config["arguments"] if "value" not in item]
    return tuple(arena.view(item, offset) for item, offset in zip(items, offsets, strict=True))
