"""The library of verified kernels: finds what a new run is told of related tasks and of earlier runs on its own task.

It contains only ranked entries of leaderboards, so nothing private, hidden, invalidated or under review; notes come
only from runs that are fully public. Does NOT decide how a run uses it (`evolve/memory.py`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import QuerySet

from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import HarnessError, what_counts
from benchmarks.models import DeviceKind, Standing, TaskVersion
from benchmarks.states import TaskVersionStatus

from .evolve.archive import cell_of
from .evolve.config import RunConfig
from .evolve.events import EventLog
from .evolve.memory import KERNELS_MAX, SETTINGS_MAX, PastKernel, PastSetting, RunMemory, likeness
from .evolve.model import Proposal
from .models import Candidate, RunEvent
from .record.withheld import EVERYBODY, TOLD_BY, hidden_keys
from .states import RunStatus

PLACES = 3  # of each leaderboard
ROWS_MAX = 300
NOTES_MAX = 5  # newest runs that are looked at for a note
SOURCE_BYTES_MAX = 12_000  # of a kernel that is shown


def remembered(config: RunConfig, version: TaskVersion, kind: DeviceKind, log: EventLog) -> RunMemory:
    """What a run on this task begins with. Sources that it names are put into `log`."""
    related = list(_related(config.language, version, kind))
    note, note_of = _note(config.language, version, kind)
    kernels = [
        _kernel(row, log)
        for row in _best_of_each_task(related)
        if len(row.evaluation.submission.blob.text.encode()) <= SOURCE_BYTES_MAX
    ][:KERNELS_MAX]
    return RunMemory(_settings(related), tuple(kernels), note, note_of)


def _related(language: str, version: TaskVersion, kind: DeviceKind) -> Iterator[Standing]:
    """Ranked entries of related tasks in the same language on devices of the class, the most related first."""
    rows = (
        Standing.objects.filter(
            rank__lte=PLACES,
            task_version__status=TaskVersionStatus.ACTIVE,
            device_kind__device_class=kind.device_class,
            evaluation__submission__language=language,
        )
        .exclude(task_version__task=version.task_id)
        .select_related("task_version__task__suite", "device_kind", "evaluation__submission__blob")
        .order_by("-verified_at")[:ROWS_MAX]
    )
    alike: dict[int, float] = {}
    for row in rows:
        if row.task_version_id not in alike:
            alike[row.task_version_id] = _likeness(version, row.task_version, kind)
    found = [row for row in rows if alike[row.task_version_id]]
    found.sort(key=lambda row: (-alike[row.task_version_id], row.device_kind_id != kind.pk, -_counts(row), row.pk))
    yield from found


def _counts(row: Standing) -> float:
    return what_counts(row.score, row.score_lo, row.evaluation.timing_trust)


def _likeness(own: TaskVersion, other: TaskVersion, kind: DeviceKind) -> float:
    """0 where a definition cannot be read now."""
    try:
        return likeness(spec_of(own), spec_of(other), kind.device_class)
    except HarnessError:
        return 0.0


def _settings(related: list[Standing]) -> tuple[PastSetting, ...]:
    """Of the entries that came from a template, in their order."""
    tickets = {str(row.evaluation.code): row for row in related}
    made = Candidate.objects.filter(ticket__in=tickets, params__isnull=False, run__hidden=False).exclude(template="")
    by_ticket = {item.ticket: item for item in made}
    found = [
        PastSetting(row.task_version.task.name, item.template, item.params, row.score, ticket, _counts(row))
        for ticket, row in tickets.items()
        if (item := by_ticket.get(ticket)) is not None and item.params is not None
    ]
    return tuple(found[:SETTINGS_MAX])


def _best_of_each_task(related: list[Standing]) -> list[Standing]:
    first: dict[int, Standing] = {}
    for row in related:
        first.setdefault(row.task_version_id, row)
    return [*first.values()]


def _kernel(row: Standing, log: EventLog) -> PastKernel:
    submission = row.evaluation.submission
    source = submission.blob.text
    return PastKernel(
        task=row.task_version.task.name,
        device_kind=row.device_kind.slug,
        score=row.score,
        technique=cell_of(Proposal(source, submission.language))[1:],
        source_sha256=log.put_source(source),
        evaluation=str(row.evaluation.code),
    )


def _note(language: str, version: TaskVersion, kind: DeviceKind) -> tuple[str, str]:
    """Of the newest finished run of which everybody may read all, and the code of that run."""
    for event in _notes(language, version, kind)[:NOTES_MAX]:
        if not hidden_keys(EVERYBODY, list(event.run.candidates.only(*TOLD_BY))):
            payload: Mapping[str, Any] = event.payload
            return str(payload["text"]), str(event.run.code)
    return "", ""


def _notes(language: str, version: TaskVersion, kind: DeviceKind) -> QuerySet[RunEvent]:
    rows = RunEvent.objects.filter(type="task.note", run__state=RunStatus.FINISHED, run__hidden=False)
    same = rows.filter(run__language=language, run__task_version=version, run__device_kind=kind)
    return same.select_related("run").order_by("-run__finished", "-pk")
