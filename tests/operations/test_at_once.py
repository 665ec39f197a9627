"""Several hosts that end their judgings at once: one board, ranked as if they had come one after the other."""

from typing import Any

import pytest
from django.utils import timezone

from benchmarks import services
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import BaselineResult, Evaluation, Standing
from benchmarks.states import State
from tests.benchmarks.conftest import make_worker
from tests.benchmarks.test_claims import at_once
from tests.fakes import report_for

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 6


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
