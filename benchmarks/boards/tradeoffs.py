"""What an entry trades for its time: error and energy, and which entries no other one beats in all of them.

Does NOT enter any score or rank, and does NOT draw (`views/parts/tradeoffs.py`).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

ENTRIES_MIN = 2  # one point shows no trade


@dataclass(frozen=True)
class MeanEnergy:
    """Millijoules of a call, the geometric mean over the timed configurations, with its 95 % interval."""

    mj: float
    lo_mj: float
    hi_mj: float


@dataclass(frozen=True)
class Costs:
    """Of one entry over the timed configurations, less is better. None where it is unknown."""

    time_us: float | None
    of_tolerance: float | None
    energy_mj: float | None = None

    def beats(self, other: "Costs") -> bool:
        """At least as good in all that is known of both, and better in one of them."""
        both = [(a, b) for a, b in zip(astuple(self), astuple(other), strict=True) if a is not None and b is not None]
        return all(a <= b for a, b in both) and any(a < b for a, b in both)


@dataclass(frozen=True)
class TradePoint:
    """An entry (a Standing with `figures`) and its costs; `unbeaten` by any other one that is shown."""

    entry: Any
    costs: Costs
    unbeaten: bool

    @property
    def energy(self) -> MeanEnergy | None:
        found: MeanEnergy | None = self.entry.figures.get("energy")
        return found


def trade_points(entries: Iterable[Any]) -> list[TradePoint]:
    """Of those whose time is known. Empty where there are too few to compare."""
    known = [(entry, costs_of(entry)) for entry in entries if entry.figures.get("time_us")]
    if len(known) < ENTRIES_MIN:
        return []
    everybody = [costs for _, costs in known]
    return [TradePoint(entry, costs, not any(other.beats(costs) for other in everybody)) for entry, costs in known]


def costs_of(entry: Any) -> Costs:
    figures, energy = entry.figures, entry.figures.get("energy")
    return Costs(figures.get("time_us"), figures.get("of_tolerance"), energy.mj if energy else None)


def mean_energy(figures: Mapping[str, Any]) -> MeanEnergy | None:
    """From sums over the configurations of an evaluation; None unless each timed one has an energy.

    `spread` is the sum of the squared logarithms of upper by lower ends: independent errors of a mean add in squares.
    """
    count = figures["energies"]
    if not count or figures["without_energy"]:
        return None
    mean, half = figures["mean_mj"], math.sqrt(figures["spread"] or 0.0) / (2 * count)
    return MeanEnergy(mean, mean * math.exp(-half), mean * math.exp(half))
