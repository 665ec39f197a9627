"""The best score so far as an interactive figure, from the same numbers as the picture of `charts.py`.

Does NOT decide which candidates are shown nor how far an axis reaches: `charts.py` does.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.boards.figures import BASELINE, DASHES, Parts, axis, figure, level, lines, plain, speedup_axis, token

from ..models import Candidate
from ..record.snapshots import Scene
from .charts import AxisKind, axis_named, measure_of, plane_of, target_of, thinned
from .lineage import words_of

COLOURS = ("accent", "warn")  # of the runs, as in css/runs.css


def best_figure(scenes: Sequence[Scene], axis_name: str) -> Any:
    """Steps and intervals of each run, for a single one the other candidates too. None while nothing was judged."""
    if not any(scene.judged for scene in scenes):
        return None
    kind = axis_named(axis_name)
    plane = plane_of(scenes, kind)
    target = target_of(scenes, plane)
    traces = [trace for place, scene in enumerate(scenes) if scene.improvements for trace in _best(place, scene, kind)]
    if len(scenes) == 1:
        traces += [_others(scenes[0], kind), _failures(scenes[0], kind, plane.y.low)]
    shapes = [level(1.0, "line-strong", f"{scenes[0].run.baseline}, 1×")]
    shapes += [level(target, "good", "target")] if target else []
    x = axis(kind.title, 0.0, plane.x.high * 1.02)
    return figure([trace for trace in traces if trace["x"]], x, speedup_axis(plane.y.low, plane.y.high), shapes)


def _best(place: int, scene: Scene, kind: AxisKind) -> list[Parts]:
    """The interval of the best as a band (css/figures.css makes it pale) and its steps, hidden and shown together."""
    measure, best = measure_of(scene, kind), scene.improvements
    end = max(measure(row) for row in scene.judged)
    x = [*(measure(row) for row in best), end]
    run = {"type": "scatter", "legendgroup": str(place), "name": f"run {plain(scene.run)}"}
    colour = token(COLOURS[place])
    said = [_of_step(row) for row in best]
    hidden = {"mode": "lines", "showlegend": False, "hoverinfo": "skip"}
    edge = {"width": 0, "shape": "hv", "color": colour}
    low, high = _steps(best, "score_lo"), _steps(best, "score_hi")
    return [
        {**run, **hidden, "x": x, "y": low, "line": edge},
        {**run, **hidden, "x": x, "y": high, "line": edge, "fill": "tonexty", "fillcolor": colour},
        {
            **run,
            "mode": "lines+markers",
            "x": x,
            "y": _steps(best, "counts"),
            "line": {"color": colour, "dash": DASHES[place], "width": 2, "shape": "hv"},
            "marker": {"size": [*(8 for _ in best), 0], "opacity": 1, "line": {"width": 0}},
            "hoverinfo": "text",
            "hovertext": [*said, said[-1]],
        },
    ]


def _steps(best: Sequence[Candidate], name: str) -> list[float]:
    """The last one holds to the end of the run."""
    values = [getattr(row, name) or 1.0 for row in best]
    return [*values, values[-1]]


def _of_step(row: Candidate) -> str:
    return lines(
        f"{row.score or 1.0:.3f}× {BASELINE}",
        f"95 % interval {row.score_lo or 1.0:.3f}× to {row.score_hi or 1.0:.3f}×",
        f"candidate {plain(row.key)}, judging {row.judged_as}",
    )


def _others(scene: Scene, kind: AxisKind) -> Parts:
    rows = [row for row in thinned([row for row in scene.judged if row.score]) if not row.improved]
    return _marks("not better", rows, scene, kind) | {
        "y": [row.score for row in rows],
        "marker": {"color": token("line-strong"), "size": 5},
        "hovertext": [_of_step(row) for row in rows],
    }


def _failures(scene: Scene, kind: AxisKind, foot: float) -> Parts:
    rows = thinned([row for row in scene.judged if row.score is None])
    return _marks("failed", rows, scene, kind) | {
        "y": [foot for _ in rows],
        "marker": {"color": token("bad"), "symbol": "line-ns-open", "size": 12},
        "hovertext": [f"candidate {plain(row.key)}: {plain(words_of(row))}" for row in rows],
    }


def _marks(name: str, rows: Sequence[Candidate], scene: Scene, kind: AxisKind) -> Parts:
    measure = measure_of(scene, kind)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "hoverinfo": "text",
        "x": [measure(row) for row in rows],
    }
