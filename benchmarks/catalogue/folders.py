"""Writes the folders of the repository into the tables: suites, tasks and their versions, rule set, shipped examples.

It runs at every start and changes only what differs. Does NOT judge whether a task is fit to be used: that is
`manage.py check_tasks`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from benchmarks.services import submission_create
from benchmarks.switches import switch_is_on

from ..boards.labels import is_ranked
from ..boards.standings import versions_held
from ..harness import (
    LANGUAGES,
    Config,
    Rules,
    TaskError,
    TaskSpec,
    TensorArgument,
    ValueArgument,
    default_suites,
    device_class,
    find_task,
    load_rules,
    load_suite,
)
from ..judgings.recording import boards_of_task
from ..models import DeviceKind, Evaluation, Method, RuleSet, StoredTask, Submission, Suite, Task, TaskVersion
from ..states import MethodKind, Origin, Priority, Switch, TaskVersionStatus
from .difficulty import difficulty_of
from .stored import stored_spec

EXAMPLES_METHOD = "reference-kernels"
_METHODS = (
    ("human", "By hand", MethodKind.HUMAN, "Written by a person, with any tools."),
    (EXAMPLES_METHOD, "Reference kernels", MethodKind.LIBRARY, "The example kernels that come with kbench."),
)


@dataclass(frozen=True)
class SyncReport:
    """The changes made by a sync."""

    created: tuple[str, ...]
    renewed: tuple[str, ...]
    retired: tuple[str, ...]


def tasks_sync(suites: Path | None = None) -> SyncReport:
    """Bring the tables up to what the suites on disk say; a new version only where content changed.

    Each task in a transaction of its own: the boards of several would be held until the end, in the order of folders.
    """
    base_rows_sync()
    tasks = [task for folder in sorted((suites or default_suites()).iterdir()) for task in _tasks_in(folder)]
    created: list[str] = []
    renewed: list[str] = []
    for spec in tasks:
        with transaction.atomic():
            change = task_sync(spec)
        (created if change == "created" else renewed if change == "renewed" else []).append(spec.name)
    retired = tuple(_retire_others({(spec.suite, spec.op, spec.direction) for spec in tasks}))
    _grade_imported()
    return SyncReport(tuple(created), tuple(renewed), retired)


def base_rows_sync() -> None:
    """The rows that everything else points at; device kinds come with the first worker that has one."""
    for slug, title, kind, description in _METHODS:
        Method.objects.get_or_create(slug=slug, defaults={"title": title, "kind": kind, "description": description})
    rules_sync()


def rules_folder() -> Path:
    """Where the rule sets are, one file each; files stay, so that old boards can still be explained."""
    return Path(__file__).parents[1] / "rules"


def rules_sync() -> None:
    """A row per rule set on disk, and the current one marked. Raises RuleSetError where there is no current one."""
    for path in sorted(rules_folder().glob("*.toml")):
        _ruleset_sync(load_rules(path))
    current = rules_named(settings.KBENCH_RULESET)
    RuleSet.objects.exclude(name=current.name).update(active=False)
    RuleSet.objects.filter(name=current.name).update(active=True)


def rules_named(name: str) -> Rules:
    """Raises RuleSetError for one that has no file."""
    return load_rules(rules_folder() / f"{name}.toml")


def spec_of(version: TaskVersion) -> TaskSpec:
    """The definition of an active version. Raises TaskError where it is not what the table says."""
    spec = shown_spec(version)
    if spec.content_sha256 != version.content_sha256:
        raise TaskError(f"{spec.name} has changed on disk since version {version.number}: run tasks_sync")
    return spec


def shown_spec(version: TaskVersion) -> TaskSpec:
    """The definition for pages: on disk, or for an imported task in the database. Raises TaskError."""
    return stored_spec(version) or find_task(default_suites(), version.task.path)


def rules_of(ruleset: RuleSet) -> Rules:
    """The rules of a row; the text must be what it was when the row was made."""
    rules = rules_named(ruleset.name)
    if _sha256(rules.text) != ruleset.sha256:
        raise TaskError(f"the rule set {ruleset.name} has changed on disk: a change needs a new name")
    return rules


@dataclass(frozen=True)
class Example:
    """A shipped kernel that waits to be judged on a device kind."""

    version: TaskVersion
    kind: DeviceKind
    language: str
    text: str


def examples_load(suites: Path | None = None) -> list[Submission]:
    """Submit every shipped kernel, once per version of its task and device kind that runs it."""
    if not switch_is_on(Switch.SUBMISSIONS):
        return []
    return [
        submission_create(
            version=example.version,
            text=example.text,
            language=example.language,
            device_kind=example.kind,
            method=Method.objects.get(slug=EXAMPLES_METHOD),
            origin=Origin.EXAMPLE,
            priority=Priority.EXAMPLE,
            title="Reference kernel",
        ).submission
        for example in _new_examples(suites or default_suites())
    ]


def definition_of(spec: TaskSpec) -> dict[str, Any]:
    """What pages show of a task. Hidden configurations are counted and nothing else."""
    return {
        "argument_names": list(spec.argument_names),
        "result_names": list(spec.result_names),
        "exact": spec.exact,
        "module": spec.takes_python,
        **({"entry": spec.entry} if spec.entry else {}),
        "devices": {
            device: {
                "hidden": sum(config.hidden for config in configs),
                "configs": [_config(config) for config in configs if not config.hidden],
            }
            for device, configs in spec.configs.items()
        },
    }


def _config(config: Config) -> dict[str, Any]:
    return {
        "key": config.key,
        "group": config.group,
        "values": dict(config.values),
        "arguments": [_argument(item) for item in config.arguments],
        "results": [
            {
                "name": item.name,
                "shape": list(item.shape),
                "dtype": item.dtype,
                "tolerance": item.tolerance,
                "rms_tolerance": item.rms_tolerance,
            }
            for item in config.results
        ],
        "bytes_moved": config.bytes_moved,
        "flops": config.flops,
    }


def _argument(item: TensorArgument | ValueArgument) -> dict[str, Any]:
    if isinstance(item, ValueArgument):
        return {"name": item.name, "kind": "value", "value": item.value}
    return {
        "name": item.name,
        "kind": "tensor",
        "shape": list(item.shape),
        "dtype": item.dtype,
        "packed": item.packed,
        "nbytes": item.nbytes,
    }


def _tasks_in(folder: Path) -> tuple[TaskSpec, ...]:
    return load_suite(folder) if folder.is_dir() and not folder.name.startswith((".", "_")) else ()


@transaction.atomic
def task_sync(spec: TaskSpec) -> str | None:
    """The rows of one task: `created`, `renewed` with a version more, or None where nothing that counts differs.

    Its versions are locked before it, as by finals, which add a version of it.
    """
    suite, _ = Suite.objects.get_or_create(slug=spec.suite, defaults={"title": spec.suite})
    difficulty, facts = difficulty_of(spec)
    key: dict[str, Any] = {"suite": suite, "op": spec.op, "direction": spec.direction}
    versions_held(TaskVersion.objects.filter(task__in=Task.objects.filter(**key).values("pk")))
    labels_before = Task.objects.filter(**key).values_list("labels", flat=True).first()
    task, created = Task.objects.update_or_create(
        **key,
        defaults={
            "title": spec.title,
            "summary": spec.summary,
            "formula": spec.formula,
            "family": spec.family,
            "labels": list(spec.labels),
            "difficulty": difficulty,
            "difficulty_facts": facts,
            "listed": True,
        },
    )
    if labels_before is not None and is_ranked(labels_before) != is_ranked(spec.labels):
        boards_of_task(task)
    active = task.versions.filter(status=TaskVersionStatus.ACTIVE).first()
    if active is not None and active.content_sha256 == spec.content_sha256:
        return None
    _version_add(task, spec)
    return "created" if created else "renewed"


def _version_add(task: Task, spec: TaskSpec) -> None:
    task.versions.filter(status=TaskVersionStatus.ACTIVE).update(status=TaskVersionStatus.RETIRED)
    newest: int = task.versions.aggregate(newest=Max("number"))["newest"] or 0
    TaskVersion.objects.create(
        task=task,
        number=newest + 1,
        content_sha256=spec.content_sha256,
        definition=definition_of(spec),
        reference_source=spec.reference_source,
    )


def _grade_imported() -> None:
    """Imported tasks that have no grade: they are older than grades."""
    stored = StoredTask.objects.filter(version__status=TaskVersionStatus.ACTIVE, version__task__difficulty="")
    for row in stored.select_related("version__task__suite"):
        try:
            difficulty, facts = difficulty_of(shown_spec(row.version))
        except TaskError:  # what can be read no longer is told where it is judged, and does not stop a start
            continue
        Task.objects.filter(pk=row.version.task_id).update(difficulty=difficulty, difficulty_facts=facts)


def _retire_others(names: set[tuple[str, str, str]]) -> Iterator[str]:
    imported = StoredTask.objects.exclude(version__status=TaskVersionStatus.CONTEST).values("version__task")
    shipped = Task.objects.filter(listed=True).exclude(pk__in=imported)
    for task in shipped.select_related("suite"):
        if (task.suite.slug, task.op, task.direction) not in names:
            with transaction.atomic():
                Task.objects.filter(pk=task.pk).update(listed=False)
                task.versions.filter(status=TaskVersionStatus.ACTIVE).update(status=TaskVersionStatus.RETIRED)
            yield task.name


def _ruleset_sync(rules: Rules) -> None:
    row, _ = RuleSet.objects.get_or_create(
        name=rules.name, defaults={"title": rules.title, "text": rules.text, "sha256": _sha256(rules.text)}
    )
    rules_of(row)


def _new_examples(suites: Path) -> Iterator[Example]:
    """Those of the largest suite first: they are judged in this order."""
    active = TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__listed=True).select_related(
        "task__suite"
    )
    kinds = list(DeviceKind.objects.all())
    sizes = Counter(version.task.suite_id for version in active)
    for version in sorted(active, key=lambda item: (-sizes[item.task.suite_id], item.task.op, item.task.direction)):
        for language, text in _shipped(suites, version):
            for kind in kinds:
                example = Example(version, kind, language, text)
                if kind.device_class == device_class(language) and not _is_submitted(example):
                    yield example


def _shipped(suites: Path, version: TaskVersion) -> Iterator[tuple[str, str]]:
    """Language and text of the kernels that come with a task."""
    task = version.task
    folder = suites / task.suite.slug.replace("-", "_") / task.op / "kernels"
    for language in LANGUAGES.values():
        path = folder / f"{task.direction}_{language.example}"
        if language.example and path.is_file():
            yield language.name, path.read_text()


def _is_submitted(example: Example) -> bool:
    known = Evaluation.objects.filter(task_version=example.version, device_kind=example.kind)
    return known.filter(submission__method__slug=EXAMPLES_METHOD, submission__blob=_sha256(example.text)).exists()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
