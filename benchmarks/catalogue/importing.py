"""Imports other suites: each task is examined in sandboxes and becomes a version, a report, or both.

A broken task is reported and does not stop the import. An unchanged task is skipped, and one that is gone from the
folder is unlisted, never deleted. The definition of a request is examined in the same way and becomes a task of the
suite REQUESTS, without a report. Does NOT read folders (`importers`) and never runs an author's file in this process.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ..boards.standings import versions_held
from ..extensions import ReadsReference
from ..harness import CPU, Examined, ForeignTask, Paths, clean_text, examine, isolation_in_force, spec_to_json
from ..importers import Found, SuiteOrigin
from ..models import ImportReport, StoredTask, Suite, SuiteImport, Task, TaskVersion
from ..states import REQUESTS, ImportOutcome, TaskVersionStatus
from .folders import shown_spec, task_sync

Tell = Callable[[ImportReport], None]


class NotImportable(Exception):
    """Nothing can be brought in under these conditions; the text is for the person."""


@dataclass(frozen=True)
class Settings:
    """How thoroughly tasks are examined."""

    timeout_s: float = 300.0
    compare_compiled: bool = True
    device: str = CPU  # what is examined on a GPU becomes a task for GPUs alone
    reads: ReadsReference | None = None  # nobody reads references unless somebody is named


def import_suite(
    found: Iterable[Found], *, suite: str, format_name: str, origin: SuiteOrigin, how: Settings, tell: Tell
) -> SuiteImport:
    """Runs the import to its end.

    Raises NotImportable for a suite that comes with the software, an empty folder, or a public site without a sandbox.
    """
    _demand_isolation()
    if suite == REQUESTS:
        raise NotImportable(f"{REQUESTS} is the suite of requests: choose another name with --suite")
    tasks = _distinct(found)
    if not tasks:
        raise NotImportable(f"{origin.folder.name} contains no task in {format_name} format")
    run = SuiteImport.objects.create(
        suite=_suite(suite),
        format=format_name,
        folder=origin.folder.name[:200],
        origin=origin.of_suite(),
        licence=origin.licence_of("x"),
    )
    for item in tasks:
        report = _brought_in(item, run, how)
        if report.version is not None:
            words = {"licence": origin.licence_of(item.file), "origin": origin.of_task(item.file)}
            Task.objects.filter(pk=report.version.task_id).update(**words)
        tell(report)
    for task in _gone(run.suite, tasks):
        tell(_retired(task, run))
    run.finished = timezone.now()
    run.save(update_fields=["finished"])
    return run


def examine_requested(item: Found, how: Settings) -> Examined:
    """What an import makes of the definition of a request. Raises NotImportable on a public site without a sandbox."""
    if item.task is None:
        return Examined(None, item.problem)
    _demand_isolation()
    return _examined(item.task, how)


@transaction.atomic
def store_requested(item: Found, examined: Examined, *, licence: str, origin: str) -> Task:
    """The task of an examined definition, with everything that workers need."""
    stored, _ = _stored(item, examined)
    task: Task = stored.version.task
    Task.objects.filter(pk=task.pk).update(licence=licence, origin=origin)
    return task


def task_withdraw(task: Task) -> None:
    """Take a task off all lists and boards, in a transaction; nothing is deleted."""
    versions_held(task.versions.all())
    Task.objects.filter(pk=task.pk).update(listed=False)
    task.versions.filter(status=TaskVersionStatus.ACTIVE).update(status=TaskVersionStatus.RETIRED)


def task_restore(task: Task) -> None:
    """Undo `task_withdraw`: the newest version is judged again."""
    Task.objects.filter(pk=task.pk).update(listed=True)
    newest = task.versions.exclude(status=TaskVersionStatus.CONTEST).order_by("-number").values("pk")[:1]
    task.versions.filter(pk__in=list(newest.values_list("pk", flat=True))).update(status=TaskVersionStatus.ACTIVE)


def task_words_hide(task: Task, title: str) -> None:
    """Replace the words of its author, which pages of entries show; they stay in the stored definition."""
    Task.objects.filter(pk=task.pk).update(title=title, summary="", formula="", licence="")


def task_words_show(task: Task, *, licence: str) -> None:
    """Undo `task_words_hide`."""
    newest = task.versions.exclude(status=TaskVersionStatus.CONTEST).order_by("-number")[0]
    spec = shown_spec(newest)
    words = {"title": spec.title, "summary": spec.summary, "formula": spec.formula, "licence": licence}
    Task.objects.filter(pk=task.pk).update(**words)


def _demand_isolation() -> None:
    isolation = isolation_in_force()
    if settings.KBENCH_PUBLIC and not isolation.strong:
        raise NotImportable(f"a public site cannot run authors' files on this machine: {isolation.text}")


def _distinct(found: Iterable[Found]) -> list[Found]:
    """The first task of each name."""
    tasks: dict[str, Found] = {}
    for item in found:
        tasks.setdefault(item.name, item)
    return list(tasks.values())


def _suite(slug: str) -> Suite:
    shipped = Task.objects.filter(suite__slug=slug, versions__isnull=False, versions__stored__isnull=True)
    if shipped.exists():
        raise NotImportable(f"{slug} comes with kbench: choose another name with --suite")
    suite, _ = Suite.objects.get_or_create(slug=slug, defaults={"title": slug})
    return suite


def _brought_in(item: Found, run: SuiteImport, how: Settings) -> ImportReport:
    if item.task is None:
        return _report(item, run, ImportOutcome.REFUSED, problem=item.problem)
    stored = _stored_now(run.suite, item)
    if stored is not None and stored.origin_sha256 == item.sha256:
        Task.objects.filter(pk=stored.version.task_id).update(listed=True)
        return _report(item, run, ImportOutcome.UNCHANGED, stored=stored)
    examined = _examined(item.task, how)
    if examined.task is None:
        kept = " The previously imported version is kept." if stored is not None else ""
        return _report(item, run, ImportOutcome.REFUSED, problem=examined.problem + kept, seconds=examined.seconds)
    return _written(item, run, _read(item.task, examined, how.reads) if how.reads else examined)


def _examined(task: ForeignTask, how: Settings) -> Examined:
    cleaned = replace(
        task, title=clean_text(task.title), summary=clean_text(task.summary), family=clean_text(task.family)
    )
    paths = Paths(settings.DATA_DIR)
    return examine(cleaned, paths, device=how.device, timeout_s=how.timeout_s, compare_compiled=how.compare_compiled)


def _read(task: ForeignTask, examined: Examined, reads: ReadsReference) -> Examined:
    """The task with what somebody says who has read its reference."""
    opinion = reads(task.source)
    labels = tuple(dict.fromkeys((*examined.labels, *opinion.labels)))
    task_read = examined.task and replace(examined.task, labels=labels)
    return replace(examined, labels=labels, notes=(*examined.notes, *opinion.notes), task=task_read)


@transaction.atomic
def _written(item: Found, run: SuiteImport, examined: Examined) -> ImportReport:
    """The new version with its definition, or the old one if nothing that decides a result has changed."""
    stored, change = _stored(item, examined)
    outcome = {"created": ImportOutcome.CREATED, "renewed": ImportOutcome.RENEWED}
    chosen = outcome.get(change or "", ImportOutcome.UNCHANGED)
    return _report(item, run, chosen, stored=stored, seconds=examined.seconds)


def _stored(item: Found, examined: Examined) -> tuple[StoredTask, str | None]:
    """The definition beside its version, and what the sync has made of the task."""
    assert examined.task is not None  # noqa: S101 - asked by the caller
    change = task_sync(examined.task)
    version = _active(Suite.objects.get(slug=examined.task.suite), item)
    assert version is not None  # noqa: S101 - the sync has made it
    stored, _ = StoredTask.objects.update_or_create(
        version=version,
        defaults={
            "origin_sha256": item.sha256,
            "spec": spec_to_json(examined.task),
            "labels": list(examined.labels),
            "notes": list(examined.notes),
        },
    )
    return stored, change


def _active(suite: Suite, item: Found) -> TaskVersion | None:
    versions = TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__suite=suite)
    return versions.filter(task__op=item.op, task__direction=item.direction).first()


def _stored_now(suite: Suite, item: Found) -> StoredTask | None:
    version = _active(suite, item)
    return StoredTask.objects.filter(version=version).select_related("version").first() if version else None


def _report(
    item: Found,
    run: SuiteImport,
    outcome: str,
    *,
    problem: str = "",
    stored: StoredTask | None = None,
    seconds: float = 0.0,
) -> ImportReport:
    return ImportReport.objects.create(
        run=run,
        op=item.op,
        direction=item.direction,
        file=clean_text(item.file)[:300],
        outcome=outcome,
        problem=clean_text(problem),
        labels=stored.labels if stored else [],
        notes=stored.notes if stored else [],
        seconds=seconds,
        version=stored.version if stored else None,
    )


def _gone(suite: Suite, tasks: list[Found]) -> list[Task]:
    names = {(item.op, item.direction) for item in tasks}
    return [task for task in Task.objects.filter(suite=suite, listed=True) if (task.op, task.direction) not in names]


@transaction.atomic
def _retired(task: Task, run: SuiteImport) -> ImportReport:
    task_withdraw(task)
    return ImportReport.objects.create(
        run=run,
        op=task.op,
        direction=task.direction,
        outcome=ImportOutcome.RETIRED,
        problem="The task is no longer in the folder.",
    )
