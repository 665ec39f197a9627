"""What staff decide about a program, on whatever board it stands, and what an account leaves that is deleted.

Each was a finding of an attack once. Not covered: a confirmation by itself (`test_confirmations.py`).
"""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.boards.selectors import board_key, board_records
from benchmarks.catalogue import devices
from benchmarks.contests import running
from benchmarks.harness import Verdict
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, Evaluation, Method, RuleSet, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Priority, Visibility

from . import contests, factories
from .test_bounds import enter, found, key, replayed
from .test_confirmations import GATED
from .test_connected import compiled, private, wrong
from .test_timing_revisions import SAME, by

H100 = replace(factories.GPU, kind="nvidia-h100", model="NVIDIA H100")


def on_h100(name: str, report: Any, text: str = SAME) -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    kind = devices.register(H100)
    return factories.judged(report, H100, owner=owner, text=text, language="cuda", device_kind=kind)


def row_on(evaluation: Evaluation) -> Standing:
    return Standing.objects.get(
        device_kind=evaluation.device_kind_id,
        ruleset=evaluation.ruleset_id,
        evaluation__submission__owner=evaluation.submission.owner_id,
    )


def board_as_written_anew(evaluation: Evaluation) -> None:
    rows = Evaluation.objects.full().filter(verdict=Verdict.PASS, device_kind=evaluation.device_kind_id)
    standings.board_renew(list(rows.select_related("submission__method", "task_version__task")))


# 1 --- an invalidation reaches only boards that the invalidated submission itself was judged on


@pytest.mark.parametrize("who", ["cheat", "accomplice"])
def test_an_invalidation_takes_down_entries_that_stand_on_other_boards_already(staff: User, who: str) -> None:
    """`decide` renews only the boards that this submission was judged on. The accomplice is found when shown anew."""
    other = on_h100(who, replayed(9.0))
    if who == "accomplice":
        ownership.visibility_change(other.submission, Visibility.UNLISTED)
    first = enter("cheat", replayed(9.0), SAME)
    decisions.decide(first.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer from a file")
    if who == "accomplice":
        ownership.visibility_change(Submission.objects.get(pk=other.submission_id), Visibility.PUBLIC)
    row = row_on(other)
    assert row.under_review, (row.rank, row.score)


def test_taking_an_invalidation_back_frees_entries_on_other_boards(staff: User) -> None:
    first = enter("honest", replayed(9.0), SAME)
    decisions.decide(first.submission, ActionKind.INVALIDATE, by=staff, reason="a mistake")
    other = on_h100("honest", replayed(9.0))
    assert row_on(other).under_review
    decisions.decide(first.submission, ActionKind.RESTORE, by=staff, reason="it was a mistake")
    row = row_on(other)
    assert not row.under_review, row.review_reason


# 2 --- a private score behind a gate is settled by a confirmation of a public, lower copy


@pytest.mark.parametrize("what", ["rank", "record"])
def test_a_confirmation_settles_no_gate_of_a_private_score_that_is_shown_later(staff: User, what: str) -> None:
    """security.md: a confirmation settles what was judged before, except for scores that staff could not see."""
    text = "// cheats at random\n"
    accomplice = factories.user("accomplice")
    lucky = [
        factories.judged(factories.gated(60.0), owner=accomplice, text=text, visibility=Visibility.PRIVATE)
        for _ in range(3)
    ]
    factories.judged(factories.passing(13.0), owner=factories.user("honest"), text="// honest\n")
    entry = factories.judged(factories.gated(12.0), owner=factories.user("cheat"), text=text)
    decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="12x is possible here")
    for item in lucky:
        ownership.visibility_change(Submission.objects.get(pk=item.submission_id), Visibility.PUBLIC)
    row = by("accomplice")
    if what == "rank":
        assert row.under_review or row.score < 13.0, (row.rank, row.score, row.review_reason)
    else:
        here = board_key(factories.version(), entry.device_kind.slug)
        assert max(record.score or 0.0 for record in board_records(here)) < 14.0


# 3 --- what a throw-away account leaves behind holds entries of nobody


@pytest.mark.parametrize("whose", ["of somebody who left", "without an account"])
def test_the_gate_of_a_deleted_account_holds_no_entry_of_nobody(whose: str) -> None:
    """`refusal.owner_id != owner`: None is None, so somebody else's gate is taken for one's own."""
    owner = factories.user("left") if whose == "of somebody who left" else None
    entry = factories.judged(factories.passing(9.5), owner=owner, text=SAME)
    if owner is not None:
        ownership.account_delete(owner, keep_submissions=True)
    eve = factories.user("eve")
    factories.judged(factories.gated(10.1), owner=eve, text=SAME, visibility=Visibility.PRIVATE)
    row = Standing.objects.get(evaluation=entry)
    assert not row.under_review
    ownership.account_delete(eve, keep_submissions=False)
    factories.judged(factories.passing(9.4), owner=factories.user("next"), text=SAME, visibility=Visibility.PRIVATE)
    row = Standing.objects.get(evaluation=entry)
    assert not row.under_review, row.review_reason


# 4 --- the copy of a rival's entry is invalidated: the rival's next judging on another board is under review


def test_who_was_public_before_a_copy_was_invalidated_stands_under_new_rules(staff: User) -> None:
    """security.md: 'unless they had a public score with it before the decision'; only this board's scores are asked."""
    honest = enter("honest", replayed(2.0), SAME)
    copy = enter("eve", replayed(2.0), SAME)
    decisions.decide(copy.submission, ActionKind.INVALIDATE, by=staff, reason="copied from honest")
    assert not by("honest").under_review
    rules = RuleSet.objects.create(name="rk-3", title="New", text="", sha256="1" * 64)
    services.evaluation_create(
        honest.submission, device_kind=honest.device_kind, ruleset=rules, reason="rejudge", priority=Priority.REJUDGE
    )
    moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(2.0))
    row = Standing.objects.get(ruleset=rules)
    assert not row.under_review, row.review_reason


def test_who_was_public_before_an_invalidation_enters_the_program_anew_only_when_it_is_confirmed(staff: User) -> None:
    """Whoever was public first where the program does no harm could enter it later where it cheats."""
    first = enter("other", replayed(1.2), SAME)
    cheat = on_h100("cheat", replayed(9.0))
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    assert not row_on(first).under_review
    new = on_h100("other", replayed(9.0))
    assert row_on(new).under_review
    decisions.decide(new.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert row_on(new).rank == 1


def test_a_copy_that_is_hidden_holds_no_other_entry_of_the_program(staff: User) -> None:
    enter("honest", replayed(2.0), SAME)
    copy = enter("copies", replayed(2.0), SAME)
    decisions.decide(copy.submission, ActionKind.HIDE, by=staff, reason="a copy")
    assert row_on(on_h100("honest", replayed(2.0))).rank == 1


@pytest.mark.parametrize("confirmed", [False, True])
def test_an_invalidated_copy_takes_nobody_out_of_a_contest(staff: User, *, confirmed: bool) -> None:
    honest, eve = factories.user("honest"), factories.user("eve")
    contest = contests.running_with(honest, hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    entry = factories.judged(factories.passing(2.0), owner=honest, text=SAME)
    copy = factories.judged(factories.passing(2.0), owner=eve, text=SAME)
    decisions.decide(copy.submission, ActionKind.INVALIDATE, by=staff, reason="copied from honest")
    if confirmed:
        decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="honest was first")
    assert not by("honest").under_review
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    while Evaluation.objects.queued().exists():
        moves.record_report(factories.claimed_for_judging(), factories.passing(2.0))
    running.advance()
    assert ContestEntry.objects.get().score == pytest.approx(2.0), ContestEntry.objects.get().verdict


# 5 --- an answered gate depends on a submission that its author can hide or delete


@pytest.mark.parametrize("how", ["deleted", "made private"])
def test_what_staff_have_confirmed_about_a_gate_holds_on_without_the_submission(staff: User, how: str) -> None:
    """user-guide.md: 'What staff have confirmed or an audit has settled about a program holds on'."""
    held = replace(replayed(12.0), gates=GATED)
    first = enter("eve", held, SAME)
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    enter("honest", held, SAME)
    assert not by("honest").under_review
    if how == "deleted":
        ownership.submission_delete(Submission.objects.get(pk=first.submission_id))
    else:
        ownership.visibility_change(Submission.objects.get(pk=first.submission_id), Visibility.PRIVATE)
    row = by("honest")
    assert not row.under_review, row.review_reason


# 6 --- what staff have hidden is still quoted on the board


def test_a_board_does_not_quote_what_staff_have_hidden(staff: User, visitor: Client) -> None:
    enter("olga", replayed(2.0), SAME)
    bad = enter(
        "eve", factories.failing(verdict=Verdict.RUNTIME_ERROR, reason="raised: olga lives in Zeppelin 5"), SAME
    )
    decisions.decide(bad.submission, ActionKind.HIDE, by=staff, reason="personal data")
    page = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert "Zeppelin" not in page


# 7 --- records and contests ask for the exact language


# 8 --- one compiled code has several finals


# 9 --- reopening


def test_reopening_reaches_all_rows_that_the_confirmation_had_cleared(staff: User) -> None:
    """The confirmed submission was compiled to A and is deleted; staff reopen at a text of the same that became B."""
    held = replace(replayed(12.0), gates=GATED)
    first = compiled(enter("eve", held, "// text\n"), "a" * 64)
    compiled(enter("cheat", held, "// other\nint z;"), "a" * 64)
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("cheat").under_review
    ownership.submission_delete(Submission.objects.get(pk=first.submission_id))
    assert not by("cheat").under_review
    again = compiled(enter("mallory", held, "// text\n"), "b" * 64)
    decisions.decide(again.submission, ActionKind.REOPEN, by=staff, reason="new evidence")
    before = by("cheat").under_review
    board_as_written_anew(again)
    assert by("cheat").under_review == before


# 10 --- cost


def hidden_as(name: str, text: str) -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    return factories.judged_on_gpu(replayed(1.5), owner=owner, text=text, visibility=Visibility.PRIVATE)


# 11 --- what an account leaves behind


def test_private_judgings_of_an_account_that_has_gone_stay_those_of_one_person() -> None:
    """In a Python language a comment makes another compiled code: of an owner it is one program by its tokens."""
    left = factories.user("left")
    options: dict[str, Any] = {"owner": left, "language": "triton"}
    factories.judged_on_gpu(found(3.0, 2.0, 3.1, "bounded"), text="# lucky\nimport triton\n", **options)
    for number in range(4):
        factories.judged_on_gpu(
            found(2.5, 1.5, 2.6, "bounded"),
            text=f"# {number}\nimport triton\n",
            visibility=Visibility.PRIVATE,
            **options,
        )
    before = Standing.objects.get()
    ownership.account_delete(left, keep_submissions=True)
    row = Standing.objects.get()
    assert (row.judgings, round(row.score, 3)) == (before.judgings, round(before.score, 3)) or row.score <= before.score


def test_a_board_does_not_quote_what_became_unlisted_when_its_account_was_deleted(visitor: Client) -> None:
    """`_unlist_what_is_under_review` renews no row of others, whose reason quotes the submission while it is public."""
    enter("olga", replayed(2.0), SAME)
    left = enter("left", replayed(2.0), SAME)
    services.evaluation_create(left.submission, device_kind=left.device_kind, reason="verification")
    report = factories.failing(verdict=Verdict.RUNTIME_ERROR, reason="raised: project Zeppelin")
    moves.record_report(factories.claimed_for_judging(factories.GPU), report)
    assert "Zeppelin" in by("olga").review_reason
    ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    assert Submission.objects.get(pk=left.submission_id).visibility == Visibility.UNLISTED
    assert "Zeppelin" not in by("olga").review_reason, by("olga").review_reason


def test_figures_of_a_private_judging_are_not_on_a_board(visitor: Client) -> None:
    enter("olga", replayed(2.0), "// public\nint x;")
    private("olga", replayed(7.77), "// private notes\nint x;")
    page = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert "7.77" not in page


def test_rows_of_others_follow_what_is_unlisted_when_an_account_is_deleted(staff: User) -> None:
    """A gated score that staff have seen counts for a copy, and no more when it is unlisted."""
    held = replace(replayed(2.6), gates=GATED)
    seen = enter("ann", held, SAME)
    decisions.decide(seen.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    enter("bob", replayed(2.0), SAME)
    private("bob", wrong(), SAME)
    ownership.account_delete(User.objects.get(username="ann"), keep_submissions=True)
    row = by("bob")
    board_as_written_anew(row.evaluation)
    assert (by("bob").score, by("bob").judgings) == (row.score, row.judgings)


def test_a_confirmation_settles_no_gate_of_a_score_that_was_deleted_before(staff: User) -> None:
    text, cheat = "// cheats at random\n", factories.user("cheat")
    for _ in range(3):
        lucky = factories.judged(factories.gated(60.0), owner=cheat, text=text, visibility=Visibility.PRIVATE)
        ownership.submission_delete(lucky.submission)
    copy = factories.judged(factories.gated(12.0), owner=factories.user("accomplice"), text=text)
    decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="12x is possible here")
    factories.judged(factories.passing(9.9), owner=cheat, text=text)
    row = by("cheat")
    assert row.under_review or row.score < 13.0, (row.rank, row.score, row.review_reason)


# 12 --- a crash: what an account leaves behind by hand and by an agent


def both_kinds_left_behind() -> None:
    left, method = factories.user("left"), Method.objects.create(slug="agent-x", title="X", kind="agent")
    factories.judged_on_gpu(replayed(2.0), owner=left, text="// hand\nint x;")
    factories.judged_on_gpu(replayed(3.0), owner=left, text="// run\nint y;", method=method, origin="agent")
    ownership.account_delete(left, keep_submissions=True)
    assert sorted(row.holder.partition("/")[2] for row in Standing.objects.all()) == ["", "agent-x"]


def test_a_report_about_a_copy_of_what_a_former_account_left_is_stored() -> None:
    """The refused copy puts the row of the former account under review; its holder's row is written anew."""
    both_kinds_left_behind()
    factories.judged_on_gpu(wrong(), owner=factories.user("eve"), text="// hand\nint x;", visibility=Visibility.PRIVATE)
    assert [row.under_review for row in Standing.objects.order_by("holder")] == [True, False]


def test_a_board_with_what_a_former_account_left_can_be_written_anew() -> None:
    both_kinds_left_behind()
    board_as_written_anew(Standing.objects.first().evaluation)


# 13 --- records of what a former account left are looked up by their own names alone


def test_what_a_former_account_left_holds_no_record_while_it_is_under_review() -> None:
    enter("honest", replayed(1.5))
    compiled(enter("left", replayed(9.0), "int x;"), "a" * 64)
    compiled(enter("left", replayed(9.0), "int y;"), "a" * 64)
    ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    refused = private("eve", wrong(), "int y;")
    compiled(refused, "b" * 64)
    assert Standing.objects.get(holder__startswith="former").under_review
    assert [record.score for record in board_records(key())] == [1.5]


# 14 --- a gate behind eight other questions


def test_a_review_names_the_gate_whatever_else_is_in_question() -> None:
    """A confirmation settles the gate as well; accomplices have the copy refused in eight public ways."""
    for number in range(8):
        enter(f"accomplice{number}", factories.failing(verdict=Verdict.RUNTIME_ERROR, reason=f"raised: {number}"), SAME)
    enter("cheat", replace(replayed(12.0), gates=GATED), SAME)
    assert GATED[0].text in by("cheat").review_reason, by("cheat").review_reason


# 15 --- one owner's text in two languages on one board


# 16 --- a row whose first judging becomes known later


def test_staff_can_invalidate_what_a_former_account_left(staff: User) -> None:
    both_kinds_left_behind()
    submission = Submission.objects.get(former_owner__isnull=False, method__slug="human")
    decisions.decide(submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    assert Standing.objects.get().holder.endswith("/agent-x")


# 17 --- what staff cancel


# 18 --- whoever leaves refreshes the row of somebody else with the same method by its own judgings


def test_who_leaves_puts_no_entry_of_the_same_method_under_review() -> None:
    """`standings_restore` refreshes the row of `method:SLUG` with the judgings that have to do with the leaver's."""
    method = Method.objects.create(slug="agent-x", title="X", kind="agent")
    options: dict[str, Any] = {"method": method, "origin": "agent"}
    ours = compiled(factories.judged_on_gpu(replayed(2.0), text="int ours;", **options), "a" * 64)
    eve = factories.user("eve")
    compiled(factories.judged_on_gpu(replayed(2.0), owner=eve, text="// one\nint eve;", **options), "a" * 64)
    bad = factories.judged_on_gpu(wrong(), owner=eve, text="// two\n\nint eve;", visibility=Visibility.UNLISTED)
    compiled(bad, "b" * 64)
    assert not Standing.objects.get(holder="method:agent-x").under_review
    ownership.account_delete(eve, keep_submissions=True)
    row = Standing.objects.get(holder="method:agent-x")
    assert (row.evaluation, row.under_review) == (ours, False), row.review_reason
