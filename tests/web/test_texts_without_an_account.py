"""What visitors submit without an account: a text is one person's, whoever submits it, and its copies take no place.

Not covered: which of its submissions stands (`test_crowded_boards.py`).
"""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks.boards.selectors import board_records
from benchmarks.harness import Flag
from benchmarks.models import Evaluation, Method, Standing
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind

from . import factories
from .test_bounds import enter, found, key, replayed
from .test_connected import compiled, wrong
from .test_random_histories import rows, written_anew
from .test_timing_revisions import SAME, earlier

GATES = (Flag("gate-speedup", "More than 10 times faster than the stronger baseline."),)


def visit(report: Any, text: str = SAME, **options: Any) -> Evaluation:
    return factories.judged_on_gpu(report, text=text, **options)


@pytest.mark.parametrize("copies", [1, 3])
def test_what_staff_invalidate_does_not_stand_as_another_submission_of_the_same_text(staff: User, copies: int) -> None:
    for _ in range(1 + copies):
        visit(replayed(9.0))
    row = Standing.objects.get()
    decisions.decide(row.evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    assert Standing.objects.get().under_review


def test_what_staff_invalidate_holds_no_record_as_another_submission_of_the_same_text(staff: User) -> None:
    enter("honest", replayed(1.5))
    for _ in range(2):
        visit(replayed(9.0))
    row = Standing.objects.get(rank=1)
    decisions.decide(row.evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    assert [record.score for record in board_records(key())] == [1.5]


@pytest.mark.parametrize("what", ["gate", "contradiction"])
def test_what_is_in_question_of_a_text_is_so_of_its_next_submission(what: str) -> None:
    if what == "gate":
        visit(replace(replayed(10.1), gates=GATES))
        visit(replayed(9.9))
    else:
        visit(found(1.2, 1.15, 1.22, "bounded"))
        visit(replayed(9.0))
    assert Standing.objects.get().under_review


def test_earlier_scores_of_a_text_that_was_judged_again_hold_no_record() -> None:
    visit(earlier(replayed(1.80)))
    visit(replayed(1.60))
    enter("honest", replayed(1.70))
    assert [record.score for record in board_records(key())] == [1.60, 1.70]


def test_as_another_language_a_text_is_not_the_same_persons() -> None:
    """There it may be another program, and whoever submits it may be somebody else."""
    visit(replayed(2.0))
    visit(wrong(), language="python")
    assert not Standing.objects.get().under_review


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_texts_of_one_program_take_one_place(language: str) -> None:
    """A comment changes nothing that is compiled: else one visitor draws lots, and takes all places but those above.

    In a Python language only the tokens tell, as what is compiled there is the text.
    """
    second = enter("second", replayed(1.7), "int y;")
    text = "// {}\nint x{};" if language == "cuda" else "# {}\nx = 1\n"
    copies = [visit(replayed(2.0), text.format(number, number), language=language) for number in range(3)]
    for item in copies:
        compiled(item, "a" * 64 if language == "cuda" else item.submission.blob_id)
    assert set(Standing.objects.values_list("evaluation", "rank")) == {(copies[0].pk, 1), (second.pk, 2)}
    before = rows()
    assert before == written_anew([factories.gpu_kind()])


@pytest.mark.parametrize("then", ["it stays", "it is invalidated"])
def test_copies_of_an_entry_take_no_place_as_long_as_it_stands(staff: User, then: str) -> None:
    leader = compiled(enter("leader", replayed(2.0), "int x;"), "a" * 64)
    second = enter("second", replayed(1.7), "int y;")
    copies = [compiled(visit(replayed(2.0), f"// {number}\nint x;"), "a" * 64) for number in range(2)]
    assert Standing.objects.get(evaluation=second).rank == 2
    if then == "it is invalidated":  # the first copy had a public score by then
        decisions.decide(leader.submission, ActionKind.INVALIDATE, by=staff, reason="has no licence")
        assert list(Standing.objects.order_by("rank").values_list("evaluation", flat=True)) == [copies[0].pk, second.pk]
    before = rows()
    assert before == written_anew([factories.gpu_kind()])


def test_what_staff_invalidate_takes_down_other_texts_of_the_same_code_that_may_be_the_visitors(staff: User) -> None:
    first, _ = (compiled(visit(replayed(9.0), f"// {number}\nint x;"), "a" * 64) for number in range(2))
    decisions.decide(first.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    assert Standing.objects.get().under_review


def test_a_visitors_copy_of_what_this_site_ships_is_not_this_sites(staff: User) -> None:
    ships = Method.objects.create(slug="shipped", title="Shipped", kind="library")
    shipped = visit(found(1.2, 1.15, 1.22, "bounded"), method=ships)
    copy = visit(replayed(9.0))
    assert not Standing.objects.get(evaluation=shipped).under_review
    decisions.decide(copy.submission, ActionKind.INVALIDATE, by=staff, reason="a copy")
    assert not Standing.objects.get(evaluation=shipped).under_review
