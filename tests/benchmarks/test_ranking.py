"""Ranks, pooling and baselines as pure functions, over whatever hypothesis thinks of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.boards.ranking import HALF_WIDTH_MAX, Entry, baseline_scores, rank
from benchmarks.harness import SpeedupEstimate, default_rules, pooled

START = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def boards(draw):
    rows = st.tuples(st.floats(0.1, 50), st.floats(0, 0.3), st.integers(0, 1000), st.booleans())
    return [
        Entry(key, score, score * (1 - width), score * (1 + width), START + timedelta(minutes=minute), "", contested)
        for key, (score, width, minute, contested) in enumerate(draw(st.lists(rows, max_size=30)))
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


def test_an_interval_counts_up_to_the_width_that_one_judging_may_have():
    assert default_rules().score.max_half_width == HALF_WIDTH_MAX
    wide, others = entry("wide", 3.0, 2.0), [entry("b", 2.75, 0.0), entry("c", 2.0, 0.1), entry("d", 1.3, 0.1)]
    assert rank([wide, *others]) == {"wide": 1, "b": 1, "c": 3, "d": 4}
    assert rank([*others, entry("wide", 1.7, 1.5)]) == {"b": 1, "c": 2, "wide": 3, "d": 4}


def test_a_contested_entry_shares_the_rank_of_no_better_one_by_its_interval():
    wide = Entry("wide", 1.86, 1.48, 2.32, START)
    better = entry("better", 2.0, 0.03, minute=5)
    assert rank([better, wide]) == {"wide": 1, "better": 1}
    assert rank([better, replace(wide, is_contested=True)]) == {"better": 1, "wide": 2}


def test_only_who_reaches_its_score_shares_the_rank_of_a_contested_entry():
    contested = replace(entry("contested", 2.0), is_contested=True)
    assert rank([contested, entry("b", 1.95), entry("c", 1.85)]) == {"contested": 1, "b": 1, "c": 3}
    assert rank([entry("a", 2.05), contested, entry("c", 1.85)]) == {"a": 1, "contested": 1, "c": 1}


def test_inside_a_group_the_earlier_stands_first():
    assert list(rank([entry("late", 2.0, minute=9), entry("early", 1.95, minute=1)])) == ["early", "late"]


def known(key, score, lo, hi, trust, *, minute=0):
    return Entry(key, score, lo, hi, START + timedelta(minutes=minute), trust)


FAST = known("fast", 1.70, 1.68, 1.72, "replayed", minute=5)
SLOW = known("slow", 1.55, 1.53, 1.57, "replayed", minute=6)


@pytest.mark.parametrize("trust", ["bounded", "audited"])
def test_a_bound_is_ranked_by_its_lower_end_alone(trust):
    ranks = rank([known("wide", 1.98, 1.45, 2.00, trust), SLOW, FAST])
    assert ranks == {"fast": 1, "slow": 2, "wide": 3}
    assert list(ranks) == ["fast", "slow", "wide"]


def test_a_bound_may_share_a_rank_by_chance_but_not_by_its_gap():
    assert rank([known("near", 1.98, 1.52, 2.00, "bounded"), SLOW, FAST]) == {"fast": 1, "slow": 2, "near": 2}
    assert rank([known("below", 1.98, 1.50, 2.00, "bounded"), SLOW, FAST]) == {"fast": 1, "slow": 2, "below": 3}


@pytest.mark.parametrize("trust", ["bounded", "audited", "replayed"])
def test_who_avoids_being_replayed_has_no_first_place_to_himself(trust):
    first = known("first", 1.800, 1.785, 1.815, "replayed", minute=1)
    second = known("second", 1.799, 1.78, 1.82, "replayed", minute=2)
    late = known("late", 1.815, 1.804 if trust != "replayed" else 1.81, 1.82, trust, minute=3)
    ranks = rank([first, second, late])
    assert ranks == {"first": 1, "second": 1, "late": 1}
    assert list(ranks) == ["first", "second", "late"]


def test_a_wide_interval_leads_as_far_whatever_is_above():
    above = known("above", 2.20, 2.00, 2.22, "audited", minute=1)
    noisy = known("noisy", 1.85, 1.85, 2.04, "replayed", minute=2)
    for trust in ("audited", "replayed"):
        assert rank([noisy, replace(above, trust=trust, score=2.0)]) == {"above": 1, "noisy": 1}


def test_a_bound_that_is_surely_better_has_a_rank_of_its_own():
    assert rank([known("bound", 1.98, 1.80, 2.00, "bounded"), FAST]) == {"bound": 1, "fast": 2}


def test_a_bound_counts_by_its_lower_end_even_where_its_score_is_the_best():
    low, high = known("low", 3.0, 1.0, 3.1, "bounded"), known("high", 2.9, 2.8, 3.0, "bounded", minute=1)
    assert rank([low, high]) == {"high": 1, "low": 2}


def test_a_bound_alone_is_ranked_and_the_best_known_of_a_rank_is_listed_first():
    assert rank([known("alone", 1.98, 1.45, 2.00, "bounded")]) == {"alone": 1}
    same = [known(trust, 2.0, 1.9, 2.1, trust, minute=minute) for minute, trust in enumerate(("bounded", "audited"))]
    assert list(rank([*same, known("replayed", 2.0, 1.9, 2.1, "replayed", minute=9)])) == [
        "replayed",
        "audited",
        "bounded",
    ]


replayed = st.tuples(st.floats(0.5, 5), st.floats(0.001, 0.1))
bounds = st.tuples(st.floats(0.5, 5), st.floats(0.05, 0.6), st.floats(0.001, 0.1))


@given(st.lists(replayed, min_size=1, max_size=8), st.lists(bounds, max_size=6))
def test_bounds_bring_no_two_separated_replayed_entries_into_one_rank(exact, wide):
    board = [known(key, score, score - half, score + half, "replayed") for key, (score, half) in enumerate(exact)]
    beside = [
        known(key, score, score * (1 - down), score * (1 + up), "bounded", minute=1)
        for key, (score, down, up) in enumerate(wide, len(board))
    ]
    alone, ranks = rank(board), rank([*beside, *board])
    for one in board:
        for other in board:
            if one.hi < other.lo:
                assert ranks[one.key] > ranks[other.key]
            if alone[one.key] < alone[other.key]:
                assert ranks[one.key] <= ranks[other.key]


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


def bound(score=1.98, lo=1.45, hi=2.0):
    return SpeedupEstimate(score, lo, hi, bound=True)


@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_a_bound_judged_again_gains_nothing_at_its_lower_end(count):
    whole = pooled([bound()] * count)
    assert (whole.score, whole.lo, whole.bound) == (pytest.approx(1.98), pytest.approx(1.45), True)
    assert whole.hi <= bound().hi


def test_nor_does_one_whose_interval_hides_its_gap():
    """The score was the lower end of a wide interval, and the gap reaches further down."""
    wide = SpeedupEstimate(1.0, 0.848, 1.2, bound=True)
    assert pooled([wide] * 16).lo == pytest.approx(0.848)


def test_one_lucky_gap_does_not_lift_the_lower_end():
    whole = pooled([bound(lo=1.95), bound(lo=1.45)])
    assert whole.lo == pytest.approx(1.45)
    assert whole.hi < 2.0


def test_nor_do_gaps_of_others_push_it_down_one_by_one():
    """Anybody may submit a public text again, and each judging measures the gap a little differently."""
    own = bound(1.92, 1.75, 1.97)
    again = [bound(1.92, lo, 1.97) for lo in (1.74, 1.72, 1.66)]
    assert pooled([own, *again]).lo == pytest.approx(1.72)
    assert pooled([own, *again * 20]).lo == pytest.approx(1.72)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_bounds_above_a_judging_that_is_none_do_not_count(count):
    """Else a kernel could be replayed once, with a wide interval, and avoid it from then on."""
    sure = SpeedupEstimate(1.00, 0.91, 1.09)
    assert pooled([sure, *[bound(1.2, 1.0, 1.21)] * count]) == sure
    assert pooled([bound(), sure, sure]) == pooled([sure, sure])


def test_a_pooled_interval_holds_nothing_that_no_judging_held():
    """Else a leader that is sometimes slower would share its rank with what lies below all its judgings."""
    whole = pooled([SpeedupEstimate(2.00, 1.98, 2.02), SpeedupEstimate(1.80, 1.78, 1.82)])
    assert (whole.lo, whole.hi) == (pytest.approx(1.78), pytest.approx(2.02))


def test_one_very_sure_judging_does_not_outweigh_many_others():
    """How sure a judging is of itself is up to the code as well."""
    fast, slow = SpeedupEstimate(2.60, 2.597, 2.603), SpeedupEstimate(1.30, 1.20, 1.41)
    assert pooled([fast, *[slow] * 10]).score < 1.5
    assert pooled([SpeedupEstimate(1.77, 1.768, 1.772), *[bound(1.38, 1.1, 1.43)] * 10]).score < 1.5


def test_disagreement_of_replayed_judgings_keeps_no_bound_out():
    apart = [SpeedupEstimate(1.78, 1.76, 1.80), SpeedupEstimate(1.50, 1.48, 1.52)]
    assert pooled([*apart, *[bound(1.42, 1.2, 1.44)] * 6]).score < 1.5


def test_bounds_below_it_do():
    """Else a kernel could avoid being replayed wherever it would do badly."""
    scores = (1.72, 1.71, 1.84, 1.70)
    parts = [SpeedupEstimate(score, score - 0.02, score + 0.02, bound=score != 1.84) for score in scores]
    whole = pooled(parts)
    assert whole.score == pytest.approx(pooled([replace(part, bound=False) for part in parts]).score, rel=0.001)
    assert not whole.bound
    false = pooled([SpeedupEstimate(2.60, 2.58, 2.62), bound(1.05, 1.00, 1.07)])
    assert (false.score < 2.6, false.lo < 1.3) == (True, True)


@given(st.lists(estimates, min_size=1, max_size=8))
def test_pooled_bounds_lie_in_their_interval(parts):
    whole = pooled([replace(part, bound=True) for part in parts])
    assert 0 < whole.lo <= whole.score <= whole.hi
    assert min(part.lo for part in parts) <= whole.lo
    assert whole.hi <= max(part.hi for part in parts)
    half = sum(whole.lo / whole.score <= part.lo / part.score * 1.000001 for part in parts) >= len(parts) / 2
    assert half or whole.lo == min(part.lo for part in parts)


@pytest.mark.parametrize("other", [bound(1.70, 1.62, 1.72), bound(1.98, 1.90, 2.0), bound(1.50, 1.48, 1.52)])
def test_the_lower_end_of_bounds_is_not_below_all_of_theirs(other):
    """Anybody may submit a public text again, and one judging with a wide gap would count for less than it says."""
    lowest = min(1.45, other.lo)
    assert pooled([bound(), other]).lo == pytest.approx(lowest)
    assert pooled([other, bound(), other]).lo >= lowest


def test_the_stronger_baseline_scores_one_where_it_always_wins():
    scores = baseline_scores([(100.0, 50.0), (10.0, 5.0)])
    assert (scores.compiled, scores.eager) == (pytest.approx(1.0), pytest.approx(0.5))


def test_a_baseline_that_is_not_measured_everywhere_has_no_score():
    scores = baseline_scores([(100.0, None), (10.0, 5.0)])
    assert scores.compiled is None
    assert scores.eager == pytest.approx(0.5**0.5)


def test_no_measurements_give_no_scores():
    assert baseline_scores([]).eager is None
