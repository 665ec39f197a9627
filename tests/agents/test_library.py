"""The library of verified kernels: only what everybody may read and what is ranked, and all of it in the log."""

from typing import Any

import pytest
from django.test import Client

from agents import services
from agents.evolve.config import RunConfig
from agents.evolve.logs import MemoryLog
from agents.evolve.memory import RunMemory
from agents.evolve.templates import find_template
from agents.library import remembered
from agents.models import Candidate, Run
from benchmarks.models import Evaluation
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility
from tests.rows import cpu_kind
from tests.web import factories as site

from . import factories

TEMPLATE = find_template("mnist_linear_relu/forward", "cpp")
assert TEMPLATE is not None


def told(op: str = "mnist_linear_relu", direction: str = "backward") -> tuple[RunMemory, MemoryLog]:
    log, version = MemoryLog(), site.version(op, direction)
    return remembered(RunConfig(version.task.path), version, cpu_kind(), log), log


@pytest.fixture
def ranked(tasks: Any, owner: Any) -> Evaluation:
    """A kernel of the forward task on its leaderboard."""
    return site.judged(owner=owner)


def test_a_ranked_kernel_of_a_related_task_is_told_with_what_it_gained(ranked: Evaluation) -> None:
    memory, log = told()
    (kernel,) = memory.kernels
    assert (kernel.task, kernel.device_kind, kernel.score) == ("mnist_linear_relu/forward", cpu_kind().slug, 1.5)
    assert kernel.evaluation == str(ranked.code)
    assert "library" in kernel.technique
    assert log.get_source(kernel.source_sha256) == site.SOURCE


def test_not_to_its_own_task_and_not_to_one_that_is_not_related(ranked: Evaluation) -> None:
    assert told(direction="forward")[0] == RunMemory()
    assert told("layernorm")[0] == RunMemory()


@pytest.mark.parametrize("how", ["hidden", "invalidated", "under review", "private", "unlisted", "failed"])
def test_what_is_not_ranked_is_never_told(tasks: Any, owner: Any, how: str) -> None:
    reports = {"under review": site.gated(), "failed": site.failing()}
    seen = {"private": Visibility.PRIVATE, "unlisted": Visibility.UNLISTED}
    judged = site.judged(reports.get(how), owner=owner, visibility=seen.get(how, Visibility.PUBLIC))
    kinds = {"hidden": ActionKind.HIDE, "invalidated": ActionKind.INVALIDATE}
    if how in kinds:
        assert told()[0].kernels
        decisions.decide(judged.submission, kinds[how], by=site.user("staff"), reason="It copies results.")
    memory, log = told()
    assert memory == RunMemory()
    assert log._sources == {}


def test_settings_come_from_candidates_of_ranked_entries(ranked: Evaluation) -> None:
    run = factories.driven()
    row = Candidate.objects.filter(run=run).first()
    assert row is not None
    Candidate.objects.filter(pk=row.pk).update(
        ticket=str(ranked.code), template=TEMPLATE.name, params=dict(TEMPLATE.default)
    )
    (setting,) = told()[0].settings
    assert (setting.template, setting.params, setting.score) == (TEMPLATE.name, TEMPLATE.default, 1.5)
    Run.objects.filter(pk=run.pk).update(hidden=True)
    assert told()[0].settings == ()


def test_the_next_run_is_told_the_note_of_the_last_one(visitor: Client, tasks: Any) -> None:
    first = factories.driven()
    note = first.events.get(type="task.note").payload["text"]
    order = services.RunRequest(site.version(), cpu_kind(), factories.config(), None, remember=True)
    second = services.run_start(order)
    created = second.events.get(seq=1).payload["config"]["options"]["memory"]
    assert (created["note"], created["note_of"]) == (note, str(first.code))
    page = visitor.get(second.get_absolute_url()).content.decode()
    assert f'href="{first.get_absolute_url()}">note of an earlier run</a>' in page


def test_a_note_of_a_run_that_is_not_all_readable_is_not_told(tasks: Any, owner: Any) -> None:
    run = factories.driven()
    factories.remarked(run, "words", owner=owner, visibility=Visibility.PRIVATE)
    version = site.version()
    assert remembered(RunConfig(version.task.path), version, cpu_kind(), MemoryLog()).note == ""


def test_a_run_is_told_only_if_it_asks(visitor: Client, ranked: Evaluation) -> None:
    address = "/runs/new/?task=robust-kbench/mnist_linear_relu/backward"
    data = {"proposer": "template-evo", "device": cpu_kind().slug, "judgings": 5, "verifiers": ["static"]}
    visitor.post(address, data)
    assert Run.objects.get().config["options"] == {}
    visitor.post(address, {**data, "memory": "on"})
    run = Run.objects.order_by("pk").last()
    assert run is not None
    assert RunMemory.of_options(run.config["options"]).kernels
    page = " ".join(visitor.get(run.get_absolute_url()).content.decode().split())
    assert f'href="/evaluations/{ranked.code}/">kernel of mnist_linear_relu/forward, 1.50×</a>' in page
