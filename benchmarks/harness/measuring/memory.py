"""Shared memory of one judging: the place of every tensor of every input set and of every result.

Inputs are in one block that only the referee may write; each contestant has its own control page. On a processor the
supervisor copies results into output memory that no contestant has; on a GPU each contestant has its own. All sizes
are fixed and sealed before a submission is mapped.
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

from ..protocol import CONTROL_BYTES
from ..tasks.spec import Config, TensorArgument
from .process_memory import MemoryReader

_ALIGNMENT_BYTES = 512  # what torch's allocator of GPU memory gives; more than a cache line
_GAP_BYTES = 4096  # between tensors, so that a read past the end meets another tensor's page, never the next value
_SEAL_FUTURE_WRITE = 0x0010
_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
SAMPLES = 16
_SAMPLE_BYTES = 8


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
    """The description of each configuration for the children (plain JSON)."""
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
        """Once: whoever closes its number again closes the file of somebody else."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class OutputMemory(SharedMemory):
    """Results of one contestant as the supervisor has copied them, for the referee to read."""

    def __init__(self, layout: Layout, configs: Sequence[Config]) -> None:
        super().__init__("outputs", layout.output_bytes)
        self._bytes: NDArray[np.uint8] = np.frombuffer(self.map(), dtype=np.uint8)
        self._places = [
            [(offset, item.nbytes) for offset, item in zip(offsets, config.results, strict=True)]
            for offsets, config in zip(layout.outputs, configs, strict=True)
        ]

    def results(self, config: int) -> list[NDArray[np.uint8]]:
        """The bytes of each result of `config`, in place."""
        return [self._bytes[offset : offset + size] for offset, size in self._places[config]]

    def copy(self, config: int, pid: int, places: NDArray[np.uint64]) -> bool:
        """Copies the results of a call of `config` out of process `pid`; False if they cannot be read there."""
        return all(
            MemoryReader(target, np.array([target.nbytes], dtype=np.uint64)).read(pid, places[number : number + 1])
            for number, target in enumerate(self.results(config))
        )


class Sample:
    """Words out of the results of one call, read where the contestant says that they lie.

    Of every result its end and a random word, and more at random, most where most bytes are. Made before the call, so
    that reading it takes little of the time that counts.
    """

    def __init__(self, results: Sequence[NDArray[np.uint8]], draw: np.random.Generator) -> None:
        sizes = np.array([item.nbytes for item in results])
        spans = np.minimum(_SAMPLE_BYTES, sizes)
        every = np.arange(len(sizes))
        self._which = np.concatenate([every, every, draw.choice(len(sizes), SAMPLES, p=sizes / sizes.sum())])
        latest = (sizes - spans)[self._which]
        offsets = (draw.random(len(latest)) * (latest + 1)).astype(np.uint64)
        offsets[: len(sizes)] = latest[: len(sizes)]
        self._offsets = offsets
        self._values = np.zeros(len(offsets) * _SAMPLE_BYTES, dtype=np.uint8)
        self._reader = MemoryReader(self._values, spans[self._which].astype(np.uint64))

    def read(self, pid: int, places: NDArray[np.uint64]) -> bytes | None:
        """The values there; None if they cannot be read. Raises PermissionError as `MemoryReader.read` does."""
        there = self._reader.read(pid, places[self._which] + self._offsets)
        return self._values.tobytes() if there else None


class ControlPage(SharedMemory):
    """The words over which one call is run."""

    def __init__(self) -> None:
        super().__init__("control", CONTROL_BYTES)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)  # else who has it could keep others from writing
        page = self.map()
        self.words = (ctypes.c_uint64 * (CONTROL_BYTES // 8)).from_buffer(page)
        self.numbers: NDArray[np.uint64] = np.frombuffer(page, dtype=np.uint64)  # the same words


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
