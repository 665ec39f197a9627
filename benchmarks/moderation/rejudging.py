"""Judges many entries again: selects them, estimates the time, and queues a few at a time until all are done.

An item of a batch and the evaluation it gets are written in one transaction, so if a process dies, no entry is judged
twice and none is left out. An entry is judged under the current version of its task; hidden and invalidated entries
are left out. Does NOT judge (the queue does), does NOT rank (`boards/standings.py` does) and does NOT tell what has
changed (`changes.py`).
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, ExpressionWrapper, F, Max, OuterRef, Q, QuerySet, Sum, TextField
from django.utils import timezone

from benchmarks.judgings.moves import evaluation_cancel
from benchmarks.services import Refused, evaluation_create

from ..models import Evaluation, RejudgeBatch, RejudgeItem, RuleSet, StageResult, Standing, TaskVersion
from ..querysets import timed_earlier
from ..states import (
    BOUNDED,
    FINISHED,
    REPLAYED,
    BatchState,
    EvaluationReason,
    Moderation,
    Priority,
    State,
    TaskVersionStatus,
    Visibility,
)
from .decisions import rejudge_logged

UNFINISHED_MAX = 4  # of a batch on one device kind: nobody's queue is flooded
ENTRIES_MAX = 20_000
FIRST_ROWS = 10
SAMPLED = 500  # about how many judgings of a device kind an estimate of its load looks at
_AT_ONCE = 500


@dataclass(frozen=True)
class Wanted:
    """Which entries are judged again, by their latest judging that fits; empty means any. Dates in UTC, inclusive."""

    task: str = ""  # SUITE/OP/DIRECTION
    device: str = ""
    method: str = ""
    judged_under: str = ""
    verdict: str = ""
    since: date | None = None
    until: date | None = None
    on_boards: bool = True
    older_versions: bool = False
    older_timing: bool = False  # accepted on GPUs, by an earlier revision of the judge's timing, and by no later one

    def to_json(self) -> dict[str, Any]:
        return {name: value.isoformat() if isinstance(value, date) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class RejudgingLoad:
    """How much one device kind gets to do: the seconds that the earlier judgings of the same entries took."""

    device: str
    entries: int
    judging_s: float


@dataclass(frozen=True)
class Preview:
    count: int
    first: list[Evaluation]
    loads: list[RejudgingLoad]

    @property
    def judging_s(self) -> float:
        return sum(load.judging_s for load in self.loads)


def preview(wanted: Wanted, ruleset: RuleSet) -> Preview:
    chosen_of: dict[str, list[int]] = {}
    order = []
    for pk, device in _in_order(chosen(wanted, ruleset)).values_list("pk", "device_kind__title"):
        chosen_of.setdefault(device, []).append(pk)
        order.append(pk)
    rows = Evaluation.objects.with_context().in_bulk(order[:FIRST_ROWS])
    loads = [_load(device, pks) for device, pks in sorted(chosen_of.items())]
    return Preview(len(order), [rows[pk] for pk in order[:FIRST_ROWS]], loads)


def _load(device: str, pks: list[int]) -> RejudgingLoad:
    """From a sample spread over all; entries that were never measured count like the others in the mean."""
    sample = pks[:: max(1, len(pks) // SAMPLED)]
    stages = StageResult.objects.filter(evaluation__in=sample)
    found = stages.aggregate(seconds=Sum("seconds"), judgings=Count("evaluation", distinct=True))
    mean_s = (found["seconds"] or 0.0) / max(1, found["judgings"])
    return RejudgingLoad(device, len(pks), mean_s * len(pks))


def chosen(wanted: Wanted, ruleset: RuleSet) -> Any:
    """One evaluation per submission and device kind; none that is judged as the batch would judge it already."""
    rows = _matching(wanted)
    newest = rows.order_by().values("submission", "device_kind").annotate(newest=Max("pk")).values("newest")
    as_wanted = Q(task_version__status=TaskVersionStatus.ACTIVE, ruleset=ruleset)
    there_already = (
        Evaluation.objects.full()
        .filter(
            as_wanted,
            submission=OuterRef("submission"),
            device_kind=OuterRef("device_kind"),
            task_version__task=OuterRef("task_version__task"),
        )
        .exclude(state__in=(State.CANCELLED, State.EXPIRED))
    )
    return Evaluation.objects.filter(pk__in=newest).filter(as_wanted | ~Exists(there_already))


def _matching(wanted: Wanted) -> Any:
    rows = Evaluation.objects.full().filter(
        state=State.DONE,
        submission__moderation=Moderation.OK,
        task_version__task__listed=True,
        task_version__task__versions__status=TaskVersionStatus.ACTIVE,
    )
    if wanted.task:
        suite, op, direction = wanted.task.split("/")
        rows = rows.filter(
            task_version__task__suite__slug=suite,
            task_version__task__op=op,
            task_version__task__direction=direction,
        )
    if wanted.on_boards:
        rows = rows.filter(standings__isnull=False)
    if wanted.older_versions:
        rows = rows.filter(task_version__status=TaskVersionStatus.RETIRED)
    if wanted.older_timing:
        current = rows.filter(ruleset__name=settings.KBENCH_RULESET, task_version__status=TaskVersionStatus.ACTIVE)
        public = current.filter(submission__visibility=Visibility.PUBLIC, score__isnull=False)
        rows = public.filter(timed_earlier()).exclude(Exists(_timed_since()))
    exact = {
        "device_kind__slug": wanted.device,
        "submission__method__slug": wanted.method,
        "ruleset__name": wanted.judged_under,
        "verdict": wanted.verdict,
        "finished__date__gte": wanted.since,
        "finished__date__lte": wanted.until,
    }
    return rows.filter(**{name: value for name, value in exact.items() if value})


def _timed_since() -> QuerySet[Evaluation]:
    """Of the same submission on the same board: judgings by the latest revision, and those that will be.

    One whose time is known less well does not count: the earlier score stands beside it.
    """
    board = {name: OuterRef(name) for name in ("submission", "task_version", "device_kind", "ruleset")}
    as_well = Q(timing_trust=REPLAYED) | Q(timing_trust=F("before")) | Q(before=BOUNDED)
    done = Q(score__isnull=False) & ~timed_earlier() & as_well
    before = ExpressionWrapper(OuterRef("timing_trust"), output_field=TextField())
    rows: QuerySet[Evaluation] = Evaluation.objects.full().annotate(before=before)
    return rows.filter(done | ~Q(state__in=FINISHED), **board)


def _in_order(rows: Any) -> Any:
    return rows.order_by("task_version__task__op", "task_version__task__direction", "device_kind", "-score", "pk")


def batch_create(wanted: Wanted, ruleset: RuleSet, *, by: User, reason: str, expected: int) -> RejudgeBatch:
    """A running batch. `expected` is how many entries the person has seen. Raises Refused where there are others."""
    with transaction.atomic():
        rows = list(_in_order(chosen(wanted, ruleset)).select_related("task_version").only(*_COLUMNS))
        if len(rows) != expected:
            raise Refused(f"There are {len(rows)} entries now, not {expected}. Check them again.")
        if not 0 < len(rows) <= ENTRIES_MAX:
            raise Refused(f"A batch has 1 to {ENTRIES_MAX} entries: choose others.")
        batch = RejudgeBatch.objects.create(reason=reason, wanted=wanted.to_json(), ruleset=ruleset, requested_by=by)
        RejudgeItem.objects.bulk_create(_items(batch, rows), batch_size=_AT_ONCE)
        rejudge_logged(batch, f"Started: {reason}", by=by)
    return batch


_COLUMNS = ("submission_id", "device_kind_id", "ruleset_id", "task_version__task_id", "score")


def _items(batch: RejudgeBatch, rows: list[Evaluation]) -> Iterable[RejudgeItem]:
    active = TaskVersion.objects.filter(
        status=TaskVersionStatus.ACTIVE, task__in={row.task_version.task_id for row in rows}
    )
    version_of = dict(active.values_list("task", "pk"))
    ranks = _ranks((row.ruleset_id, row.task_version_id, row.device_kind_id, row.submission_id) for row in rows)
    for position, row in enumerate(rows):
        place = (row.ruleset_id, row.task_version_id, row.device_kind_id, row.submission_id)
        yield RejudgeItem(
            batch=batch,
            position=position,
            before=row,
            version_id=version_of[row.task_version.task_id],
            rank_before=ranks.get(place),
        )


RejudgingPlace = tuple[int, int, int, int]  # rule set, task version, device kind, submission


def _ranks(places: Iterable[RejudgingPlace]) -> dict[RejudgingPlace, int | None]:
    """The rank of every submission that stands on its board."""
    wanted = set(places)
    rows = Standing.objects.filter(
        ruleset__in={place[0] for place in wanted}, task_version__in={place[1] for place in wanted}
    ).values_list("ruleset", "task_version", "device_kind", "evaluation__submission", "rank")
    return {tuple(row[:4]): row[4] for row in rows if tuple(row[:4]) in wanted}


def advance() -> int:
    """Queue what comes next of every running batch and close those that are through. How many were queued."""
    running = RejudgeBatch.objects.filter(state=BatchState.RUNNING).order_by("pk")
    return sum(_advance(pk) for pk in running.values_list("pk", flat=True))


def _advance(pk: int) -> int:
    """Queues all or none: a process killed here has queued nothing."""
    with transaction.atomic():
        batch = RejudgeBatch.objects.select_for_update().filter(pk=pk, state=BatchState.RUNNING).first()
        if batch is None:
            return 0
        following = _following(batch)
        for item in following:
            _begin(batch, item)
        if not following and not _open(batch).exists():
            _close(batch, BatchState.RUNNING, BatchState.DONE)
    return len(following)


def _following(batch: RejudgeBatch) -> list[RejudgeItem]:
    """The next entries with room in the queue; a stopped device kind does not block others."""
    busy = dict(_open(batch).order_by().values_list("before__device_kind").annotate(n=Count("pk")))
    waiting = batch.items.filter(after=None)
    kinds = waiting.order_by().values_list("before__device_kind", flat=True).distinct()
    found: list[RejudgeItem] = []
    for kind in sorted(kinds):
        rows = waiting.filter(before__device_kind=kind).order_by("position")
        rows = rows.select_related("version", "before__submission", "before__device_kind")
        found += rows.defer("before__report")[: max(0, UNFINISHED_MAX - busy.get(kind, 0))]
    return found


def _begin(batch: RejudgeBatch, item: RejudgeItem) -> None:
    evaluation = evaluation_create(
        item.before.submission,
        version=item.version,
        device_kind=item.before.device_kind,
        ruleset=batch.ruleset,
        reason=EvaluationReason.REJUDGE,
        priority=Priority.REJUDGE,
        supersedes=item.before,
    )
    RejudgeItem.objects.filter(pk=item.pk).update(after=evaluation)


def _open(batch: RejudgeBatch) -> QuerySet[RejudgeItem]:
    return batch.items.filter(after__isnull=False).exclude(after__state__in=FINISHED)


def _close(batch: RejudgeBatch, source: BatchState, target: BatchState) -> bool:
    held = RejudgeBatch.objects.filter(pk=batch.pk, state=source)
    if held.update(state=target, finished=timezone.now()) != 1:
        return False
    judged = batch.items.filter(after__isnull=False).select_related("before")
    items = list(judged.only("version_id", "before__submission_id", "before__device_kind_id"))
    places = [
        (batch.ruleset_id, item.version_id, item.before.device_kind_id, item.before.submission_id) for item in items
    ]
    ranks = _ranks(places)
    for item, place in zip(items, places, strict=True):
        item.rank_after = ranks.get(place)
    RejudgeItem.objects.bulk_update(items, ["rank_after"], batch_size=_AT_ONCE)
    return True


def batch_pause(batch: RejudgeBatch, *, by: User) -> None:
    """What is queued is judged, nothing follows. Raises Refused unless it runs."""
    _turn(batch, BatchState.RUNNING, BatchState.PAUSED, "Paused.", by)


def batch_resume(batch: RejudgeBatch, *, by: User) -> None:
    """Raises Refused unless it is paused."""
    _turn(batch, BatchState.PAUSED, BatchState.RUNNING, "Resumed.", by)


def _turn(batch: RejudgeBatch, source: BatchState, target: BatchState, text: str, by: User) -> None:
    with transaction.atomic():
        if RejudgeBatch.objects.filter(pk=batch.pk, state=source).update(state=target) != 1:
            raise Refused(f"The batch is no longer {source.label.lower()}.")
        rejudge_logged(batch, text, by=by)


def batch_cancel(batch: RejudgeBatch, *, by: User) -> None:
    """Leave the rest as it is; what a worker has taken up is judged to its end. Raises Refused where it has ended."""
    with transaction.atomic():
        sources = (BatchState.RUNNING, BatchState.PAUSED)
        if not any(_close(batch, source, BatchState.CANCELLED) for source in sources):
            raise Refused("The batch has already ended.")
        for evaluation in Evaluation.objects.queued().filter(rejudge_item__batch=batch).order_by("pk"):
            evaluation_cancel(evaluation, "The batch that it belonged to was cancelled.")
        rejudge_logged(batch, "Cancelled.", by=by)
