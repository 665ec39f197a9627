"""Quick checks through the jobs, with a fake judge: right or wrong is told, nothing is scored, ranked or remembered."""

import pytest
from django.db import IntegrityError, transaction

from benchmarks import jobs, quotas, services
from benchmarks.boards import selectors as boards
from benchmarks.models import BaselineResult, Evaluation, Payer, RuleSet, Standing
from benchmarks.services import judge_in_full, submission_create
from benchmarks.states import EvaluationReason, State

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def checked(submit, worker):
    """A quick check as the jobs end it."""

    def run(text="// speedup: 3.5\n", **options):
        evaluation = submit(text=text, quick=True, **options)
        deliver()
        evaluation.refresh_from_db()
        return evaluation

    return run


def deliver():
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()


def test_one_that_is_right_has_no_score_and_stands_nowhere(checked):
    evaluation = checked()
    assert (evaluation.state, evaluation.verdict, evaluation.score) == (State.DONE, "PASS", None)
    assert evaluation.report["score"] is None
    assert "about 3.5× as fast as PyTorch eager. Not ranked." in evaluation.reason_text
    assert not Standing.objects.exists()


def test_one_that_is_wrong_says_so_like_any_judging(checked):
    assert checked("// verdict: INCORRECT_VALUE\n").verdict == "INCORRECT_VALUE"


def test_it_leaves_no_baseline_and_no_record(checked, version, cpu):
    checked()
    assert not BaselineResult.objects.exists()
    assert boards.board_records(boards.BoardKey(version, cpu, RuleSet.objects.get())) == []


def test_the_database_takes_no_score_from_one(checked):
    evaluation = checked()
    with pytest.raises(IntegrityError), transaction.atomic():
        Evaluation.objects.filter(pk=evaluation.pk).update(score=9.0, score_lo=8.0, score_hi=10.0)


def test_judged_in_full_it_is_ranked(checked):
    evaluation = checked()
    full = judge_in_full(evaluation, None)
    deliver()
    full.refresh_from_db()
    assert (full.reason, full.score) == (EvaluationReason.INITIAL, 3.5)
    assert Standing.objects.get().evaluation == full


def test_asked_twice_it_is_judged_in_full_once(checked):
    evaluation = checked()
    assert judge_in_full(evaluation, None) == judge_in_full(evaluation, None)


def test_what_was_judged_in_full_is_no_quick_check(judged):
    with pytest.raises(services.Refused, match="in full"):
        judge_in_full(judged(), None)


def test_a_quick_check_that_passed_narrows_no_score(checked, judged):
    checked("// a kernel\n")
    judged(text="// a kernel\n")
    assert Standing.objects.get().judgings == 1


def test_a_quick_check_that_failed_puts_the_same_code_under_review(checked, judged):
    text = "// verdict: INCORRECT_VALUE\n"
    checked(text)
    judged(text=text)
    assert "evaluation of the same source ended as INCORRECT_VALUE" in Standing.objects.get().review_reason


def test_the_same_source_is_judged_in_full_although_it_was_checked(checked, submit, person):
    ann = person("ann")
    checked(owner=ann)
    evaluation = submit(text="// speedup: 3.5\n", owner=ann, judge_again=False)
    assert not evaluation.is_quick


def test_it_costs_time_on_a_device_and_no_place_among_the_public_ones_of_a_day(checked, person, version, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 1
    payer = Payer.objects.create(account=person("ann"))
    submission_create(version=version, text="// one\n", language="cpp", owner=payer.account, payer=payer)
    deliver()
    evaluation = checked("// two\n", owner=payer.account, payer=payer)
    assert quotas.ledger(payer.account)[0].evaluation == evaluation
    with pytest.raises(quotas.OverQuota):
        judge_in_full(evaluation, payer)
