"""Some rows of the results of a replayed call, copied by the referee's copy engine as soon as the call has ended.

Every sign of an end that a process can see could be forged by device code in it, but not the results: what is missing
in an early copy had not been written yet. A copy engine does not wait for kernels of other processes. Which rows are
copied is drawn in the referee, so nobody else can know. Not covered: whether the results are right.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

_WHOLE_BYTES = 16 << 10  # a result of so many is copied as a whole
_ROWS, _ROW_BYTES = 64, 64  # of a larger one; 256 rows that were far apart took 70 µs in place of 30
_RESULTS_MAX = 3  # of all results of a call or burst: each takes about 10 µs, and those of eight came too late
SAMPLE_MAX_BYTES = _RESULTS_MAX * _WHOLE_BYTES

_draw = random.SystemRandom()


@dataclass(frozen=True)
class SampleRows:
    """`count` rows of `width_bytes`, `pitch_bytes` apart, the first of them at `first_byte`."""

    first_byte: int
    width_bytes: int
    pitch_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        return self.width_bytes * self.count

    def of(self, data: torch.Tensor) -> torch.Tensor:
        """As a view of contiguous bytes."""
        return data[self.first_byte :].as_strided((self.count, self.width_bytes), (self.pitch_bytes, 1))

    def behind(self, offset_bytes: int) -> "SampleRows":
        return replace(self, first_byte=self.first_byte + offset_bytes)


@dataclass(frozen=True)
class SampledPiece:
    """Rows of one result of one of several calls; they begin at `place` of the arena and are counted from there."""

    call: int
    result: int
    place: int
    rows: SampleRows


def drawn_pieces(calls: Sequence[Sequence[int]], sizes_bytes: Sequence[int]) -> list[SampledPiece]:
    """Of the results of `calls`, which are told by their places; a large one is always among them."""
    every = [(call, result) for call in range(len(calls)) for result, size in enumerate(sizes_bytes) if size]
    if not every:
        return []
    large = _draw.choice([one for one in every if sizes_bytes[one[1]] == max(sizes_bytes)])
    every.remove(large)
    chosen = [large, *_draw.sample(every, min(len(every), _RESULTS_MAX - 1))]
    return [SampledPiece(call, result, calls[call][result], drawn_rows(sizes_bytes[result])) for call, result in chosen]


def drawn_rows(size_bytes: int) -> SampleRows:
    """Rows of a result, at a distance that is drawn as well: work that is left out at regular places is met, too."""
    if size_bytes <= _WHOLE_BYTES:
        return SampleRows(0, size_bytes, size_bytes, 1)
    most_bytes = (size_bytes - _ROW_BYTES) // (_ROWS - 1)
    pitch_bytes = _draw.randint(max(_ROW_BYTES, most_bytes // 2), most_bytes)
    room_bytes = size_bytes - (_ROWS - 1) * pitch_bytes - _ROW_BYTES
    return SampleRows(_draw.randint(0, room_bytes), _ROW_BYTES, pitch_bytes, _ROWS)
