"""fast_p over a whole set, the common set, the mean over it: what makes a comparison fair."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.boards.comparing import Mark, best_of, common, curve, fast, figures, leaders, mean_over


def mark(score: float, width: float = 0.1, rank: int = 1) -> Mark:
    return Mark(score, score * (1 - width), score * (1 + width), rank, 1)


def test_a_task_that_was_never_attempted_counts_as_failed() -> None:
    share = fast([mark(2.0), mark(3.0)], 1.0, total=10)
    assert (share.count, share.total, share.part) == (2, 10, 0.2)


def test_faster_means_strictly_greater_than_p() -> None:
    assert fast([mark(1.0)], 1.0, 1).count == 0
    assert fast([mark(0.01)], 0.0, 1).count == 1


def test_a_share_says_what_the_intervals_leave_open() -> None:
    share = fast([mark(1.05), mark(0.95), mark(2.0)], 1.0, 3)
    assert (share.sure, share.count, share.possible) == (1, 2, 3)


def test_of_a_bound_the_lower_end_counts_everywhere() -> None:
    """Else a kernel that avoids being replayed would be faster than the baseline here."""
    avoids = Mark(1.08, 0.92, 1.09, 3, 1, "bounded")
    share = fast([avoids], 1.0, 1)
    assert (share.sure, share.count, share.possible) == (0, 0, 0)
    assert curve([avoids], 1) == [(0.0, 1.0), (0.92, 0.0)]
    mean = mean_over({1: avoids}, [1])
    assert mean is not None
    assert (mean.score, mean.hi < 1.0) == (pytest.approx(0.92), True)


def test_of_no_tasks_the_share_is_nothing() -> None:
    assert fast([], 1.0, 0).part == 0.0
    assert curve([], 0) == [(0.0, 0.0)]


@given(st.lists(st.floats(0.01, 50.0), max_size=30), st.floats(0.0, 60.0))
def test_the_curve_agrees_with_the_count_at_every_p(scores: list[float], p: float) -> None:
    marks = [mark(score) for score in scores]
    below = [share for place, share in curve(marks, 40) if place <= p]
    assert below[-1] == pytest.approx(fast(marks, p, 40).part)


def test_the_common_set_is_of_those_who_solved_anything() -> None:
    one, two = {1: mark(1.0), 2: mark(1.0)}, {2: mark(1.0), 3: mark(1.0)}
    assert common([one, two, {}]) == {2}
    assert common([{}, {}]) == frozenset()


def test_the_mean_is_geometric_and_over_the_common_set_alone() -> None:
    marks = {1: mark(1.0), 2: mark(4.0), 3: mark(100.0)}
    mean = mean_over(marks, {1, 2})
    assert mean is not None
    assert mean.score == pytest.approx(2.0)
    assert mean.lo < 2.0 < mean.hi


def test_many_tasks_make_a_mean_surer_than_one() -> None:
    marks = {task: mark(2.0) for task in range(100)}
    one, many = mean_over(marks, {0}), mean_over(marks, set(marks))
    assert one is not None
    assert many is not None
    assert math.log(many.hi / many.lo) == pytest.approx(math.log(one.hi / one.lo) / 10)


def test_there_is_no_mean_over_what_was_not_solved() -> None:
    assert mean_over({1: mark(2.0)}, {1, 2}) is None
    assert mean_over({1: mark(2.0)}, set()) is None


def test_the_best_of_all_takes_each_task_from_whoever_is_best() -> None:
    best = best_of([{1: mark(1.0), 2: mark(5.0)}, {1: mark(3.0)}])
    assert {task: item.score for task, item in best.items()} == {1: 3.0, 2: 5.0}


def test_shared_first_places_count_as_won() -> None:
    marks = {1: mark(2.0, rank=1), 2: mark(2.0, rank=2), 3: mark(2.0, rank=1)}
    assert figures(marks, {1, 2, 3, 4}, {1}, 5).won == 2


def test_level_methods_lead_together_and_nobody_leads_with_nothing() -> None:
    two, none = fast([mark(2.0)] * 2, 1.0, 5), fast([], 1.0, 5)
    assert leaders({"a": two, "b": two, "c": none}) == ["a", "b"]
    assert leaders({"a": none}) == []
