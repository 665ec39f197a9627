"""Badges: what they say, what they keep to themselves, how they are cached and pasted."""

from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks.models import Evaluation
from benchmarks.views.badges import drawn

from . import factories

BADGE = reverse("board-badge", args=[*factories.TASK, "cpu-avx2"])


def badge(client: Client, address: str) -> str:
    """The text of a badge, which must be well-formed."""
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Type"] == "image/svg+xml"
    return ElementTree.fromstring(response.content).attrib["aria-label"]  # noqa: S314 - our own answer


def of(evaluation: Evaluation) -> str:
    return reverse("evaluation-badge", args=[evaluation.code])


def test_a_board_has_its_best_with_baseline_and_interval(visitor: Client) -> None:
    assert badge(visitor, BADGE).endswith("no verified entry on cpu-avx2 yet")
    factories.judged(factories.passing(2.0, 0.02))
    text = badge(visitor, BADGE)
    assert "mnist_linear_relu/forward: 2.00× (1.96 to 2.04) vs the stronger baseline, best of cpu-avx2" in text


def test_an_evaluation_has_score_and_rank(visitor: Client) -> None:
    evaluation = factories.judged(factories.passing(2.0, 0.02))
    assert badge(visitor, of(evaluation)).endswith("2.00× (1.96 to 2.04) vs the stronger baseline, rank 1")


def test_a_score_under_review_is_not_shown(visitor: Client) -> None:
    text = badge(visitor, of(factories.judged(factories.gated(12.0))))
    assert text.endswith("under review")
    assert "12" not in text


def test_what_has_no_score_says_what_it_has(visitor: Client) -> None:
    failed = factories.judged(factories.failing(), text=factories.SOURCE + "// fails\n")
    assert badge(visitor, of(failed)).endswith("not accepted: COMPILE_ERROR")
    assert badge(visitor, of(factories.queued())).endswith("not judged yet")


def test_a_private_evaluation_has_no_badge_not_even_for_its_owner(as_owner: Client, owner: Any) -> None:
    evaluation = factories.judged(owner=owner, visibility="private")
    assert as_owner.get(of(evaluation)).status_code == 404


def test_a_badge_is_cached_for_a_while_and_may_stand_on_other_pages(visitor: Client) -> None:
    response = visitor.get(BADGE)
    assert response["Cache-Control"] == "public, max-age=300"
    assert response["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert not response.cookies
    assert "Cookie" not in response.get("Vary", "")


def test_markup_in_a_name_stays_text() -> None:
    response = drawn('a<b>&"c', "1.00×", good=True)
    assert b"a&lt;b&gt;&amp;&quot;c" in response.content
    ElementTree.fromstring(response.content)  # noqa: S314 - our own answer


@pytest.mark.parametrize("address", [BADGE.replace("/cpu-avx2", "/abacus"), BADGE.replace("relu", "nothing")])
def test_an_unknown_board_has_no_badge(visitor: Client, address: str) -> None:
    assert visitor.get(address).status_code == 404


def test_the_pages_offer_the_text_to_paste(visitor: Client) -> None:
    evaluation = factories.judged(factories.passing(2.0))
    board = visitor.get(reverse("leaderboard", args=[*factories.TASK, "cpu-avx2"])).content.decode()
    assert f"[![kbench](http://testserver{BADGE})]" in board
    assert f"http://testserver{of(evaluation)}" in visitor.get(evaluation.get_absolute_url()).content.decode()
