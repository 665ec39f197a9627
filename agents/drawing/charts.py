"""The chart of the best score so far: steps with interval, a dot per judged candidate, the baselines as a line at 1×.

Numbers are turned into places here and drawn by `runs/_chart.html`, so the picture is complete without scripts. Steps
show what counts, of a bound the lower end of its interval. The scale of scores is logarithmic. Does NOT decide what is
an improvement: the log does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.boards.scales import Scale, Tick, round_steps

from ..models import Candidate
from ..record.snapshots import Scene

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 34
DOTS_MAX = 400
Measure = Callable[[Candidate], float]


@dataclass(frozen=True)
class AxisKind:
    """The quantity on the x axis."""

    name: str
    title: str
    unit: str


AXES = {
    "judgings": AxisKind("judgings", "Judgings", ""),
    "minutes": AxisKind("minutes", "Minutes since the start", " min"),
    "usd": AxisKind("usd", "Dollars spent", " $"),
}


@dataclass(frozen=True)
class RunDot:
    x: float
    y: float
    css: str
    label: str
    key: str


@dataclass(frozen=True)
class Curve:
    """The steps of one run. `band` is the interval of the best, as a closed outline."""

    steps: str
    band: str
    css: str
    title: str


@dataclass(frozen=True)
class RunChart:
    axis: AxisKind
    curves: list[Curve]
    dots: list[RunDot]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    one: float
    target: float | None
    failures: list[float] = field(default_factory=list)
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Plane:
    """Maps values to coordinates on both axes; the scale of scores is logarithmic."""

    x: Scale
    y: Scale


def chart(scenes: Sequence[Scene], axis_name: str = "judgings") -> RunChart | None:
    """One curve per run, dots for a single one. None while nothing was judged."""
    judged = [row for scene in scenes for row in scene.judged]
    if not judged:
        return None
    axis = axis_named(axis_name)
    plane = plane_of(scenes, axis)
    alone = scenes[0] if len(scenes) == 1 else None
    return RunChart(
        axis=axis,
        curves=[_curve(scene, axis, plane, place) for place, scene in enumerate(scenes) if scene.improvements],
        dots=_dots(alone, axis, plane) if alone else [],
        x_ticks=[Tick(plane.x(value), f"{value:g}{axis.unit}") for value in round_steps(plane.x.high)],
        y_ticks=[Tick(plane.y(value), f"{value:g}×") for value in _score_ticks(plane.y.low, plane.y.high)],
        one=plane.y(1.0),
        target=_target(scenes, plane),
        failures=_failures(alone, axis, plane) if alone else [],
    )


def axis_named(name: str) -> AxisKind:
    return AXES.get(name, AXES["judgings"])


def measure_of(scene: Scene, axis: AxisKind) -> Measure:
    """Where a candidate lies along the axis, in its unit."""
    if axis.name == "minutes":
        start = scene.run.started.timestamp() if scene.run.started else 0.0
        return lambda row: max((row.judged_at_s or start) - start, 0.0) / 60
    if axis.name == "usd":
        return lambda row: row.judged_at_usd or 0.0
    return lambda row: float(row.judged_as or 0)


def plane_of(scenes: Sequence[Scene], axis: AxisKind) -> Plane:
    """The ranges of both axes; at least one candidate was judged."""
    ends = [measure_of(scene, axis)(row) for scene in scenes for row in scene.judged]
    scores = [value for scene in scenes for row in scene.judged for value in (row.score, row.counts) if value]
    highs = [row.score_hi for scene in scenes for row in scene.improvements if row.score_hi]
    low, high = min([1.0, *scores]), max([1.0, *scores, *highs])
    return Plane(
        x=Scale(0.0, max(ends) or 1.0, LEFT, WIDTH - RIGHT),
        y=Scale(low / 1.1, high * 1.1, HEIGHT - BOTTOM, TOP, logarithmic=True),
    )


def _curve(scene: Scene, axis: AxisKind, plane: Plane, place: int) -> Curve:
    measure, best = measure_of(scene, axis), scene.improvements
    end = plane.x(max(measure(row) for row in scene.judged))
    bounds = [(plane.x(measure(row)), plane.y(row.score_lo or 1.0), plane.y(row.score_hi or 1.0)) for row in best]
    return Curve(
        steps=_steps([(plane.x(measure(row)), plane.y(row.counts or 1.0)) for row in best], end),
        band=_band(bounds, end),
        css=f"curve-{place}",
        title=str(scene.run),
    )


def _steps(points: Sequence[tuple[float, float]], end: float) -> str:
    (x, y), *others = points
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others) + f"H{end}"


def _band(points: Sequence[tuple[float, float, float]], end: float) -> str:
    """Along the lower bounds to the right and along the upper ones back."""
    there = _steps([(x, low) for x, low, _ in points], end)
    corners = [*(x for x, _, _ in points[1:]), end]
    back = "".join(f"V{high}H{x}" for (x, _, high), _corner in reversed(list(zip(points, corners, strict=True))))
    return f"{there}{back}Z"


def _dots(scene: Scene, axis: AxisKind, plane: Plane) -> list[RunDot]:
    measure = measure_of(scene, axis)
    scored = thinned([row for row in scene.judged if row.score])
    return [
        RunDot(
            plane.x(measure(row)),
            plane.y(row.score or 1.0),
            "better" if row.improved else "",
            f"{row.key}: {row.score:.3f}×",
            row.key,
        )
        for row in scored
    ]


def _failures(scene: Scene, axis: AxisKind, plane: Plane) -> list[float]:
    measure = measure_of(scene, axis)
    return [plane.x(measure(row)) for row in thinned([row for row in scene.judged if row.score is None])]


def thinned(rows: list[Candidate]) -> list[Candidate]:
    """Every improvement, and as many other candidates as a chart can show."""
    step = max(1, -(-len(rows) // DOTS_MAX))
    return [row for place, row in enumerate(rows) if row.improved or place % step == 0]


def _target(scenes: Sequence[Scene], plane: Plane) -> float | None:
    target = target_of(scenes, plane)
    return plane.y(target) if target else None


def target_of(scenes: Sequence[Scene], plane: Plane) -> float | None:
    """The speedup that the first of the runs searches for, if it lies on the chart."""
    target: float | None = scenes[0].run.config.get("target")
    return target if target and plane.y.low <= target <= plane.y.high else None


def _score_ticks(low: float, high: float) -> list[float]:
    round_numbers = [base * 10.0**power for power in range(-3, 4) for base in (1, 1.5, 2, 3, 5, 7)]
    inside = [value for value in round_numbers if low <= value <= high]
    return inside if len(inside) <= 8 else [value for value in inside if f"{value:g}".strip("0.")[0] in "125"][:8]
