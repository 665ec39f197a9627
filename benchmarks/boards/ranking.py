"""How scores become ranks: pure functions over intervals, without a database.

Rank groups by overlapping intervals, pooling of judgings of the same code, and the places of the baselines. Does NOT
decide which entries are ranked: that is `standings.py`.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import geometric_mean
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
NORMAL_95 = 1.959964  # half the width of a 95 % interval in standard errors


@dataclass(frozen=True)
class Entry(Generic[Key]):
    """One score with its interval on a board."""

    key: Key
    score: float
    lo: float
    hi: float
    verified_at: datetime


def rank(entries: Iterable[Entry[Key]]) -> dict[Key, int]:
    """The rank of every entry, in the order in which a board lists them.

    Best score first. A new group starts where an entry's interval is separated from that of the group's FIRST entry
    (overlap itself is not transitive). A group shares the rank 1 + entries above it; inside, earliest verified first.
    """
    ranks: dict[Key, int] = {}
    for group in _groups(entries):
        shared = len(ranks) + 1
        ranks.update((entry.key, shared) for entry in sorted(group, key=lambda entry: entry.verified_at))
    return ranks


def _groups(entries: Iterable[Entry[Key]]) -> list[list[Entry[Key]]]:
    groups: list[list[Entry[Key]]] = []
    for entry in sorted(entries, key=lambda entry: (-entry.score, entry.verified_at, -entry.lo)):
        if groups and entry.hi >= groups[-1][0].lo:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


@dataclass(frozen=True)
class SpeedupEstimate:
    """A speedup with its 95 % interval."""

    score: float
    lo: float
    hi: float


def pooled(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    """Several judgings of the same code as one: the mean of their logarithms, weighted by how sure each is.

    Where judgings differ by more than their intervals allow, the pooled interval is widened to what they show.
    """
    if len(estimates) == 1:
        return estimates[0]
    logs = [math.log(item.score) for item in estimates]
    errors = [max(math.log(item.hi / item.lo) / (2 * NORMAL_95), 1e-6) for item in estimates]
    weights = [1 / error**2 for error in errors]
    mean = math.fsum(weight * log for weight, log in zip(weights, logs, strict=True)) / math.fsum(weights)
    surprise = math.fsum(weight * (log - mean) ** 2 for weight, log in zip(weights, logs, strict=True))
    spread = max(1.0, surprise / (len(estimates) - 1))
    half = NORMAL_95 * math.sqrt(spread / math.fsum(weights))
    return SpeedupEstimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


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
