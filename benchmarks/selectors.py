"""The queries of the pages: each function serves one page or a part of it, with a fixed number of queries.

Single evaluations are read through `evaluation_for` only, which checks access; lists contain only what their reader
may see in a list. Does NOT write anything and does NOT format: templates and their tags add units and words.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from .harness import CPU, Verdict
from .models import (
    ApiToken,
    BaselineResult,
    DeviceKind,
    EmulatorCheck,
    Evaluation,
    RuleSet,
    Standing,
    Submission,
    Task,
    TaskVersion,
    Worker,
)
from .querysets import HEAVY, User, counted
from .states import RUNNING, Moderation, Origin, State, TaskVersionStatus, WorkerRole, WorkerState
from .switches import announcements

PAGE_ROWS = 50
WORDS_MAX_CHARS = 100  # of a search: each word is one more condition of a query
_LATEST_ROWS = 100  # looked at first, since they come from an index: most of them can be shown
TESTING = (
    "The worker for {} is starting and testing itself. You can submit now: a submission is compiled at once and judged "
    "when the worker has passed its self-test."
)


def active_ruleset() -> RuleSet | None:
    """The rule set new evaluations are judged under; None before the first start has loaded it."""
    return RuleSet.objects.filter(name=settings.KBENCH_RULESET).first()


def page_by_key(
    ordered: QuerySet[Any], rows: QuerySet[Any], page: int | str, rows_per_page: int = PAGE_ROWS
) -> Page[Any]:
    """A page of `ordered` with all that `rows` knows of each, which is not looked up for those of the other pages."""
    return _looked_up(Paginator(ordered.values_list("pk", flat=True), rows_per_page), rows, page)


def page_of_keys(
    keys: Sequence[int], rows: QuerySet[Any], page: int | str, rows_per_page: int = PAGE_ROWS
) -> Page[Any]:
    """The same where all keys are known."""
    return _looked_up(Paginator(keys, rows_per_page), rows, page)


def _looked_up(paginator: Paginator[Any], rows: QuerySet[Any], page: int | str) -> Page[Any]:
    found = paginator.get_page(page)
    keys = list(found.object_list)
    whole = {row.pk: row for row in rows.filter(pk__in=keys)}
    found.object_list = [whole[key] for key in keys if key in whole]
    return found


# --- tasks ---------------------------------------------------------------------------------------------------------

TASK_ORDERS = {
    "name": ("op", "-direction"),
    "-name": ("-op", "direction"),
    "family": ("family", "op", "-direction"),
    "-family": ("-family", "op", "-direction"),
    "entries": ("entries", "op", "-direction"),
    "-entries": ("-entries", "op", "-direction"),
    "best": (F("best_counts").asc(nulls_first=True), "op", "-direction"),
    "-best": (F("best_counts").desc(nulls_last=True), "op", "-direction"),
}


@dataclass(frozen=True)
class TaskFilter:
    """What the task list is narrowed to; empty means everything."""

    words: str = ""
    family: str = ""
    direction: str = ""
    state: str = ""
    difficulty: str = ""
    device: str = ""
    sort: str = "name"


def task_rows(chosen: TaskFilter, page: int | str = 1) -> Page[Any]:
    """Tasks with `entries`, `best_score` and `best` (the standing that leads on the board, or None)."""
    device = chosen.device or default_device()
    rows = page_by_key(_with_best(chosen), _annotated(device).annotate(best_pk=_of_leader(device, F("pk"))), page)
    _attach_best(list(rows))
    return rows


def all_tasks(chosen: TaskFilter) -> list[Any]:
    """All tasks with `entries` and `best_score`, but without the leading standing and without long texts."""
    return list(_with_best(chosen).defer("summary", "difficulty_facts", "licence", "origin"))


def _with_best(chosen: TaskFilter) -> QuerySet[Any]:
    return _narrowed(_annotated(chosen.device or default_device()), chosen).order_by(*TASK_ORDERS[chosen.sort])


def _annotated(device: str) -> QuerySet[Any]:
    """Listed tasks with `entries` on a device kind, and `best_score` and what counts of it."""
    entries = _ranked(device).order_by().values("task_version__task").annotate(n=Count("pk")).values("n")
    tasks: QuerySet[Any] = Task.objects.listed().annotate(
        entries=Coalesce(Subquery(entries), 0),
        best_score=_of_leader(device, F("score")),
        best_counts=_of_leader(device, counted("evaluation__")),
    )
    return tasks


def _of_leader(device: str, figure: Any) -> Subquery:
    """Of the standing that leads on the board of a task."""
    return Subquery(_ranked(device).filter(rank=1).as_listed().values(figure=figure)[:1])


def _ranked(device: str) -> Any:
    """Standings of a task by their ranks alone, which an index holds: what may not be listed is off its board."""
    boards = _of_active_boards(device)
    return Standing.objects.filter(rank__isnull=False, task_version__task=OuterRef("pk"), **boards)


def _attach_best(tasks: list[Any]) -> None:
    found = Standing.objects.with_context().in_bulk([task.best_pk for task in tasks if task.best_pk])
    for task in tasks:
        task.best = found.get(task.best_pk)


def _narrowed(tasks: QuerySet[Any], chosen: TaskFilter) -> QuerySet[Any]:
    for word in chosen.words.split():
        tasks = tasks.filter(
            Q(op__icontains=word)
            | Q(title__icontains=word)
            | Q(summary__icontains=word)
            | Q(suite__slug__icontains=word)
        )
    exact = {"family": chosen.family, "direction": chosen.direction, "difficulty": chosen.difficulty}
    tasks = tasks.filter(**{name: value for name, value in exact.items() if value})
    states = {"open": Q(entries=0), "slower": Q(best_counts__lte=1.0), "faster": Q(best_counts__gt=1.0)}
    return tasks.filter(states[chosen.state]) if chosen.state else tasks


def task_families() -> list[str]:
    return list(Task.objects.listed().order_by("family").values_list("family", flat=True).distinct())


def active_version(suite: str, op: str, direction: str) -> TaskVersion:
    """The version of a task that is judged now, or 404."""
    version = find_active_version(suite, op, direction)
    if version is None:
        raise Http404("There is no such task.")
    return version


def find_active_version(suite: str, op: str, direction: str) -> TaskVersion | None:
    versions = TaskVersion.objects.select_related("task__suite", "stored").filter(status=TaskVersionStatus.ACTIVE)
    return versions.filter(task__suite__slug=suite, task__op=op, task__direction=direction).first()


def find_task(suite: str, op: str, direction: str) -> Task | None:
    """A listed task of this site by its names."""
    tasks = Task.objects.listed().select_related("suite")
    found: Task | None = tasks.filter(suite__slug=suite, op=op, direction=direction).first()
    return found


def version_numbered(suite: str, op: str, direction: str, number: str) -> TaskVersion:
    """An older version of a task by its number, for its old board; the active one where no number is given.

    The finals of a contest have no board: its page tells their results, all at once.
    """
    if not number.isdecimal():
        return active_version(suite, op, direction)
    return get_object_or_404(
        TaskVersion.objects.select_related("task__suite", "stored")
        .exclude(status=TaskVersionStatus.CONTEST)
        .exclude(task__request__moderation=Moderation.HIDDEN),  # its boards are hidden with it
        task__suite__slug=suite,
        task__op=op,
        task__direction=direction,
        number=int(number[:9]),
    )


def device_kinds(version: TaskVersion | None = None) -> list[DeviceKind]:
    """The one with the most entries first, GPUs before the CPU; of a task only those it has configurations for."""
    entries = Standing.objects.filter(device_kind=OuterRef("pk")).order_by()
    if version is not None:
        entries = entries.filter(task_version=version)
    numbers = entries.values("device_kind").annotate(n=Count("pk")).values("n")
    kinds = DeviceKind.objects.annotate(entries=Coalesce(Subquery(numbers), 0))
    ordered = sorted(kinds, key=lambda kind: (-kind.entries, kind.device_class == CPU, kind.slug))
    return [kind for kind in ordered if version is None or kind.device_class in version.definition["devices"]]


def find_device_kind(name: str) -> DeviceKind | None:
    """The kind of that name. `cpu` is the kind of this site's processors: of several the first with a judge online."""
    if name != CPU:
        return DeviceKind.objects.filter(slug=name).first()
    first: DeviceKind | None = DeviceKind.objects.of_processors(_alive_since()).first()
    return first


def default_device(version: TaskVersion | None = None) -> str:
    """The device kind shown if none is chosen; empty before the first start."""
    kinds = device_kinds(version)
    return kinds[0].slug if kinds else ""


def task_versions(task: Task) -> QuerySet[TaskVersion]:
    """Those that have leaderboards."""
    return task.versions.exclude(status=TaskVersionStatus.CONTEST).defer("definition", "reference_source")


def baselines_by_config(version: TaskVersion) -> dict[tuple[str, str, str], BaselineResult]:
    """Baseline times by (device kind, group, key)."""
    rows = version.baselines.select_related("device_kind")
    return {(row.device_kind.slug, row.group, row.key): row for row in rows}


def top_entries(version: TaskVersion, device: str, limit: int = 5) -> list[Standing]:
    ordered = visible_standings(device).filter(task_version=version).as_listed()
    return list(ordered.with_context()[:limit])


def visible_standings(device: str) -> Any:
    """Ranked public standings of active task versions under the active rule set."""
    return Standing.objects.ranked().listable().filter(**_of_active_boards(device))


def _of_active_boards(device: str) -> dict[str, str]:
    return {
        "ruleset__name": settings.KBENCH_RULESET,
        "device_kind__slug": device,
        "task_version__status": TaskVersionStatus.ACTIVE,
    }


# --- evaluations ---------------------------------------------------------------------------------------------------


def evaluation_for(user: User, code: uuid.UUID) -> Evaluation:
    """The only access to one evaluation. For a private one, everyone except owner and team gets a 404."""
    rows = Evaluation.objects.readable_by(user).select_related(
        "submission__owner",
        "submission__team",
        "submission__method",
        "submission__blob",
        "task_version__task__suite",
        "device_kind",
        "ruleset",
        "worker",
    )
    evaluation: Evaluation | None = rows.defer("error_internal").filter(code=code).first()
    if evaluation is None:
        raise Http404("There is no such evaluation, or it is private.")
    return evaluation


def check_for(user: User, code: uuid.UUID) -> EmulatorCheck:
    """The only access to a check without a GPU: for its owner or, without an account, for everybody with the link.

    A check that explains an evaluation can be read by everybody who may read the evaluation.
    """
    asked = Q(owner=None) | Q(owner=user) if user.is_authenticated else Q(owner=None)
    explaining = Q(explains__in=Evaluation.objects.readable_by(user))
    rows = EmulatorCheck.objects.filter(Q(explains=None) & asked | explaining)
    rows = rows.select_related("task_version__task__suite", "explains")
    check: EmulatorCheck | None = rows.filter(code=code).first()
    if check is None:
        raise Http404("There is no such check, or it is private.")
    return check


def explanation_of(evaluation: Evaluation) -> EmulatorCheck | None:
    """The check that explains its illegal access, asked for only where there can be one."""
    if evaluation.verdict != Verdict.RUNTIME_ERROR:
        return None
    found: EmulatorCheck | None = EmulatorCheck.objects.filter(explains=evaluation).first()
    return found


def submission_for(user: User, code: uuid.UUID) -> tuple[Submission, list[Evaluation]]:
    """A submission with its evaluations, newest first; 404 for whom may not read them."""
    rows = Evaluation.objects.readable_by(user).with_context().filter(submission__code=code)
    evaluations = list(rows.order_by("-queued", "-pk"))
    if not evaluations:
        raise Http404("There is no such submission, or it is private.")
    return evaluations[0].submission, evaluations


def standing_of(evaluation: Evaluation) -> Standing | None:
    return evaluation.standings.first()


def evaluation_history(evaluation: Evaluation) -> list[Evaluation]:
    """Every judging of the same submission, newest first; this one as it was read before, so that a page agrees."""
    rows = Evaluation.objects.with_context().filter(submission=evaluation.submission_id).without_open_finals()
    return [evaluation if row.pk == evaluation.pk else row for row in rows.order_by("-queued", "-pk")]


def own_evaluations(user: User, codes: Sequence[str], page: int | str = 1) -> Page[Any]:
    """What the account made, its agent runs left out; for a visitor without one, what this browser made (`codes`)."""
    rows = Evaluation.objects.without_open_finals().order_by("-queued", "-pk")
    by_hand = rows.exclude(submission__origin=Origin.AGENT)
    mine = by_hand.filter(submission__owner=user) if user.is_authenticated else rows.filter(code__in=codes)
    return page_by_key(mine, Evaluation.objects.with_context(), page)


def tokens_of(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(owner=user.pk)


# --- the site as a whole -------------------------------------------------------------------------------------------


def newest_verified(limit: int = 8) -> list[Standing]:
    """Of tasks that are listed, also on boards of older versions."""
    rows = Standing.objects.ranked().listable().with_context().filter(task_version__task__listed=True)
    rows = rows.select_related("task_version__task__suite", "device_kind").defer(*HEAVY).order_by("-verified_at")
    latest = list(Standing.objects.ranked().order_by("-verified_at").values_list("pk", flat=True)[:_LATEST_ROWS])
    found = list(rows.filter(pk__in=latest)[:limit])
    return found if len(found) == limit or len(latest) < _LATEST_ROWS else list(rows[:limit])


def newest_records(limit: int = 30) -> list[Standing]:
    """First places of the current boards, the newest first. What is contested holds no record."""
    first = (
        Standing.objects.ranked().listable().filter(rank=1, is_contested=False, ruleset__name=settings.KBENCH_RULESET)
    )
    newest = first.filter(task_version__status=TaskVersionStatus.ACTIVE).order_by("-verified_at")
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind").defer(*HEAVY)
    return list(rows.filter(pk__in=list(newest.values_list("pk", flat=True)[:limit])).order_by("-verified_at"))


def tasks_with_entry() -> int:
    """On the device kind of this site that has most of them, under the active rule set; told by first places."""
    first = Standing.objects.filter(
        rank=1, ruleset__name=settings.KBENCH_RULESET, task_version__status=TaskVersionStatus.ACTIVE
    )
    counts = first.order_by().values("device_kind").annotate(n=Count("task_version", distinct=True))
    return max((item["n"] for item in counts), default=0)


@dataclass(frozen=True)
class Notice:
    """A banner on every page. `level` is warn or bad. Pages ask again whether one that `passes` has passed."""

    level: str
    text: str
    passes: bool = False


def site_notices() -> list[Notice]:
    """Notices for all visitors: pauses, judges that are starting or weakly isolated, a message of staff."""
    return [Notice("warn", text) for text in announcements()] + _judge_notices()


def _judge_notices() -> list[Notice]:
    told = Q(state=WorkerState.STARTING) | Q(state=WorkerState.ONLINE)
    judges = Worker.objects.filter(told, role=WorkerRole.JUDGE, heartbeat__gte=_alive_since()).order_by()
    rows = list(judges.values_list("state", "device_kind__title", "isolation_strong", "isolation_text").distinct())
    online = [row for row in rows if row[0] == WorkerState.ONLINE]
    starting = sorted({row[1] for row in rows} - {row[1] for row in online})
    weak = sorted({text for _, _, strong, text in online if strong is False})
    return [
        *(Notice("warn", TESTING.format(title), passes=True) for title in starting),
        *(Notice("bad", f"Weak isolation on a judging worker: {text}") for text in weak),
    ]


def alive_workers(now: datetime | None = None) -> Any:
    return Worker.objects.alive(_alive_since(now))


def _alive_since(now: datetime | None = None) -> datetime:
    return (now or timezone.now()) - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)


@dataclass(frozen=True)
class QueueLine:
    """The queue of one device kind."""

    device: DeviceKind
    queued: int
    running: int
    workers: int
    starting: int  # workers that test themselves


def queue_lines() -> list[QueueLine]:
    unfinished = Evaluation.objects.filter(state__in=(State.QUEUED, *RUNNING)).order_by().values("device_kind")
    counts = unfinished.annotate(
        queued=Count("pk", filter=Q(state=State.QUEUED)), running=Count("pk", filter=~Q(state=State.QUEUED))
    )
    open_rows = {item["device_kind"]: item for item in counts}
    judges = Worker.objects.filter(role=WorkerRole.JUDGE, heartbeat__gte=_alive_since()).order_by()
    rows = judges.values_list("device_kind", "state").annotate(n=Count("pk"))
    workers = {(kind, state): count for kind, state, count in rows}
    return [_queue_line(device, open_rows.get(device.pk, {}), workers) for device in DeviceKind.objects.all()]


def _queue_line(device: DeviceKind, counts: dict[str, int], workers: dict[tuple[int, str], int]) -> QueueLine:
    online, starting = (workers.get((device.pk, state), 0) for state in (WorkerState.ONLINE, WorkerState.STARTING))
    return QueueLine(device, counts.get("queued", 0), counts.get("running", 0), online, starting)


def at_work(user: User, limit: int = 20) -> list[Evaluation]:
    """Evaluations being judged that the reader may list."""
    return list(Evaluation.objects.running().listable_for(user).with_context().order_by("claimed")[:limit])


def next_in_queue(user: User, limit: int = 20) -> list[Evaluation]:
    order = Evaluation.objects.queued().in_queue_order().listable_for(user).values_list("pk", flat=True)
    first = list(order[:limit])  # the whole queue is put in order, so it is done without its context
    found = Evaluation.objects.with_context().in_bulk(first)
    return [found[pk] for pk in first if pk in found]


def workers() -> QuerySet[Worker]:
    return Worker.objects.select_related("device_kind", "current_evaluation").order_by("role", "name")


def verdicts_since(age: timedelta) -> list[tuple[str, int]]:
    """Verdicts of recent evaluations with their counts, most frequent first. An index answers the query."""
    recent = Evaluation.objects.done_since(timezone.now() - age, list(DeviceKind.objects.all()))
    return list(recent.values_list("verdict").annotate(n=Count("verdict")).order_by("-n"))
