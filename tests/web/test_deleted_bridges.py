"""What connected two texts of one owner connects them after it was deleted: that ends no review and betters no score.

Not covered: what is remembered of the deleted judging itself (`test_connected.py`, `test_confirmations.py`).
"""

import pytest
from django.contrib.auth.models import User

from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_records
from benchmarks.harness import Verdict
from benchmarks.models import Standing
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, key, replayed
from .test_connected import compiled, private, wrong
from .test_decided import on_h100, row_on
from .test_random_histories import rows, written_anew
from .test_timing_revisions import by


def bridged_to(score: float | None, *, times: int = 1) -> None:
    """`x` is refused or scores; `y` is compiled to the same; on another line `y` is something else, which stands."""
    for _ in range(times):
        compiled(private("olga", replayed(score) if score else wrong(), "int x;"), "a" * 64)
    compiled(private("olga", replayed(1.80), "int y;"), "a" * 64)
    compiled(enter("olga", replayed(1.90), "\n\nint y;"), "b" * 64)


def delete(text: str) -> None:
    for submission in User.objects.get(username="olga").submissions.filter(blob__text=text):
        ownership.submission_delete(submission)


@pytest.mark.parametrize("gone", [["int y;"], ["int x;"], ["int x;", "int y;"], ["int y;", "int x;"]])
def test_deleting_what_connects_an_entry_with_a_refused_text_ends_no_review(gone: list[str], staff: User) -> None:
    bridged_to(None)
    assert by("olga").under_review
    for text in gone:
        delete(text)
    before = rows()
    assert by("olga").under_review
    assert before == written_anew([factories.gpu_kind()])
    olgas = User.objects.get(username="olga").submissions
    seen = by("olga").evaluation.submission if "int x;" in gone else olgas.get(blob__text="int x;")
    decisions.decide(seen, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("olga").under_review


@pytest.mark.parametrize("when", ["before they were connected", "after that"])
def test_deleting_a_refused_text_ends_no_review_by_an_earlier_confirmation_of_the_entry(when: str, staff: User) -> None:
    """While the refused text is there, only what staff say of that settles it."""
    compiled(private("olga", wrong(), "int x;"), "a" * 64)
    entry = compiled(enter("olga", replayed(1.90), "\n\nint y;"), "b" * 64)
    if when == "after that":
        compiled(private("olga", replayed(1.80), "int y;"), "a" * 64)
    decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    if when == "before they were connected":
        compiled(private("olga", replayed(1.80), "int y;"), "a" * 64)
    assert by("olga").under_review
    delete("int x;")
    assert by("olga").under_review
    decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="looked at it again")
    before = rows()
    assert not by("olga").under_review
    assert before == written_anew([factories.gpu_kind()])


def test_what_had_settled_a_refused_text_holds_on_when_it_is_deleted(staff: User) -> None:
    bad = compiled(enter("olga", wrong(), "int x;"), "a" * 64)
    compiled(private("olga", replayed(1.80), "int y;"), "a" * 64)
    compiled(enter("olga", replayed(1.90), "\n\nint y;"), "b" * 64)
    decisions.decide(bad.submission, ActionKind.CONFIRM, by=staff, reason="the machine was at fault")
    assert not by("olga").under_review
    delete("int x;")
    assert not by("olga").under_review


def test_deleting_what_did_not_compile_and_connects_an_entry_with_a_refused_text_ends_no_review() -> None:
    """Its code is known if it does not compile where it is loaded."""
    compiled(private("olga", wrong(), "int x;"), "a" * 64)
    compiled(private("olga", wrong(Verdict.COMPILE_ERROR), "int y;"), "a" * 64)
    compiled(enter("olga", replayed(1.90), "\n\nint y;"), "b" * 64)
    assert by("olga").under_review
    delete("int y;")
    assert by("olga").under_review


@pytest.mark.parametrize("leaves", [False, True])
def test_deleting_what_connects_an_entry_with_unlucky_judgings_betters_no_score(*, leaves: bool) -> None:
    bridged_to(1.60, times=4)
    pooled = by("olga").score
    if leaves:
        ownership.account_delete(User.objects.get(username="olga"), keep_submissions=True)
    else:
        delete("int y;")
    before = rows()
    assert Standing.objects.get().score == pytest.approx(pooled)
    assert before == written_anew([factories.gpu_kind()])


def test_deleting_what_connects_an_entry_with_a_refused_text_makes_it_no_record() -> None:
    enter("honest", replayed(1.5))
    bridged_to(None)
    delete("int y;")
    assert [record.score for record in board_records(key())] == [1.5]


def test_deleting_a_refusal_of_the_same_text_as_another_language_ends_no_review(staff: User) -> None:
    olga, text = factories.user("olga"), "#define x\nx = 1\n"
    bad = factories.judged_on_gpu(wrong(), owner=olga, text=text, language="cuda", visibility=Visibility.PRIVATE)
    entry = factories.judged_on_gpu(replayed(9.0), owner=olga, text=text, language="triton")
    ownership.submission_delete(bad.submission)
    assert by("olga").under_review
    decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("olga").under_review


def test_a_deleted_bridge_of_a_stranger_connects_nothing() -> None:
    compiled(private("eve", wrong(), "int x;"), "a" * 64)
    bridge = compiled(private("eve", replayed(1.80), "int y;"), "a" * 64)
    compiled(enter("olga", replayed(1.90), "\n\nint y;"), "b" * 64)
    ownership.submission_delete(bridge.submission)
    assert not by("olga").under_review


def test_an_invalidation_reaches_what_a_deleted_text_connects_with_it_on_another_board(staff: User) -> None:
    bridge = compiled(on_h100("olga", replayed(9.0), "int y;"), "a" * 64)
    entry = compiled(on_h100("olga", replayed(9.0), "\n\nint y;"), "b" * 64)
    ownership.submission_delete(bridge.submission)
    other = compiled(enter("olga", replayed(9.0), "int x;"), "a" * 64)
    decisions.decide(other.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    before = rows()
    assert before == written_anew([entry.device_kind, factories.gpu_kind()])
    assert row_on(entry).under_review
