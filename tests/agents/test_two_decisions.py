"""Two decisions about one submission: to take back one of them leaves the other as it is."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents import moderation
from agents.driving.evaluator import submitted
from agents.models import Candidate
from benchmarks.judgings import moves
from benchmarks.models import ModerationAction, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Moderation
from tests.web import factories as judgings

from . import factories

pytestmark = pytest.mark.django_db
TEXT = f"{judgings.SOURCE}// candidate\n"


@pytest.fixture
def candidate(tasks: None) -> Candidate:
    """Of a run, judged and in the first place of its board."""
    run = factories.driven(factories.started(judgings.user("olga")))
    row: Candidate = run.candidates.get(key=run.best_key)
    _submit(row)
    moves.record_report(judgings.claimed_for_judging(), judgings.passing(9.0))
    assert Standing.objects.filter(evaluation__submission=_made(row)).exists()
    return row


@pytest.fixture
def staff() -> User:
    sam = judgings.user("sam")
    sam.is_staff = True
    sam.save()
    return sam


def _submit(row: Candidate) -> None:
    submitted(row.run, row.key, TEXT, "cpp")


def _made(row: Candidate) -> Submission:
    return Submission.objects.get(client_token=row.run.token_of(row.key))


def _decide(submission: Submission, kind: ActionKind, staff: User) -> None:
    decisions.decide(submission, kind, by=staff, reason="It reads the answer.")


def _show(row: Candidate, staff: User) -> Moderation:
    row.refresh_from_db()
    moderation.show(row, by=staff, reason="It was no secret.")
    return Moderation(_made(row).moderation)


@pytest.mark.parametrize("sent_again", [False, True])
def test_to_show_a_candidate_takes_no_invalidation_back(candidate: Candidate, staff: User, sent_again: bool) -> None:
    _decide(_made(candidate), ActionKind.INVALIDATE, staff)
    moderation.withhold(candidate, by=staff, reason="Somebody's secret.")
    if sent_again:
        _submit(candidate)
    assert _made(candidate).moderation == Moderation.HIDDEN
    assert _show(candidate, staff) == Moderation.INVALIDATED
    assert not Standing.objects.filter(evaluation__submission=_made(candidate)).exists()
    _decide(_made(candidate), ActionKind.RESTORE, staff)
    assert Standing.objects.filter(evaluation__submission=_made(candidate)).exists()


def test_to_invalidate_what_is_withheld_shows_nothing_of_it(candidate: Candidate, staff: User) -> None:
    moderation.withhold(candidate, by=staff, reason="Somebody's secret.")
    _decide(_made(candidate), ActionKind.INVALIDATE, staff)
    assert _made(candidate).moderation == Moderation.HIDDEN
    assert _show(candidate, staff) == Moderation.INVALIDATED


def test_to_show_a_candidate_shows_no_submission_that_was_hidden_before(candidate: Candidate, staff: User) -> None:
    _decide(_made(candidate), ActionKind.HIDE, staff)
    moderation.withhold(candidate, by=staff, reason="Somebody's secret.")
    assert _show(candidate, staff) == Moderation.HIDDEN


def test_what_is_hidden_with_two_candidates_is_shown_with_the_last(candidate: Candidate, staff: User) -> None:
    ticket = str(_made(candidate).evaluations.get().code)
    other = candidate.run.candidates.exclude(pk=candidate.pk)[0]
    for row in (candidate, other):
        Candidate.objects.filter(pk=row.pk).update(ticket=ticket)
        row.refresh_from_db()
        moderation.withhold(row, by=staff, reason="Somebody's secret.")
    assert _show(candidate, staff) == Moderation.HIDDEN
    moderation.show(other, by=staff, reason="It was no secret.")
    assert _made(candidate).moderation == Moderation.OK


def test_staff_show_what_was_invalidated_and_hidden_and_then_restore_it(candidate: Candidate, staff: User) -> None:
    submission, client = _made(candidate), Client()
    client.force_login(staff)
    for kind in (ActionKind.INVALIDATE, ActionKind.HIDE, ActionKind.SHOW, ActionKind.RESTORE):
        fields = {"kind": kind, "reason": "It reads the answer.", "seen": decisions.state_of(submission)}
        assert client.post(f"/moderation/submissions/{submission.code}/", fields).status_code == 302, kind
    assert _made(candidate).moderation == Moderation.OK
    assert ModerationAction.objects.filter(submission=submission).count() == 4
