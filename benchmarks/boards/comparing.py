"""Methods compared by their best scores per task: pure numbers, without a database.

fast_p is a share of all tasks of a set, so a task that a method never attempted counts like one that it failed. A
geometric mean is taken only over tasks that every compared method has solved; means over different tasks could not be
compared. Of a mark that is only bounded, what counts for its rank counts here as well. Does NOT decide which entries
count: marks are ranked entries (`overview.py`).
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..harness import NORMAL_95, SpeedupEstimate, what_counts
from .ranking import what_reaches

FAST_AT = (0.0, 1.0, 1.5, 2.0, 3.0)  # the p of the columns of an overall board


class Mark(NamedTuple):
    """The best ranked entry of a method on one task; `rank` is its place on the board of that task.

    `trust` says how its time is known.
    """

    score: float
    lo: float
    hi: float
    rank: int
    evaluation: int
    trust: str = ""

    @property
    def counts(self) -> float:
        return what_counts(self.score, self.lo, self.trust)

    @property
    def reaches(self) -> float:
        return what_reaches(self.score, self.lo, self.hi, self.trust)


Marks = Mapping[int, Mark]  # by task


@dataclass(frozen=True)
class Share:
    """How many of `total` tasks were solved faster than p.

    `sure` counts only those whose whole interval lies above p, `possible` also those whose interval reaches above it.
    """

    count: int
    sure: int
    possible: int
    total: int

    @property
    def part(self) -> float:
        return self.count / self.total if self.total else 0.0


def fast(marks: Iterable[Mark], p: float, total: int) -> Share:
    """fast_p: strictly faster than `p` times the stronger baseline; at p = 0 every correct entry counts."""
    known = list(marks)
    return Share(
        count=sum(mark.counts > p for mark in known),
        sure=sum(mark.lo > p for mark in known),
        possible=sum(mark.reaches > p for mark in known),
        total=total,
    )


def curve(marks: Iterable[Mark], total: int) -> list[tuple[float, float]]:
    """The corners (p, share) of fast_p as p grows from 0: a share holds up to the next corner."""
    scores = sorted(mark.counts for mark in marks)
    corners = [(0.0, len(scores) / total if total else 0.0)]
    for place, score in enumerate(scores, 1):
        corners.append((score, (len(scores) - place) / total))
    return corners


def fast_over(marks: Iterable[Mark], total: int) -> list[tuple[float, Share]]:
    """`fast` at p = 0 and at every score, in one pass: (p, share), p ascending."""
    known = list(marks)
    score = sorted(mark.counts for mark in known)
    lo, hi = sorted(mark.lo for mark in known), sorted(mark.reaches for mark in known)

    def share(p: float) -> Share:
        return Share(_above(score, p), _above(lo, p), _above(hi, p), total)

    return [(p, share(p)) for p in sorted({0.0, *score})]


def _above(ascending: Sequence[float], p: float) -> int:
    return len(ascending) - bisect_right(ascending, p)


def common(everybody: Iterable[Marks]) -> frozenset[int]:
    """The tasks solved by every method that solved at least one."""
    solved = [frozenset(marks) for marks in everybody if marks]
    return frozenset.intersection(*solved) if solved else frozenset()


def mean_over(marks: Marks, tasks: Collection[int]) -> SpeedupEstimate | None:
    """Geometric mean over `tasks`, all of which must be solved; None over none.

    The interval is that of the measurements: the logarithms of independent scores, their variances added.
    """
    if not tasks or any(task not in marks for task in tasks):
        return None
    chosen = [marks[task] for task in tasks]
    mean = math.fsum(math.log(mark.counts) for mark in chosen) / len(chosen)
    errors = [math.log(mark.reaches / mark.lo) / (2 * NORMAL_95) for mark in chosen]
    half = NORMAL_95 * math.sqrt(math.fsum(error**2 for error in errors)) / len(chosen)
    return SpeedupEstimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def best_of(everybody: Iterable[Marks]) -> dict[int, Mark]:
    """The best mark on each task, of any method, by what counts."""
    best: dict[int, Mark] = {}
    for marks in everybody:
        for task, mark in marks.items():
            if task not in best or mark.counts > best[task].counts:
                best[task] = mark
    return best


@dataclass(frozen=True)
class MethodFigures:
    """The results of a method on a set of `total` tasks. `mean` is over the `common` tasks alone."""

    total: int
    attempted: int
    ps: tuple[float, ...]
    shares: tuple[Share, ...]  # one for each p
    won: int
    mean: SpeedupEstimate | None
    common: int


def figures(
    marks: Marks, attempted: Collection[int], shared: Collection[int], total: int, ps: Sequence[float] = FAST_AT
) -> MethodFigures:
    """`shared`: the common set; `won` counts first places, shared ones too."""
    return MethodFigures(
        total=total,
        attempted=len(attempted),
        ps=tuple(ps),
        shares=tuple(fast(marks.values(), p, total) for p in ps),
        won=sum(mark.rank == 1 for mark in marks.values()),
        mean=mean_over(marks, shared),
        common=len(shared),
    )


def leaders(shares: Mapping[str, Share]) -> list[str]:
    """The methods with the most tasks at one p; several on a tie, none if no task is solved."""
    most = max((share.count for share in shares.values()), default=0)
    return [name for name, share in shares.items() if most and share.count == most]
