"""External runs whose log cannot be continued: none is made so by a candidate, and one harms no other run."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from agents import jobs
from agents.driving import external
from agents.models import Run, RunEvent
from agents.states import Wish
from benchmarks.models import Evaluation
from benchmarks.states import State
from tests.agents.test_external import WANTED, found, judged, sent
from tests.web import factories as site
from tests.web.test_api import Program, refused


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


def opened(program: Program) -> Run:
    return Run.objects.get(code=program.post("/runs", WANTED).json()["id"])


def poisoned(program: Program) -> Run:
    """Its candidate is on an island that the run does not have, as logs of before could say."""
    run = opened(program)
    key = sent(program, run, "first")
    event = run.events.get(type="proposal.requested", candidate=key)
    RunEvent.objects.filter(pk=event.pk).update(payload={**event.payload, "island": 2})
    return run


def last_in_the_queue(run: Run, key: str) -> None:
    waiting = Evaluation.objects.get(code=run.candidates.get(key=key).ticket)
    waiting.queued += timedelta(minutes=1)
    waiting.save()


def test_a_broken_log_ends_its_run_and_no_other_one_waits(program: Program, stranger: Any) -> None:
    older = opened(Program(stranger))
    sent(Program(stranger), older, "older")
    broken = poisoned(program)
    newer = opened(Program(stranger))
    sent(Program(stranger), newer, "newer")
    for _ in range(3):
        judged(broken, 1.5)
    jobs.tend()
    for run in (older, broken, newer):
        run.refresh_from_db()
    assert (older.judged_count, newer.judged_count) == (1, 1)
    assert (broken.state, broken.reason, broken.leases, broken.claim) == ("finished", "broken", {}, None)
    assert "evaluation.finished" in broken.reason_text


def test_what_goes_wrong_with_one_run_is_logged_and_no_other_one_waits(
    program: Program, stranger: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    odd, other = opened(program), opened(Program(stranger))
    sent(Program(stranger), other, "kernel")
    judged(other, 1.5)
    look = external.look

    def failing(run: Run) -> None:
        if run.pk == odd.pk:
            raise RuntimeError("our mistake")
        look(run)

    monkeypatch.setattr(external, "look", failing)
    external.tend()
    other.refresh_from_db()
    assert other.judged_count == 1
    assert f"external run {odd} could not be updated" in caplog.text


def test_a_broken_run_is_stopped_read_and_left(program: Program, visitor: Client, django_user_model: Any) -> None:
    broken = poisoned(program)
    RunEvent.objects.filter(run=broken, type="generation.opened").update(payload={"number": 0, "stage": "translate"})
    staff = django_user_model.objects.create_superuser("boss", password="a-very-long-password")
    stopped = Program(staff).post(f"/runs/{broken.code}/stop").json()
    assert (stopped["state"], stopped["reason"]) == ("finished", "broken")
    assert Evaluation.objects.get().state == State.CANCELLED
    refused(program.post(f"/runs/{broken.code}/candidates", {"source": site.SOURCE}), 409, "run-ended")
    assert found(program, broken, "0-0")["ended"] is True
    for address in ("", "log/", "candidates/", "candidates/0-0/"):
        assert visitor.get(f"/runs/{broken.code}/{address}").status_code == 200, address


@pytest.mark.parametrize("path", ["candidates", "close"])
def test_who_writes_to_a_broken_run_is_told_that_it_has_ended(program: Program, path: str) -> None:
    broken = opened(program)
    RunEvent.objects.filter(run=broken, type="run.started").update(type="generation.closed")
    response = program.post(f"/runs/{broken.code}/{path}", {"source": site.SOURCE} if path == "candidates" else {})
    if path == "candidates":
        refused(response, 409, "run-ended")
    assert program.get(f"/runs/{broken.code}").json()["reason"] == "broken"


def test_a_broken_run_is_not_forked(program: Program) -> None:
    broken = opened(program)
    RunEvent.objects.filter(run=broken, type="run.started").update(type="generation.closed")
    refused(program.post(f"/runs/{broken.code}/fork", {"judgings": 5}), 429, "run-refused")
    assert Run.objects.count() == 1


def test_a_candidate_of_a_fork_takes_a_free_name(program: Program) -> None:
    parent = opened(program)
    left_out, kept = (sent(program, parent, name, generation=0) for name in ("left", "kept"))
    last_in_the_queue(parent, left_out)
    judged(parent, 1.5)
    assert found(program, parent, kept)["score"] == 1.5
    fork = Run.objects.get(code=program.post(f"/runs/{parent.code}/fork", {"judgings": 5}).json()["id"])
    assert sent(program, fork, "new", generation=0) == "0-2"
    assert found(program, fork, kept)["score"] == 1.5
    judged(fork, 2.0)
    judged(fork, 1.2)
    external.steer(fork, Wish.STOP, AnonymousUser())
    fork.refresh_from_db()
    assert (fork.reason, fork.candidates.count()) == ("stopped", 2)
