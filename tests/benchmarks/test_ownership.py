"""Owners show, hide and delete what is theirs; boards follow, and nothing is gained by deleting a refusal."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from unittest.mock import Mock

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import quotas
from benchmarks.accounts import ownership
from benchmarks.accounts.ownership import account_delete, submission_delete, visibility_change
from benchmarks.accounts.tokens import token_create
from benchmarks.boards import standings
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source, Step
from benchmarks.judgings.moves import ClaimLost, evaluation_step, record_report
from benchmarks.models import ApiToken, CodeBlob, Evaluation, LedgerEntry, Notification, Standing, Submission
from benchmarks.notifications.telling import TOLD_PER_DAY
from benchmarks.quotas import OverQuota
from benchmarks.services import Refused
from benchmarks.states import NotificationKind, Origin, Visibility
from tests.fakes import report_for


@pytest.fixture
def ann(person):
    return person("ann")


@pytest.fixture
def bob(person):
    return person("bob")


def board():
    return {row.holder: (row.score, row.rank) for row in Standing.objects.all()}


@pytest.mark.parametrize("hidden", [Visibility.PRIVATE, Visibility.UNLISTED])
def test_what_is_hidden_leaves_the_board_and_the_next_best_takes_its_place(judged, ann, bob, hidden):
    judged(text="// slow", owner=ann, speedup=1.5)
    best = judged(text="// fast", owner=ann, speedup=3.0).submission
    judged(text="// other", owner=bob, speedup=2.0)
    assert visibility_change(best, hidden)
    assert board() == {f"user:{ann.pk}": (1.5, 2), f"user:{bob.pk}": (2.0, 1)}
    assert visibility_change(best, Visibility.PUBLIC)
    assert board() == {f"user:{ann.pk}": (3.0, 1), f"user:{bob.pk}": (2.0, 2)}


def test_what_was_private_when_it_was_judged_stands_once_it_is_public(judged, ann):
    submission = judged(owner=ann, visibility=Visibility.PRIVATE).submission
    assert board() == {}
    visibility_change(submission, Visibility.PUBLIC)
    assert board() == {f"user:{ann.pk}": (2.0, 1)}


def test_the_same_visibility_again_changes_nothing(judged, ann):
    submission = judged(owner=ann).submission
    assert not visibility_change(submission, Visibility.PUBLIC)


def test_of_two_changes_at_once_the_second_sees_that_it_came_late(judged, ann):
    submission = judged(owner=ann).submission
    late = Submission.objects.get(pk=submission.pk)
    visibility_change(submission, Visibility.UNLISTED)
    assert not visibility_change(late, Visibility.PRIVATE)
    assert Submission.objects.get().visibility == Visibility.UNLISTED


def test_nobodys_submission_cannot_be_private(judged):
    with pytest.raises(Refused, match="has no owner"):
        visibility_change(judged().submission, Visibility.PRIVATE)


def test_publishing_takes_a_public_place(judged, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 1
    payer = quotas.payer_of(ann, "")
    judged(text="// a", owner=ann, payer=payer)
    hidden = judged(text="// b", owner=ann, payer=payer, visibility=Visibility.PRIVATE).submission
    with pytest.raises(OverQuota):
        visibility_change(hidden, Visibility.PUBLIC)
    assert Submission.objects.get(pk=hidden.pk).visibility == Visibility.PRIVATE


def test_showing_and_hiding_takes_a_public_place_each_time(judged, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 3
    payer = quotas.payer_of(ann, "")
    submission = judged(owner=ann, payer=payer).submission
    for used in (1, 2):
        visibility_change(submission, Visibility.UNLISTED)
        assert public_places(payer) == used
        visibility_change(submission, Visibility.PUBLIC)
    assert public_places(payer) == 3
    visibility_change(submission, Visibility.PRIVATE)
    with pytest.raises(OverQuota):
        visibility_change(submission, Visibility.PUBLIC)


def test_an_older_submission_takes_a_place_of_the_day_on_which_it_is_shown(judged, ann, settings):
    settings.KBENCH_PUBLIC_PER_DAY = 2
    payer = quotas.payer_of(ann, "")
    texts = ("// a", "// b", "// c")
    made = [judged(text=text, owner=ann, payer=payer, visibility="unlisted").submission for text in texts]
    Submission.objects.update(created=timezone.now() - timedelta(days=3))
    for submission in made[:2]:
        visibility_change(Submission.objects.get(pk=submission.pk), Visibility.PUBLIC)
    with pytest.raises(OverQuota):
        visibility_change(Submission.objects.get(pk=made[2].pk), Visibility.PUBLIC)


def test_who_shows_and_hides_an_entry_does_not_fill_the_mailbox_of_who_was_first(judged, ann, bob):
    judged(text="// other", owner=bob, speedup=2.0)
    best = judged(text="// fast", owner=ann, speedup=3.0).submission
    for visibility in (Visibility.UNLISTED, Visibility.PUBLIC) * 5:
        visibility_change(best, visibility)
    assert Notification.objects.filter(owner=bob, kind=NotificationKind.RECORD_LOST).count() == TOLD_PER_DAY


def public_places(payer):
    return next(meter.used for meter in quotas.meters(payer) if meter.kind is quotas.PUBLIC)


def test_deleting_takes_source_results_and_standing_and_leaves_the_ledger(judged, ann, bob):
    judged(text="// other", owner=bob, speedup=1.5)
    judged(text="// slow", owner=ann, speedup=1.2)
    evaluation = judged(text="// fast", owner=ann, speedup=3.0, payer=quotas.payer_of(ann, ""))
    submission_delete(evaluation.submission)
    assert board() == {f"user:{ann.pk}": (1.2, 2), f"user:{bob.pk}": (1.5, 1)}
    assert not CodeBlob.objects.filter(text="// fast").exists()
    line = LedgerEntry.objects.get()
    assert line.evaluation is None
    assert "mnist_linear_relu/forward" in line.text


def test_a_source_that_somebody_else_has_stays(judged, ann, bob):
    mine = judged(owner=ann).submission
    judged(owner=bob)
    submission_delete(mine)
    assert CodeBlob.objects.count() == 1
    row = Standing.objects.get()
    assert (row.holder, row.judgings) == (f"user:{bob.pk}", 1)


def test_deleting_a_refusal_does_not_help_the_same_code(judged, ann):
    submission_delete(judged(owner=ann, verdict="INCORRECT_VALUE").submission)
    judged(owner=ann)
    row = Standing.objects.get()
    assert (row.under_review, row.rank) == (True, None)
    assert row.review_reason == "The same source, judged for a submission deleted since, ended as INCORRECT_VALUE."


def test_an_audit_settles_what_a_deleted_submission_left_in_question(judged, ann):
    submission_delete(judged(owner=ann, verdict="INCORRECT_VALUE").submission)
    passed = judged(owner=ann)
    judged(submission=passed.submission, reason="audit")
    assert not Standing.objects.get().under_review


def test_deleting_what_is_being_judged_takes_it_from_its_worker(submit, claim, ann):
    evaluation = submit(owner=ann)
    holding = claim()
    submission_delete(evaluation.submission)
    with pytest.raises(ClaimLost):
        evaluation_step(holding, Step("verify", "started"))
    assert not Evaluation.objects.exists()


def test_what_a_run_has_made_is_not_deleted_one_by_one(judged, ann):
    submission = judged(owner=ann, origin=Origin.AGENT).submission
    with pytest.raises(Refused, match="make the submission private"):
        submission_delete(submission)
    visibility_change(submission, Visibility.PRIVATE)
    assert board() == {}


def test_a_title_is_changed(judged, ann):
    submission = judged(owner=ann).submission
    ownership.submission_rename(submission, "Better")
    assert Submission.objects.get().title == "Better"


def test_an_account_that_keeps_its_submissions_loses_its_name_on_them(judged, ann, bob):
    judged(text="// fast", owner=ann, speedup=3.0, client_token="key:1")
    judged(text="// slow", owner=ann, speedup=1.2)
    judged(text="// secret", owner=ann, visibility=Visibility.PRIVATE)
    judged(text="// other", owner=bob, speedup=2.0)
    judged(text="// nobody's", speedup=1.1, client_token="key:1")
    token_create(ann, "script")
    account_delete(ann, keep_submissions=True)
    fast = Submission.objects.get(blob__text="// fast")
    assert board()[f"former:{fast.former_owner}"] == (3.0, 1)
    assert len(board()) == 3  # what did not stand before does not stand now
    assert not Submission.objects.filter(blob__text="// secret").exists()
    assert not ApiToken.objects.exists()
    assert not get_user_model().objects.filter(username="ann").exists()


@pytest.mark.django_db(transaction=True)
def test_an_account_goes_though_the_database_ended_its_deletion_last_of_all(judged, ann, monkeypatch):
    judged(text="// fast", owner=ann)
    deadlock = OperationalError()
    deadlock.__cause__ = type("Deadlock", (Exception,), {"sqlstate": "40P01"})()
    monkeypatch.setattr(ownership, "_tell", Mock(side_effect=[None, deadlock, None, None]))
    account_delete(ann, keep_submissions=True)
    assert not get_user_model().objects.exists()
    assert Submission.objects.get().owner is None


def test_an_account_goes_with_everything(judged, submit, ann, bob):
    payer = quotas.payer_of(ann, "")
    judged(text="// fast", owner=ann, speedup=3.0, payer=payer)
    judged(text="// searched", owner=ann, origin=Origin.AGENT, visibility=Visibility.PRIVATE)
    judged(text="// other", owner=bob, speedup=2.0)
    submit(text="// queued", owner=ann)
    account_delete(ann, keep_submissions=False)
    assert board() == {f"user:{bob.pk}": (2.0, 1)}
    assert list(CodeBlob.objects.values_list("text", flat=True)) == ["// other"]
    assert LedgerEntry.objects.get().payer.account is None


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_a_report_and_the_end_of_an_account_do_not_wait_for_each_other(submit, claim, ann, monkeypatch):
    """What is being judged was to be kept, and is made private just before the boards are held."""
    evaluation, holding = submit(owner=ann), claim()
    report = report_for(Source(evaluation.submission.blob.text, "cpp"), spec_of(evaluation.task_version))
    sessions, ends, held = ThreadPoolExecutor(1), [], standings.boards_marked

    def session(work):
        try:
            work()
        finally:
            connection.close()

    def hold(versions):
        monkeypatch.setattr(standings, "boards_marked", held)
        make_private = partial(Submission.objects.update, visibility=Visibility.PRIVATE)
        sessions.submit(session, make_private).result()
        held(versions)
        ends.append(sessions.submit(session, partial(record_report, holding, report)))
        while not one_waits():
            time.sleep(0.01)

    monkeypatch.setattr(standings, "boards_marked", hold)
    account_delete(ann, keep_submissions=True)
    with pytest.raises(ClaimLost):
        ends[0].result()
    assert not Evaluation.objects.exists()


def one_waits():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0


def test_an_account_with_many_submissions_of_one_code_goes_with_few_queries(judged, ann, person):
    """Each board is written again when all have gone, and not after each of them."""

    def queries(name, count):
        owner = person(name)
        for number in range(count):
            judged(owner=owner, text=f"int {name}; // {number}\n")
        with CaptureQueriesContext(connection) as caught:
            ownership.account_delete(owner, keep_submissions=False)
        return len(caught)

    each = (queries("many", 12) - queries("few", 4)) / 8
    assert each < 40, "28 to take a submission away; with the boards it would be 72"
    assert not Standing.objects.exists()
