"""Requests for kernels in tests: posted, and examined with a given outcome, so that no sandbox is needed.

What a definition becomes is the shipped task of the tests under the name of the request. Does NOT examine anything.
"""

from dataclasses import replace
from typing import Any

from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Examined, ForeignTask
from benchmarks.models import KernelRequest, TaskVersion
from benchmarks.requests import asking, examining
from tests.rows import cpu_kind

MODEL = "class Model: 'A thing.'\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
SECONDS = 3.0  # of an examination


def posted(owner: Any, title: str = "Row softmax", text: str = MODEL, **options: Any) -> KernelRequest:
    draft = {"reason": "Our model waits for it.", "files": {"definition.py": text}, "device_kinds": [cpu_kind()]}
    return asking.request_create(asking.RequestDraft(**{"title": title, **draft, **options}), by=owner)


def outcome(foreign: ForeignTask, *_: Any, labels: tuple[str, ...] = (), **__: Any) -> Examined:
    """In place of `examine`: the shipped task in the words of this one, or a refusal if its source says so."""
    if "refuse" in foreign.source:
        return Examined(None, "Its results are random <b>numbers</b>.", seconds=SECONDS)
    shipped = TaskVersion.objects.select_related("task__suite", "stored").filter(stored=None, task__direction="forward")
    words = {name: getattr(foreign, name) for name in ("suite", "op", "title", "summary", "family")}
    task = replace(spec_of(shipped.get(task__op="mnist_linear_relu")), **words, labels=labels)
    return Examined(replace(task, reference_source=foreign.source), labels=labels, seconds=SECONDS)


def claimed() -> examining.ExaminationHolding:
    """The next definition in the hands of a worker, without the pause after the one before."""
    KernelRequest.objects.update(heartbeat=None)
    holding = examining.request_claim()
    assert holding is not None
    return holding


def examined(request: KernelRequest, labels: tuple[str, ...] = ()) -> KernelRequest:
    """As it is once a worker has examined the definition, which is the only one that waits."""
    holding = claimed()
    assert holding.row == request
    item, _ = examining.examine_files(holding.row, lambda found, _: Examined(None, found.problem))
    assert item.task is not None
    assert holding.record(item, outcome(item.task, labels=labels))
    return KernelRequest.objects.select_related("task__suite", "owner").get(pk=request.pk)


def opened(owner: Any, **options: Any) -> KernelRequest:
    return examined(posted(owner, **options))


def version_of(request: KernelRequest) -> TaskVersion:
    return TaskVersion.objects.select_related("task__suite").get(task=request.task_id, status="active")
