"""A worker's row: what it held before, its self-test, its quarantine."""

import os
import threading

import pytest
from django.utils import timezone

from benchmarks import services
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, TaskVersion, Worker
from benchmarks.operations import worker
from benchmarks.states import State, WorkerRole, WorkerState
from tests.rows import synced

pytestmark = pytest.mark.django_db


@pytest.fixture
def tasks(db):
    synced()


def test_a_node_name_tells_role_and_device(tasks):
    row = worker.register("judge.cpu@here")
    assert (row.role, row.device_kind.slug, row.state) == (WorkerRole.JUDGE, "cpu-avx2", WorkerState.STARTING)
    assert worker.register("compile@here").device_kind.slug == "cpu-avx2"
    assert worker.register("maint@here").device_kind is None


def test_starting_again_gives_back_what_the_dead_one_held(tasks):
    row = worker.register("compile@here")
    version = TaskVersion.objects.filter(status="active").first()
    services.submission_create(version=version, text="// x", language="cpp")
    assert moves.evaluation_claim(row, row.device_kind, row.role)
    worker.register("compile@here")
    evaluation = Evaluation.objects.get()
    assert (evaluation.state, evaluation.attempt) == (State.QUEUED, 2)


def test_the_isolation_in_force_is_recorded(tasks):
    row = worker.register("judge.cpu@here")
    assert worker.prove(row) is None
    row.refresh_from_db()
    assert (row.isolation, row.isolation_strong) == ("fake", True)


def test_a_failed_self_test_is_told(tasks, settings):
    settings.KBENCH_JUDGE = "tests.fakes.BrokenJudge"
    assert worker.prove(worker.register("judge.cpu@here")) == "a wrong kernel was accepted"


def test_a_public_site_refuses_weak_isolation(tasks, settings):
    settings.KBENCH_PUBLIC = True
    settings.KBENCH_JUDGE = "tests.fakes.WeakJudge"
    assert "strong isolation" in worker.prove(worker.register("judge.cpu@here"))


def test_a_state_is_shown_with_its_reason(tasks):
    worker.register("judge.cpu@here")
    worker.set_state("judge.cpu@here", WorkerState.QUARANTINED, "broken")
    row = Worker.objects.get()
    assert (row.state, row.state_text) == (WorkerState.QUARANTINED, "broken")
    assert row.heartbeat <= timezone.now()


def test_no_connection_is_open_while_a_worker_forks(monkeypatch):
    seen = []

    class Rows:
        def filter(self, **_):
            return self

        def update(self, **_):
            seen.append(("written", worker._no_fork.locked()))

    class Connections:
        def close_all(self):
            seen.append(("closed", worker._no_fork.locked()))

    monkeypatch.setattr(worker.Worker, "objects", Rows())
    monkeypatch.setattr(worker, "connections", Connections())
    worker.beat_once("judge.cpu@here")
    assert seen == [("written", True), ("closed", True)]
    assert not worker._no_fork.locked()


def test_a_fork_waits_for_the_heartbeat_and_leaves_it_free_on_both_sides():
    forked = threading.Event()
    worker._no_fork.acquire()
    thread = threading.Thread(target=lambda: (_forked_exit_code(), forked.set()))
    thread.start()
    assert not forked.wait(0.1)
    worker._no_fork.release()
    thread.join()
    assert forked.is_set()
    assert _forked_exit_code() == 0
    assert not worker._no_fork.locked()


def _forked_exit_code():
    """0 if a child that was forked finds the lock free."""
    pid = os.fork()
    if pid == 0:
        os._exit(int(worker._no_fork.locked()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
