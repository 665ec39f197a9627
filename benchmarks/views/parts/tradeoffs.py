"""Time against error of the entries of a board: the chart that the page shows, and the same as an interactive figure.

Does NOT decide which entries no other one beats: `boards/tradeoffs.py` does.
"""

from collections.abc import Sequence

from benchmarks.boards.figures import Parts, axis, figure, lines, plain, token
from benchmarks.boards.scales import Scale, Tick, round_steps
from benchmarks.boards.tradeoffs import TradePoint
from benchmarks.templatetags.kbench import holder
from benchmarks.templatetags.numbers import fine_percent, us

from .charts import BOTTOM, HEIGHT, LEFT, RIGHT, TICKS_MAX, TOP, WIDTH, Chart, Dot, series_css

TIME_TITLE = "Time of a call, geometric mean"
ERROR_TITLE = "Largest error, % of the tolerance"


def error_points(points: Sequence[TradePoint]) -> list[TradePoint]:
    """Those that can be drawn: with a known error."""
    return [point for point in points if point.costs.of_tolerance is not None]


def error_chart(points: Sequence[TradePoint]) -> Chart:
    """At least one point with a known error."""
    x = Scale(*_time_reach(points), LEFT, WIDTH - RIGHT, logarithmic=True)
    y = Scale(0.0, _error_reach(points), HEIGHT - BOTTOM, TOP)
    return Chart(
        label="Time of a call against its largest error",
        x_title=f"{TIME_TITLE} (logarithmic); upwards: {ERROR_TITLE.lower()}",
        x_ticks=[Tick(x(value), us(value)) for value in _time_ticks(x.low, x.high)],
        y_ticks=[Tick(y(value), f"{value:g} %") for value in round_steps(y.high)],
        lines=[],
        dots=[_dot(point, x, y) for point in points],
    )


def error_figure(points: Sequence[TradePoint]) -> object:
    """One series for the entries that no other one beats, and one for the others."""
    kinds = (("No other entry beats it", True), ("Beaten by another entry", False))
    series = [(name, unbeaten, [item for item in points if item.unbeaten is unbeaten]) for name, unbeaten in kinds]
    return figure(
        [_trace(name, shown, unbeaten=unbeaten) for name, unbeaten, shown in series if shown],
        axis(f"{TIME_TITLE}, µs", None, None, type="log"),
        axis(ERROR_TITLE, 0.0, _error_reach(points), ticksuffix=" %"),
    )


def _trace(name: str, points: Sequence[TradePoint], *, unbeaten: bool) -> Parts:
    colour = token("series-0")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [point.costs.time_us for point in points],
        "y": [100 * (point.costs.of_tolerance or 0.0) for point in points],
        "marker": {"color": colour, "size": 10, "symbol": "circle" if unbeaten else "circle-open"},
        "hoverinfo": "text",
        "hovertext": [lines(*(plain(text) for text in _told(point))) for point in points],
    }


def _dot(point: TradePoint, x: Scale, y: Scale) -> Dot:
    css = series_css(0) if point.unbeaten else f"{series_css(0)} beaten"
    place = x(point.costs.time_us or x.low), y(100 * (point.costs.of_tolerance or 0.0))
    return Dot(*place, css, ": ".join(_told(point)))


def _told(point: TradePoint) -> tuple[str, str]:
    entry, costs = point.entry, point.costs
    who = f"Rank {entry.rank}, {holder(entry.evaluation)}, {entry.evaluation.submission.language}"
    return who, f"{us(costs.time_us)}, {fine_percent(costs.of_tolerance)} of the tolerance"


def _time_reach(points: Sequence[TradePoint]) -> tuple[float, float]:
    times_us = [point.costs.time_us or 1.0 for point in points]
    return min(times_us) / 1.2, max(times_us) * 1.2


def _error_reach(points: Sequence[TradePoint]) -> float:
    """In per cent; errors of exactly zero are drawn, too."""
    return 115 * max(point.costs.of_tolerance or 0.0 for point in points) or 1.0


def _time_ticks(low_us: float, high_us: float) -> list[float]:
    steps = [base * 10.0**power for power in range(-2, 8) for base in (1, 1.5, 2, 3, 4, 5, 6, 8)]
    found = [value for value in steps if low_us <= value <= high_us]
    return found[:: -(-len(found) // TICKS_MAX) or 1]
