"""Axes of drawings: from values to pixels, and the round numbers at the ticks.

Does NOT know what is drawn: the charts of comparisons, boards and runs do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps values to coordinates on one axis; values outside are put at its end."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        bend: Callable[[float], float] = math.log if self.logarithmic else float
        share = (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low))
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 1)


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


def round_steps(top: float) -> list[float]:
    """At most seven round numbers from 0 to `top`, which is positive."""
    rough = top / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
    return [round(step * place, 9) for place in range(int(top / step + 1e-9) + 1)]
