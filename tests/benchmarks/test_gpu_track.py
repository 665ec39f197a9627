"""A GPU beside the CPU: queues, claims, workers and audits, with a fake judge that has one."""

import pytest
from django.utils import timezone

from benchmarks import jobs, services
from benchmarks.catalogue import devices
from benchmarks.catalogue.devices import NoDevice, kind_for
from benchmarks.harness import Device
from benchmarks.judgings import moves
from benchmarks.judgings.queue import compile_queue
from benchmarks.models import Evaluation, Standing, Worker
from benchmarks.operations import worker
from benchmarks.services import Refused
from benchmarks.states import WorkerRole
from tests.fakes import CPU, GPU

from .conftest import claimed_to_compile, make_worker

pytestmark = pytest.mark.django_db(transaction=True)
KIND = "nvidia-h200"


@pytest.fixture
def h200(version, settings):
    settings.KBENCH_JUDGE = "tests.fakes.GpuJudge"
    return devices.register(GPU)


@pytest.fixture
def on_gpu(h200, worker, submit):
    """Submits for the GPU and lets its workers do everything that is queued."""
    Worker.objects.update(device="cuda:0", device_kind=h200)

    def run(text="// fast\n", **options):
        evaluation = submit(text=text, language="cuda", device_kind=h200, **options)
        return finish(evaluation)

    return run


def finish(evaluation):
    for _ in range(2):
        jobs.compile_next.apply(args=[KIND]).get()
        jobs.judge_next.apply(args=[KIND]).get()
    evaluation.refresh_from_db()
    return evaluation


def test_each_kind_has_queues_of_its_own():
    assert (compile_queue("cpu-avx2"), compile_queue(KIND)) == ("compile.cpu-avx2", "compile.nvidia-h200")


def test_a_worker_takes_nothing_of_another_kind(h200, submit, cpu):
    evaluation = submit(language="cuda", device_kind=h200)
    compiler = make_worker(WorkerRole.COMPILE)
    assert claimed_to_compile(compiler) is None
    assert claimed_to_compile(compiler, KIND).evaluation == evaluation


def test_a_gpu_is_given_many_builds_ahead(h200, submit):
    compiler = make_worker(WorkerRole.COMPILE)
    for _ in range(3):
        submit(language="cuda", device_kind=h200)
        moves.evaluation_built(claimed_to_compile(compiler, KIND))
    assert Evaluation.objects.filter(built__isnull=False).count() == 3


def test_the_queue_of_a_gpu_does_not_hold_up_the_cpu(h200, submit, worker, cpu):
    submit(language="cuda", device_kind=h200)
    mine = submit()
    Evaluation.objects.update(built=timezone.now())
    assert moves.evaluation_claim(worker, cpu).evaluation == mine


def test_a_worker_registers_the_kind_of_its_device(version, settings):
    settings.KBENCH_JUDGE = "tests.fakes.GpuJudge"
    row = worker.register("judge.cuda:0@here")
    assert (row.role, row.device, row.device_kind.slug) == (WorkerRole.JUDGE, "cuda:0", KIND)
    assert (row.device_kind.title, row.device_kind.device_class) == ("NVIDIA H200", "cuda")


def test_a_device_that_is_not_here_starts_no_worker(version):
    with pytest.raises(worker.UsageError, match="there is no device cuda:0"):
        worker.register("judge.cuda:0@here")


def test_a_kernel_is_judged_on_the_device_of_its_worker(on_gpu):
    evaluation = on_gpu()
    assert (evaluation.verdict, evaluation.device_kind.slug) == ("PASS", KIND)


def test_a_language_finds_its_device(h200):
    assert kind_for("cuda") == h200
    assert kind_for("cpp").slug == CPU.kind
    with pytest.raises(NoDevice, match="does not run triton"):
        kind_for("triton", "cpu")


def test_two_kinds_for_a_language_must_be_chosen_from(h200):
    devices.register(Device("cuda:1", "nvidia-h100", "NVIDIA H100", "cuda"))
    with pytest.raises(NoDevice, match="nvidia-h100 or nvidia-h200"):
        kind_for("cuda")
    assert kind_for("cuda", "nvidia-h100").slug == "nvidia-h100"


def test_what_enters_the_first_places_is_audited(on_gpu):
    assert on_gpu().timing_trust == "audited"


def test_the_fourth_on_a_board_stays_bounded(on_gpu):
    trusts = [on_gpu(f"// speedup: {speedup}\n").timing_trust for speedup in (4.0, 3.0, 2.0, 1.5)]
    assert trusts == ["audited", "audited", "audited", "bounded"]


def test_what_is_not_public_is_not_audited(on_gpu, person):
    assert on_gpu(owner=person("ann"), visibility="private").timing_trust == "bounded"


def test_an_audit_that_refutes_is_the_verdict(on_gpu):
    evaluation = on_gpu("// audit: TAMPERING\n")
    assert (evaluation.verdict, evaluation.score) == ("TAMPERING", None)
    assert not Standing.objects.exists()


def test_an_audit_that_cannot_be_done_leaves_a_bounded_entry_that_says_so(on_gpu):
    evaluation = on_gpu("// audit: fails\n")
    assert (evaluation.verdict, evaluation.timing_trust) == ("PASS", "bounded")
    assert "no profiler" in evaluation.report["flags"][0]["text"]


def test_a_submission_that_does_not_live_through_its_audit_is_held_for_review(on_gpu):
    evaluation = on_gpu("// audit: broken\n")
    assert (evaluation.verdict, evaluation.timing_trust) == ("PASS", "bounded")
    standing = Standing.objects.get()
    assert standing.under_review
    assert "could not be audited" in standing.review_reason


def test_an_audit_on_request_puts_its_evaluation_on_the_board(on_gpu, person):
    for speedup in (4.0, 3.0, 2.0):
        on_gpu(f"// speedup: {speedup}\n")
    first = on_gpu("// speedup: 1.5\n", owner=person("ann"))
    second = finish(services.audit_request(first, by_staff=False))
    assert (first.timing_trust, second.timing_trust) == ("bounded", "audited")
    assert Standing.objects.get(holder__startswith="user:").evaluation == second


def test_judging_an_audited_code_again_keeps_the_audited_evaluation_on_the_board(on_gpu):
    first = on_gpu()
    for text in ("// speedup: 9.1\n", "// speedup: 9.2\n", "// speedup: 9.3\n"):
        on_gpu(text)
    again = finish(services.evaluation_create(first.submission, device_kind=first.device_kind, reason="rejudge"))
    standing = Standing.objects.get(evaluation__submission=first.submission)
    assert again.timing_trust == "bounded"
    assert (standing.evaluation, standing.judgings) == (first, 2)


def test_an_audit_of_staff_settles_a_review_only_if_it_was_done(on_gpu):
    first = on_gpu("// gate: too fast\n// audit: fails\n")
    assert Standing.objects.get().under_review
    finish(services.audit_request(first, by_staff=True))
    assert Standing.objects.get().under_review


def test_an_audit_of_staff_that_was_done_settles_a_review(on_gpu, tmp_path):
    profiler = tmp_path / "profiler"
    first = on_gpu(f"// gate: too fast\n// audit: needs {profiler}\n")
    assert Standing.objects.get().under_review
    profiler.touch()
    finish(services.audit_request(first, by_staff=True))
    assert not Standing.objects.get().under_review


def test_a_second_request_is_refused_while_the_first_is_on_its_way(on_gpu):
    first = on_gpu("// audit: fails\n")
    services.audit_request(first, by_staff=False)
    with pytest.raises(Refused, match="already queued"):
        services.audit_request(first, by_staff=False)
    services.audit_request(first, by_staff=True)  # which settles more
    with pytest.raises(Refused, match="already queued"):
        services.audit_request(first, by_staff=True)


def test_what_is_audited_already_is_not_audited_again(on_gpu):
    with pytest.raises(Refused, match="has not been audited"):
        services.audit_request(on_gpu(), by_staff=False)
