"""Draws follow from the key alone."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evolve.rng import Rng


def test_the_same_key_draws_the_same() -> None:
    one, other = Rng(3, "select", 5, 2), Rng(3, "select", 5, 2)
    assert [one.random() for _ in range(50)] == [other.random() for _ in range(50)]


@pytest.mark.parametrize(
    "other", [Rng(4, "a", 1, 2), Rng(3, "b", 1, 2), Rng(3, "a", 2, 2), Rng(3, "a", 1, 3), Rng(3, "a", 12)]
)
def test_every_part_of_the_key_counts(other: Rng) -> None:
    assert Rng(3, "a", 1, 2).random() != other.random()


def test_a_child_does_not_depend_on_what_its_parent_drew() -> None:
    fresh, used = Rng(1, "a"), Rng(1, "a")
    used.random()
    assert fresh.child("b").random() == used.child("b").random()


def test_draws_are_uniform() -> None:
    rng = Rng(1, "uniform")
    counts = Counter(rng.integers(10) for _ in range(20_000))
    assert all(abs(counts[value] - 2000) < 5 * 2000**0.5 for value in range(10))
    mean = sum(rng.random() for _ in range(20_000)) / 20_000
    assert abs(mean - 0.5) < 5 / (12 * 20_000) ** 0.5


def test_weights_are_obeyed() -> None:
    rng = Rng(1, "weights")
    counts = Counter(rng.choice("abc", [0, 1, 3]) for _ in range(8000))
    assert counts["a"] == 0
    assert abs(counts["c"] - 6000) < 5 * (8000 * 0.75 * 0.25) ** 0.5


@given(st.lists(st.integers(), max_size=20), st.integers(0, 25), st.integers())
def test_a_sample_holds_different_places(items: list[int], k: int, seed: int) -> None:
    drawn = Rng(seed, "s").sample(items, k)
    assert len(drawn) == min(k, len(items))
    assert not Counter(drawn) - Counter(items)


@pytest.mark.parametrize("weights", [[0, 0], [1, -1], [float("nan"), 1], [1]])
def test_weights_that_mean_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Rng(1, "w").choice("ab", weights)
