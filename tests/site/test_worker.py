"""A worker's row: what it held before, its self-test, its quarantine."""

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
