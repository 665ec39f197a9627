"""What is settled about a program and by whom: confirmations, invalidations, gates, and what a review tells.

Each was a finding of an attack once. Not covered: what contradicts each other (`test_timing_revisions.py`).
"""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_records
from benchmarks.catalogue import devices
from benchmarks.harness import Flag, Verdict
from benchmarks.judgings import moves
from benchmarks.models import Confirmation, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, key, replayed
from .test_connected import compiled, private, wrong
from .test_timing_revisions import SAME, by, hidden

GATED = (Flag("gate-speedup", "faster than usual"),)


@pytest.mark.parametrize("how", ["private", "deleted with its account"])
def test_a_score_behind_a_gate_of_another_account_raises_no_entry_on_a_processor(how: str) -> None:
    """The entry's own judging: 1.5×. A private one of an accomplice: 50×, held by a gate that is nobody's question."""
    text = "// cheats at random\n"
    factories.judged(factories.passing(2.0), owner=factories.user("honest"), text="// honest\n")
    factories.judged(factories.passing(1.5), owner=factories.user("cheat"), text=text)
    accomplice = factories.user("accomplice")
    factories.judged(factories.gated(50.0), owner=accomplice, text=text, visibility=Visibility.PRIVATE)
    if how != "private":
        ownership.account_delete(accomplice, keep_submissions=False)
    row = by("cheat")
    assert row.under_review or row.score < 2.0, (row.rank, row.score, row.under_review)


def test_no_score_above_a_gate_is_ranked_before_anybody_has_looked() -> None:
    enter("cheat", replayed(9.9), SAME)
    for _ in range(4):
        hidden("accomplice", replace(replayed(12.0), gates=GATED))
    row = by("cheat")
    assert row.under_review or row.score < 10.0, (row.rank, row.score)


def test_a_confirmation_answers_no_gate_for_a_score_that_staff_could_not_see(staff: User) -> None:
    """A private judging of an accomplice, at 60×, counts as what staff have seen when they confirm a public 12×."""
    cheat, text = factories.user("cheat"), "// cheats at random\n"
    accomplice = factories.user("accomplice")
    factories.judged(factories.gated(60.0), owner=accomplice, text=text, visibility=Visibility.PRIVATE)
    entry = factories.judged(factories.gated(12.0), owner=cheat, text=text)
    decisions.decide(entry.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("cheat").under_review
    factories.judged(factories.gated(55.0), owner=cheat, text=text)
    row = by("cheat")
    assert row.under_review, (row.rank, row.score)


def test_staff_are_told_of_every_question_that_their_confirmation_settles() -> None:
    """A review names the first question alone; a confirmation settles a refusal that stands behind a gate as well."""
    cheat, text = factories.user("cheat"), "// cheats at random\n"
    factories.judged(factories.gated(12.0), owner=cheat, text=text)
    factories.judged(wrong(), owner=cheat, text=text, visibility=Visibility.PRIVATE)
    row = by("cheat")
    assert "INCORRECT_VALUE" in row.review_reason, row.review_reason


def test_an_unlisted_variant_that_compiles_to_the_same_does_not_outlive_an_invalidation(staff: User) -> None:
    """`same_source` shows staff texts alone, boards show public ones: nobody could see this one."""
    owner = factories.user("second")
    sleeping = compiled(
        factories.judged_on_gpu(replayed(9.0), owner=owner, text="int y;", visibility=Visibility.UNLISTED), "a" * 64
    )
    cheat = compiled(enter("cheat", replayed(9.0), "int x;"), "a" * 64)
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    ownership.visibility_change(sleeping.submission, Visibility.PUBLIC)
    row = by("second")
    assert row.under_review, (row.rank, row.score)


def test_a_quick_check_of_a_copy_does_not_outlive_an_invalidation(staff: User) -> None:
    """On no board when staff decided, as it had no score; judged in full afterwards."""
    options = {"owner": factories.user("second"), "text": SAME, "quick": True}
    sleeping = factories.judged_on_gpu(replayed(9.0), **options)
    cheat = enter("cheat", replayed(9.0), SAME)
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="cheats")
    services.judge_in_full(sleeping, None)
    moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(9.0))
    row = by("second")
    assert row.under_review, (row.rank, row.score)


def test_a_confirmation_that_is_handed_on_says_nothing_of_another_device(staff: User) -> None:
    """A Python text sees on which device it runs. Staff have seen it on a processor."""
    text = "def forward(x):\n    return x\n"
    seen = factories.judged(factories.gated(12.0), owner=factories.user("eve"), text=text, language="python")
    held = replace(replayed(60.0), gates=GATED)
    entry = factories.judged_on_gpu(held, owner=factories.user("cheat"), text=text, language="python")
    decisions.decide(seen.submission, ActionKind.CONFIRM, by=staff, reason="looked at it on the processor")
    assert by("cheat").under_review
    ownership.account_delete(User.objects.get(username="eve"), keep_submissions=False)
    for wanted in (Visibility.PRIVATE, Visibility.PUBLIC):  # that board is read anew
        ownership.visibility_change(Submission.objects.get(pk=entry.submission_id), wanted)
    row = by("cheat")
    assert row.under_review, (row.rank, row.score)


def test_a_confirmed_program_stays_confirmed_if_the_account_with_another_text_of_it_goes(staff: User) -> None:
    """Operator guide: a confirmation applies to everything with the same text or compiled code."""
    held = replace(replayed(12.0), gates=GATED)
    copy = compiled(enter("eve", held, "int y;"), "a" * 64)
    compiled(enter("honest", held, "int x;"), "a" * 64)
    assert by("honest").under_review
    decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not by("honest").under_review
    ownership.account_delete(User.objects.get(username="eve"), keep_submissions=False)
    assert not by("honest").under_review, by("honest").review_reason


def test_a_confirmed_copy_takes_no_record_from_whoever_was_first(staff: User) -> None:
    """The confirmation clears both rows, but only the copy's own judging may hold a record."""
    held = replace(replayed(12.0), gates=GATED)
    enter("honest", held, SAME)
    copy = enter("eve", held, SAME)
    decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("honest").rank == 1
    assert [record.submission.owner.username for record in board_records(key())] == ["honest"]


@pytest.mark.parametrize("how", ["made private", "handed on"])
def test_staff_can_take_a_confirmation_back(staff: User, how: str) -> None:
    """It lies on a private copy, whose page staff cannot open, and clears every row with the text."""
    held = replace(replayed(12.0), gates=GATED)
    copy = enter("eve", held, SAME)
    cheat = enter("cheat", held, SAME)
    if how == "handed on":
        hidden("spare", replayed(9.5))
    decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    if how == "handed on":
        ownership.account_delete(User.objects.get(username="eve"), keep_submissions=False)
    else:
        ownership.visibility_change(Submission.objects.get(pk=copy.submission_id), Visibility.PRIVATE)
        client = Client()
        client.force_login(staff)
        assert client.get(reverse("moderate", args=[copy.submission.code])).status_code == 404
    assert not by("cheat").under_review
    decisions.decide(cheat.submission, ActionKind.REOPEN, by=staff, reason="there is new evidence")
    assert by("cheat").under_review


def test_a_board_does_not_quote_what_a_private_submission_said(visitor: Client) -> None:
    """A private experiment of the owner: the same tokens, other comments. Its error text may hold anything."""
    enter("olga", replayed(2.0), "// public\nint x;")
    secret = factories.failing(verdict=Verdict.RUNTIME_ERROR, reason="raised: key=hunter2 of project Zeppelin")
    private("olga", secret, "// private notes\nint x;")
    assert by("olga").under_review
    page = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert "Zeppelin" not in page


def test_what_staff_have_invalidated_is_not_ranked_on_another_device(staff: User) -> None:
    """Operator guide: if it is submitted again, by its owner or somebody else, it is under review until confirmed."""
    cheat = factories.user("cheat")
    first = enter("cheat", replayed(9.0), SAME)
    decisions.decide(first.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer from a file")
    other = replace(factories.GPU, kind="nvidia-h100", model="NVIDIA H100")
    kind = devices.register(other)
    factories.judged(replayed(9.0), other, owner=cheat, text=SAME, language="cuda", device_kind=kind)
    row = by("cheat")
    assert row.under_review, (row.rank, row.score)


@pytest.mark.django_db(transaction=True)
def test_the_migration_keeps_what_was_confirmed() -> None:
    """Until then the moment was a column of the submission."""
    confirmed = enter("confirmed", replayed(2.0), SAME)
    enter("other", replayed(3.0))
    call_command("migrate", "benchmarks", "0046", verbosity=0)
    with connection.cursor() as cursor:
        now = connection.ops.adapt_datetimefield_value(timezone.now())  # the database's own has whole seconds
        cursor.execute(
            "UPDATE benchmarks_submission SET confirmed_at = %s WHERE id = %s", [now, confirmed.submission_id]
        )
    call_command("migrate", "benchmarks", verbosity=0)
    row = Confirmation.objects.get()
    assert (row.source_sha256, row.language) == (confirmed.submission.blob_id, "cuda")
    assert (row.task_version, row.device_kind) == (confirmed.task_version, confirmed.device_kind)


def test_a_confirmation_clears_the_record_with_the_row(staff: User) -> None:
    """Of a text that another language reads alike, the row was cleared and the record was not."""
    held, options = replace(replayed(12.0), gates=GATED), {"text": "import triton\n"}
    factories.judged_on_gpu(held, owner=factories.user("honest"), language="triton", **options)
    copy = factories.judged_on_gpu(held, owner=factories.user("eve"), language="helion", **options)
    decisions.decide(copy.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert by("honest").rank == 1
    assert [record.submission.owner.username for record in board_records(key())] == ["honest"]
