"""The best ranked entry of every method on every task of a suite, on one device kind.

The overall leaderboard, the compare page, the pages of methods and their API all use this result. Computing a large
one takes longer than a page should, so it is cached in the process until something changes, and for a short time (in
proportion to its cost) even after a change. Does NOT define figures: `comparing.py` does.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count, F, Max, Sum, Window
from django.db.models.functions import RowNumber
from django.http import Http404
from django.utils import timezone

from ..extensions import Scope, SearchCost, costs_of
from ..harness import Verdict
from ..models import DeviceKind, Evaluation, Method, RuleSet, Standing, Suite, Task, TaskVersion
from ..querysets import StandingQuerySet, counted
from ..selectors import active_ruleset
from ..states import REQUESTS, Moderation, State, TaskVersionStatus, Visibility
from .comparing import FAST_AT, Mark, MethodFigures, best_of, common, figures
from .labels import is_ranked

KEPT_FROM = 1000  # marks and attempts; what is smaller is read anew each time
REUSE = 20  # times what the reading took: at most a twentieth of the time goes into reading
KEPT_S = 300.0
KEPT_MAX = 8

FieldFingerprint = tuple[object, ...]


@dataclass(frozen=True)
class Field:
    """Methods against the tasks that can be ranked on the device kind; `left_out` says how many cannot."""

    suite: Suite
    device: DeviceKind
    tasks: Mapping[int, Task]
    methods: Mapping[int, Method]
    best: Mapping[int, Mapping[int, Mark]]  # by method, by task
    attempted: Mapping[int, frozenset[int]]  # by method: tasks with a judged public submission
    in_review: Mapping[int, frozenset[int]]
    left_out: int
    taken: datetime

    @property
    def size(self) -> int:
        return sum(map(len, self.best.values())) + sum(map(len, self.attempted.values()))

    def present(self) -> list[Method]:
        """Methods that have attempted something here, by name."""
        return sorted((self.methods[key] for key in self.attempted), key=lambda method: method.slug)


@dataclass
class _Kept:
    field: Field
    fingerprint: FieldFingerprint
    cost_s: float
    read_at_s: float

    def is_fresh(self) -> bool:
        """An old reading is compared with the database before it is used again."""
        age_s = time.monotonic() - self.read_at_s
        return age_s < REUSE * self.cost_s or (age_s < KEPT_S and self.fingerprint == _fingerprint(self.field.device))


_kept: dict[tuple[int, int], _Kept] = {}


def suites() -> list[Suite]:
    """Those with listed tasks, the one with most of them first, and requests last."""
    counted = Suite.objects.filter(tasks__listed=True).annotate(n=Count("tasks"))
    return sorted(counted.order_by("-n", "slug"), key=lambda suite: suite.slug == REQUESTS)


def suite_of(slug: str) -> Suite:
    """The suite of that name, or 404; without a name the one with most tasks."""
    known = suites()
    found = next((suite for suite in known if suite.slug == slug), None) if slug else next(iter(known), None)
    if found is None:
        raise Http404("There is no such suite.")
    return found


def read_field(suite: Suite, device: DeviceKind) -> Field:
    """The current field, or a recent copy of it; `taken` is its time."""
    key = (suite.pk, device.pk)
    kept = _kept.get(key)
    if kept is not None and kept.is_fresh():
        return kept.field
    started_s = time.monotonic()
    fingerprint = _fingerprint(device)
    read = _read(suite, device)
    cost_s = time.monotonic() - started_s
    if read.size >= KEPT_FROM:
        _keep(key, _Kept(read, fingerprint, cost_s, started_s))
    return read


def _keep(key: tuple[int, int], kept: _Kept) -> None:
    _kept.pop(key, None)
    while len(_kept) >= KEPT_MAX:
        _kept.pop(next(iter(_kept)), None)
    _kept[key] = kept


def _fingerprint(device: DeviceKind) -> FieldFingerprint:
    """Differs after any change of a standing or end of a judging; what it cannot see waits `KEPT_S`."""
    standings = Standing.objects.filter(device_kind=device).aggregate(
        rows=Count("pk"), newest=Max("pk"), scores=Sum("score"), ranks=Sum("rank")
    )
    judged = Evaluation.objects.filter(state=State.DONE).count()
    return (*standings.values(), judged, Method.objects.count(), Task.objects.filter(listed=True).count())


def _read(suite: Suite, device: DeviceKind) -> Field:
    fitting = _fitting(suite, device)
    tasks = {version.task_id: version.task for version in fitting if is_ranked(version.task.labels)}
    versions = {version.pk: version.task_id for version in fitting if version.task_id in tasks}
    ruleset = active_ruleset()
    return Field(
        suite=suite,
        device=device,
        tasks=tasks,
        methods=Method.objects.select_related("owner").in_bulk(),
        best=_best(Standing.objects.filter(device_kind=device, ruleset=ruleset), versions),
        attempted=_pairs(_judged(device, ruleset), versions),
        in_review=_pairs(_reviewed(device, ruleset), versions),
        left_out=len(fitting) - len(tasks),
        taken=timezone.now(),
    )


def _fitting(suite: Suite, device: DeviceKind) -> list[TaskVersion]:
    """What is judged now of the suite on such devices."""
    versions = TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__listed=True, task__suite=suite)
    fitting = versions.filter(definition__devices__has_key=device.device_class)
    ordered = fitting.select_related("task__suite").order_by("task__op", "-task__direction")
    return list(ordered.defer("definition", "reference_source"))


def _best(rows: StandingQuerySet, versions: Mapping[int, int]) -> dict[int, dict[int, Mark]]:
    """`versions` gives the tasks; they are matched here, since a join costs more on a large site."""
    place = Window(
        RowNumber(),
        partition_by=["evaluation__submission__method", "task_version"],
        order_by=[counted("evaluation__").desc(), F("verified_at"), F("pk")],
    )
    first = rows.ranked().listable().order_by().annotate(place=place).filter(place=1)
    best: dict[int, dict[int, Mark]] = defaultdict(dict)
    for method, version, *mark in first.values_list(
        *("evaluation__submission__method", "task_version"),
        *("score", "score_lo", "score_hi", "rank", "evaluation", "evaluation__timing_trust"),
    ):
        if version in versions:
            best[method][versions[version]] = Mark(*mark)
    return dict(best)


def _judged(device: DeviceKind, ruleset: RuleSet | None) -> Iterable[tuple[int, int]]:
    """Method and task version of every public submission that was judged; errors of ours do not count as attempts."""
    rows = Evaluation.objects.full().filter(device_kind=device, state=State.DONE, ruleset=ruleset)
    shown = rows.exclude(verdict__in=[verdict for verdict in Verdict if verdict.ours])
    listed = shown.listable_for(AnonymousUser()).order_by()
    return listed.values_list("submission__method", "task_version").distinct()


def _reviewed(device: DeviceKind, ruleset: RuleSet | None) -> Iterable[tuple[int, int]]:
    rows = Standing.objects.filter(device_kind=device, ruleset=ruleset, under_review=True).listable().order_by()
    return rows.values_list("evaluation__submission__method", "task_version").distinct()


def _pairs(rows: Iterable[tuple[int, int]], versions: Mapping[int, int]) -> dict[int, frozenset[int]]:
    """Tasks by method; only tasks that count."""
    found: dict[int, set[int]] = defaultdict(set)
    for method, version in rows:
        if version in versions:
            found[method].add(versions[version])
    return {method: frozenset(tasks) for method, tasks in found.items()}


# --- methods beside each other -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One method of the comparison. `cost` is None if none was recorded."""

    method: Method
    marks: Mapping[int, Mark]
    figures: MethodFigures
    cost: SearchCost | None = None


@dataclass(frozen=True)
class Comparison:
    """Methods on the same tasks; `best` has the figures of the best method of each task."""

    field: Field
    rows: list[Row]
    best: MethodFigures
    common: frozenset[int]

    @property
    def total(self) -> int:
        return len(self.field.tasks)


def compare(field: Field, methods: Sequence[Method], ps: Sequence[float] = FAST_AT) -> Comparison:
    """In the order given. The common set is that of these methods."""
    shared, total = common(field.best.get(method.pk, {}) for method in methods), len(field.tasks)
    spent = costs_of(Scope(tuple(method.pk for method in methods), field.suite.pk, field.device.pk))
    rows = []
    for method in methods:
        marks, attempted = field.best.get(method.pk, {}), field.attempted.get(method.pk, frozenset())
        rows.append(Row(method, marks, figures(marks, attempted, shared, total, ps), spent.get(method.pk)))
    together = best_of(field.best.values())
    attempted = frozenset().union(*field.attempted.values())
    return Comparison(field, rows, figures(together, attempted, shared, total, ps), shared)


class CellState(StrEnum):
    """The result of a method on a task."""

    SOLVED = "solved"
    REVIEW = "under review"
    FAILED = "failed"
    NONE = "not attempted"


@dataclass(frozen=True)
class Cell:
    state: CellState
    mark: Mark | None = None
    code: uuid.UUID | None = None  # of the evaluation
    leads: bool = False  # nobody of those compared has more that counts on the task


@dataclass(frozen=True)
class TaskLine:
    """One row of the matrix: a cell per method compared."""

    task: Task
    cells: list[Cell]


def matrix(comparison: Comparison, tasks: Sequence[Task]) -> list[TaskLine]:
    """`tasks` against the methods compared, with one query for the addresses of their evaluations.

    What has been deleted or taken down since the field was read has none, and counts as never attempted.
    """
    marks = [mark for row in comparison.rows for task in tasks if (mark := row.marks.get(task.pk))]
    shown = {"submission__visibility": Visibility.PUBLIC, "submission__moderation": Moderation.OK}
    rows = Evaluation.objects.filter(pk__in=[mark.evaluation for mark in marks], **shown).order_by()
    codes = dict(rows.values_list("pk", "code"))
    return [TaskLine(task, _cells(comparison, task, codes)) for task in tasks]


def _cells(comparison: Comparison, task: Task, codes: Mapping[int, uuid.UUID]) -> list[Cell]:
    field = comparison.field
    best = max((row.marks[task.pk].counts for row in comparison.rows if task.pk in row.marks), default=None)
    cells = []
    for row in comparison.rows:
        mark = row.marks.get(task.pk)
        if mark is not None and mark.evaluation not in codes:
            cells.append(Cell(CellState.NONE))
        elif mark is not None:
            cells.append(Cell(CellState.SOLVED, mark, codes[mark.evaluation], mark.counts == best))
        elif task.pk in field.in_review.get(row.method.pk, ()):
            cells.append(Cell(CellState.REVIEW))
        elif task.pk in field.attempted.get(row.method.pk, ()):
            cells.append(Cell(CellState.FAILED))
        else:
            cells.append(Cell(CellState.NONE))
    return cells
