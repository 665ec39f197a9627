"""The row of a holder with many programs, as a search makes them, is of the best one also if it is written anew."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.harness import timing_revision
from benchmarks.models import Evaluation
from benchmarks.states import Visibility

from . import factories
from .test_bounds import enter, replayed
from .test_crowded_boards import many
from .test_random_histories import rows, written_anew
from .test_timing_revisions import by

COUNT, OF_SEARCH = 51, "int x{};"
HELD: dict[str, Any] = {"gated": True, "report": {"gates": [{"code": "gate-speedup", "text": "faster than usual"}]}}


@pytest.fixture
def olga() -> User:
    return factories.user("olga")


def judged_again(judgings: list[Evaluation], score: float) -> None:
    """Each once more, by the latest timing."""
    for item in Evaluation.objects.filter(pk__in=[item.pk for item in judgings]):
        item.pk, item.code, item.timing_revision = None, uuid.uuid4(), timing_revision("cuda")
        item.score, item.score_lo, item.score_hi = score, score - 0.02, score + 0.02
        item.save()


def test_programs_of_an_earlier_timing_hide_no_better_one(olga: User) -> None:
    """At 1.98× by the earlier timing, all of them were judged again at 1.50×; a new program has 1.70×."""
    old = many(COUNT, OF_SEARCH, owner=olga, score=1.98, timing_revision=timing_revision("cuda") - 1)
    judged_again(old, 1.50)
    spare = enter("olga", replayed(1.20), "int spare;")
    best = enter("olga", replayed(1.70), "int best;")
    before = rows()
    ownership.visibility_change(spare.submission, Visibility.PRIVATE)
    assert (by("olga").evaluation, by("olga").score) == (best, pytest.approx(1.70))
    assert before == rows() == written_anew([factories.gpu_kind()])


def test_programs_that_were_lucky_once_hide_no_better_one(olga: User) -> None:
    lucky = many(COUNT, OF_SEARCH, owner=olga, score=2.00)
    for _ in range(2):
        judged_again(lucky, 1.70)
    best = enter("olga", replayed(1.95), "int best;")
    before = rows()
    assert by("olga").evaluation == best
    assert before == written_anew([factories.gpu_kind()])


def test_programs_in_question_hide_no_sound_one_however_many_there_are(olga: User) -> None:
    many(501, OF_SEARCH, owner=olga, score=12.0, **HELD)
    sound = enter("olga", replayed(2.0), "int sound;")
    spare = enter("olga", replayed(1.2), "int spare;")
    before = rows()
    ownership.visibility_change(spare.submission, Visibility.PRIVATE)
    assert (by("olga").evaluation, by("olga").under_review) == (sound, False)
    assert before == rows()


@pytest.mark.parametrize("columns", [{"score": 1.5}, {"score": 12.0, **HELD}])
def test_a_row_written_anew_costs_few_questions_however_many_programs_there_are(
    olga: User, columns: dict[str, Any]
) -> None:
    """Those that are surely in question, and those that cannot be better, are not looked at closely."""
    costs = []
    for count in (20, 200):
        many(count, f"int y{count}_{{}};", owner=olga, **columns)
        best = enter("olga", replayed(1.9 + count / 1000), f"int best{count};")
        with CaptureQueriesContext(connection) as asked:
            standings.standings_renew(best)
        costs.append(len(asked))
        assert by("olga").evaluation == best
    assert costs[1] < costs[0] + 10, costs
