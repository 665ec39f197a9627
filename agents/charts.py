"""The best score so far as a picture: steps, interval, every judged candidate as a dot, the baselines as a line at 1×.

Numbers are turned into places here and drawn by `runs/_chart.html`, so the picture is complete without scripts. The
scale of scores is logarithmic. Does NOT decide what counts as an improvement: the log does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .models import Candidate
from .pictures import Scene

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 34
DOTS_MAX = 400
Measure = Callable[[Candidate], float]


@dataclass(frozen=True)
class AxisKind:
    """What lies along the x axis."""

    name: str
    title: str
    unit: str


AXES = {
    "judgings": AxisKind("judgings", "Judgings", ""),
    "minutes": AxisKind("minutes", "Minutes since the start", " min"),
    "usd": AxisKind("usd", "Dollars spent", " $"),
}


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Dot:
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
class Chart:
    axis: AxisKind
    curves: list[Curve]
    dots: list[Dot]
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
class Scale:
    """From values to places."""

    x_max: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(value / self.x_max, 1.0), 1)

    def y(self, value: float) -> float:
        share = math.log(value / self.y_low) / math.log(self.y_high / self.y_low)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, 0.0), 1.0), 1)


def chart(scenes: Sequence[Scene], axis_name: str = "judgings") -> Chart | None:
    """One curve per run, dots for a single one. None while nothing was judged."""
    judged = [row for scene in scenes for row in scene.judged]
    if not judged:
        return None
    axis = axis_named(axis_name)
    scale = scale_of(scenes, axis)
    alone = scenes[0] if len(scenes) == 1 else None
    return Chart(
        axis=axis,
        curves=[_curve(scene, axis, scale, place) for place, scene in enumerate(scenes) if scene.improvements],
        dots=_dots(alone, axis, scale) if alone else [],
        x_ticks=[Tick(scale.x(value), f"{value:g}{axis.unit}") for value in _round_steps(scale.x_max)],
        y_ticks=[Tick(scale.y(value), f"{value:g}×") for value in _score_ticks(scale.y_low, scale.y_high)],
        one=scale.y(1.0),
        target=_target(scenes, scale),
        failures=_failures(alone, axis, scale) if alone else [],
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


def scale_of(scenes: Sequence[Scene], axis: AxisKind) -> Scale:
    """How far the axes reach; at least one candidate was judged."""
    ends = [measure_of(scene, axis)(row) for scene in scenes for row in scene.judged]
    scores = [row.score for scene in scenes for row in scene.judged if row.score]
    highs = [row.score_hi for scene in scenes for row in scene.improvements if row.score_hi]
    low, high = min([1.0, *scores]), max([1.0, *scores, *highs])
    return Scale(max(ends) or 1.0, low / 1.1, high * 1.1)


def _curve(scene: Scene, axis: AxisKind, scale: Scale, place: int) -> Curve:
    measure, best = measure_of(scene, axis), scene.improvements
    end = scale.x(max(measure(row) for row in scene.judged))
    bounds = [(scale.x(measure(row)), scale.y(row.score_lo or 1.0), scale.y(row.score_hi or 1.0)) for row in best]
    return Curve(
        steps=_steps([(scale.x(measure(row)), scale.y(row.score or 1.0)) for row in best], end),
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


def _dots(scene: Scene, axis: AxisKind, scale: Scale) -> list[Dot]:
    measure = measure_of(scene, axis)
    scored = thinned([row for row in scene.judged if row.score])
    return [
        Dot(
            scale.x(measure(row)),
            scale.y(row.score or 1.0),
            "better" if row.improved else "",
            f"{row.key}: {row.score:.3f}×",
            row.key,
        )
        for row in scored
    ]


def _failures(scene: Scene, axis: AxisKind, scale: Scale) -> list[float]:
    measure = measure_of(scene, axis)
    return [scale.x(measure(row)) for row in thinned([row for row in scene.judged if row.score is None])]


def thinned(rows: list[Candidate]) -> list[Candidate]:
    """Every improvement, and of the others as many as a picture can show."""
    step = max(1, -(-len(rows) // DOTS_MAX))
    return [row for place, row in enumerate(rows) if row.improved or place % step == 0]


def _target(scenes: Sequence[Scene], scale: Scale) -> float | None:
    target = target_of(scenes, scale)
    return scale.y(target) if target else None


def target_of(scenes: Sequence[Scene], scale: Scale) -> float | None:
    """The speedup that the first of the runs searches for, if it lies on the chart."""
    target: float | None = scenes[0].run.config.get("target")
    return target if target and scale.y_low <= target <= scale.y_high else None


def _round_steps(top: float) -> list[float]:
    """At most six round numbers from 0 to `top`."""
    rough = top / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [round(step * place, 6) for place in range(int(top / step + 1e-9) + 1)]


def _score_ticks(low: float, high: float) -> list[float]:
    round_numbers = [base * 10.0**power for power in range(-3, 4) for base in (1, 1.5, 2, 3, 5, 7)]
    inside = [value for value in round_numbers if low <= value <= high]
    return inside if len(inside) <= 8 else [value for value in inside if f"{value:g}".strip("0.")[0] in "125"][:8]
