"""How scores become ranks: pure functions over intervals, without a database.

Rank groups by overlapping intervals, and the places of the baselines. Does NOT decide which entries are ranked: that is
`standings.py`.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import geometric_mean
from typing import Generic, TypeVar

from ..harness import what_counts
from ..states import TIMINGS

Key = TypeVar("Key", bound=Hashable)
HALF_WIDTH_MAX = 0.10  # as `max_half_width` of the rules: one judging that is less sure is NOISY, several pooled can be


def what_reaches(score: float, lo: float, hi: float, trust: str) -> float:
    """The upper end that belongs to what counts: as far above it as the interval reaches above the score."""
    return what_counts(score, lo, trust) * hi / score


@dataclass(frozen=True)
class Entry(Generic[Key]):
    """One score with its interval on a board. `trust` says how its time is known.

    Contested is one whose judgings are so far apart that the site judges it itself.
    """

    key: Key
    score: float
    lo: float
    hi: float
    verified_at: datetime
    trust: str = ""
    is_contested: bool = False

    @property
    def counts(self) -> float:
        return what_counts(self.score, self.lo, self.trust)

    @property
    def reaches(self) -> float:
        if self.is_contested:
            return self.counts
        reaches = what_reaches(self.score, self.lo, self.hi, self.trust)
        return min(reaches, self.counts * (1 + HALF_WIDTH_MAX))

    @property
    def shares_from(self) -> float:
        """What an entry must reach to share the rank of this one, if this one is the first of its group."""
        return self.counts if self.is_contested else max(self.lo, self.counts * (1 - HALF_WIDTH_MAX))


def rank(entries: Iterable[Entry[Key]]) -> dict[Key, int]:
    """The rank of every entry, in the order in which a board lists them.

    Best first, by what counts. A new group starts where an entry's interval is separated from that of the group's FIRST
    entry (overlap itself is not transitive). A group shares the rank 1 + entries above it; inside, what is known best
    and then what was verified first comes first. The interval of a bound is moved down to what counts of it, so that
    its gap takes it into no better group. A bound shares the rank of replayed entries by the same rule as a replayed
    one, and is listed behind them. Whoever makes one code fast at one time and slow at another gets a wide interval, in
    which half of the board would be equal: intervals count up to HALF_WIDTH_MAX to either side, and that of a contested
    entry does not count: neither for its own rank nor for those that would share it.
    """
    ranks: dict[Key, int] = {}
    for group in _groups(entries):
        shared = len(ranks) + 1
        ranks.update((entry.key, shared) for entry in sorted(group, key=_place_in_group))
    return ranks


def _place_in_group(entry: Entry[Key]) -> tuple[int, datetime]:
    return (TIMINGS.index(entry.trust) if entry.trust in TIMINGS else 0), entry.verified_at


def _place(entry: Entry[Key]) -> tuple[float, bool, datetime, float]:
    return -entry.counts, entry.is_contested, entry.verified_at, -entry.lo


def _groups(entries: Iterable[Entry[Key]]) -> list[list[Entry[Key]]]:
    groups: list[list[Entry[Key]]] = []
    for entry in sorted(entries, key=_place):
        if groups and entry.reaches >= groups[-1][0].shares_from:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


@dataclass(frozen=True)
class BaselineScores:
    """What each baseline would score on the board: 1 for the stronger one on every configuration."""

    eager: float | None
    compiled: float | None


def baseline_scores(times_us: Sequence[tuple[float | None, float | None]]) -> BaselineScores:
    """From (eager, compile) per configuration. None for a baseline that is not measured everywhere."""
    stronger = [min((value for value in pair if value), default=None) for pair in times_us]
    return BaselineScores(
        eager=_score([pair[0] for pair in times_us], stronger),
        compiled=_score([pair[1] for pair in times_us], stronger),
    )


def _score(times_us: Sequence[float | None], stronger_us: Sequence[float | None]) -> float | None:
    ratios = [best / own for own, best in zip(times_us, stronger_us, strict=True) if own and best]
    if not ratios or len(ratios) < len(times_us):
        return None
    return geometric_mean(ratios)
