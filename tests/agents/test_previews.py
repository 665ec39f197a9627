"""Previews of links to runs: the best public kernel with interval and baseline, and nothing of what is withheld."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents import moderation
from agents.models import Run
from benchmarks.models import Evaluation, Submission
from benchmarks.states import Moderation
from tests.web import factories as judgings
from tests.web.test_previews import picture, tags

from . import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks")]
SCORE = "(1.96× to 2.04×), best kernel, timed by the judge's clock"


@pytest.fixture
def run() -> Run:
    """Its best candidate was judged in public."""
    made = factories.driven(factories.started(judgings.user("olga")))
    judged = judgings.judged(judgings.passing(2.0, 0.02), owner=made.owner)
    made.candidates.filter(key=made.best_key).update(ticket=str(judged.code))
    return made


def test_a_run_previews_its_best_kernel(run: Run, visitor: Client) -> None:
    found = tags(visitor, run.get_absolute_url())
    assert found["og:title"] == "Agent run: mnist_linear_relu/forward on cpu-avx2"
    assert SCORE in found["og:description"]
    assert f"{run.judged_count} of {run.candidate_count} candidates judged" in found["og:description"]
    picture(visitor, run.get_absolute_url())


def test_of_a_best_that_was_judged_again_the_pooled_score_is_shown(run: Run, visitor: Client) -> None:
    pooled = {"judgings": 3, "score": 1.98, "score_lo": 1.97, "score_hi": 1.99}
    run.candidates.filter(key=run.best_key).update(**pooled)
    assert "(1.97× to 1.99×), best kernel" in tags(visitor, run.get_absolute_url())["og:description"]


TAKEN_AWAY = [
    {"visibility": "private"},
    {"visibility": "unlisted"},
    {"moderation": Moderation.HIDDEN},
    {"moderation": Moderation.INVALIDATED},
]


@pytest.mark.parametrize("column", TAKEN_AWAY)
def test_a_score_that_is_not_public_or_not_valid_is_not_shown(run: Run, visitor: Client, column: Any) -> None:
    Submission.objects.filter(evaluations__code=run.candidates.get(key=run.best_key).ticket).update(**column)
    assert "×" not in tags(visitor, run.get_absolute_url())["og:description"]


def test_a_score_under_review_is_not_shown(run: Run, visitor: Client) -> None:
    Evaluation.objects.filter(code=run.candidates.get(key=run.best_key).ticket).update(gated=True)
    assert "best kernel not shown" in tags(visitor, run.get_absolute_url())["og:description"]


def test_a_hidden_run_has_the_general_picture(run: Run, as_owner_of_run: Client) -> None:
    address = reverse("run-picture", args=[run.code])
    before = as_owner_of_run.get(address).content
    moderation.hide_run(run, by=judgings.user("sam"), reason="Not a run.")
    after = as_owner_of_run.get(address).content
    assert after != before
    assert after == as_owner_of_run.get(reverse("run-picture", args=[uuid.uuid4()])).content
    assert tags(as_owner_of_run, run.get_absolute_url()) == {}


@pytest.fixture
def as_owner_of_run(run: Run) -> Client:
    client = Client()
    client.force_login(run.owner)
    return client
