"""Shared memory of one judging: where every tensor of every input set and every result lies.

Inputs lie in one memory that the referee alone may write; each contestant has output memory and a control page of its
own, so that no contestant sees another one's results. All sizes are fixed and sealed before a submission is mapped.
"""

import ctypes
import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .protocol import CONTROL_BYTES
from .spec import Config, TensorArgument

_ALIGNMENT_BYTES = 512  # what torch's allocator of GPU memory gives; more than a cache line
_GAP_BYTES = 4096  # between tensors, so that a read past the end meets another tensor's page, never the next value
_SEAL_FUTURE_WRITE = 0x0010
_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
POISON = 0xFF  # float32: NaN; int64: -1


@dataclass(frozen=True)
class Layout:
    """Offsets in bytes: `inputs[config][set][tensor]` and `outputs[config][result]`."""

    inputs: tuple[tuple[tuple[int, ...], ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    input_bytes: int
    output_bytes: int


def lay_out(configs: Sequence[Config], sets: Sequence[int]) -> Layout:
    """A place for everything; `sets[c]` input sets for configuration c."""
    ruler = _Ruler()
    inputs = tuple(
        tuple(tuple(ruler.take(item.nbytes) for item in config.tensors) for _ in range(count))
        for config, count in zip(configs, sets, strict=True)
    )
    out_ruler = _Ruler()
    outputs = tuple(tuple(out_ruler.take(item.nbytes) for item in config.results) for config in configs)
    return Layout(inputs, outputs, ruler.total_bytes, out_ruler.total_bytes)


def overlay(configs: Sequence[Config], sets: Sequence[int]) -> Layout:
    """As `lay_out`, every configuration over the same memory: on a GPU one of them is there at a time."""
    alone = [lay_out([config], [count]) for config, count in zip(configs, sets, strict=True)]
    return Layout(
        inputs=tuple(item.inputs[0] for item in alone),
        outputs=tuple(item.outputs[0] for item in alone),
        input_bytes=max(item.input_bytes for item in alone),
        output_bytes=max(item.output_bytes for item in alone),
    )


def describe(configs: Sequence[Config], layout: Layout) -> list[dict[str, Any]]:
    """What the children are told of each configuration (plain JSON)."""
    return [
        {
            "values": dict(config.values),
            "arguments": [_plain_argument(item) for item in config.arguments],
            "results": [asdict(item) for item in config.results],
            "input_offsets": layout.inputs[number],
            "output_offsets": layout.outputs[number],
        }
        for number, config in enumerate(configs)
    ]


class SharedMemory:
    """A sealed memory file. `fd` may be inherited by children."""

    def __init__(self, name: str, size_bytes: int) -> None:
        self.fd = os.memfd_create(name, os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size_bytes)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _FIXED_SIZE)
        self.size_bytes = size_bytes

    def forbid_new_writers(self) -> None:
        """Mappings that exist keep their right to write; nobody gets a new one."""
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)

    def map(self) -> mmap.mmap:
        return mmap.mmap(self.fd, self.size_bytes)

    def close(self) -> None:
        os.close(self.fd)


class OutputMemory(SharedMemory):
    """Results of one contestant, as the supervisor sees them: bytes to poison and to sample."""

    def __init__(self, layout: Layout, configs: Sequence[Config]) -> None:
        super().__init__("outputs", layout.output_bytes)
        self._bytes: NDArray[np.uint8] = np.frombuffer(self.map(), dtype=np.uint8)
        self._spans = [
            (min(offsets), max(at + item.nbytes for at, item in zip(offsets, config.results, strict=True)))
            for offsets, config in zip(layout.outputs, configs, strict=True)
        ]

    def poison(self, config: int) -> None:
        first, last = self._spans[config]
        self._bytes[first:last] = POISON

    def sample(self, places: NDArray[np.intp]) -> NDArray[np.uint8]:
        return self._bytes[places]

    def places(self, config: int, count: int, draw: np.random.Generator) -> NDArray[np.intp]:
        """Random byte positions within the results of `config`."""
        first, last = self._spans[config]
        return draw.integers(first, last, size=count)


class ControlPage(SharedMemory):
    """The words over which one call is run."""

    def __init__(self) -> None:
        super().__init__("control", CONTROL_BYTES)
        self.words = (ctypes.c_uint64 * (CONTROL_BYTES // 8)).from_buffer(self.map())


class _Ruler:
    def __init__(self) -> None:
        self.total_bytes = _GAP_BYTES

    def take(self, size_bytes: int) -> int:
        place = self.total_bytes
        used = place + size_bytes + _GAP_BYTES
        self.total_bytes = -(-used // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return place


def _plain_argument(item: Any) -> dict[str, Any]:
    plain = asdict(item)
    if isinstance(item, TensorArgument):
        plain["options"] = dict(item.options)
    return plain
