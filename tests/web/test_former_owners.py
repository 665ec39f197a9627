"""What an account leaves behind is still one person's: leaving makes no number better and takes nothing back."""

import pytest
from django.contrib.auth.models import User

from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_records
from benchmarks.models import Evaluation, Method, Standing
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Origin, Visibility

from . import factories
from .test_bounds import enter, key, replayed
from .test_timing_revisions import SAME, earlier


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_what_an_account_leaves_is_not_the_luckiest_of_its_judgings(device: str) -> None:
    """Variants of one program by a run; the unlucky ones are made private, then the account is deleted with all."""
    cheat = factories.user("cheat")
    method = Method.objects.create(slug="agent-external", title="External", kind="agent")
    options = {"owner": cheat, "method": method, "origin": Origin.AGENT}
    for number, score in enumerate((1.5, 1.5, 1.5, 1.85)):
        text = f"// {number}\nint x;"
        if device == "gpu":
            last = factories.judged_on_gpu(replayed(score), text=text, **options)
        else:
            last = factories.judged(factories.passing(score * (2 if score > 1.8 else 1)), text=text, **options)
    before = Standing.objects.get().score
    for item in Evaluation.objects.exclude(pk=last.pk):
        ownership.visibility_change(item.submission, Visibility.PRIVATE)
    assert Standing.objects.get().score == pytest.approx(before)
    ownership.account_delete(User.objects.get(pk=cheat.pk), keep_submissions=False)
    row = Standing.objects.get()
    assert row.score == pytest.approx(before), (row.holder, row.rank, row.score)


@pytest.mark.parametrize("leaves", [False, True])
def test_staff_invalidate_all_that_one_person_has_submitted_of_a_program(staff: User, *, leaves: bool) -> None:
    """Two public layouts of one cheat. Of an account both go; of an account that was deleted the second one stands."""
    enter("cheat", replayed(9.0), "// one\nint x;")
    enter("cheat", replayed(9.0), "// two\nint x;")
    if leaves:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=True)
    row = Standing.objects.get()
    decisions.decide(row.evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    row = Standing.objects.get()
    assert (row.rank, row.under_review) == (None, True), (row.holder, row.rank, row.score)


@pytest.mark.parametrize("leaves", [False, True])
def test_earlier_scores_of_what_was_judged_again_hold_no_record_though_the_account_has_gone(*, leaves: bool) -> None:
    """A lucky figure of an earlier revision of the timing comes back as the record of the board."""
    enter("left", earlier(replayed(1.80)), SAME)
    enter("left", replayed(1.60), SAME)
    enter("honest", replayed(1.70))
    if leaves:
        ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    assert [record.score for record in board_records(key())] == [1.60, 1.70]


def test_who_leaves_takes_no_row_of_somebody_else_who_has_left() -> None:
    """Both had a row of what they made with one method; the second also has a text of the first."""
    method = Method.objects.create(slug="agent-x", title="X", kind="agent")
    options = {"method": method, "origin": Origin.AGENT}
    one, two = factories.user("one"), factories.user("two")
    first = factories.judged_on_gpu(replayed(2.0), owner=one, text="int x;", **options)
    ownership.account_delete(one, keep_submissions=True)
    for text in ("int x;", "int y;"):
        factories.judged_on_gpu(replayed(2.1), owner=two, text=text, **options)
    before = set(Standing.objects.values_list("evaluation", flat=True))
    ownership.account_delete(two, keep_submissions=True)
    assert set(Standing.objects.values_list("evaluation", flat=True)) == before
    assert first.pk in before
