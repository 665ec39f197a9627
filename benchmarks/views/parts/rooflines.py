"""The roofline of a profile, as a chart drawn on the server and as an interactive figure.

Operations per second over operations per byte, both logarithmic; one dot per configuration, below the two ceilings that
were measured on the device. Does NOT compute them: the profile brings its figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.boards.figures import SYMBOLS, Parts, axis, figure, lines, plain, token
from benchmarks.boards.scales import Scale, Tick

from .charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Dot, Line

X_TITLE, Y_TITLE = "Operations per byte", "Operations per second"
_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_DECADES_MAX = 12


@dataclass(frozen=True)
class _Point:
    name: str
    intensity: float
    rate: float
    said: str


@dataclass(frozen=True)
class _Roof:
    """What the device can do, and how far both axes reach: ends of decades."""

    flops_per_s: float
    bytes_per_s: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, intensity: float) -> float:
        return min(self.flops_per_s, intensity * self.bytes_per_s)


def roofline_chart(profile: Mapping[str, Any]) -> Chart | None:
    """None where times, ceilings or arithmetic are missing."""
    points, roof = _points(profile), _roof(profile)
    if not points or roof is None:
        return None
    x = Scale(*roof.x, LEFT, WIDTH - RIGHT, logarithmic=True)
    y = Scale(*roof.y, HEIGHT - BOTTOM, TOP, logarithmic=True)
    corners = "L".join(f"{x(at)} {y(roof.at(at))}" for at in _corners(roof))
    return Chart(
        label="Roofline: operations per second over operations per byte",
        x_title=X_TITLE,
        x_ticks=[Tick(x(value), f"{value:g}") for value in _decades(*roof.x)],
        y_ticks=[Tick(y(value), _rate(value)) for value in _decades(*roof.y)],
        lines=[Line("Ceilings of the device", "series-1", f"M{corners}")],
        dots=[Dot(x(item.intensity), y(item.rate), "series-0", f"{item.name}: {item.said}") for item in points],
    )


def roofline_figure(profile: Mapping[str, Any]) -> Any:
    """The same to explore; None as above."""
    points, roof = _points(profile), _roof(profile)
    if not points or roof is None:
        return None
    ceiling: Parts = {
        "type": "scatter",
        "mode": "lines",
        "name": "Ceilings of the device",
        "x": list(_corners(roof)),
        "y": [roof.at(at) for at in _corners(roof)],
        "line": {"color": token("series-1"), "width": 2},
        "hoverinfo": "skip",
    }
    return figure(
        [ceiling, *(_dot(place, item) for place, item in enumerate(points))],
        axis(X_TITLE, *map(math.log10, roof.x), type="log"),
        axis(Y_TITLE, *map(math.log10, roof.y), type="log", exponentformat="SI"),
    )


def _dot(place: int, point: _Point) -> Parts:
    symbol = SYMBOLS[place % len(SYMBOLS)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(point.name),
        "x": [point.intensity],
        "y": [point.rate],
        "marker": {"color": token("series-0"), "symbol": symbol, "size": 11},
        "hoverinfo": "text",
        "hovertext": [lines(plain(point.name), point.said)],
    }


def _points(profile: Mapping[str, Any]) -> list[_Point]:
    found = []
    for config in profile["configs"]:
        line = config["roofline"]
        if line["intensity"] and line["flops_per_s"]:
            said = f"{_rate(line['flops_per_s'])} operations/s at {line['intensity']:.3g} per byte"
            found.append(_Point(config["key"], line["intensity"], line["flops_per_s"], said))
    return found


def _roof(profile: Mapping[str, Any]) -> _Roof | None:
    """The bandwidth is that of the largest configuration: data of small ones fits in a cache."""
    known = [item["roofline"] for item in profile["configs"] if item["roofline"]["peak_bytes_per_s"]]
    points = _points(profile)
    if not known or not points:
        return None
    largest = max(known, key=lambda line: line["least_bytes"])
    flops_per_s, bytes_per_s = largest["peak_flops_per_s"], largest["peak_bytes_per_s"]
    ridge = flops_per_s / bytes_per_s
    x = _reach([ridge / 10, ridge * 10, *(item.intensity for item in points)])
    return _Roof(flops_per_s, bytes_per_s, x, _reach([flops_per_s * 1.5, *(item.rate for item in points)], at_least=2))


def _reach(values: Sequence[float], at_least: int = 1) -> tuple[float, float]:
    """Whole decades around all values."""
    top = math.ceil(math.log10(max(values)))
    low = max(min(math.floor(math.log10(min(values))), top - at_least), top - _DECADES_MAX)
    return 10.0**low, 10.0**top


def _corners(roof: _Roof) -> tuple[float, float, float]:
    return roof.x[0], roof.flops_per_s / roof.bytes_per_s, roof.x[1]


def _decades(low: float, high: float) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    return [10.0**power for power in range(first, last + 1)]


def _rate(value: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if value >= size), (1.0, ""))
    return f"{value / size:.3g} {unit}".strip()
