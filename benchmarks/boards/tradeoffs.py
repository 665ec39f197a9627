"""What an entry trades for its time: the error that it makes beside it, and which entries no other one beats in both.

Does NOT enter any score or rank, and does NOT draw (`views/parts/tradeoffs.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ENTRIES_MIN = 2  # one point shows no trade


@dataclass(frozen=True)
class Costs:
    """Of one entry over the timed configurations, less is better. None where it is unknown."""

    time_us: float | None
    of_tolerance: float | None

    def beats(self, other: "Costs") -> bool:
        """At least as good in all that is known of both, and better in one of them."""
        mine, theirs = (self.time_us, self.of_tolerance), (other.time_us, other.of_tolerance)
        pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None and b is not None]
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@dataclass(frozen=True)
class TradePoint:
    """An entry (a Standing with `figures`) and its costs; `unbeaten` by any other one that is shown."""

    entry: Any
    costs: Costs
    unbeaten: bool


def trade_points(entries: Iterable[Any]) -> list[TradePoint]:
    """Of those whose time is known. Empty where there are too few to compare."""
    known = [(entry, costs_of(entry)) for entry in entries if entry.figures.get("kernel_us")]
    if len(known) < ENTRIES_MIN:
        return []
    everybody = [costs for _, costs in known]
    return [TradePoint(entry, costs, not any(other.beats(costs) for other in everybody)) for entry, costs in known]


def costs_of(entry: Any) -> Costs:
    return Costs(entry.figures.get("kernel_us"), entry.figures.get("of_tolerance"))
