"""Boards where several accounts have entries of one code: what a judging of one of them changes for the others."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards import settled
from benchmarks.boards.standings import standings_update
from benchmarks.harness import Flag, Verdict
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, EvaluationReason, Moderation, Visibility

from . import factories
from .test_bounds import enter, replayed


def test_a_report_reads_the_judgings_of_a_code_once_however_many_have_it(db: None) -> None:
    for name in ("a", "b"):
        enter(name, replayed(1.7), "// same\n")
    before = _reads_of_judgings("c")
    for name in ("d", "e", "f"):
        enter(name, replayed(1.7), "// same\n")
    assert _reads_of_judgings("g") == before


def _reads_of_judgings(name: str) -> int:
    factories.queued(device_kind=factories.gpu_kind(), language="cuda", owner=factories.user(name), text="// same\n")
    holding = factories.claimed_for_judging(factories.GPU)
    with CaptureQueriesContext(connection) as queries:
        moves.record_report(holding, replayed(1.7))
    return sum('FROM "benchmarks_evaluation"' in query["sql"] for query in queries)


def test_what_no_verdict_was_found_for_is_of_the_code_of_its_submission(staff: User) -> None:
    """Its text names the code, but it is not among its judgings itself."""
    first, second = enter("olga", replayed(1.70), "// one\n"), enter("bob", replayed(1.70), "// two\n")
    Evaluation.objects.update(object_key="o" * 64)
    services.evaluation_create(first.submission, device_kind=first.device_kind, reason=EvaluationReason.REJUDGE)
    noisy = factories.report(Verdict.NOISY, "The times scatter too much.")
    holding = factories.claimed_for_judging(factories.GPU)
    moves.record_report(holding, noisy)
    assert {item.pk for item in settled.JudgedProgram(holding.evaluation).same_code(holding.evaluation).judgings} == {
        first.pk,
        second.pk,
    }
    wrong = enter("carl", factories.failing(verdict=Verdict.INCORRECT_VALUE, reason="wrong"), "// two\n")
    Evaluation.objects.filter(pk=wrong.pk).update(object_key="o" * 64)
    wrong.refresh_from_db()
    standings_update(wrong)
    assert Standing.objects.filter(under_review=True).count() == 2
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not Standing.objects.filter(under_review=True).exists()


def row_of(name: str) -> tuple[float, bool]:
    row = Standing.objects.get(evaluation__submission__owner__username=name)
    return round(row.score, 2), row.under_review


def test_a_refusal_of_a_copy_leaves_its_other_holders_their_clean_entries() -> None:
    enter("olga", replayed(1.60), "// clean\n")
    enter("olga", replayed(1.80), "// fast\n")
    enter("bob", factories.failing(verdict=Verdict.INCORRECT_VALUE, reason="wrong"), "// fast\n")
    assert row_of("olga") == (1.60, False)


@pytest.mark.parametrize("name", ["olga", "bob"])
def test_an_entry_that_is_no_longer_the_best_gives_its_place_to_the_one_that_is(name: str) -> None:
    enter("olga", replayed(1.98), "// second\n")
    enter("olga", replayed(2.00), "// first\n")
    enter(name, replayed(1.60), "// first\n")
    assert row_of("olga") == (1.98, False)


def test_an_entry_that_becomes_the_best_by_the_judging_of_a_copy_stands() -> None:
    enter("olga", replayed(1.90), "// second\n")
    enter("olga", replayed(2.00), "// first\n")
    enter("bob", replayed(2.30), "// second\n")
    assert row_of("olga") == row_of("bob") > (2.0, False)


def test_reopening_the_review_of_a_copy_leaves_its_other_holders_their_clean_entries(staff: User) -> None:
    refused = enter("bob", factories.failing(verdict=Verdict.INCORRECT_VALUE, reason="wrong"), "// fast\n")
    decisions.decide(refused.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    enter("olga", replayed(1.60), "// clean\n")
    enter("olga", replayed(1.80), "// fast\n")
    assert row_of("olga") == (1.80, False)
    decisions.decide(refused.submission, ActionKind.REOPEN, by=staff, reason="it does compute something else")
    assert row_of("olga") == (1.60, False)


def test_deleting_an_unlucky_judging_whose_gate_staff_have_settled_gains_nothing(staff: User) -> None:
    gates = (Flag("gate-speedup", "faster than usual"),)
    first = enter("olga", replace(replayed(12.0), gates=gates), "// same\n")
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    unlucky = enter("olga", replace(replayed(11.2), gates=gates), "// same\n")
    before = row_of("olga")
    ownership.submission_delete(unlucky.submission)
    assert row_of("olga") == before < (12.0, False)


@pytest.mark.parametrize("visibility", [Visibility.PUBLIC, Visibility.PRIVATE])
def test_an_account_that_goes_takes_no_invalidation_along(staff: User, visibility: Visibility) -> None:
    enter("cheat", replayed(2.6), "// same\n")
    again = enter("cheat", replayed(2.6), "// same\n")
    decisions.decide(again.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    if visibility == Visibility.PRIVATE:
        ownership.visibility_change(again.submission, visibility)
    assert row_of("cheat") == (2.6, True)
    _account_ends_and_somebody_submits("// same\n")
    assert row_of("late") == (2.6, True)


def test_an_account_that_goes_takes_no_refusal_of_its_program_along() -> None:
    enter("cheat", replayed(2.6), "// one\nint x;")
    enter("cheat", factories.failing(verdict=Verdict.INCORRECT_VALUE, reason="wrong"), "// two\nint x;")
    assert row_of("cheat") == (2.6, True)
    _account_ends_and_somebody_submits("// another\n")


def _account_ends_and_somebody_submits(text: str) -> None:
    """Nothing of the account is on the board then, not even once its code is judged again."""
    kept = Submission.objects.get(owner__username="cheat", moderation=Moderation.OK, evaluations__verdict=Verdict.PASS)
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=True)
    kept.refresh_from_db()
    assert (kept.owner, kept.visibility) == (None, Visibility.UNLISTED)
    enter("late", replayed(2.6), text)
    assert Standing.objects.count() == 1


def test_judgings_of_throw_away_accounts_are_not_chosen_from() -> None:
    enter("olga", replayed(1.70), "// same\n")
    unlucky = enter("bob", replayed(1.60), "// same\n")
    before = row_of("olga")
    ownership.account_delete(unlucky.submission.owner, keep_submissions=False)
    assert row_of("olga") == before < (1.70, False)


def test_only_a_later_confirmation_settles_an_invalidation_of_a_deleted_submission(staff: User) -> None:
    cheat, other = enter("cheat", replayed(2.6), "// same\n"), enter("other", replayed(2.6), "// same\n")
    decisions.decide(other.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    ownership.account_delete(cheat.submission.owner, keep_submissions=False)
    enter("late", replayed(2.6), "// same\n")
    assert (row_of("other"), row_of("late")) == ((2.6, False), (2.6, True))
    decisions.decide(other.submission, ActionKind.CONFIRM, by=staff, reason="looked at it again")
    assert row_of("late") == (2.6, False)


def test_a_copy_is_not_listed_before_what_was_verified_first() -> None:
    enter("olga", replayed(1.70), "// same\n")
    slow = enter("olga", replayed(1.20), "// other\n")
    enter("bob", replayed(1.70), "// same\n")
    ownership.submission_delete(slow.submission)  # olga's row is written anew
    names = Standing.objects.as_listed().values_list("evaluation__submission__owner__username", "rank")
    assert list(names) == [("olga", 1), ("bob", 1)]
