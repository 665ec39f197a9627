"""A worker whose self-test cannot even be run takes no work."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchmarks.harness import Report, Source, Verdict, Watcher, default_rules, default_suites, load_suite
from benchmarks.judgings import judge
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
    assert judge.HarnessJudge().isolation().name


@pytest.mark.parametrize("image", ["kbench:7", ""])
def test_a_report_names_the_image_that_judged(settings: Any, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    names = {"task": "a/forward", "suite": "s", "language": "cpp", "device_kind": "cpu-avx2", "ruleset": "rk-2"}
    told = Report(
        **names, verdict=Verdict.TIMEOUT, reason="It took too long.", source_sha256="", environment={"machine": "fake"}
    )
    monkeypatch.setattr(judge.harness, "keep_ready", lambda: None)
    monkeypatch.setattr(judge.harness, "judge", lambda *_, **__: told)
    settings.KBENCH_IMAGE = image
    [task, *_] = load_suite(default_suites() / "low_precision")
    assignment = judge.Assignment(Source("// a kernel\n", "cpp"), task, default_rules("rk-2"), "cpu")
    report = judge.HarnessJudge().judge(assignment, Watcher())
    assert report.environment == {"machine": "fake", **({"image": image} if image else {})}


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
