"""Time against error and against energy of the entries of a board: charts of the page, and the same as figures.

Does NOT decide which entries no other one beats: `boards/tradeoffs.py` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.boards.figures import Parts, axis, error_bars, figure, lines, plain, token
from benchmarks.boards.scales import Scale, Tick, round_steps
from benchmarks.boards.tradeoffs import TradePoint, trade_points
from benchmarks.templatetags.kbench import holder
from benchmarks.templatetags.numbers import fine_percent, mj, us

from .charts import BOTTOM, HEIGHT, LEFT, RIGHT, TICKS_MAX, TOP, WIDTH, Chart, Dot, series_css

TIME_TITLE = "Time of a call, geometric mean"
KINDS = (("No other entry beats it", True), ("Beaten by another entry", False))


@dataclass(frozen=True)
class TradeAxis:
    """What is drawn upwards; `bounds` gives value, low and high, or None where it is unknown."""

    code: str
    title: str
    unit: str
    bounds: Callable[[TradePoint], tuple[float, float, float] | None]


def _error(point: TradePoint) -> tuple[float, float, float] | None:
    share = point.costs.of_tolerance
    return None if share is None else (100 * share, 100 * share, 100 * share)


def _energy(point: TradePoint) -> tuple[float, float, float] | None:
    found = point.energy
    return None if found is None else (found.mj, found.lo_mj, found.hi_mj)


AXES = (
    TradeAxis("error", "Largest error, % of the tolerance", "%", _error),
    TradeAxis("energy", "Energy of a call, geometric mean", "mJ", _energy),
)


@dataclass(frozen=True)
class Trade:
    """Entries over two axes: time and what else is known of them."""

    axis: TradeAxis
    points: Sequence[TradePoint]

    @property
    def bounds(self) -> list[tuple[float, float, float]]:
        return [self.axis.bounds(point) or (0.0, 0.0, 0.0) for point in self.points]

    @property
    def height(self) -> float:
        """Of the axis; values of exactly zero are drawn, too."""
        return 1.15 * max(high for _, _, high in self.bounds) or 1.0

    @property
    def times_us(self) -> list[float]:
        return [point.costs.time_us or 1.0 for point in self.points]

    def chart(self) -> Chart:
        x = Scale(min(self.times_us) / 1.2, max(self.times_us) * 1.2, LEFT, WIDTH - RIGHT, logarithmic=True)
        y = Scale(0.0, self.height, HEIGHT - BOTTOM, TOP)
        unit = self.axis.unit
        return Chart(
            label=f"Time of a call against its {self.axis.code}",
            x_title=f"{TIME_TITLE} (logarithmic); upwards: {self.axis.title[0].lower()}{self.axis.title[1:]}",
            x_ticks=[Tick(x(value), us(value)) for value in _time_ticks(x.low, x.high)],
            y_ticks=[Tick(y(value), f"{value:g} {unit}") for value in round_steps(y.high)],
            lines=[],
            dots=[_dot(point, bounds, x, y) for point, bounds in zip(self.points, self.bounds, strict=True)],
        )

    def figure(self) -> Any:
        """One series for the entries that no other one beats, and one for the others."""
        return figure(
            [trace for name, unbeaten in KINDS for trace in self._series(name, unbeaten=unbeaten)],
            axis(f"{TIME_TITLE}, µs", None, None, type="log"),
            axis(self.axis.title, 0.0, self.height, ticksuffix=f" {self.axis.unit}"),
        )

    def _series(self, name: str, *, unbeaten: bool) -> list[Parts]:
        """One trace, or none where no entry is of this kind."""
        pairs = zip(self.points, self.bounds, strict=True)
        shown = [(point, bounds) for point, bounds in pairs if point.unbeaten is unbeaten]
        colour, spread = token("series-0"), [bounds for _, bounds in shown]
        bars = (
            {"error_y": {**error_bars(spread), "color": colour}} if any(low < high for _, low, high in spread) else {}
        )
        trace = {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [point.costs.time_us for point, _ in shown],
            "y": [value for _, (value, _, _) in shown],
            **bars,
            "marker": {"color": colour, "size": 10, "symbol": "circle" if unbeaten else "circle-open"},
            "hoverinfo": "text",
            "hovertext": [lines(*(plain(text) for text in _told(point))) for point, _ in shown],
        }
        return [trace] if shown else []


def trades(entries: Sequence[Any]) -> list[Trade]:
    """The pictures of a board: one for each axis on which some entry is known."""
    points = trade_points(entries)
    found = [Trade(item, [point for point in points if item.bounds(point) is not None]) for item in AXES]
    return [trade for trade in found if trade.points]


def _dot(point: TradePoint, bounds: tuple[float, float, float], x: Scale, y: Scale) -> Dot:
    css = series_css(0) if point.unbeaten else f"{series_css(0)} beaten"
    place, (value, low, high) = x(point.costs.time_us or x.low), bounds
    span = f"M{place} {y(low)}V{y(high)}" if low < high else ""
    return Dot(place, y(value), css, ": ".join(_told(point)), span)


def _told(point: TradePoint) -> tuple[str, str]:
    entry, costs = point.entry, point.costs
    known = [us(costs.time_us)]
    if costs.of_tolerance is not None:
        known.append(f"{fine_percent(costs.of_tolerance)} of the tolerance")
    if costs.energy_mj is not None:
        known.append(mj(costs.energy_mj))
    who = f"Rank {entry.rank}, {holder(entry.evaluation)}, {entry.evaluation.submission.language}"
    return who, ", ".join(known)


def _time_ticks(low_us: float, high_us: float) -> list[float]:
    steps = [base * 10.0**power for power in range(-2, 8) for base in (1, 1.5, 2, 3, 4, 5, 6, 8)]
    found = [value for value in steps if low_us <= value <= high_us]
    return found[:: -(-len(found) // TICKS_MAX) or 1]
