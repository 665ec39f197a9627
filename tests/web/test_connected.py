"""What people can do with variants of a text, copies and deletions, and what the site's own judgings end with.

A variant is compiled to something else at another time, or on another line. Found by attacks.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.boards.selectors import board_records
from benchmarks.harness import Flag, Verdict
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, Method, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, found, key, replayed
from .test_timing_revisions import SAME, by, earlier, hidden, judged_by_site, on


def wrong(verdict: Verdict = Verdict.INCORRECT_VALUE) -> Any:
    return factories.failing(verdict=verdict, reason="wrong")


def compiled(evaluation: Evaluation, name: str) -> Evaluation:
    Evaluation.objects.filter(pk=evaluation.pk).update(object_key=name)
    evaluation.refresh_from_db()
    standings.standings_update(evaluation)
    return evaluation


def private(name: str, report: Any, text: str) -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    return factories.judged_on_gpu(report, owner=owner, text=text, visibility=Visibility.PRIVATE)


def later(days: int) -> None:
    for item in Evaluation.objects.all():
        Evaluation.objects.filter(pk=item.pk).update(queued=item.queued - timedelta(days=days))


def test_a_bounded_leader_that_does_not_compile_for_an_audit_is_under_review() -> None:
    enter("cheat", found(3.0, 2.9, 3.1, "bounded"), SAME)
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), factories.failing())
    later(60)
    row = by("cheat")
    assert row.under_review or services.leaders_audit() == 1


def test_a_contested_entry_that_does_not_compile_for_the_site_is_under_review() -> None:
    enter("cheat", on(replayed(5.0), "2.11"), SAME)
    hidden("other", on(replayed(1.2), "2.11"))
    judged_by_site(factories.failing())
    row = by("cheat")
    assert row.under_review or row.rank is None, (row.rank, row.score, row.is_contested)


def test_deleting_a_refused_variant_ends_no_review() -> None:
    """Of an owner the same tokens are the same program, compiled otherwise by __LINE__."""
    compiled(enter("cheat", replayed(2.6), "// one\nint x;"), "a" * 64)
    bad = compiled(private("cheat", wrong(), "// two\n\nint x;"), "b" * 64)
    assert by("cheat").under_review
    ownership.submission_delete(bad.submission)
    assert by("cheat").under_review


def test_what_is_under_review_holds_no_record() -> None:
    """Refused through a second text of its owner: the records' first look asks only for direct names."""
    enter("honest", replayed(1.5))
    compiled(enter("cheat", replayed(9.0), "int x;"), "a" * 64)
    compiled(private("cheat", replayed(9.0), "int y;"), "a" * 64)
    compiled(private("cheat", wrong(), "\n\nint y;"), "b" * 64)
    assert by("cheat").under_review
    assert [record.score for record in board_records(key())] == [1.5]


def test_what_is_under_review_for_a_contradiction_holds_no_record() -> None:
    enter("honest", replayed(1.5))
    compiled(enter("cheat", replayed(9.0), "int x;"), "a" * 64)
    compiled(private("cheat", replayed(9.0), "int y;"), "a" * 64)
    compiled(private("cheat", replayed(1.2), "\n\nint y;"), "b" * 64)
    assert by("cheat").under_review
    assert [record.score for record in board_records(key())] == [1.5]


@pytest.mark.parametrize("low", ["bounded", "audited"])
def test_a_strangers_high_score_puts_no_low_entry_under_review(low: str) -> None:
    enter("honest", found(1.2, 1.1, 1.25, low), SAME)
    high = replayed(2.6) if low == "bounded" else found(2.6, 2.5, 2.7, "bounded")
    hidden("stranger", high)
    row = by("honest")
    assert not row.under_review, row.review_reason


def test_a_strangers_audit_puts_no_entry_under_review() -> None:
    enter("honest", found(2.0, 1.9, 2.1, "bounded"), SAME)
    hidden("stranger", found(1.2, 1.1, 1.25, "audited"))
    row = by("honest")
    assert not row.under_review, row.review_reason


@pytest.mark.parametrize("by_user", [True, False])
def test_a_confirmation_settles_no_code_that_it_has_not_seen(staff: User, *, by_user: bool) -> None:
    """Of the confirmed text the author has another judging later, of which something else comes."""
    honest = compiled(enter("cheat", found(1.5, 1.4, 1.55, "bounded"), "// fine\n"), "a" * 64)
    compiled(enter("cheat2", replayed(9.0), "// false\n"), "b" * 64)
    compiled(private("cheat2", wrong(), "// false\n"), "b" * 64)
    assert by("cheat2").under_review
    decisions.decide(honest.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("cheat2").under_review
    if by_user:
        services.audit_request(Evaluation.objects.get(pk=honest.pk), by_staff=False)
    else:
        services.evaluation_create(honest.submission, device_kind=honest.device_kind, reason="rejudge", priority=1)
    holding = factories.claimed_for_judging(factories.GPU)
    moves.evaluation_compiled(holding, 1.0, "b" * 64)
    moves.record_report(holding, found(1.5, 1.4, 1.55, "bounded"))
    assert by("cheat2").under_review


def test_an_account_that_is_gone_is_not_the_owner_of_what_others_left() -> None:
    """Whatever is of nobody and of one agent method has one owner."""
    method = Method.objects.create(slug="agent-x", title="X", kind="agent")
    one, two = factories.user("left"), factories.user("mallory")
    factories.judged_on_gpu(replayed(2.0), owner=one, text="int x;", method=method)
    ownership.account_delete(one, keep_submissions=True)
    assert Standing.objects.get().rank == 1
    factories.judged_on_gpu(wrong(), owner=two, text="// other\nint x;", method=method, origin="agent")
    assert not Standing.objects.get().under_review
    ownership.account_delete(two, keep_submissions=True)
    factories.judged_on_gpu(replayed(2.0), owner=factories.user("copies"), text="int x;")
    assert [row.under_review for row in Standing.objects.order_by("pk")] == [False, False]


def test_a_strangers_bridge_keeps_no_better_entry_off_the_board() -> None:
    """Of a text with `#if __LINE__` one and another program come, with the same tokens. It joins what is read."""
    compiled(enter("olga", replayed(2.00), "// first\n"), "a" * 64)
    compiled(enter("olga", replayed(1.90), "// second\nint y;"), "b" * 64)
    compiled(private("eve", replayed(1.90), "int bridge;"), "a" * 64)
    compiled(private("eve", replayed(1.90), "\n\nint bridge;"), "b" * 64)
    compiled(enter("bob", replayed(2.40), "// second\nint y;"), "b" * 64)
    assert by("olga").score == pytest.approx(by("bob").score)


def test_a_strangers_bridge_keeps_no_confirmed_entry_off_the_board(staff: User) -> None:
    refused = compiled(enter("bob", wrong(), "// fast\nint y;"), "b" * 64)
    compiled(enter("olga", replayed(1.60), "// clean\n"), "a" * 64)
    compiled(enter("olga", replayed(1.80), "// fast\nint y;"), "b" * 64)
    compiled(private("eve", replayed(1.6), "int bridge;"), "a" * 64)
    compiled(private("eve", replayed(1.8), "\n\nint bridge;"), "b" * 64)
    decisions.decide(refused.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("olga").score == pytest.approx(1.80, abs=0.05)


@pytest.mark.parametrize("of", ["low", "confirmed"])
def test_without_a_bridge_a_better_entry_takes_the_row(staff: User, of: str) -> None:
    if of == "low":
        compiled(enter("olga", replayed(2.00), "// first\n"), "a" * 64)
        compiled(enter("olga", replayed(1.90), "// second\nint y;"), "b" * 64)
        compiled(enter("bob", replayed(2.40), "// second\nint y;"), "b" * 64)
        assert by("olga").score == pytest.approx(by("bob").score)
        return
    refused = compiled(enter("bob", wrong(), "// fast\nint y;"), "b" * 64)
    compiled(enter("olga", replayed(1.60), "// clean\n"), "a" * 64)
    compiled(enter("olga", replayed(1.80), "// fast\nint y;"), "b" * 64)
    decisions.decide(refused.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("olga").score == pytest.approx(1.80, abs=0.05)


def test_a_leader_of_an_earlier_timing_that_does_not_compile_any_more_is_under_review() -> None:
    enter("cheat", earlier(replayed(9.0)), SAME)
    for _ in range(3):
        if by("cheat").rank is not None:
            judged_by_site(factories.failing())
            later(8)
    row = by("cheat")
    assert row.under_review or row.rank is None


def test_deleting_an_unlucky_judging_before_its_gate_is_settled_gains_nothing(staff: User) -> None:
    gates = (Flag("gate-speedup", "faster than usual"),)
    first = enter("olga", replace(replayed(14.0), gates=gates), SAME)
    unlucky = enter("olga", replace(replayed(11.2), gates=gates), SAME)
    pooled = by("olga").score
    ownership.submission_delete(unlucky.submission)
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("olga").score == pytest.approx(pooled)


def test_what_was_invalidated_and_hidden_cannot_be_deleted_to_be_ranked_again(staff: User) -> None:
    cheat = enter("cheat", replayed(9.0), SAME)
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    decisions.decide(cheat.submission, ActionKind.HIDE, by=staff, reason="and has a rude title")
    try:
        ownership.submission_delete(Submission.objects.get(pk=cheat.submission_id))
    except services.Refused:
        return
    enter("cheat", replayed(9.0), SAME)
    assert by("cheat").under_review


@pytest.mark.parametrize("settles", ["confirmation", "gate"])
def test_a_confirmation_of_a_text_says_nothing_of_it_as_another_language(staff: User, settles: str) -> None:
    """A text with a module and a function is two programs; only the honest one was looked at."""
    gates = (Flag("gate-speedup", "faster than usual"),)
    owner = factories.user("cheat")

    def of(language: str, report: Any, **options: Any) -> Evaluation:
        return factories.judged_on_gpu(
            report, owner=owner, text="def forward(x): return x\n", language=language, **options
        )

    honest = of("python", replace(replayed(12.0), gates=gates), visibility=Visibility.PRIVATE)
    if settles == "confirmation":
        of("triton", wrong(), visibility=Visibility.PRIVATE)
    decisions.decide(honest.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    of("triton", replace(replayed(12.5), gates=gates if settles == "gate" else ()))
    assert by("cheat").under_review


@pytest.mark.parametrize("says", ["bounded", "audited"])
def test_a_bounded_judging_of_the_site_answers_bounded_ones(says: str) -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(found(1.2, 1.1, 1.25, "bounded"), "2.11"))
    judged_by_site(on(found(2.0, 1.9, 2.1, says), "2.11"))
    assert not by("olga").is_contested


def test_two_low_copies_do_not_contest_an_entry_anew_with_each_of_its_own_judgings() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    for name in ("rival", "other"):
        hidden(name, on(found(1.2, 1.1, 1.25, "bounded"), "2.11"))
    judged_by_site(on(replayed(2.0), "2.11"))
    assert not by("olga").is_contested
    enter("copies", on(replayed(2.0), "2.11"), SAME)
    assert not by("olga").is_contested
