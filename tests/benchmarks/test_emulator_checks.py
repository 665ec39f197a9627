"""Checks without a GPU through the jobs, with a fake judge: told, charged, never ranked, and never lost."""

import socket
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from benchmarks import jobs, quotas, services, switches
from benchmarks.catalogue import devices
from benchmarks.jobs import judging, requested
from benchmarks.judgings import checks
from benchmarks.models import EmulatorCheck, Evaluation, LedgerEntry, Payer, Standing
from benchmarks.states import CheckState, Switch, WorkerRole, WorkerState
from tests.fakes import GPU, GpuJudge

from .conftest import make_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def payer(person):
    return Payer.objects.create(account=person("olga"))


@pytest.fixture
def asked(version, cpu, payer):
    def ask(text="// a kernel\n", **options):
        fields = {"version": version, "text": text, "owner": payer.account, "payer": payer, **options}
        return services.check_create(**fields)

    return ask


@pytest.fixture
def deliver(version, cpu):
    """Runs the job once, as the compile worker does."""
    make_worker(WorkerRole.COMPILE, name=socket.gethostname())

    def once():
        jobs.check_next.apply(args=["cpu-avx2"]).get()

    return once


def ended(check):
    check.refresh_from_db()
    return check


def test_its_word_is_told_and_its_seconds_are_charged(asked, deliver, payer):
    check = asked("// emulator: WRONG\n// finding: two threads write\n")
    deliver()
    assert (ended(check).state, check.verdict) == (CheckState.DONE, "WRONG")
    assert check.report["findings"][0]["text"] == "two threads write"
    (line,) = LedgerEntry.objects.filter(payer=payer)
    assert (line.judging_s, line.evaluation) == (2.5, None)
    assert "checked without a GPU: WRONG" in line.text


def test_it_is_no_submission_and_stands_nowhere(asked, deliver):
    asked()
    deliver()
    assert EmulatorCheck.objects.get().verdict == "CORRECT_HERE"
    assert not Evaluation.objects.exists()
    assert not Standing.objects.exists()


def test_checks_run_in_their_order(asked, deliver):
    first, second = asked(), asked()
    deliver()
    assert (ended(first).state, ended(second).state) == (CheckState.DONE, CheckState.QUEUED)


def test_payers_take_turns(asked, deliver, person):
    """Whoever asks for many keeps nobody waiting for all of them."""
    other = Payer.objects.create(account=person("stefan"))
    first, second = asked(), asked()
    theirs = asked(owner=other.account, payer=other)
    for _ in range(2):
        deliver()
    assert [ended(check).state for check in (first, second, theirs)] == ["done", "queued", "done"]


def test_our_own_fault_costs_nothing_a_few_times_a_day(asked, deliver, settings):
    """Who finds out how to provoke it shall not use the processor for nothing."""
    settings.KBENCH_REFUNDS_PER_DAY = 1
    for _ in range(2):
        asked("// raises\n")
        deliver()
    (line,) = LedgerEntry.objects.all()
    assert line.text.endswith("checked without a GPU: failed")


def test_our_own_fault_is_said_and_not_charged(asked, deliver):
    check = asked("// raises\n")
    deliver()
    assert ended(check).state == CheckState.FAILED
    assert check.problem == "the fake emulator was asked to fail"
    assert not LedgerEntry.objects.exists()


def test_texts_of_a_report_are_cleaned_and_cut(asked, deliver):
    check = asked(f"// emulator: WRONG\n// finding: a\x1b[31mb{'x' * 5000}\n")
    deliver()
    found = ended(check).report["findings"][0]["text"]
    assert "\x1b" not in found
    assert len(found) <= 2000


def test_a_worker_that_is_stopped_puts_it_back(asked, deliver, monkeypatch):
    check = asked()
    monkeypatch.setattr(requested.stopping, "is_set", lambda: True)
    deliver()
    assert (ended(check).state, check.claim, check.attempt) == (CheckState.QUEUED, None, 1)


def test_a_worker_in_quarantine_takes_nothing(asked, deliver):
    check = asked()
    make_worker(WorkerRole.COMPILE, name=socket.gethostname(), state=WorkerState.QUARANTINED)
    deliver()
    assert ended(check).state == CheckState.QUEUED


def test_what_was_lost_is_tried_again_and_then_ends(asked):
    check = asked()
    for state in (CheckState.QUEUED, CheckState.FAILED):
        holding = checks.check_claim()
        EmulatorCheck.objects.update(heartbeat=timezone.now() - timedelta(days=1))
        checks.requeue_lost_checks()
        assert ended(check).state == state
        assert not holding.alive()
    assert check.problem == checks.LOST
    assert checks.check_claim() is None


def test_who_has_lost_it_records_nothing(asked, payer):
    asked()
    holding = checks.check_claim()
    EmulatorCheck.objects.update(claim=None, state=CheckState.QUEUED)
    report = requested.site_judge().emulate(
        requested.Assignment(requested.Source("", "cuda"), None, None, "cpu"), requested.Watcher()
    )
    assert holding.record(report) is False
    assert not LedgerEntry.objects.exists()
    assert EmulatorCheck.objects.get().report is None


def test_open_ones_count_for_the_limit_of_what_waits(asked, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 2
    asked(), asked()
    with pytest.raises(quotas.OverQuota, match="waiting or being judged"):
        asked()


def test_seconds_count_for_the_day(asked, deliver, settings):
    settings.KBENCH_JUDGING_S_PER_DAY = 2
    asked()
    deliver()
    with pytest.raises(quotas.OverQuota, match="seconds on devices"):
        asked()


def test_the_same_post_twice_is_one_check(asked, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 1
    assert asked(client_token="form:1") == asked(client_token="form:1")
    assert EmulatorCheck.objects.count() == 1


def test_nothing_is_accepted_while_submissions_are_paused(asked):
    switches.switch_set(Switch.SUBMISSIONS, on=False, message="Later.")
    with pytest.raises(services.Refused):
        asked()


def test_nothing_is_claimed_while_judging_is_paused(asked):
    asked()
    switches.switch_set(Switch.JUDGING, on=False, message="Later.")
    assert checks.check_claim() is None


def test_old_ones_are_deleted_and_open_ones_are_not(asked, deliver):
    done, waiting = asked(), asked()
    deliver()
    EmulatorCheck.objects.update(created=timezone.now() - 2 * checks.KEPT)
    assert checks.forget_checks() == 1
    assert list(EmulatorCheck.objects.all()) == [waiting] != [done]


def test_a_word_without_a_report_cannot_be_stored(asked):
    check = asked()
    with pytest.raises(IntegrityError):
        EmulatorCheck.objects.filter(pk=check.pk).update(verdict="CORRECT_HERE")


@pytest.fixture
def failed(submit, payer, monkeypatch):
    """A CUDA source that the fake GPU ends with the words of a CUDA error."""
    kind = devices.register(GPU)
    make_worker(name=socket.gethostname(), device_kind=kind, device=GPU.name)
    for module in (judging, requested):
        monkeypatch.setattr(module, "site_judge", GpuJudge)

    def judged(reason="the first call failed: CUDA error: an illegal memory access was encountered", **options):
        fields = {"language": "cuda", "device_kind": kind, "payer": payer, "text": "// verdict: RUNTIME_ERROR\n"}
        told = GpuJudge().judge
        monkeypatch.setattr(GpuJudge, "judge", lambda _, *given: replace(told(*given), reason=reason))
        evaluation = submit(**{**fields, **options})
        jobs.compile_next.apply(args=[kind.slug]).get()
        jobs.judge_next.apply(args=[kind.slug]).get()
        evaluation.refresh_from_db()
        assert evaluation.verdict
        return evaluation

    return judged


def test_an_illegal_access_on_a_gpu_is_explained(failed, cpu, payer):
    evaluation = failed()
    check = EmulatorCheck.objects.get()
    assert (check.explains, check.text, check.owner) == (evaluation, "// verdict: RUNTIME_ERROR\n", None)
    assert quotas.meters(payer)[0].used == 0  # nobody has asked for it, so it is in nobody's way
    jobs.check_next.apply(args=["cpu-avx2"]).get()
    assert ended(check).verdict == "CORRECT_HERE"
    assert LedgerEntry.objects.filter(text__contains="explained without a GPU: CORRECT_HERE").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"payer": None},
        {"reason": "the kernel raised: too many features for shared memory"},
        {"text": "// verdict: INCORRECT_VALUE\n"},
    ],
)
def test_what_a_check_cannot_explain_starts_none(failed, cpu, options):
    failed(**options)
    assert not EmulatorCheck.objects.exists()


def test_what_people_ask_for_goes_before_explanations(failed, asked, cpu):
    failed()
    check = asked()
    assert checks.check_claim().row == check


def test_it_goes_with_its_account(asked, payer):
    asked()
    payer.account.delete()
    assert not EmulatorCheck.objects.exists()
