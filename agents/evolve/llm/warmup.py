"""Sends one call ahead of others with the same prefix: a cache entry exists only once a first answer has begun.

Not covered: whether the vendor keeps the entry, which the usage of each call shows.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Self

LIVES_S = 270.0  # a little less than the vendor's five minutes; each use counts anew


@dataclass
class Turn:
    """Leave to call, until the block ends; `begun` lets the others follow earlier."""

    _touch: Callable[[], None]
    _release: Callable[[], None] | None

    def begun(self) -> None:
        self._touch()
        self._done()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._done()

    def _done(self) -> None:
        if self._release:
            self._release()
            self._release = None


class Warmup:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._warm_until_s: dict[Hashable, float] = {}

    async def turn(self, prefix: Hashable) -> Turn:
        """Returns at once where the prefix is warm, else when it is this call's turn to warm it."""
        lock = self._locks.setdefault(prefix, asyncio.Lock())
        if not self._warm(prefix):
            await lock.acquire()
            if not self._warm(prefix):
                return Turn(lambda: self._touch(prefix), lock.release)
            lock.release()
        return Turn(lambda: self._touch(prefix), None)

    def _warm(self, prefix: Hashable) -> bool:
        return self._clock() < self._warm_until_s.get(prefix, float("-inf"))

    def _touch(self, prefix: Hashable) -> None:
        self._warm_until_s[prefix] = self._clock() + LIVES_S
