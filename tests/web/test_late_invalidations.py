"""Decisions of staff about what is still in the queue or being judged: they are about its text, on all boards.

Not covered: decisions about what has been judged (`test_decided.py`).
"""

import pytest
from django.contrib.auth.models import User

from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_key, board_records
from benchmarks.judgings import moves
from benchmarks.models import Evaluation
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind

from . import factories
from .test_bounds import enter, replayed
from .test_connected import compiled
from .test_decided import on_h100, row_on
from .test_random_histories import rows, written_anew
from .test_timing_revisions import SAME, by


def waiting(name: str, text: str = SAME) -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    return factories.queued(owner=owner, text=text, language="cuda", device_kind=factories.gpu_kind())


def invalidate(evaluation: Evaluation, staff: User) -> None:
    decisions.decide(evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")


def test_an_invalidation_of_what_is_being_judged_reaches_entries_on_other_boards(staff: User) -> None:
    entry, again = on_h100("cheat", replayed(9.0)), waiting("cheat")
    holding = factories.claimed_for_judging(factories.GPU)
    assert holding.evaluation == again
    invalidate(again, staff)
    moves.record_report(holding, replayed(9.0))
    before = rows()
    assert row_on(entry).under_review
    assert before == written_anew([entry.device_kind, factories.gpu_kind()])


@pytest.mark.parametrize("ends", ["judged", "cancelled"])
def test_what_an_invalidated_text_is_compiled_to_later_reaches_entries_on_other_boards(staff: User, ends: str) -> None:
    """The other text is compiled to the same, which nobody knew when staff decided."""
    entry, again = compiled(on_h100("cheat", replayed(9.0), "int b;"), "a" * 64), waiting("cheat")
    holding = factories.claimed_for_judging(factories.GPU)
    invalidate(again, staff)
    assert not row_on(entry).under_review
    moves.evaluation_compiled(holding, 1.0, "a" * 64)
    if ends == "judged":
        moves.record_report(holding, replayed(9.0))
    else:
        moves.evaluation_cancel(again, "Cancelled by its author.", by_author=True)
    before = rows()
    assert row_on(entry).under_review
    assert before == written_anew([entry.device_kind, factories.gpu_kind()])


@pytest.mark.parametrize("then", ["submits it again", "leaves first"])
def test_what_staff_invalidate_in_the_queue_cannot_be_cancelled_to_be_ranked(staff: User, then: str) -> None:
    first = waiting("cheat")
    invalidate(first, staff)
    assert moves.evaluation_cancel(first, "Cancelled by its author.", by_author=True)
    if then == "leaves first":
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    enter("cheat", replayed(9.0), SAME)
    assert by("cheat").under_review


def test_rows_on_other_boards_give_the_new_reason_when_an_invalidated_account_leaves(staff: User) -> None:
    cheat = enter("cheat", replayed(9.0), SAME)
    invalidate(cheat, staff)
    copy = on_h100("copies", replayed(9.0))
    assert row_on(copy).under_review
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    before = rows()
    assert "deleted since" in row_on(copy).review_reason
    assert before == written_anew([copy.device_kind, factories.gpu_kind()])


@pytest.mark.parametrize("leaves", [False, True])
def test_what_staff_invalidate_on_one_board_holds_no_record_on_another(staff: User, *, leaves: bool) -> None:
    honest = on_h100("honest", replayed(1.5), "int honest;")
    invalidate(enter("cheat", replayed(9.0), SAME), staff)
    if leaves:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert row_on(on_h100("late", replayed(9.0))).under_review
    assert board_records(board_key(factories.version(), honest.device_kind.slug)) == [honest]
