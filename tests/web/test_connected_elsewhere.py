"""What staff have invalidated is found on each board of a task, on whichever of them it is connected with an entry.

Programs that differ in names of variables are compiled to one code on one device, and to two codes on another one. Not
covered: what connects programs on one board (`test_connected.py`).
"""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.boards.selectors import board_key, board_records
from benchmarks.models import Evaluation, Standing
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind

from . import factories
from .test_bounds import enter, replayed
from .test_connected import compiled, private
from .test_crowded_boards import many
from .test_decided import on_h100, row_on
from .test_random_histories import rows, written_anew


def invalidate(item: Evaluation, staff: User) -> None:
    decisions.decide(item.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")


def as_written_anew(*items: Evaluation) -> bool:
    before = rows()
    return before == written_anew([item.device_kind for item in items])


@pytest.mark.parametrize("first", ["entry", "decision"])
def test_an_invalidation_reaches_on_other_boards_what_was_the_same_code_on_the_first(staff: User, first: str) -> None:
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    entry = compiled(enter("cheat", replayed(9.0), "int e;"), "a" * 64)
    other = on_h100("cheat", replayed(9.0), "int e;") if first == "entry" else None
    invalidate(bad, staff)
    other = compiled(other or on_h100("cheat", replayed(9.0), "int e;"), "b" * 64)
    assert row_on(entry).under_review
    assert row_on(other).under_review
    assert as_written_anew(entry, other)
    decisions.decide(bad.submission, ActionKind.RESTORE, by=staff, reason="it does not")
    assert row_on(other).rank == 1
    assert as_written_anew(entry, other)


def test_a_judging_that_connects_an_entry_with_what_was_invalidated_reaches_it_on_other_boards(staff: User) -> None:
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    other = compiled(on_h100("cheat", replayed(9.0), "int e;"), "b" * 64)
    invalidate(bad, staff)
    assert row_on(other).rank == 1
    compiled(private("cheat", replayed(9.0), "int e;"), "a" * 64)
    assert row_on(other).under_review
    assert as_written_anew(bad, other)


@pytest.mark.parametrize("goes", ["what was invalidated", "what connects them"])
def test_deleting_ends_no_review_on_another_board(staff: User, goes: str) -> None:
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    invalidate(bad, staff)
    bridge = compiled(private("eve", replayed(9.0), "int e;"), "a" * 64)
    other = compiled(on_h100("eve", replayed(9.0), "int e;"), "b" * 64)
    assert row_on(other).under_review
    if goes == "what connects them":
        ownership.submission_delete(bridge.submission)
    else:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert row_on(other).under_review
    assert as_written_anew(bad, other)
    decisions.decide(other.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert row_on(other).rank == 1


def test_a_stranger_who_connects_an_entry_with_what_was_invalidated_takes_it_down_nowhere(staff: User) -> None:
    """The text of the entry is compiled to the code that staff have invalidated, when a stranger submits it."""
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    other = compiled(on_h100("honest", replayed(2.0), "int e;"), "b" * 64)
    compiled(enter("cheat", replayed(2.0), "int e;"), "a" * 64)
    invalidate(bad, staff)
    assert row_on(other).rank == 1
    assert as_written_anew(bad, other)


def test_a_record_is_in_question_as_its_entry_is(staff: User) -> None:
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    other = compiled(on_h100("cheat", replayed(9.0), "int e;"), "b" * 64)
    compiled(private("cheat", replayed(9.0), "int e;"), "a" * 64)
    invalidate(bad, staff)
    assert row_on(other).under_review
    assert not board_records(board_key(other.task_version, other.device_kind.slug))


def test_a_report_asks_no_more_on_a_full_board_where_staff_have_decided_something(staff: User) -> None:
    costs = []
    for count in (20, 160):
        invalidate(many(1, f"int bad{count};", owner=factories.user(f"bad{count}"))[0], staff)
        made = many(count, f"int x{count};", owner=factories.user(f"eve{count}"))
        with CaptureQueriesContext(connection) as asked:
            standings.standings_update(Evaluation.objects.get(pk=made[-1].pk))
        costs.append(len(asked))
        assert Standing.objects.filter(evaluation__in=made).exists()
    assert costs[1] < costs[0] + 10, costs


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_judging_that_adds_to_an_entry_a_code_that_was_invalidated_of_somebody_else_reaches_it(
    staff: User, *, is_deleted: bool
) -> None:
    """The owner had one program before. Its text is compiled to the invalidated code on one of two boards."""
    bad = compiled(enter("cheat", replayed(9.0), "int m;"), "a" * 64)
    invalidate(bad, staff)
    other = compiled(on_h100("eve", replayed(9.0), "int e;"), "b" * 64)
    if is_deleted:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert row_on(other).rank == 1
    compiled(private("eve", replayed(9.0), "int e;"), "a" * 64)
    assert row_on(other).under_review
    assert as_written_anew(other)
