"""A board per instruction set: how a kind comes to exist, what `cpu` means, and where old rows go."""

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from benchmarks import selectors, services
from benchmarks.catalogue.devices import NoDevice, kind_for, register
from benchmarks.harness import Device
from benchmarks.harness.compilers.gxx import machine_fingerprint
from benchmarks.harness.hosts.processors import processor
from benchmarks.judgings import moves, recording
from benchmarks.models import BaselineResult, DeviceKind, Evaluation, Standing, Worker
from benchmarks.states import WorkerRole, WorkerState
from tests.fakes import CPU, GPU
from tests.rows import cpu_kind

from .conftest import make_worker

WIDE = Device("cpu", "cpu-avx512", "CPU with AVX-512", "cpu", "Wide Processor")
migration = importlib.import_module("benchmarks.migrations.0011_kinds_of_processors")
pytestmark = pytest.mark.django_db


def test_a_kind_knows_every_model_that_has_reported_once():
    for model in ("B", "A", "B"):
        kind = register(Device("cpu", "cpu-avx2", "CPU with AVX2", "cpu", model))
    assert (kind.processors, kind.label, kind.full_title) == (["A", "B"], "cpu-avx2 (A, B)", "CPU with AVX2 (A, B)")
    for model in ("C", "D", "E"):
        kind = register(Device("cpu", "cpu-avx2", "CPU with AVX2", "cpu", model))
    assert kind.label == "cpu-avx2 (A, B, C and 2 more)"
    assert register(GPU).label == "nvidia-h200"


def test_cpu_is_the_kind_of_the_processors_of_this_site(version):
    assert selectors.find_device_kind("cpu") == kind_for("cpp", "cpu") == cpu_kind()
    DeviceKind.objects.all().delete()
    assert selectors.find_device_kind("cpu") is None
    with pytest.raises(NoDevice, match="no worker"):
        kind_for("cpp", "cpu")


def test_of_several_kinds_cpu_is_the_one_that_a_worker_judges_for(version):
    narrow, wide = cpu_kind(), register(WIDE)
    assert kind_for("cpp", "cpu") == kind_for("cpp") == narrow  # nobody is there: the first by name
    make_worker(name="wide", device_kind=wide)
    assert kind_for("cpp", "cpu") == kind_for("cpp") == wide
    make_worker(name="narrow", device_kind=narrow)
    assert kind_for("cpp", "cpu") == narrow
    Worker.objects.filter(name="narrow").update(state=WorkerState.OFFLINE)
    Worker.objects.filter(name="wide").update(role=WorkerRole.COMPILE)
    assert kind_for("cpp", "cpu") == narrow
    assert kind_for("cpp", "cpu-avx512") == wide


def test_a_processor_does_not_stand_for_a_gpu(version):
    register(GPU)
    with pytest.raises(NoDevice, match="cpu does not run triton; choose nvidia-h200"):
        kind_for("triton", "cpu")
    with pytest.raises(NoDevice, match="Several device kinds run python"):
        kind_for("python")


def test_without_any_kind_nothing_is_taken(version):
    DeviceKind.objects.all().delete()
    with pytest.raises(services.Refused, match="No worker with a CPU"):
        services.submission_create(version=version, text="// x", language="cpp")


def test_a_worker_takes_nothing_of_another_instruction_set(submit, worker):
    evaluation = submit(device_kind=register(WIDE))
    Evaluation.objects.update(built=evaluation.queued)
    assert moves.evaluation_claim(worker, cpu_kind()) is None
    assert moves.evaluation_claim(worker, register(WIDE)).evaluation == evaluation


def test_a_board_is_found_by_the_old_name_too(judged, version):
    judged(speedup=3.0)
    task = version.task
    names = [task.suite.slug, task.op, task.direction]
    page = Client().get(reverse("leaderboard", args=[*names, "cpu"])).content.decode()
    assert "3.00×" in page
    assert "cpu-avx2" in page
    assert CPU.model in page
    board = Client().get("/api/v1/leaderboards", {"task": task.path, "device": "cpu"}).json()
    assert (board["device"], board["processors"], len(board["entries"])) == ("cpu-avx2", [CPU.model], 1)
    assert Client().get(reverse("leaderboard", args=[*names, "cpu-neon"])).status_code == 404


# --- the migration -------------------------------------------------------------------------------------------------


@pytest.fixture
def old(judged, version):
    """A site as it was: everything on `cpu`, judged on hosts with these processors."""

    def run(*models):
        found = [judged(text=f"// {number}\n", speedup=2.0 + number) for number in range(len(models))]
        for evaluation, words in zip(found, models, strict=True):
            model, _, fingerprint = (words or "").partition("#")
            told = {"cpu": model, "machine": fingerprint}
            report = {**evaluation.report, "environment": {name: text for name, text in told.items() if text}}
            Evaluation.objects.filter(pk=evaluation.pk).update(report=report)
        DeviceKind.objects.filter(pk=cpu_kind().pk).update(slug="cpu", title="CPU", processors=[])
        migration.split(apps, SimpleNamespace())
        return [Evaluation.objects.get(pk=evaluation.pk).device_kind.slug for evaluation in found]

    return run


HERE = processor()
OTHER = "cpu-neon" if HERE.kind == "cpu-avx512" else "cpu-avx512"
MODEL = {"cpu-avx512": "Intel(R) Xeon(R) Platinum 8480C", "cpu-neon": "Neoverse-V2"}[OTHER]


def test_old_rows_go_to_the_kind_of_the_machine_that_judged_them(old):
    assert old(HERE.model, HERE.model) == [HERE.kind, HERE.kind]
    kind = DeviceKind.objects.get()
    assert (kind.slug, kind.title, kind.processors) == (HERE.kind, HERE.title, [HERE.model])
    assert Standing.objects.filter(device_kind=kind).count() == 2
    assert BaselineResult.objects.filter(device_kind=kind).exists()


def test_a_fingerprint_tells_machines_of_one_model_apart(old):
    """A host may hide from its guests what its model has: the same name with other flags is another kind."""
    assert old(f"{HERE.model}#other-flags", f"{MODEL}#of-another") == [OTHER, OTHER]


def test_the_same_fingerprint_is_the_same_machine(old):
    assert old(f"Somebody's Chip#{machine_fingerprint()}", HERE.model) == [HERE.kind] * 2


def test_a_site_with_hosts_of_two_kinds_gets_two_boards(old, version):
    assert old(HERE.model, MODEL, HERE.model) == [HERE.kind, OTHER, HERE.kind]
    assert not Standing.objects.exists()
    recording.boards_complete()
    rows = Standing.objects.order_by("score").values_list("device_kind__slug", "score", "rank")
    assert [(slug, round(score, 6), rank) for slug, score, rank in rows] == [
        (HERE.kind, 2.0, 2),
        (OTHER, 3.0, 1),
        (HERE.kind, 4.0, 1),
    ]
    judgings = BaselineResult.objects.order_by("device_kind__slug").values_list("device_kind__slug", "judgings")
    assert set(judgings) == {(HERE.kind, 2), (OTHER, 1)}
    before = list(Standing.objects.values_list("pk", flat=True))
    recording.boards_complete()
    assert list(Standing.objects.values_list("pk", flat=True)) == before


def test_what_is_not_known_goes_with_most_of_the_known(old):
    assert old("Somebody's Chip", MODEL, None) == [OTHER, OTHER, OTHER]


def test_where_nothing_is_known_a_kind_says_so_that_no_worker_serves(old):
    assert old("Somebody's Chip", None) == ["cpu-unrecorded"] * 2
    assert DeviceKind.objects.get().processors == ["Somebody's Chip"]
    assert selectors.find_device_kind("cpu") is None


def test_what_only_waits_goes_to_this_machine(submit):
    evaluation = submit()
    DeviceKind.objects.filter(pk=cpu_kind().pk).update(slug="cpu", title="CPU", processors=[])
    migration.split(apps, SimpleNamespace())
    evaluation.refresh_from_db()
    assert evaluation.device_kind.slug == HERE.kind


def test_a_new_site_has_no_kind_before_a_worker_reports():
    migration.split(apps, SimpleNamespace())
    assert not DeviceKind.objects.exists()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", "cpu-avx512"),
        ("AMD EPYC 9654 96-Core Processor", "cpu-avx512"),
        ("AMD EPYC 7742 64-Core Processor", "cpu-avx2"),
        ("AMD Ryzen 9 5950X 16-Core Processor", "cpu-avx2"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "cpu-avx512"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "cpu-avx2"),
        ("12th Gen Intel(R) Core(TM) i7-12700H", "cpu-avx2"),
        ("aarch64", "cpu-neon"),
        ("Somebody's Chip", None),
        ("", None),
        (None, None),
    ],
)
def test_families_that_say_what_they_have(model, kind):
    assert migration.kind_of(model) == (HERE.kind if model == HERE.model else kind)
