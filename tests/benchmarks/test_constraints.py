"""What the database itself refuses, whoever writes. Moves between states are in `test_services.py`."""

import uuid

import pytest
from django.db import IntegrityError
from django.utils import timezone

from benchmarks.models import Evaluation, Standing, TaskVersion

SCORE = {"score": 2.0, "score_lo": 1.9, "score_hi": 2.1}
DONE = {"state": "done", "finished": "2026-01-01T00:00Z", "reason_text": "because"}


@pytest.fixture
def change(submit):
    evaluation = submit()
    return lambda **columns: Evaluation.objects.filter(pk=evaluation.pk).update(**columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"verdict": "PASS", **SCORE},
        {"state": "cancelled", "verdict": "TIMEOUT", "finished": "2026-01-01T00:00Z", "reason_text": "because"},
        {**DONE, "verdict": ""},
        {**DONE, "verdict": "TIMEOUT", **SCORE},
        {**DONE, "verdict": "PASS"},
        {**DONE, "verdict": "PASS", "score": 2.0, "score_lo": 2.1, "score_hi": 2.2},
        {**DONE, "verdict": "PASS", "score": 2.0, "score_lo": 0.0, "score_hi": 2.2},
        {**DONE, "verdict": "TIMEOUT", "reason_text": ""},
        {**DONE, "verdict": "TIMEOUT", "finished": None},
        {"state": "claimed"},
        {"claim": uuid.UUID(int=1)},
    ],
    ids=[
        "a verdict before the end",
        "a verdict on a cancelled one",
        "an end without a verdict",
        "a score without PASS",
        "PASS without a score",
        "a score outside its interval",
        "an interval that reaches zero",
        "an end without a reason",
        "an end without a time",
        "at work without a claim",
        "a claim on a queued one",
    ],
)
def test_the_database_refuses(change, columns):
    with pytest.raises(IntegrityError, match="evaluation_"):
        change(**columns)


def test_the_database_takes_a_whole_pass(change):
    assert change(**DONE, verdict="PASS", **SCORE) == 1


def test_a_task_has_one_active_version(version):
    with pytest.raises(IntegrityError):
        TaskVersion.objects.create(task=version.task, number=99, definition={}, content_sha256="x")


def test_a_holder_stands_once_on_a_board(judged):
    standing = judged().standings.get()
    standing.pk = None
    with pytest.raises(IntegrityError):
        standing.save(force_insert=True)


def test_an_entry_under_review_has_a_reason_and_no_rank(judged):
    judged()
    with pytest.raises(IntegrityError, match="standing_review"):
        Standing.objects.update(under_review=True, review_reason="looks odd", rank=1)


def test_a_private_submission_has_an_owner(submit):
    with pytest.raises(IntegrityError, match="private_has_owner"):
        submit(visibility="private")


def test_a_client_token_is_unique_among_the_unknown_too(submit):
    submission = submit(client_token="t").submission
    submission.pk, submission.code = None, uuid.uuid4()
    with pytest.raises(IntegrityError):
        submission.save(force_insert=True)


def test_times_are_aware(submit):
    assert submit().queued <= timezone.now()
