"""Several hosts that end their judgings at once: one board, ranked as if they had come one after the other."""

import threading
import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import BaselineResult, Evaluation, Standing, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, State, WorkerRole
from tests.benchmarks.conftest import make_worker
from tests.benchmarks.test_claims import at_once
from tests.fakes import report_for

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 6
WRITING_S = 0.5


def claim_all(submit: Any, cpu: Any) -> list[moves.Holding]:
    for number in range(COUNT):
        submit(text=f"// {number}\n")
    Evaluation.objects.filter(state=State.QUEUED).update(built=timezone.now())
    workers = [make_worker(name=f"judge.cpu@host{number}") for number in range(COUNT)]
    holdings = [moves.evaluation_claim(worker, cpu) for worker in workers]
    return [holding for holding in holdings if holding is not None]


def test_reports_that_come_at_once_rank_one_board(submit: Any, cpu: Any) -> None:
    holdings = claim_all(submit, cpu)
    assert len(holdings) == COUNT
    spec = spec_of(holdings[0].evaluation.task_version)

    def record(number: int) -> None:
        source = Source(f"// {number}\n", "cpp")
        moves.record_report(holdings[number], report_for(source, spec, speedup=2.0 + number, half_width=0.01))

    at_once(COUNT, record)
    found = list(Standing.objects.order_by("-score").values_list("score", "rank"))
    assert found == [(2.0 + COUNT - place, place) for place in range(1, COUNT + 1)]
    assert set(BaselineResult.objects.values_list("judgings", flat=True)) == {COUNT}


@pytest.mark.parametrize("how", ["private", "hidden"])
def test_what_is_taken_down_while_its_report_is_written_stands_nowhere(
    submit: Any, cpu: Any, person: Any, how: str
) -> None:
    """The report has been recorded and not yet committed, so nobody else sees that it was judged."""
    first = submit(owner=person("ann"))
    Evaluation.objects.filter(pk=first.pk).update(built=timezone.now())
    holding = moves.evaluation_claim(make_worker(name="judge.cpu@host"), cpu)
    assert holding is not None
    source, recorded = Source(first.submission.blob.text, "cpp"), threading.Event()
    report, staff = report_for(source, spec_of(first.task_version)), person("sam", is_staff=True)

    def record() -> None:
        with transaction.atomic():
            moves.record_report(holding, report)
            recorded.set()
            time.sleep(WRITING_S)

    def take_down() -> None:
        recorded.wait()
        if how == "private":
            ownership.visibility_change(first.submission, "private")
        else:
            decisions.decide(first.submission, ActionKind.HIDE, by=staff, reason="Advertising.")

    at_once(2, lambda number: (record, take_down)[number]())
    assert Evaluation.objects.get().verdict == "PASS"
    assert not Standing.objects.exists()


def test_what_is_compiled_while_it_is_invalidated_puts_its_code_under_review(
    submit: Any, cpu: Any, person: Any
) -> None:
    """Its key has been written and not yet committed, so whoever decides cannot read it."""
    ann, code = person("ann"), "a" * 64
    entry, bad = submit(owner=ann, text="// entry\n"), submit(owner=ann, text="// bad\n")
    Evaluation.objects.filter(pk=entry.pk).update(built=timezone.now(), object_key=code)
    holding = moves.evaluation_claim(make_worker(name="judge.cpu@host"), cpu)
    assert holding is not None
    moves.record_report(holding, report_for(Source("// entry\n", "cpp"), spec_of(entry.task_version)))
    assert not Standing.objects.get().under_review
    compiling = moves.evaluation_claim(make_worker(name="compile@host"), cpu, WorkerRole.COMPILE)
    assert compiling is not None
    written, staff = threading.Event(), person("sam", is_staff=True)

    def compiled() -> None:
        with transaction.atomic():
            moves.evaluation_compiled(compiling, 1.0, code)
            written.set()
            time.sleep(WRITING_S)

    def invalidate() -> None:
        written.wait()
        decisions.decide(bad.submission, ActionKind.INVALIDATE, by=staff, reason="It reads the answer.")

    at_once(2, lambda number: (compiled, invalidate)[number]())
    assert Standing.objects.get().under_review


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")
@pytest.mark.parametrize("how", ["compiled", "decided"])
def test_something_is_submitted_while_the_boards_of_its_task_are_held(submit: Any, how: str) -> None:
    first = submit()
    version = first.task_version
    columns = {name: getattr(version, name) for name in ("task", "definition", "reference_source")}
    other = TaskVersion.objects.create(number=99, content_sha256="f" * 64, status="retired", **columns)
    held, submitted = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            standings.task_held(first) if how == "compiled" else standings.boards_marked([version.pk, other.pk])
            held.set()
            assert submitted.wait(10)

    def submit_more() -> None:
        assert held.wait(10)
        submit(text="// more\n")
        submitted.set()

    at_once(2, lambda number: (hold, submit_more)[number]())


def test_the_same_code_judged_by_many_at_once_pools_all_its_judgings(submit: Any, cpu: Any) -> None:
    first = submit()
    for _ in range(COUNT - 1):
        services.evaluation_create(first.submission)
    Evaluation.objects.filter(state=State.QUEUED).update(built=timezone.now())
    holdings = [moves.evaluation_claim(make_worker(name=f"judge.cpu@host{number}"), cpu) for number in range(COUNT)]
    spec = spec_of(first.task_version)
    report = report_for(Source(first.submission.blob.text, "cpp"), spec)
    at_once(COUNT, lambda number: moves.record_report(holdings[number], report))
    assert Standing.objects.get().judgings == COUNT
