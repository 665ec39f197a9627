"""Quotas: three meters, a ledger that charges once and gives back what was our own fault."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from benchmarks import quotas, services
from benchmarks.accounts import ownership
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, LedgerEntry, Payer, SpentPlace, Submission
from benchmarks.quotas import OverQuota
from benchmarks.states import BOUNDED, EvaluationReason, LedgerKind, Origin, Priority, Visibility

from .test_claims import at_once

NOBODY = AnonymousUser()


@pytest.fixture
def ann(person):
    return person("ann")


@pytest.fixture
def payer(ann):
    return quotas.payer_of(ann, "")


def meter(payer, code):
    return next(item for item in quotas.meters(payer) if item.code == code)


def entries():
    return [(row.kind, row.judging_s) for row in LedgerEntry.objects.order_by("pk")]


def test_a_judging_is_charged_for_its_seconds_on_a_device(judged, payer):
    evaluation = judged(payer=payer)
    device_s = sum(stage.seconds for stage in evaluation.stages.exclude(name="compile"))
    assert entries() == [(LedgerKind.CHARGE, pytest.approx(device_s))]
    assert meter(payer, "judging-seconds-per-day").used == pytest.approx(device_s)
    assert LedgerEntry.objects.get().text == "mnist_linear_relu/forward on cpu-avx2: PASS"


def test_what_is_our_own_fault_is_given_back_in_full(judged, payer):
    judged(payer=payer, verdict="NOISY")
    (_, charged), (kind, given_back) = entries()
    assert (kind, given_back) == (LedgerKind.REFUND, charged)
    assert meter(payer, "judging-seconds-per-day").used == 0


def test_an_evaluation_is_charged_and_refunded_once_however_often_it_is_asked(judged, payer):
    evaluation = judged(payer=payer)
    quotas.settle(evaluation)
    assert quotas.refund(evaluation, "The rules were wrong.")
    assert not quotas.refund(evaluation, "The rules were wrong.")
    assert [kind for kind, _ in entries()] == [LedgerKind.CHARGE, LedgerKind.REFUND]


def test_nothing_measured_is_nothing_charged(submit, claim, payer):
    moves.evaluation_cancel(submit(payer=payer), "Not wanted.")
    submit(payer=payer)
    holding = claim()
    for _ in range(moves.ATTEMPTS_MAX):  # the worker is lost each time
        moves.evaluation_requeue(holding.evaluation, holding.claim, "The worker was lost.")
        holding = claim() or holding
        holding.evaluation.refresh_from_db()
    assert Evaluation.objects.filter(verdict="INTERNAL_ERROR").exists()
    expired = submit(payer=payer)
    moves.evaluation_expire(expired, "Nobody took it.")
    assert entries() == []


def test_who_cancels_while_a_device_is_at_it_pays_for_the_time(submit, claim, payer):
    submit(payer=payer)
    evaluation = claim().evaluation
    Evaluation.objects.update(claimed=timezone.now() - timedelta(seconds=40))
    moves.evaluation_cancel(evaluation, "Enough.")
    ((kind, seconds),) = entries()
    assert kind == LedgerKind.CHARGE
    assert 40 <= seconds < 60


def test_agent_runs_examples_and_what_staff_judge_again_cost_nobody(judged, payer, ann):
    judged(owner=ann, origin=Origin.AGENT, priority=Priority.AGENT)
    first = judged(payer=payer, text="// mine\n")
    judged(submission=first.submission, text="// mine\n", reason=EvaluationReason.REJUDGE)
    assert len(entries()) == 1


def test_an_audit_that_the_owner_asks_for_takes_a_place(judged, submit, payer, settings):
    evaluation = judged(payer=payer, text="// done\n")
    evaluation.timing_trust = BOUNDED
    submit(payer=payer, text="// waits")
    settings.KBENCH_IN_FLIGHT_MAX = 1
    with pytest.raises(OverQuota):
        services.audit_request(evaluation, by_staff=False)
    assert services.audit_request(evaluation, by_staff=True).reason == EvaluationReason.AUDIT


def test_a_full_meter_refuses_and_says_when_there_is_room(submit, payer, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 2
    submit(payer=payer, text="// a")
    evaluation = submit(payer=payer, text="// b")
    with pytest.raises(OverQuota, match="2 of your evaluations are waiting") as refusal:
        submit(payer=payer, text="// c")
    assert refusal.value.meter.retry_after_s == quotas.IN_FLIGHT_RETRY_S
    moves.evaluation_cancel(evaluation, "Not wanted.")
    submit(payer=payer, text="// c")


def test_public_submissions_count_for_a_day_and_others_not_at_all(submit, payer, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 2
    for text in ("// a", "// b"):
        submit(payer=payer, owner=ann, text=text)
    submit(payer=payer, owner=ann, text="// c", visibility=Visibility.PRIVATE)
    with pytest.raises(OverQuota, match="2 public submissions within 24 hours"):
        submit(payer=payer, owner=ann, text="// d")
    oldest = Submission.objects.order_by("pk").first()
    Submission.objects.filter(pk=oldest.pk).update(created=timezone.now() - timedelta(hours=23))
    assert meter(payer, "public-per-day").retry_after_s == pytest.approx(3600, abs=5)
    Submission.objects.filter(pk=oldest.pk).update(created=timezone.now() - timedelta(hours=25))
    submit(payer=payer, owner=ann, text="// d")


def test_cancelled_submissions_take_no_public_place(submit, payer, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 2
    moves.evaluation_cancel(submit(payer=payer), "Not wanted.")
    submit(payer=payer, text="// b")
    submit(payer=payer, text="// c")


def test_judging_seconds_run_out_and_come_back(judged, submit, payer, settings):
    judged(payer=payer)
    used = meter(payer, "judging-seconds-per-day").used
    settings.KBENCH_JUDGING_S_PER_DAY = max(1, int(used))
    with pytest.raises(OverQuota, match="seconds on devices within 24 hours"):
        submit(payer=payer, text="// b")
    old = timezone.now() - timedelta(hours=30)
    LedgerEntry._base_manager.all().delete()
    LedgerEntry.objects.create(payer=payer, kind=LedgerKind.CHARGE, judging_s=used + 100, text="long ago")
    LedgerEntry._base_manager.update(created=old)
    submit(payer=payer, text="// b")


def test_a_new_account_has_a_quarter_on_a_public_site_alone(submit, payer, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY, settings.KBENCH_PUBLIC = 8, False
    assert meter(payer, "public-per-day").limit == 8
    settings.KBENCH_PUBLIC = True
    assert meter(payer, "public-per-day").limit == 2
    for number in range(2):
        submit(payer=payer, text=f"int n = {number};\n")
    with pytest.raises(OverQuota, match=r"The limits of an account are smaller in its first 24 hours\."):
        submit(payer=payer, text="int n = 2;\n")
    ann.is_staff = True
    ann.save()
    assert meter(Payer.objects.get(pk=payer.pk), "public-per-day").limit == 8
    ann.is_staff, ann.date_joined = False, timezone.now() - timedelta(hours=25)
    ann.save()
    assert meter(Payer.objects.get(pk=payer.pk), "public-per-day").limit == 8
    ann.date_joined = timezone.now()
    ann.save()
    settings.KBENCH_NEW_ACCOUNT_HOURS = 0
    assert meter(Payer.objects.get(pk=payer.pk), "public-per-day").limit == 8


def test_zero_means_no_limit(submit, payer, settings):
    settings.KBENCH_IN_FLIGHT_MAX = settings.KBENCH_PUBLIC_PER_DAY = settings.KBENCH_JUDGING_S_PER_DAY = 0
    for number in range(30):
        submit(payer=payer, text=f"// {number}")
    assert [item.limit for item in quotas.meters(payer)] == [None, None, None]


def test_a_visitor_without_an_account_has_a_quarter_by_address(submit, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 8
    here, there = quotas.payer_of(NOBODY, "192.0.2.1"), quotas.payer_of(NOBODY, "192.0.2.2")
    for text in ("// a", "// b"):
        submit(payer=here, text=text)
    with pytest.raises(OverQuota, match="2 of your evaluations"):
        submit(payer=here, text="// c")
    submit(payer=there, text="// c")


def test_who_only_looks_leaves_no_row(db):
    assert [item.used for item in quotas.meters_of(NOBODY, "192.0.2.1")] == [0, 0, 0]
    assert not Payer.objects.exists()


def test_who_only_looks_is_not_shown_what_nobody_pays_for(submit, ann):
    submit()
    assert [item.used for item in quotas.meters_of(ann, "")] == [0, 0, 0]


def test_an_address_is_kept_as_a_digest_and_forgotten(submit):
    payer = quotas.payer_of(NOBODY, "192.0.2.1")
    submit(payer=payer)
    assert "192.0.2.1" not in payer.address_digest
    Payer.objects.update(seen=timezone.now() - timedelta(days=3))
    assert quotas.forget_addresses() == 1
    payer.refresh_from_db()
    assert payer.address_digest is None


def test_the_same_post_twice_is_one_submission_even_when_nothing_is_left(submit, payer, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 1
    first = submit(payer=payer, client_token="once")
    assert submit(payer=payer, client_token="once").pk == first.pk


@pytest.mark.django_db(transaction=True)
def test_two_posts_at_once_cannot_take_the_last_place(submit, person, settings):
    settings.KBENCH_IN_FLIGHT_MAX = 3
    payer = quotas.payer_of(person("ann"), "")

    def post(number):
        try:
            return submit(payer=payer, text=f"// {number}") and "taken"
        except OverQuota:
            return "refused"

    outcomes = at_once(8, post)
    assert sorted(outcomes) == ["refused"] * 5 + ["taken"] * 3
    assert Evaluation.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_an_evaluation_that_is_settled_twice_at_once_is_charged_once(judged, person):
    evaluation = judged(payer=quotas.payer_of(person("ann"), ""))
    LedgerEntry._base_manager.all().delete()
    at_once(4, lambda _: quotas.settle(Evaluation.objects.get(pk=evaluation.pk)))
    assert LedgerEntry.objects.count() == 1


def test_what_does_not_compile_costs_what_it_used(judged, payer):
    evaluation = judged(payer=payer, verdict="COMPILE_ERROR")
    ((kind, seconds),) = entries()
    assert (kind, seconds) == (LedgerKind.CHARGE, pytest.approx(sum(row.seconds for row in evaluation.stages.all())))
    assert seconds > 0


def test_building_is_charged_with_judging(submit, claim, payer):
    submit(payer=payer)
    holding = claim()
    moves.evaluation_compiled(holding, 30.0, None)
    Evaluation.objects.update(claimed=timezone.now() - timedelta(seconds=5))
    moves.evaluation_cancel(holding.evaluation, "Enough.")
    ((_, seconds),) = entries()
    assert 35 <= seconds < 45


def test_who_cancels_while_it_is_compiled_pays_for_the_time(submit, claim, payer):
    submit(payer=payer)
    evaluation = claim().evaluation
    Evaluation.objects.update(claimed=timezone.now() - timedelta(seconds=20), built=None)
    moves.evaluation_cancel(evaluation, "Enough.")
    assert 20 <= entries()[0][1] < 30


def test_our_own_faults_are_given_back_a_few_times_a_day(judged, payer, settings):
    settings.KBENCH_REFUNDS_PER_DAY = 2
    for number in range(3):
        judged(payer=payer, text=f"// {number}\n", verdict="NOISY")
    assert [kind for kind, _ in entries()] == ["charge", "refund", "charge", "refund", "charge"]
    assert "2 were refunded within 24 hours" in LedgerEntry.objects.order_by("pk").last().text
    assert meter(payer, "public-per-day").used == 1
    LedgerEntry._base_manager.update(created=timezone.now() - timedelta(hours=25))
    judged(payer=payer, text="// later\n", verdict="NOISY")
    assert entries()[-1][0] == LedgerKind.REFUND


def test_deleting_gives_no_place_of_the_day_back(judged, submit, payer, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 2
    for text in ("// a\n", "// b\n"):
        ownership.submission_delete(judged(payer=payer, owner=ann, text=text).submission)
    assert meter(payer, "public-per-day").used == 2
    with pytest.raises(OverQuota, match="2 public submissions"):
        submit(payer=payer, owner=ann, text="// c\n")
    assert entries() != []
    SpentPlace.objects.update(submitted=timezone.now() - timedelta(hours=25))
    submit(payer=payer, owner=ann, text="// c\n")
    assert quotas.forget_places() == 2


def test_deleting_what_took_no_place_takes_none(judged, payer, ann):
    ownership.submission_delete(judged(payer=payer, owner=ann, visibility=Visibility.PRIVATE).submission)
    assert meter(payer, "public-per-day").used == 0
