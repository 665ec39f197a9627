"""A worker whose self-test cannot even be run takes no work."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks.models import Worker
from benchmarks.operations import worker
from benchmarks.states import WorkerRole, WorkerState
from tests.benchmarks.conftest import make_worker


def test_a_broken_self_test_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Worker) -> str | None:
        raise TypeError("wrong number of arguments")

    monkeypatch.setattr(worker, "prove", broken)
    assert (
        worker._proven(Worker(name="judge.cpu@here"))
        == "The self-test could not be run: TypeError: wrong number of arguments"
    )


def test_the_real_judge_tells_its_isolation() -> None:
    from benchmarks.judgings.judge import HarnessJudge

    assert HarnessJudge().isolation().name


@pytest.mark.django_db(transaction=True)
def test_a_worker_in_quarantine_is_tested_again_until_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    row = make_worker(WorkerRole.MAINT, name="judge.cpu@here", state=WorkerState.STARTING)
    answers = ["wrong verdict", "wrong again", None]
    seen, pauses = [], []
    monkeypatch.setattr(worker, "prove", lambda _: answers.pop(0))
    monkeypatch.setattr(worker.time, "sleep", lambda s: (pauses.append(s), seen.append(Worker.objects.get())))
    worker._prove_until_right(row)
    assert [(row.state, row.test_passed) for row in seen] == [(WorkerState.QUARANTINED, False)] * 2
    assert Worker.objects.get().test_passed is True
    assert timezone.now() - Worker.objects.get().tested < timedelta(minutes=1)
    assert pauses == [30, 60]
