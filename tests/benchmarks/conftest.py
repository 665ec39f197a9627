"""Rows for tests of the app: one task, submissions through the services, workers, holdings."""

import socket
from functools import partial

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from benchmarks import services
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source, default_suites
from benchmarks.judgings import moves
from benchmarks.models import DeviceKind, Evaluation, TaskVersion, Worker
from benchmarks.states import State, WorkerRole, WorkerState
from tests.fakes import CPU, report_for
from tests.rows import cpu_kind, synced

SOURCE = "// a kernel\n"


@pytest.fixture
def small_suites(tmp_path):
    """A folder of suites with one operation, which is the shipped one."""
    folder = tmp_path / "suites" / "robust_kbench"
    folder.mkdir(parents=True)
    (folder / "mnist_linear_relu").symlink_to(default_suites() / "robust_kbench" / "mnist_linear_relu")
    return tmp_path / "suites"


@pytest.fixture
def version(db, small_suites):
    synced(small_suites)
    return TaskVersion.objects.get(task__direction="forward", status="active")


@pytest.fixture
def cpu(version):
    return cpu_kind()


@pytest.fixture
def submit(version):
    return partial(services.submission_create, **{"version": version, "text": SOURCE, "language": "cpp"})


@pytest.fixture
def person(db):
    return get_user_model().objects.create_user


def make_worker(role=WorkerRole.JUDGE, name=None, **columns):
    now = timezone.now()
    kind = cpu_kind() if role != WorkerRole.MAINT else None
    device = {"device_kind": kind, "device": "cpu" if kind else ""}
    defaults = {"role": role, **device, "state": WorkerState.ONLINE, "started": now, "heartbeat": now}
    return Worker.objects.update_or_create(name=name or f"{role}@test", defaults={**defaults, **columns})[0]


def claimed_to_compile(worker, kind=CPU.kind):
    return moves.evaluation_claim(worker, DeviceKind.objects.get(slug=kind), WorkerRole.COMPILE)


@pytest.fixture
def worker(version):
    """The judging worker of this host, by the name that an eagerly applied job has."""
    return make_worker(name=socket.gethostname())


@pytest.fixture
def claim(worker, cpu):
    """Claims for judging what is next, compiled or not."""

    def claim_next():
        Evaluation.objects.filter(state=State.QUEUED, built=None).update(built=timezone.now())
        return moves.evaluation_claim(worker, cpu)

    return claim_next


@pytest.fixture
def judged(submit, claim):
    """An evaluation that went the whole way and got the report that is described."""

    def run(text=SOURCE, *, submission=None, verdict="PASS", speedup=2.0, half_width=0.02, gate="", **options):
        fields = {"reason": options.pop("reason")} if "reason" in options else {}
        evaluation = services.evaluation_create(submission, **fields) if submission else submit(text=text, **options)
        holding = claim()
        assert holding.evaluation.pk == evaluation.pk
        spec = spec_of(evaluation.task_version)
        words = {"verdict": verdict, "speedup": speedup, "half_width": half_width, "gate": gate}
        moves.record_report(holding, report_for(Source(text, "cpp"), spec, **words))
        evaluation.refresh_from_db()
        return evaluation

    return run
