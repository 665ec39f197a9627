"""Charts drawn on the server: coordinates are computed here, `compare/_chart.html` draws them, no script is needed.

There are three: fast_p over p, score against cost, and the record of a board over time. Each has a table of its
numbers below it. Does NOT compute the numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.boards.comparing import Share
from benchmarks.boards.scales import Scale, Tick, round_steps
from benchmarks.harness import what_counts
from benchmarks.models import Evaluation

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 16, 40
P_MIN, P_MAX = 2.0, 20.0  # a curve of fast_p is drawn at least and at most up to here
TICKS_MAX = 7


@dataclass(frozen=True)
class Line:
    """One line; `css` names its colour and its dashes."""

    title: str
    css: str
    path: str


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    css: str
    label: str
    span: str = ""  # the interval, as a path


@dataclass(frozen=True)
class Chart:
    """The data of a chart for its template. `guide` is where a vertical line stands; it may be moved by a script."""

    label: str
    x_title: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Line]
    dots: list[Dot]
    guide: float | None = None
    x_high: float = 0.0
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def series_css(place: int) -> str:
    return f"series-{place}"


# --- fast_p --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedCurve:
    """The corners (p, share) of one method."""

    title: str
    corners: Sequence[tuple[float, float]]


def fast_chart(curves: Sequence[NamedCurve], p: float) -> Chart:
    """Shares of tasks over p, as steps."""
    x = Scale(0.0, fast_reach(curves, p), LEFT, WIDTH - RIGHT)
    y = _share_scale()
    return Chart(
        label="Share of tasks solved faster than p times the stronger baseline",
        x_title="p: times the stronger of PyTorch eager and torch.compile",
        x_ticks=[Tick(x(value), f"{value:g}×") for value in round_steps(x.high)],
        y_ticks=_share_ticks(y),
        lines=[Line(item.title, series_css(place), _steps(item, x, y)) for place, item in enumerate(curves)],
        dots=[],
        guide=x(p),
        x_high=x.high,
    )


def fast_reach(curves: Sequence[NamedCurve], p: float) -> float:
    """The highest p shown."""
    best = max((score for curve in curves for score, _ in curve.corners), default=0.0)
    return min(max(best * 1.05, P_MIN, p * 1.1), P_MAX)


def _steps(curve: NamedCurve, x: Scale, y: Scale) -> str:
    """One corner per pixel at most, however many tasks there are."""
    corners = {round(x(p)): y(share) for p, share in curve.corners}
    (first, height), *others = corners.items()
    return f"M{first} {height}" + "".join(f"H{place}V{low}" for place, low in others) + f"H{WIDTH - RIGHT}"


def _share_scale() -> Scale:
    return Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)


def _share_ticks(y: Scale) -> list[Tick]:
    return [Tick(y(part / 4), f"{25 * part} %") for part in range(5)]


# --- score against cost --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spent:
    """What one method has solved, and for how much; `place` is that of its colour."""

    title: str
    place: int
    share: Share
    cost: float
    cost_text: str


def cost_chart(points: Sequence[Spent], x_title: str) -> Chart:
    x = Scale(0.0, cost_reach(points), LEFT, WIDTH - RIGHT)
    y = _share_scale()
    return Chart(
        label=f"Share of tasks against {x_title.lower()}",
        x_title=x_title,
        x_ticks=[Tick(x(value), f"{value:g}") for value in round_steps(x.high)],
        y_ticks=_share_ticks(y),
        lines=[],
        dots=[_spent_dot(point, x, y) for point in points],
    )


def cost_reach(points: Sequence[Spent]) -> float:
    return max(point.cost for point in points) * 1.1 or 1.0


def _spent_dot(point: Spent, x: Scale, y: Scale) -> Dot:
    total, share = point.share.total or 1, point.share
    return Dot(
        x(point.cost),
        y(share.part),
        series_css(point.place),
        f"{point.title}: {share.count} of {share.total} tasks for {point.cost_text}",
        f"M{x(point.cost)} {y(share.sure / total)}V{y(share.possible / total)}",
    )


# --- records -------------------------------------------------------------------------------------------------------


def record_chart(records: Sequence[Evaluation], now: datetime) -> Chart:
    """The best of a board as steps over time, each with score and interval; at least one record.

    The steps show what counts for a rank: of a bound the lower end of its interval.
    """
    ends = [record.finished or now for record in records]
    whole = max(now - ends[0], timedelta(minutes=1))
    x = Scale(0.0, whole.total_seconds(), LEFT, WIDTH - RIGHT)
    places = [x((end - ends[0]).total_seconds()) for end in ends]
    y = Scale(*score_reach(records), HEIGHT - BOTTOM, TOP, logarithmic=True)
    heights = [y(counts_of(record)) for record in records]
    steps = "".join(f"H{place}V{height}" for place, height in zip(places[1:], heights[1:], strict=True))
    return Chart(
        label="The best verified speedup over time",
        x_title="first verified entry to now",
        x_ticks=[Tick(x.start, f"{ends[0]:%Y-%m-%d}"), Tick(x.end - 30, "now")],
        y_ticks=[Tick(y(value), f"{value:g}×") for value in _score_ticks(y.low, y.high)],
        lines=[Line("record", series_css(0), f"M{places[0]} {heights[0]}{steps}H{x.end}")],
        dots=[_record_dot(record, place, y) for record, place in zip(records, places, strict=True)],
    )


def counts_of(record: Evaluation) -> float:
    return what_counts(record.score or 1.0, record.score_lo or 1.0, record.timing_trust)


def score_reach(records: Iterable[Evaluation]) -> tuple[float, float]:
    """The lowest and the highest speedup that are drawn; 1× is always among them."""
    bounds = [bound for record in records for bound in (record.score_lo, record.score_hi) if bound]
    return min([1.0, *bounds]) / 1.1, max([1.0, *bounds]) * 1.1


def _record_dot(record: Evaluation, place: float, y: Scale) -> Dot:
    score, low, high = record.score or 1.0, record.score_lo or 1.0, record.score_hi or 1.0
    label = f"{score:.2f}×, interval {low:.2f}× to {high:.2f}×"
    return Dot(place, y(score), series_css(0), label, f"M{place} {y(low)}V{y(high)}")


def _score_ticks(low: float, high: float) -> list[float]:
    inside = [base * 10.0**power for power in range(-3, 4) for base in (1, 1.5, 2, 3, 5, 7)]
    found = [value for value in inside if low <= value <= high]
    return found[:: -(-len(found) // TICKS_MAX)]
