"""Profiles through the jobs, with a fake judge: asked for once, charged, never lost, and no part of any score."""

import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import jobs, quotas, services, switches
from benchmarks.catalogue import devices
from benchmarks.judgings import profiles
from benchmarks.models import Evaluation, LedgerEntry, Payer, ProfileRequest
from benchmarks.states import CheckState, LedgerKind, State, Switch, WorkerRole, WorkerState
from tests.fakes import GPU
from tests.profiled import profile

from .conftest import make_worker

pytestmark = pytest.mark.django_db(transaction=True)
KIND = "nvidia-h200"


@pytest.fixture
def payer(person):
    return Payer.objects.create(account=person("olga"))


@pytest.fixture
def gpu(version, settings):
    """A GPU with a worker that does everything that is queued."""
    settings.KBENCH_JUDGE = "tests.fakes.GpuJudge"
    kind = devices.register(GPU)
    return make_worker(WorkerRole.JUDGE, name=socket.gethostname(), device="cuda:0", device_kind=kind)


@pytest.fixture
def judged(gpu, submit):
    def once(text="// fast\n", **options):
        evaluation = submit(text=text, language="cuda", device_kind=gpu.device_kind, **options)
        jobs.compile_next.apply(args=[KIND]).get()
        jobs.judge_next.apply(args=[KIND]).get()
        evaluation.refresh_from_db()
        return evaluation

    return once


def deliver():
    jobs.profile_next.apply(args=[KIND]).get()


def of(evaluation):
    return ProfileRequest.objects.get(evaluation=evaluation)


def test_an_evaluation_is_profiled_and_its_seconds_are_charged(judged, payer):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    deliver()
    assert of(evaluation).state == CheckState.DONE
    assert of(evaluation).result["configs"][0]["bottleneck"]["key"] == "compute"
    assert any(text.endswith(": 50.0") for text in of(evaluation).result["missing"])  # the times of the judging
    (line,) = LedgerEntry.objects.filter(payer=payer, text__contains="profiled")
    assert line.judging_s > 0


def test_it_changes_nothing_of_the_evaluation(judged, payer):
    evaluation = judged()
    before = Evaluation.objects.filter(pk=evaluation.pk).values().get()
    services.profile_request(evaluation, payer)
    deliver()
    assert Evaluation.objects.filter(pk=evaluation.pk).values().get() == before


def test_who_asks_again_gets_the_same_profile_and_pays_once(judged, payer):
    evaluation = judged()
    first = services.profile_request(evaluation, payer)
    assert services.profile_request(evaluation, payer) == first
    deliver()
    assert services.profile_request(evaluation, payer).state == CheckState.DONE
    deliver()
    assert LedgerEntry.objects.filter(payer=payer, text__contains="profiled").count() == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [("// profile: fails\n", "it launches no kernel"), ("// raises\n", "there is no profiler here")],
)
def test_what_fails_says_why_costs_nothing_a_few_times_and_may_be_asked_for_again(
    judged, payer, text, problem, settings
):
    evaluation = judged()
    evaluation.submission.blob.text = text
    evaluation.submission.blob.save()
    services.profile_request(evaluation, payer)
    deliver()
    assert (of(evaluation).state, of(evaluation).problem) == (CheckState.FAILED, problem)
    assert [line.kind for line in charged(payer)] == [LedgerKind.REFUND, LedgerKind.CHARGE]
    assert services.profile_request(evaluation, payer).state == CheckState.QUEUED
    assert of(evaluation).problem == ""
    settings.KBENCH_REFUNDS_PER_DAY = 1
    deliver()
    assert [line.kind for line in charged(payer)] == [LedgerKind.CHARGE, LedgerKind.REFUND, LedgerKind.CHARGE]


def charged(payer):
    return LedgerEntry.objects.filter(payer=payer, text__contains="profiled")


def test_payers_take_turns(judged, payer, person):
    """Whoever asks for many keeps a newcomer waiting for one."""
    other = Payer.objects.create(account=person("ben"))
    many, late = [judged(f"// {number}\n") for number in range(3)], judged("// late\n")
    for evaluation in many:
        services.profile_request(evaluation, payer)
    first = profiles.profile_claim(KIND)
    services.profile_request(late, other)
    first.record(profile())
    taken = [profiles.profile_claim(KIND).row.evaluation for _ in range(3)]
    assert taken == [late, *many[1:]]


def test_deleting_it_while_it_runs_is_not_free(judged, payer):
    services.profile_request(judged(), payer)
    holding = profiles.profile_claim(KIND)
    ProfileRequest.objects.all().delete()
    holding.stopped()
    assert [line.text for line in charged(payer)] == ["mnist_linear_relu/forward profiled until it was deleted"]


@pytest.mark.parametrize("verdict", ["COMPILE_ERROR", "TAMPERING"])
def test_what_never_ran_is_not_profiled(judged, payer, verdict):
    evaluation = judged(f"// verdict: {verdict}\n")
    with pytest.raises(services.Refused, match="source compiled"):
        services.profile_request(evaluation, payer)


def test_a_wrong_kernel_can_be_profiled(judged, payer):
    assert services.profile_request(judged("// verdict: INCORRECT_VALUE\n"), payer).state == CheckState.QUEUED


def test_what_is_not_judged_yet_is_not_profiled(gpu, submit, payer):
    evaluation = submit(text="// fast\n", language="cuda", device_kind=gpu.device_kind)
    assert evaluation.state == State.QUEUED
    with pytest.raises(services.Refused, match="finished"):
        services.profile_request(evaluation, payer)


def test_an_open_profile_takes_a_place(judged, payer, settings):
    first, second = judged("// fast\n"), judged("// faster\n")
    settings.KBENCH_IN_FLIGHT_MAX = 1
    services.profile_request(first, payer)
    with pytest.raises(quotas.OverQuota):
        services.profile_request(second, payer)
    deliver()
    services.profile_request(second, payer)


def test_nothing_is_taken_while_judging_is_paused(judged, payer):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    switches.switch_set(Switch.JUDGING, on=False)
    deliver()
    assert of(evaluation).state == CheckState.QUEUED


def test_a_worker_takes_only_its_own_kind_and_none_in_quarantine(judged, payer, gpu):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    assert profiles.profile_claim("cpu-avx2") is None
    gpu.state = WorkerState.QUARANTINED
    gpu.save()
    deliver()
    assert of(evaluation).state == CheckState.QUEUED


def test_what_has_lost_its_worker_is_tried_once_more(judged, payer):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    for state in (CheckState.QUEUED, CheckState.FAILED):
        holding = profiles.profile_claim(KIND)
        assert holding is not None
        ProfileRequest.objects.update(heartbeat=timezone.now() - timedelta(hours=1))
        jobs.reap.apply().get()
        assert of(evaluation).state == state
        assert not holding.alive()


def test_a_worker_that_stops_puts_it_back(judged, payer):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    holding = profiles.profile_claim(KIND)
    assert holding is not None
    assert holding.alive()
    holding.release()
    assert (of(evaluation).state, of(evaluation).attempt) == (CheckState.QUEUED, 1)


def test_what_was_deleted_meanwhile_is_not_recorded(judged, payer):
    evaluation = judged()
    services.profile_request(evaluation, payer)
    holding = profiles.profile_claim(KIND)
    assert holding is not None
    ProfileRequest.objects.all().delete()
    assert not holding.record(profile())
    assert not LedgerEntry.objects.filter(text__contains="profiled").exists()
