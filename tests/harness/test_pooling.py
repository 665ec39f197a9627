"""How often the interval of several judgings of one code holds the truth, by simulation. See docs/judging.md."""

import math
import random

import pytest

from benchmarks.harness import NORMAL_95, SpeedupEstimate, pooled
from benchmarks.harness.scores.quantiles import student_95

DRAWS = 2_000  # the table of the documentation has 10,000


def judgings(rng: random.Random, count: int, between: float, within: float) -> list[SpeedupEstimate]:
    """Of a code whose true score is 1: each with a luck of its own, which its interval does not hold."""
    logs = [rng.gauss(rng.gauss(0.0, between), within) for _ in range(count)]
    half = NORMAL_95 * within
    return [SpeedupEstimate(math.exp(log), math.exp(log - half), math.exp(log + half)) for log in logs]


def coverage(count: int, between: float, within: float, draws: int = DRAWS) -> float:
    rng = random.Random(1)
    found = [pooled(judgings(rng, count, between, within)) for _ in range(draws)]
    return sum(item.lo <= 1 <= item.hi for item in found) / draws


@pytest.mark.parametrize("within", [0.005, 0.015])
@pytest.mark.parametrize("between", [0.0, 0.01, 0.02])
@pytest.mark.parametrize(("count", "least"), [(3, 0.92), (4, 0.94), (10, 0.94)])
def test_from_three_judgings_on_an_interval_nearly_always_holds_the_truth(
    count: int, least: float, between: float, within: float
) -> None:
    assert coverage(count, between, within) > least


def test_of_two_it_is_where_they_lie_and_that_holds_less() -> None:
    """As it stays within their ends, both may lie on the same side."""
    assert coverage(2, 0.0, 0.005) > 0.95
    assert coverage(2, 0.01, 0.005) == pytest.approx(0.92, abs=0.02)
    assert coverage(2, 0.02, 0.005) == pytest.approx(0.80, abs=0.02)


def test_an_interval_stays_within_the_ends_of_the_judgings() -> None:
    rng = random.Random(2)
    for count in (2, 3, 4, 10):
        parts = judgings(rng, count, 0.02, 0.005)
        whole = pooled(parts)
        assert min(part.lo for part in parts) <= whole.lo < whole.score < whole.hi <= max(part.hi for part in parts)


def test_judgings_that_agree_are_surer_than_one() -> None:
    alike = [SpeedupEstimate(score, 0.98 * score, 1.02 * score) for score in (1.998, 2.0, 2.002)]
    whole = pooled(alike)
    assert whole.hi / whole.lo < (1.02 / 0.98) ** 0.6


def test_what_counts_of_a_bound_does_not_fall_because_it_was_judged_twice() -> None:
    first = SpeedupEstimate(1.93, 1.75, 1.95, bound=True)
    again = SpeedupEstimate(1.90, 1.72, 1.92, bound=True)
    assert pooled([first, again]).lo > 1.73


def test_beside_replayed_judgings_the_gap_of_a_bound_does_not_count() -> None:
    """It says what may be wrong with the bound, and not with what was replayed."""
    mixed = pooled([SpeedupEstimate(1.70, 1.68, 1.72), SpeedupEstimate(1.60, 1.20, 1.62, bound=True)])
    assert 1.57 < mixed.lo < mixed.score < 1.70


@pytest.mark.parametrize(("values", "quantile"), [(2, 12.706), (5, 2.776), (11, 2.2281), (31, 2.0423), (101, 1.984)])
def test_the_quantiles_are_those_of_student(values: int, quantile: float) -> None:
    assert student_95(values) == pytest.approx(quantile, rel=0.002)
