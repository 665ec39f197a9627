"""Why an evaluation waits, as the sentence on the page."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import services
from benchmarks.states import Switch, WorkerRole, WorkerState
from benchmarks.waiting import waiting, waiting_text

from .conftest import make_worker


@pytest.fixture
def workers(worker):
    return [worker, make_worker(WorkerRole.COMPILE)]


def test_the_first_one_is_picked_up_now(submit, workers):
    assert "now" in waiting_text(submit())


def test_the_place_in_the_queue_is_exact(submit, workers):
    evaluations = [submit() for _ in range(3)]
    assert [waiting(evaluation).position for evaluation in evaluations] == [1, 2, 3]
    assert waiting_text(evaluations[2]) == "2 ahead of you."


def test_the_next_one_hears_that_another_is_judged(submit, workers, claim):
    submit()
    second = submit()
    claim()
    assert "another" in waiting_text(second)


def test_without_any_worker_it_says_so(submit):
    assert waiting_text(submit()) == "No cpu worker has ever been online."


def test_a_silent_worker_is_named_with_its_last_sign_of_life(submit):
    make_worker(heartbeat=timezone.now() - timedelta(hours=2))
    assert "No cpu worker online since 20" in waiting_text(submit())


def test_a_quarantined_worker_is_explained(submit):
    make_worker(state=WorkerState.QUARANTINED, state_text="a wrong kernel was accepted")
    assert "a wrong kernel was accepted" in waiting_text(submit())


def test_a_missing_compile_worker_is_named(submit, worker):
    assert "compiles" in waiting_text(submit())


def test_paused_judging_gives_the_message(submit, workers):
    services.switch_set(Switch.JUDGING, on=False, message="new disks")
    assert waiting_text(submit()) == "Judging is paused: new disks"


def test_what_is_done_does_not_wait(judged):
    assert waiting(judged()) is None
