"""Limits on the time of children that do not count what others take from them.

Builds of strangers run beside each other and beside baselines that are compiled, and one of them can keep every
processor busy. A limit by the clock alone would then hit whoever waits. Not covered: calls that are timed, beside which
nothing is built on a processor.
"""

import time
from collections.abc import Callable

from .crowd import TreeWork

_PATIENCE = 4.0  # times a limit, for who waits for a processor


class FairDeadline:
    """Over after `limit_s`. Who is ready to work then and has had less processor time has up to four times as long."""

    def __init__(self, work: Callable[[], TreeWork], limit_s: float) -> None:
        self._work, self._limit_s = work, limit_s
        self._started_s, self._before_s = time.monotonic(), work().used_s

    @property
    def left_s(self) -> float:
        """By the clock; negative for who has more time."""
        return self._started_s + self._limit_s - time.monotonic()

    def wait(self, seconds: float) -> None:
        """So long it was us for whom the child waited."""
        self._started_s += seconds

    def is_over(self) -> bool:
        if self.left_s > 0:
            return False
        if self.left_s <= (1 - _PATIENCE) * self._limit_s:
            return True
        work = self._work()
        return not work.is_ready or work.used_s - self._before_s >= self._limit_s
