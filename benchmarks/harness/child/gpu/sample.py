"""Some rows of the results of a replayed call, copied by the referee's copy engine as soon as the call has ended.

Every sign of an end that a process can see could be forged by device code in it, but not the results: what is missing
in an early copy had not been written yet. A copy engine does not wait for kernels of other processes. Which rows are
copied is drawn in the referee, so nobody else can know. Not covered: whether the results are right.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

_WHOLE_BYTES = 16 << 10  # a result of so many is copied as a whole
_ROWS, _ROW_BYTES = 256, 64  # of a larger one
_RESULTS_MAX = 8  # of a burst: each takes the host some microseconds
SAMPLE_MAX_BYTES = _RESULTS_MAX * _WHOLE_BYTES

_draw = random.SystemRandom()


@dataclass(frozen=True)
class Rows:
    """`count` rows of `width_bytes`, `pitch_bytes` apart, the first of them at the offset `first_byte` of an arena."""

    first_byte: int
    width_bytes: int
    pitch_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        return self.width_bytes * self.count

    def of(self, data: torch.Tensor) -> torch.Tensor:
        """As a view of all bytes of the arena."""
        return data.as_strided((self.count, self.width_bytes), (self.pitch_bytes, 1), self.first_byte)


def drawn_rows(results: Sequence[tuple[int, int]]) -> list[Rows]:
    """Of results that are told by place and size in bytes; of a few of them, if there are many."""
    chosen = _draw.sample(results, min(len(results), _RESULTS_MAX))
    return [_rows(place, size_bytes) for place, size_bytes in chosen]


def _rows(place: int, size_bytes: int) -> Rows:
    if size_bytes <= _WHOLE_BYTES:
        return Rows(place, size_bytes, size_bytes, 1)
    pitch_bytes = size_bytes // _ROWS
    return Rows(place + _draw.randrange(pitch_bytes - _ROW_BYTES + 1), _ROW_BYTES, pitch_bytes, _ROWS)
