"""Selects the parents of a generation, and the islands that receive an elite.

A parent is drawn with the weight sigmoid(10 z) / (1 + children), z being the robust z-score of the log of what counts
of its score among the members of its island: better ones more often, ones that had their turn less. Not covered:
making a source from the parents, which the proposer does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from .archive import Archive
from .model import ArchiveView, CandidateView
from .rng import Rng

_STEEPNESS = 10.0
_SPREAD_OF_NORMAL = 1.4826  # standard deviations in one median absolute deviation
_LEAST_SPREAD = 0.01  # of the log of the score: differences below one per cent say little
_SHOWN = 5


@dataclass(frozen=True)
class Selection:
    """`parents` from slow to fast; `probabilities` of being drawn first."""

    parents: tuple[CandidateView, ...]
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Migration:
    candidate: str
    from_island: int
    to_island: int


def select(view: ArchiveView, island: int, rng: Rng) -> Selection:
    members = view.members(island)
    if not members:
        return Selection((), {})
    weights = weigh(members, view)
    total = sum(weights)
    drawn = rng.sample(members, _SHOWN, weights)
    return Selection(
        tuple(sorted(drawn, key=lambda item: (item.counts, -item.generation, -item.slot))),
        {item.id: round(weight / total, 4) for item, weight in zip(members, weights, strict=True)},
    )


def weigh(members: Sequence[CandidateView], view: ArchiveView) -> list[float]:
    logs = [math.log(item.counts or 1.0) for item in members]
    middle = median(logs)
    spread = max(_LEAST_SPREAD, _SPREAD_OF_NORMAL * median([abs(value - middle) for value in logs]))
    return [
        _sigmoid(_STEEPNESS * (value - middle) / spread) / (1 + view.children.get(item.id, 0))
        for item, value in zip(members, logs, strict=True)
    ]


def migrations(archive: Archive, generation: int, stagnation: int) -> list[Migration]:
    """One elite from the neighbour in the ring to every island without gain for `stagnation` generations."""
    count = len(archive.islands)
    if count < 2:
        return []
    view = archive.view(0)
    found = []
    for island in range(count):
        neighbour = (island - 1) % count
        elites = [name for name in view.islands[neighbour] if name not in view.islands[island]]
        if generation - archive.gained_in[island] > stagnation and elites:
            found.append(Migration(elites[0], neighbour, island))
    return found


def last_failure(view: ArchiveView, island: int | None) -> CandidateView | None:
    """The latest candidate that is known to be wrong, of the island or of all."""
    latest_first = reversed(list(view.candidates.values()))
    return next((item for item in latest_first if item.failed and island in (None, item.island)), None)


def _sigmoid(value: float) -> float:
    """At least 1e-9, so that everybody may be drawn."""
    return max(1e-9, 1 / (1 + math.exp(-max(-60.0, min(60.0, value)))))
