"""Two runs in one chart with their figures, and the accuracy of verifiers.

Does NOT decide which method is better: two runs are too few for that, and the page says so.
"""

from bisect import bisect_left
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents import selectors
from agents.drawing.charts import AXES, chart
from agents.drawing.figures import best_figure
from agents.evolve.verifiers.matrix import Confusion, MatrixRow, by, confusion, emulator_on_cuda
from agents.models import Run
from agents.record.snapshots import Scene, present
from benchmarks.boards.figures import answer

SHARE = 0.95
RUNS_SHOWN = 50


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run in a comparison. `to_common`: judgings until 95 % of the lower of the two bests."""

    run: Run
    scene: Scene
    first_correct: int | None
    to_common: int | None
    area: float | None  # mean of the best so far over the judgings that both have


def compare(request: HttpRequest) -> HttpResponse:
    chosen = _chosen(request)
    scenes = [present(run) for run in chosen]
    axis = request.GET.get("x", "judgings")
    context = {
        "runs": selectors.runs()[:50],
        "chosen": chosen,
        "names": {name: request.GET.get(name, "") for name in ("a", "b")},
        "axis": axis,
        "axes": [(item, item.name == axis) for item in AXES.values()],
        "chart": chart(scenes, axis) if scenes else None,
        "figures": figures(scenes),
        "same_board": len({(run.task_version_id, run.device_kind_id) for run in chosen}) <= 1,
    }
    return render(request, "runs/compare.html", context)


def compare_figure(request: HttpRequest) -> HttpResponse:
    """The chart of the page, with the selection of the page."""
    drawn = best_figure([present(run) for run in _chosen(request)], request.GET.get("x", ""))
    if drawn is None:
        raise Http404("None of these runs has judged anything yet.")
    return answer(drawn)


def _chosen(request: HttpRequest) -> list[Run]:
    found = [selectors.find_run(request.GET.get(name, "")) for name in ("a", "b")]
    return [run for run in found if run is not None]


def figures(scenes: list[Scene]) -> list[RunFigures]:
    common = min((_best(scene) for scene in scenes), default=0.0)
    shortest = min((len(scene.judged) for scene in scenes), default=0)
    return [
        RunFigures(
            run=scene.run,
            scene=scene,
            first_correct=scene.improvements[0].judged_as if scene.improvements else None,
            to_common=_judgings_to(scene, SHARE * common) if common else None,
            area=_area(scene, shortest),
        )
        for scene in scenes
    ]


def _best(scene: Scene) -> float:
    """What counts of the best; 0 without one."""
    return (scene.best.counts or 0.0) if scene.best else 0.0


def _judgings_to(scene: Scene, wanted: float) -> int | None:
    return next((row.judged_as for row in scene.improvements if (row.counts or 0.0) >= wanted), None)


def _area(scene: Scene, judgings: int) -> float | None:
    """Counts nothing before the first correct kernel."""
    if not judgings or not scene.improvements:
        return None
    steps = [row.judged_as or 0 for row in scene.improvements]
    best = [row.counts or 0.0 for row in scene.improvements]
    reached = [bisect_left(steps, number + 1) for number in range(1, judgings + 1)]
    return sum(best[place - 1] if place else 0.0 for place in reached) / judgings


@dataclass(frozen=True)
class MatrixTable:
    title: str
    lines: list[tuple[str, Confusion]]


def verifiers(request: HttpRequest) -> HttpResponse:
    run = selectors.find_run(request.GET.get("run", ""))
    rows = selectors.matrix_rows(run)
    corpus = list(emulator_on_cuda().items())
    title = f"The emulator on {sum(item.rows for _, item in corpus)} labelled CUDA kernels"
    context = {
        "run": run,
        "tables": _tables(rows),
        "total": confusion(rows),
        "count": len(rows),
        "corpus": None if run else MatrixTable(title, corpus),
    }
    return render(request, "runs/verifiers.html", context)


def _tables(rows: list[MatrixRow]) -> list[MatrixTable]:
    """All figures are over all runs; the table by run has only the newest, to keep it short."""
    newest = list(dict.fromkeys(row.run for row in reversed(rows)))
    shown = set(newest[:RUNS_SHOWN])
    everything = by(rows, lambda row: f"{row.verifier} {row.version}".strip())
    faults = by([row for row in rows if row.fault], lambda row: f"{row.verifier}: {row.fault}")
    in_runs = by([row for row in rows if row.run in shown], lambda row: f"{row.verifier} in {row.run[:8]}")
    by_run = f"By run, the newest {RUNS_SHOWN} of {len(newest)}" if len(newest) > RUNS_SHOWN else "By run"
    tables = [("By verifier", everything), ("By suspected fault", faults), (by_run, in_runs)]
    return [MatrixTable(title, list(groups.items())) for title, groups in tables if groups]
