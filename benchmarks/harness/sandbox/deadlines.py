"""Limits on the time of children that do not count what others take from them.

Builds of strangers run beside each other, beside baselines that are compiled and beside judgings on a GPU, and one of
them can keep every processor busy. A limit by the clock alone would then hit whoever waits. So who waits has more time,
but only for as long as no processor had time to spare. Without a control group it is less, as nobody knows what
children have used whose parent does not wait for them. Not covered: calls that are timed, beside which nothing is built
on a processor; and a machine whose processors are idle because the worker may not use all of their time.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .crowd import TreeWork

# Times a limit, for who waits for a processor: where all that it has used is counted, and where some of it may not be
_PATIENCE, _PATIENCE_UNCOUNTED = 4.0, 2.0
_LOOKS, _APART_S = 3, 0.1  # so often in a row nothing was ready to run: it sleeps
_NOTES_APART_S = 1.0  # what has been used in between by one that ends is not known


class FairDeadline:
    """Over after `limit_s`. Who is ready to work then and has had less processor time has more time.

    `is_starved`: it has ended because not even that was enough, so the one who waited is not to blame.
    """

    def __init__(self, work: Callable[[], TreeWork], limit_s: float) -> None:
        self._work, self._limit_s = work, limit_s
        self._noted = begun = work()
        self._started_s, self._used_s, self._spare_s = time.monotonic(), begun.used_s, begun.spare_s
        self._asleep, self._looked_s = 0, 0.0
        self._own_s, self._noted_s, self._counts_all = 0.0, 0.0, begun.counts_all
        self.is_starved = False

    @property
    def left_s(self) -> float:
        """By the clock; negative for who has more time."""
        return self._started_s + self._limit_s - time.monotonic()

    @property
    def took_s(self) -> float:
        """By the clock, without interruptions."""
        return self._limit_s - self.left_s

    @property
    def own_s(self) -> float:
        """What the child has used of it, and as long as it slept or processors had time to spare.

        All of it since the last `look`. Once the child has ended, nothing tells what it has used.
        """
        return self._own_s + self.took_s - self._noted_s

    @property
    def charged_s(self) -> float:
        """What counts of it for a `FairTotal`: its own time, or more, so that patience has an end there as well."""
        return max(self.own_s, self.took_s / self._patience)

    def look(self) -> None:
        """To be called again and again while the child runs."""
        if self.took_s - self._noted_s >= _NOTES_APART_S:
            self._note(self._work())

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Meanwhile it is us for whom the child waits."""
        began_s, spare_s = time.monotonic(), self._work().spare_s
        yield
        self._started_s += time.monotonic() - began_s
        self._spare_s += self._work().spare_s - spare_s

    def is_over(self) -> bool:
        if self.left_s > 0:
            return False
        now = self._work()
        self._note(now)
        self._count_sleep(now)
        if self._asleep == _LOOKS or now.used_s - self._used_s >= self._limit_s:
            return True
        over_s, crowded_s = -self.left_s, self._crowded_s(now)
        most_s = (self._patience - 1) * self._limit_s
        self.is_starved = min(over_s, crowded_s) >= most_s
        return over_s >= min(most_s, crowded_s)

    @property
    def counts_all(self) -> bool:
        """Whether the child cannot have hidden any of the time that it has used."""
        return self._counts_all

    @property
    def _patience(self) -> float:
        return _PATIENCE if self._counts_all else _PATIENCE_UNCOUNTED

    def _note(self, now: TreeWork) -> None:
        """Of who is not ready all is its own: nobody keeps it from a processor."""
        took_s, self._counts_all = self.took_s, now.counts_all
        apart_s, before, self._noted, self._noted_s = took_s - self._noted_s, self._noted, now, took_s
        own_s = max(0.0, now.used_s - before.used_s) + max(0.0, now.spare_s - before.spare_s)
        self._own_s += min(apart_s, own_s) if now.is_ready else apart_s

    def _count_sleep(self, now: TreeWork) -> None:
        """Messages that come at once bring about looks that tell nothing new."""
        if now.is_ready:
            self._asleep = 0
        elif time.monotonic() - self._looked_s >= _APART_S:
            self._asleep, self._looked_s = self._asleep + 1, time.monotonic()

    def _crowded_s(self, now: TreeWork) -> float:
        """For how long no processor had time to spare; less where several had at a time."""
        return self._limit_s - self.left_s - max(0.0, now.spare_s - self._spare_s)


class FairTotal:
    """What several children of one work, or several things that one is asked, have taken together of one limit.

    Whoever waits for a processor is charged for its own time, so that what others take makes nobody late.
    """

    def __init__(self) -> None:
        self._charges: list[tuple[float, float]] = []  # threads may add to it side by side

    @property
    def charged_s(self) -> float:
        return sum(charged_s for charged_s, _ in self._charges)

    def is_starved(self, limit_s: float) -> bool:
        """It is used up, but not by what those who waited have had themselves."""
        return sum(own_s for _, own_s in self._charges) < limit_s <= self.charged_s

    def charge(self, deadline: FairDeadline) -> None:
        self._charges.append((deadline.charged_s, deadline.own_s))
