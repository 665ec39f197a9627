"""Random numbers by key: the same key gives the same draws, in whatever order the draws are made.

Keyed by (seed, stream, generation, slot), so that neither completion order nor a restart can change a run. Not for
secrets.
"""

import hashlib
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
_WORD = 1 << 64


class Rng:
    """One stream of numbers. Two objects of the same key draw the same."""

    def __init__(self, seed: int, stream: str, generation: int = 0, slot: int = 0) -> None:
        self.seed, self.stream, self.generation, self.slot = seed, stream, generation, slot
        self._key = hashlib.blake2b(f"{seed}\0{stream}\0{generation}\0{slot}".encode(), digest_size=32).digest()
        self._counter = 0

    def child(self, stream: str) -> "Rng":
        """A stream of its own below this one; it does not depend on what was drawn here."""
        return Rng(self.seed, f"{self.stream}/{stream}", self.generation, self.slot)

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return (self._word() >> 11) / (1 << 53)

    def integers(self, n: int) -> int:
        """Uniform in 0 .. n-1."""
        if n < 1:
            raise ValueError(f"cannot draw from {n} numbers")
        limit = _WORD - _WORD % n
        while True:
            word = self._word()
            if word < limit:
                return word % n

    def choice(self, seq: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """One of `seq`, with probability proportional to `weights` if there are any."""
        return seq[self.integers(len(seq)) if weights is None else self._weighted(len(seq), weights)]

    def sample(self, seq: Sequence[T], k: int, weights: Sequence[float] | None = None) -> list[T]:
        """Up to `k` different places of `seq`, drawn one after the other; places of weight 0 are never drawn."""
        places = [(item, 1.0 if weights is None else weights[place]) for place, item in enumerate(seq)]
        drawn: list[T] = []
        while len(drawn) < k and any(weight > 0 for _, weight in places):
            place = self._weighted(len(places), [weight for _, weight in places])
            drawn.append(places.pop(place)[0])
        return drawn

    def _weighted(self, count: int, weights: Sequence[float]) -> int:
        if len(weights) != count:
            raise ValueError(f"{len(weights)} weights for {count} items")
        sums = list(accumulate(weights))
        if not sums or not math.isfinite(sums[-1]) or sums[-1] <= 0 or min(weights) < 0:
            raise ValueError("weights must be finite, at least 0 and not all 0")
        point = self.random() * sums[-1]
        return next((place for place, total in enumerate(sums) if point < total), _last_positive(weights))

    def _word(self) -> int:
        block = hashlib.blake2b(self._counter.to_bytes(8, "big"), key=self._key, digest_size=8).digest()
        self._counter += 1
        return int.from_bytes(block, "big")


def _last_positive(weights: Sequence[float]) -> int:
    return max(place for place, weight in enumerate(weights) if weight > 0)
