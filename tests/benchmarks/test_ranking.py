"""Ranks, pooling and baselines as pure functions, over whatever hypothesis thinks of."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.boards.ranking import Entry, SpeedupEstimate, baseline_scores, pooled, rank

START = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def boards(draw):
    rows = st.tuples(st.floats(0.1, 50), st.floats(0, 0.3), st.integers(0, 1000))
    return [
        Entry(key, score, score * (1 - width), score * (1 + width), START + timedelta(minutes=minute))
        for key, (score, width, minute) in enumerate(draw(st.lists(rows, max_size=30)))
    ]


def entry(key, score, half=0.1, minute=0):
    return Entry(key, score, score - half, score + half, START + timedelta(minutes=minute))


@given(boards())
def test_everybody_gets_a_rank_and_the_best_is_first(board):
    ranks = rank(board)
    assert ranks.keys() == {item.key for item in board}
    if board:
        assert ranks[max(board, key=lambda item: item.score).key] == 1


@given(boards())
def test_a_rank_is_one_more_than_the_number_of_those_above(board):
    ranks = rank(board)
    for key, place in ranks.items():
        assert place == 1 + sum(other < place for other in ranks.values()), key


@given(boards())
def test_a_better_score_never_ranks_lower(board):
    ranks = rank(board)
    for one in board:
        assert all(ranks[one.key] <= ranks[other.key] for other in board if one.score > other.score)


@given(boards(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_in_the_list_does_not_matter(board, random):
    shuffled = random.sample(board, len(board))
    assert dict(rank(shuffled)) == dict(rank(board))


def test_of_two_alike_the_surer_one_leads_its_group_whichever_came_first():
    sure, vague, third = entry("sure", 4.0, 0.0), entry("vague", 4.0, 1.2), entry("third", 3.0, 0.0)
    assert rank([sure, vague, third]) == rank([vague, sure, third]) == {"sure": 1, "vague": 1, "third": 3}


def test_those_who_overlap_the_first_share_its_rank():
    assert rank([entry("a", 2.0), entry("b", 1.9), entry("c", 1.5)]) == {"a": 1, "b": 1, "c": 3}


def test_overlap_with_the_second_alone_is_not_enough():
    assert rank([entry("a", 2.0), entry("b", 1.85), entry("c", 1.7)]) == {"a": 1, "b": 1, "c": 3}


def test_inside_a_group_the_earlier_stands_first():
    assert list(rank([entry("late", 2.0, minute=9), entry("early", 1.95, minute=1)])) == ["early", "late"]


estimates = st.builds(
    lambda score, width: SpeedupEstimate(score, score * (1 - width), score * (1 + width)),
    st.floats(0.1, 50),
    st.floats(0.001, 0.2),
)


@given(st.lists(estimates, min_size=1, max_size=8))
def test_a_pooled_score_lies_among_its_parts_and_in_its_interval(parts):
    whole = pooled(parts)
    assert min(part.score for part in parts) * 0.999 <= whole.score <= max(part.score for part in parts) * 1.001
    assert 0 < whole.lo <= whole.score <= whole.hi


def test_pooling_makes_agreeing_judgings_surer():
    one = SpeedupEstimate(2.0, 1.9, 2.1)
    assert pooled([one, one]).hi - pooled([one, one]).lo < one.hi - one.lo


def test_pooling_does_not_hide_that_judgings_disagree():
    apart = pooled([SpeedupEstimate(1.0, 0.99, 1.01), SpeedupEstimate(2.0, 1.98, 2.02)])
    assert apart.lo < 1.2
    assert apart.hi > 1.7


def test_the_stronger_baseline_scores_one_where_it_always_wins():
    scores = baseline_scores([(100.0, 50.0), (10.0, 5.0)])
    assert (scores.compiled, scores.eager) == (pytest.approx(1.0), pytest.approx(0.5))


def test_a_baseline_that_is_not_measured_everywhere_has_no_score():
    scores = baseline_scores([(100.0, None), (10.0, 5.0)])
    assert scores.compiled is None
    assert scores.eager == pytest.approx(0.5**0.5)


def test_no_measurements_give_no_scores():
    assert baseline_scores([]).eager is None
