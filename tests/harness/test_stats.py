"""Medians and paired bootstrap intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.scores import stats
from benchmarks.harness.scores.stats import PairedTimes

positive = st.floats(min_value=0.5, max_value=1e6)


def paired(kernel: list[float], eager: list[float], compiled: list[float] | None = None) -> PairedTimes:
    launch = np.zeros(len(kernel), dtype=int)
    return PairedTimes(np.array(kernel), np.array(eager), None if compiled is None else np.array(compiled), launch)


def test_speedup_is_over_the_stronger_baseline() -> None:
    assert stats.speedup(paired([2.0] * 5, [10.0] * 5, [6.0] * 5)) == pytest.approx(3.0)
    assert stats.speedup(paired([2.0] * 5, [10.0] * 5, [60.0] * 5)) == pytest.approx(5.0)


def test_without_torch_compile_eager_alone_counts() -> None:
    assert stats.speedup(paired([2.0] * 5, [10.0] * 5)) == pytest.approx(5.0)


def test_one_outlier_does_not_move_a_median() -> None:
    assert stats.speedup(paired([2.0, 2.0, 2.0, 2.0, 500.0], [4.0] * 5)) == pytest.approx(2.0)


def test_interval_of_constant_times_has_no_width() -> None:
    logs = stats.bootstrap_log_speedups([paired([2.0] * 9, [4.0] * 9)], samples=100, seed=1)
    assert stats.interval(logs[0]) == pytest.approx((2.0, 2.0))


def test_pairs_stay_together_so_drift_of_the_machine_cancels() -> None:
    drift = np.linspace(1.0, 3.0, 61)
    logs = stats.bootstrap_log_speedups([paired(list(2 * drift), list(4 * drift))], samples=300, seed=1)
    low, high = stats.interval(logs[0])
    assert high / low == pytest.approx(1.0)


def test_wider_noise_gives_a_wider_interval() -> None:
    draw = np.random.default_rng(7)
    widths = []
    for noise in (0.01, 0.2):
        times = paired(list(10 + noise * draw.normal(size=60)), list(20 + noise * draw.normal(size=60)))
        low, high = stats.interval(stats.bootstrap_log_speedups([times], samples=500, seed=1)[0])
        widths.append(high - low)
    assert widths[0] < widths[1] / 5


def test_launches_that_differ_are_averaged_and_widen_the_interval() -> None:
    kernel, launch = np.array([2.0] * 20 + [4.0] * 20), np.array([0] * 20 + [1] * 20)
    times = PairedTimes(kernel, np.full(40, 8.0), None, launch)
    assert stats.speedup(times) == pytest.approx(8**0.5)
    low, high = stats.interval(stats.bootstrap_log_speedups([times], samples=400, seed=1)[0])
    assert (low, high) == pytest.approx((2.0, 4.0))


@given(st.lists(st.tuples(positive, positive, positive), min_size=3, max_size=40))
def test_speedup_never_beats_either_baseline_alone(rows: list[tuple[float, float, float]]) -> None:
    kernel, eager, compiled = (list(column) for column in zip(*rows, strict=True))
    both = stats.speedup(paired(kernel, eager, compiled))
    assert both <= stats.speedup(paired(kernel, eager)) * (1 + 1e-12)
    assert both <= stats.speedup(paired(kernel, compiled)) * (1 + 1e-12)
