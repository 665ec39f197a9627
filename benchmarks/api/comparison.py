"""GET /methods, /overall and /compare: methods on the same tasks, as JSON or CSV, with the figures that the pages show.

Every share comes with its denominator, every speedup with its interval; speedups are over the stronger of PyTorch eager
and torch.compile. Does NOT compute figures: `boards/comparing.py` does.
"""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal
from uuid import UUID

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema

from benchmarks import selectors
from benchmarks.boards import overview
from benchmarks.boards.comparing import FAST_AT, MethodFigures, curve
from benchmarks.boards.overview import Cell, Comparison, Row
from benchmarks.harness import SpeedupEstimate
from benchmarks.models import Method
from benchmarks.views.compare import METHODS_MAX, wanted_slugs
from benchmarks.views.leaderboards import best_first

from .problems import Problem
from .schemas import PageNumber
from .tables import table

TASKS_PER_PAGE = 200

router = Router()
Part = Literal["", "summary", "curve", "matrix", "cost"]
SHARE_COLUMNS = ("count", "sure", "possible", "total")


class ShareOut(Schema):
    p: float
    count: int = Field(description="tasks with a best score strictly greater than p")
    sure: int = Field(description="number of these tasks whose whole interval lies above p")
    possible: int = Field(description="tasks whose interval reaches above p")
    total: int


class MeanOut(Schema):
    speedup: float
    ci95: tuple[float, float]
    tasks: int = Field(description="number of tasks in the common set")


class CostOut(Schema):
    runs: int
    usd: float
    tokens: int
    judgings: int
    judging_s: float


class MethodOut(Schema):
    slug: str
    title: str
    kind: str
    description: str
    owner: str | None
    attempted: int | None = Field(description="tasks of the suite with a judged public submission")
    fast: list[ShareOut]
    won: int | None = Field(description="first places, shared ones included")


class StandingOut(Schema):
    task: str
    state: str = Field(description="solved, under review, failed or not attempted")
    rank: int | None
    speedup: float | None
    ci95: tuple[float, float] | None
    evaluation: UUID | None


class MethodDetail(MethodOut):
    suite: str
    device: str
    standings: list[StandingOut]


class ComparedOut(MethodOut):
    mean: MeanOut | None = Field(description="geometric mean on the common set")
    cost: CostOut | None = Field(description="null if no cost was recorded")
    standings: list[StandingOut] = Field([], description="on the tasks of this page; left out on overall boards")


class ComparisonOut(Schema):
    suite: str
    device: str
    tasks: int
    common: list[str] = Field(description="tasks solved by every method that solved at least one")
    best_of_all: list[ShareOut]
    methods: list[ComparedOut]
    page: int = 1
    pages: int = 1
    taken: datetime


class FieldQuery(Schema):
    """Which suite, on which device kind."""

    suite: str = Field("", description="if left out: the suite with the most tasks")
    device: str = Field("", description="if left out: the device kind with the most entries")

    def field(self) -> overview.Field:
        """Raises Http404."""
        kind = selectors.find_device_kind(self.device or selectors.default_device())
        if kind is None:
            raise Http404("There is no such device kind.")
        return overview.read_field(overview.suite_of(self.suite), kind)


class OverallQuery(FieldQuery):
    format: Literal["json", "csv"] = "json"


class CompareQuery(OverallQuery):
    methods: str = Field(max_length=1000, description="slugs, separated by commas")
    p: float = Field(1.0, ge=0, le=100, description="an additional p to evaluate")
    page: PageNumber = 1
    part: Part = Field("", description="the table to return as CSV; a CSV file has no pages")


@router.get("/methods", response=list[MethodOut], summary="Methods with their results on a suite")
def methods(request: HttpRequest, wanted: Query[FieldQuery]) -> Any:
    field = wanted.field()
    return [
        _method(row) for row in overview.compare(field, sorted(field.methods.values(), key=lambda item: item.slug)).rows
    ]


@router.get("/methods/{slug}", response=MethodDetail, summary="One method with its results by task")
def method(request: HttpRequest, slug: str, wanted: Query[FieldQuery]) -> Any:
    field = wanted.field()
    found = next((item for item in field.methods.values() if item.slug == slug), None)
    if found is None:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-method", f"There is no method called {slug}.")
    comparison, tasks = overview.compare(field, [found]), list(field.tasks.values())
    return MethodDetail(
        **_method(comparison.rows[0]).dict(),
        suite=field.suite.slug,
        device=field.device.slug,
        standings=[_standing(line.task.name, line.cells[0]) for line in overview.matrix(comparison, tasks)],
    )


@router.get("/overall", response=ComparisonOut, summary="The overall board of a suite")
def overall(request: HttpRequest, wanted: Query[OverallQuery]) -> Any:
    """Every method that has attempted a task; the common set is that of all of them."""
    field = wanted.field()
    comparison = overview.compare(field, field.present())
    rows = best_first(comparison.rows)
    return _summary(comparison, rows) if wanted.format == "csv" else _comparison(comparison, rows)


@router.get("/compare", response=ComparisonOut, summary="Up to six methods on the same tasks", url_name="compare")
def compare(request: HttpRequest, wanted: Query[CompareQuery]) -> Any:
    """With `format=csv` one of its tables: the figures, the curves of fast_p, all tasks, or costs."""
    field = wanted.field()
    comparison = overview.compare(field, _chosen(field, wanted.methods), sorted({*FAST_AT, wanted.p}))
    if wanted.format == "csv":
        return CSV[wanted.part](comparison, comparison.rows)
    found, tasks = _comparison(comparison, comparison.rows), Paginator(list(field.tasks.values()), TASKS_PER_PAGE)
    shown = tasks.get_page(wanted.page)
    found.page, found.pages = shown.number, tasks.num_pages
    lines = overview.matrix(comparison, list(shown))
    for place, row in enumerate(found.methods):
        row.standings = [_standing(line.task.name, line.cells[place]) for line in lines]
    return found


def _chosen(field: overview.Field, text: str) -> list[Method]:
    """Raises Problem."""
    slugs, known = wanted_slugs([text]), {item.slug: item for item in field.methods.values()}
    if len(slugs) > METHODS_MAX:
        detail = f"A comparison takes at most {METHODS_MAX} methods; you named {len(slugs)}."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "too-many-methods", detail)
    unknown = [slug for slug in slugs if slug not in known]
    if unknown or not slugs:
        detail = f"There is no method called {', '.join(unknown)}." if unknown else "Name at least one method."
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-method", detail)
    return [known[slug] for slug in slugs]


# --- JSON ----------------------------------------------------------------------------------------------------------


def _method(row: Row) -> MethodOut:
    return MethodOut(**_about(row))


def _about(row: Row) -> dict[str, Any]:
    item = row.method
    return {
        "slug": item.slug,
        "title": item.title,
        "kind": item.kind,
        "description": item.description,
        "owner": item.owner.get_username() if item.owner else None,
        "attempted": row.figures.attempted,
        "fast": _shares(row.figures),
        "won": row.figures.won,
    }


def _shares(figures: MethodFigures) -> list[ShareOut]:
    return [
        ShareOut(p=p, **{name: getattr(share, name) for name in SHARE_COLUMNS})
        for p, share in zip(figures.ps, figures.shares, strict=True)
    ]


def _comparison(comparison: Comparison, rows: Sequence[Row]) -> ComparisonOut:
    field = comparison.field
    return ComparisonOut(
        suite=field.suite.slug,
        device=field.device.slug,
        tasks=comparison.total,
        common=sorted(field.tasks[key].name for key in comparison.common),
        best_of_all=_shares(comparison.best),
        methods=[_compared(row) for row in rows],
        taken=field.taken,
    )


def _compared(row: Row) -> ComparedOut:
    cost = CostOut(**{name: getattr(row.cost, name) for name in CostOut.model_fields}) if row.cost else None
    return ComparedOut(**_about(row), mean=_mean(row.figures.mean, row.figures.common), cost=cost)


def _mean(mean: SpeedupEstimate | None, tasks: int) -> MeanOut | None:
    return MeanOut(speedup=mean.score, ci95=(mean.lo, mean.hi), tasks=tasks) if mean else None


def _standing(task: str, cell: Cell) -> StandingOut:
    mark = cell.mark
    return StandingOut(
        task=task,
        state=cell.state.value,
        rank=mark.rank if mark else None,
        speedup=mark.score if mark else None,
        ci95=(mark.lo, mark.hi) if mark else None,
        evaluation=cell.code,
    )


# --- CSV -----------------------------------------------------------------------------------------------------------


def _summary(comparison: Comparison, rows: Sequence[Row]) -> HttpResponse:
    ps = comparison.best.ps
    shares = [f"fast_{p:g}_{name}" for p in ps for name in ("count", "sure", "possible")]
    head = ["method", "kind", "tasks", "attempted", *shares, "won", "common", "mean", "mean_lo", "mean_hi"]
    return table("summary", head, (_summary_cells(row) for row in rows))


def _summary_cells(row: Row) -> list[object]:
    numbers, mean = row.figures, row.figures.mean
    counts = [count for share in numbers.shares for count in (share.count, share.sure, share.possible)]
    bounds = [mean.score, mean.lo, mean.hi] if mean else [None] * 3
    return [row.method.slug, row.method.kind, numbers.total, numbers.attempted, *counts, numbers.won, numbers.common,
            *bounds]  # fmt: skip


def _curves(comparison: Comparison, rows: Sequence[Row]) -> HttpResponse:
    """From each p up to the next one the share holds."""
    corners = ([row.method.slug, p, share] for row in rows for p, share in curve(row.marks.values(), comparison.total))
    return table("curve", ["method", "p", "share"], corners)


def _matrix(comparison: Comparison, rows: Sequence[Row]) -> HttpResponse:
    lines = overview.matrix(comparison, list(comparison.field.tasks.values()))
    cells = (
        [line.task.name, row.method.slug, cell.state.value, *(cell.mark[:4] if cell.mark else [None] * 4), cell.code]
        for line in lines
        for row, cell in zip(rows, line.cells, strict=True)
    )
    return table("matrix", ["task", "method", "state", "speedup", "ci95_lo", "ci95_hi", "rank", "evaluation"], cells)


def _costs(comparison: Comparison, rows: Sequence[Row]) -> HttpResponse:
    names = list(CostOut.model_fields)
    head = ["method", *names, *(f"fast_{p:g}" for p in comparison.best.ps), "tasks"]
    cells = (
        [row.method.slug, *(getattr(row.cost, name, None) for name in names),
         *(share.count for share in row.figures.shares), comparison.total]
        for row in rows
    )  # fmt: skip
    return table("cost", head, cells)


CSV = {"": _summary, "summary": _summary, "curve": _curves, "matrix": _matrix, "cost": _costs}
