"""How scores become ranks: pure functions over intervals, without a database.

Rank groups by overlapping intervals, pooling of judgings of the same code, and the places of the baselines. Does NOT
decide which entries are ranked: that is `standings.py`.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import geometric_mean, median_high
from typing import Generic, TypeVar

from ..harness import what_counts
from ..states import TIMINGS

Key = TypeVar("Key", bound=Hashable)
NORMAL_95 = 1.959964  # half the width of a 95 % interval in standard errors
_LEAST_HALF = 0.002  # of the interval of a bound, whose upper end may be its score


def what_reaches(score: float, lo: float, hi: float, trust: str) -> float:
    """The upper end that belongs to what counts: as far above it as the interval reaches above the score."""
    return what_counts(score, lo, trust) * hi / score


@dataclass(frozen=True)
class Entry(Generic[Key]):
    """One score with its interval on a board. `trust` says how its time is known."""

    key: Key
    score: float
    lo: float
    hi: float
    verified_at: datetime
    trust: str = ""

    @property
    def counts(self) -> float:
        return what_counts(self.score, self.lo, self.trust)

    @property
    def reaches(self) -> float:
        return what_reaches(self.score, self.lo, self.hi, self.trust)


def rank(entries: Iterable[Entry[Key]]) -> dict[Key, int]:
    """The rank of every entry, in the order in which a board lists them.

    Best first, by what counts. A new group starts where an entry's interval is separated from that of the group's FIRST
    entry (overlap itself is not transitive). A group shares the rank 1 + entries above it; inside, what is known best
    and then what was verified first comes first. The interval of a bound is moved down to what counts of it, so that
    its gap takes it into no better group. Whoever avoids being replayed thus has no entry to himself above those that
    would share its rank, and is listed behind them.
    """
    ranks: dict[Key, int] = {}
    for group in _groups(entries):
        shared = len(ranks) + 1
        ranks.update((entry.key, shared) for entry in sorted(group, key=_place_in_group))
    return ranks


def _place_in_group(entry: Entry[Key]) -> tuple[int, datetime]:
    return (TIMINGS.index(entry.trust) if entry.trust in TIMINGS else 0), entry.verified_at


def _groups(entries: Iterable[Entry[Key]]) -> list[list[Entry[Key]]]:
    groups: list[list[Entry[Key]]] = []
    for entry in sorted(entries, key=lambda entry: (-entry.counts, entry.verified_at, -entry.lo)):
        if groups and entry.reaches >= groups[-1][0].lo:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


@dataclass(frozen=True)
class SpeedupEstimate:
    """A speedup with its 95 % interval. Of a `bound` the lower end also tells what gaps between launches may hide."""

    score: float
    lo: float
    hi: float
    bound: bool = False

    @property
    def error(self) -> float:
        """The standard error of the logarithm; of a bound by its upper side, since its gap is no matter of chance."""
        if self.bound:
            return max(math.log(self.hi / self.score), _LEAST_HALF) / NORMAL_95
        return max(math.log(self.hi / self.lo) / (2 * NORMAL_95), 1e-6)


def pooled(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    """Several judgings of the same code as one: the mean of their logarithms, weighted by how sure each is.

    Where judgings differ by more than their intervals allow, the pooled interval is widened to what they show, but not
    above the highest of theirs: no slow judging may make a code reach further. Beside judgings that are none, a bound
    counts if it lies below the interval of their mean: its score is too high rather than too low, and a code could else
    avoid being replayed where it would do badly. Where all are bounds, the lower end is as far from the score as in the
    middle one: neither the luckiest nor the unluckiest judging decides.
    """
    sure = [item for item in estimates if not item.bound]
    if not sure:
        return _mean_of_bounds(estimates)
    known = _mean(sure)
    return _mean([*sure, *(item for item in estimates if item.bound and item.hi < known.lo)])


def _mean(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    if len(estimates) == 1:
        return estimates[0]
    logs = [math.log(item.score) for item in estimates]
    weights = [1 / item.error**2 for item in estimates]
    mean = math.fsum(weight * log for weight, log in zip(weights, logs, strict=True)) / math.fsum(weights)
    surprise = math.fsum(weight * (log - mean) ** 2 for weight, log in zip(weights, logs, strict=True))
    spread = max(1.0, surprise / (len(estimates) - 1))
    half = NORMAL_95 * math.sqrt(spread / math.fsum(weights))
    highest = max(item.hi for item in estimates)
    return SpeedupEstimate(math.exp(mean), math.exp(mean - half), min(math.exp(mean + half), highest))


def _mean_of_bounds(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    mean = _mean(estimates)
    below = median_high(item.score / item.lo for item in estimates)
    return SpeedupEstimate(mean.score, min(mean.lo, mean.score / below), mean.hi, bound=True)


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
