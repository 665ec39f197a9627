"""Leaderboards: ties, baselines in line, reviews, private entries, pages, and the picture of an interval."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks.models import BaselineResult, Standing
from benchmarks.templatetags.whiskers import Axis, whisker
from benchmarks.views.boards import baseline_lines, in_line

from . import factories

BOARD = reverse("leaderboard", args=[*factories.TASK, "cpu"])


def board(client: Client, **query: Any) -> str:
    return client.get(BOARD, query).content.decode()


def entry(speedup: float, half_width: float = 0.01, **options: Any) -> None:
    text = f"{factories.SOURCE}// {speedup}\n"
    factories.judged(factories.passing(speedup, half_width), text=text, **options)


def test_entries_that_cannot_be_told_apart_share_a_rank(visitor: Client) -> None:
    entry(2.0)
    entry(2.01)
    entry(1.5)
    html = board(visitor)
    assert html.count("tied, 2 entries") == 2
    assert '<th scope="row" class="rank">3</th>' in html


def test_baselines_stand_at_the_place_of_their_own_times(visitor: Client) -> None:
    entry(1.4)
    entry(0.9)
    html = board(visitor)
    assert (
        html.index("1.40×") < html.index("PyTorch eager</td>") < html.index("0.90×") < html.index("torch.compile</td>")
    )


def test_an_empty_board_says_that_baselines_are_not_measured_yet(visitor: Client) -> None:
    assert board(visitor).count("not measured yet on every configuration") == 2


def test_an_entry_under_review_is_unranked_and_says_why(visitor: Client) -> None:
    factories.judged(factories.gated())
    html = board(visitor)
    assert "Under review, not ranked" in html
    assert "More than 10 times faster" in html
    assert 'class="rank">1<' not in html


def test_an_entry_that_is_not_public_is_not_on_the_board(visitor: Client, owner: Any) -> None:
    entry(1.7, owner=owner, visibility="private")
    assert "1.70×" not in board(visitor)


def test_a_speedup_on_the_board_has_baseline_interval_and_trust(visitor: Client) -> None:
    entry(1.5, 0.02)
    html = board(visitor)
    assert "1.47× to 1.53×" in html
    assert "vs eager" in html
    assert "Timed by the supervisor" in html


def test_a_long_board_is_paged_and_its_queries_stay_pinned(visitor: Client, django_assert_num_queries: Any) -> None:
    factories.many_entries(120)
    with django_assert_num_queries(16):
        html = board(visitor)
    assert "Page 1 of 3, 120 rows" in html
    assert "Page 3 of 3" in board(visitor, page="3")


def test_an_unknown_device_or_rule_set_is_not_found(visitor: Client) -> None:
    assert visitor.get(reverse("leaderboard", args=[*factories.TASK, "abacus"])).status_code == 404
    assert visitor.get(BOARD, {"rules": "rk-0"}).status_code == 404


def test_the_list_of_boards_shows_the_leader_of_each(visitor: Client, django_assert_num_queries: Any) -> None:
    entry(1.5)
    entry(2.5)
    with django_assert_num_queries(9):
        html = visitor.get("/leaderboards/").content.decode()
    assert "2.50×" in html
    assert "1.50×" not in html


def test_a_baseline_without_a_time_everywhere_has_no_line() -> None:
    rows = [BaselineResult(eager_us=10.0, compile_us=5.0), BaselineResult(eager_us=10.0, compile_us=None)]
    lines = baseline_lines(rows)
    assert [(line.title, round(line.score, 3)) for line in lines] == [("PyTorch eager", 0.707)]


def test_a_baseline_faster_than_everybody_stands_first() -> None:
    lines = baseline_lines([BaselineResult(eager_us=10.0, compile_us=20.0)])
    placed = in_line([Standing(score=0.9), Standing(score=0.7)], lines)
    assert [round(line.score, 2) for line in placed] == [1.0, 0.9, 0.7, 0.5]


def test_a_whisker_reads_as_text_and_lies_inside_its_picture() -> None:
    svg = whisker(Axis.over([0.5, 4.0]), 2.0, 1.9, 2.1)
    assert 'aria-label="2.00×, interval 1.90× to 2.10×"' in svg


@pytest.mark.parametrize("values", [[], [None], [0.001, 1000.0]])
def test_every_axis_holds_the_baseline(values: list[float | None]) -> None:
    axis = Axis.over(values)
    assert 5 < axis.place(1.0) < 139
