"""From times to a score and its gates."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.harness import ConfigReport, Score, default_rules, sol_score
from benchmarks.harness.scores import scoring
from benchmarks.harness.scores.scoring import BaselineTimes
from benchmarks.harness.scores.stats import PairedTimes

RULES = default_rules()


def times(kernel_us: float, eager_us: float, compile_us: float | None = None, steps: int = 21) -> PairedTimes:
    wobble = 1 + 0.01 * np.sin(np.arange(steps))
    compiled = None if compile_us is None else compile_us * wobble
    return PairedTimes(kernel_us * wobble, eager_us * wobble[::-1], compiled, np.arange(steps) % 2)


def timed(key: str, paired: PairedTimes, floor_us: float | None = 1.0) -> ConfigReport:
    result = ConfigReport(key=key, group="multi", correct=True, max_abs_error=1e-6, calls=21, checked_calls=21)
    return scoring.with_times(result, paired, floor_us, RULES)


def scored(**paired: PairedTimes) -> tuple[Score, list[ConfigReport]]:
    results = [timed(key, value) for key, value in paired.items()]
    return scoring.score(results, paired, RULES, "supervisor"), results


def test_score_is_the_geometric_mean_of_the_configurations() -> None:
    score, _ = scored(a=times(10, 40), b=times(10, 10))
    assert score.speedup == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    ("kernel_us", "compile_us", "score"),
    [
        (40.0, None, 0.5),  # as fast as eager
        (20.0, None, 0.75),  # (40 - 10) / ((40 - 10) + (20 - 10))
        (20.0, 20.0, 0.5),  # as fast as torch.compile
        (10.0, None, 1.0),  # at the bound
        (9.0, None, 1.0),  # beyond it, which a gate is for
        (20.0, 10.0, None),  # the baseline is at the bound
    ],
)
def test_the_sol_score_is_half_at_the_baseline_and_one_at_the_bound(
    kernel_us: float, compile_us: float | None, score: float | None
) -> None:
    found = sol_score(kernel_us, 40.0, compile_us, 10.0 / kernel_us)
    assert found == (score if score is None else pytest.approx(score))
    assert sol_score(kernel_us, 40.0, compile_us, None) is None


def test_score_lies_in_its_interval_and_names_the_worst_configuration() -> None:
    score, _ = scored(a=times(10, 40, 35), b=times(10, 12, 30))
    assert score.ci95[0] <= score.speedup <= score.ci95[1]
    assert score.worst_config == "b"


def scattered(paired: PairedTimes, *names: str, by: float = 3.0) -> PairedTimes:
    """`paired` with every second launch `by` times slower for the contestants of these names."""
    factor = np.where(paired.launch == 0, 1.0, by)
    return replace(paired, **{name: getattr(paired, name) * factor for name in names})


def test_a_narrow_interval_keeps_its_score() -> None:
    paired = {"a": times(10, 40)}
    score, _ = scored(**paired)
    assert scoring.settled(score, paired, RULES) is score


def test_of_a_kernel_that_scatters_on_a_calm_machine_the_lower_end_counts() -> None:
    paired = {"a": scattered(times(10, 40), "kernel_us")}
    score, _ = scored(**paired)
    settled = scoring.settled(score, paired, RULES)
    low = score.ci95[0]
    assert settled == replace(score, speedup=low, ci95=(low, low * (1 + 2 * RULES.score.max_half_width)))
    assert score.ci95[0] < score.speedup / 1.5


@pytest.mark.parametrize(("by", "own"), [(1.1, True), (1.15, True), (1.3, False)])
def test_a_kernel_that_scatters_far_more_than_the_baselines_scatters_by_itself(by: float, own: bool) -> None:
    paired = {"a": scattered(scattered(times(10, 40, 39), "eager_us", "compile_us", by=by), "kernel_us")}
    score, _ = scored(**paired)
    assert (scoring.settled(score, paired, RULES) is not None) is own


def test_a_kernel_that_scatters_little_more_than_the_baselines_is_measured_again() -> None:
    paired = {"a": scattered(scattered(times(10, 40, 39), "eager_us", "compile_us", by=1.19), "kernel_us", by=1 / 1.05)}
    score, _ = scored(**paired)
    assert scoring.settled(score, paired, RULES) is None


def test_a_machine_on_which_the_baselines_scatter_as_well_is_noisy() -> None:
    paired = {"a": scattered(times(10, 40, 39), "eager_us", "compile_us")}
    score, _ = scored(**paired)
    assert scoring.settled(score, paired, RULES) is None


def test_replayed_baselines_are_told_as_shares_of_the_stronger_one_and_never_above_one() -> None:
    _, results = scored(a=times(10, 20, 16), b=times(10, 40), c=times(10, 30))
    hidden = ConfigReport("hidden 1", "hidden", correct=True)
    gap = scoring.baseline_gap([*results, hidden], {"a": BaselineTimes(19.0, 14.0), "b": BaselineTimes(41.0)})
    assert gap == {"a": pytest.approx(14 / 16, abs=2e-3), "b": 1.0}
    assert all(share == round(share, 4) for share in gap.values())


def test_a_replayed_baseline_that_does_not_count_in_the_judging_lowers_no_interval() -> None:
    """torch.compile takes 10 µs instead of eager's 30, and its results are wrong."""
    score, results = scored(a=times(15, 30))
    gap = scoring.baseline_gap(results, {"a": BaselineTimes(29.4, 10.0)})
    assert gap == {"a": pytest.approx(0.98, abs=2e-3)}
    low, _ = scoring.lowered(score, results, {"a": times(15, 30)}, gap)
    assert low.ci95[0] > 1.85
    without = scoring.baseline_gap(results, {"a": BaselineTimes(None, 10.0)})
    assert without == {}


def test_with_shorter_baselines_the_lower_ends_fall_and_nothing_else_changes() -> None:
    paired = {"a": replace(times(10, 20, 18), weight=3.0), "b": times(10, 40)}
    score, results = scored(**paired)
    hidden = ConfigReport("hidden 1", "hidden", correct=True)
    low, (a, b, same) = scoring.lowered(score, [*results, hidden], paired, {"a": 0.8})
    assert same is hidden
    assert (a.speedup, b) == (results[0].speedup, results[1])
    assert a.ci95 == pytest.approx((results[0].ci95[0] * 0.8, results[0].ci95[1]))  # type: ignore[index]
    assert replace(low, ci95=score.ci95) == score
    assert low.ci95 == pytest.approx((score.ci95[0] * 0.8**0.75, score.ci95[1]))


def test_both_ratios_are_shown_beside_the_score() -> None:
    score, _ = scored(a=times(10, 40, 20))
    assert score.vs_eager == pytest.approx(4.0, rel=0.02)
    assert score.vs_compile == pytest.approx(2.0, rel=0.02)
    assert score.speedup == pytest.approx(2.0, rel=0.02)


def test_the_score_never_exceeds_the_ratio_to_either_baseline() -> None:
    draw = np.random.default_rng(3)
    noisy = {key: times(10, 40, 40) for key in ("a", "b")}
    shaken = {key: replace(value, kernel_us=value.kernel_us * draw.uniform(1, 3, 21)) for key, value in noisy.items()}
    score, _ = scored(**shaken)
    assert score.speedup <= min(score.vs_eager, score.vs_compile or 0) * (1 + 1e-12)


def test_ratio_to_torch_compile_is_absent_if_a_configuration_lacks_it() -> None:
    score, _ = scored(a=times(10, 40, 20), b=times(10, 40))
    assert score.vs_compile is None


def test_the_same_times_always_give_the_same_interval() -> None:
    assert scored(a=times(10, 40))[0] == scored(a=times(10, 40))[0]


def test_an_ordinary_score_has_no_gate() -> None:
    score, results = scored(a=times(10, 40))
    assert scoring.gates(score, results, RULES, exact=False) == ()


def test_more_than_ten_times_the_baseline_goes_under_review() -> None:
    score, results = scored(a=times(10, 400))
    assert [flag.code for flag in scoring.gates(score, results, RULES, exact=False)] == ["gate-speedup"]


def test_faster_than_the_roofline_goes_under_review() -> None:
    paired = times(10, 40)
    results = [timed("a", paired, floor_us=20.0)]
    score = scoring.score(results, {"a": paired}, RULES, "supervisor")
    assert [flag.code for flag in scoring.gates(score, results, RULES, exact=False)] == ["gate-roofline"]


def test_no_error_at_all_goes_under_review_unless_the_task_rounds_nothing() -> None:
    score, results = scored(a=times(10, 40))
    exact = [replace(item, max_abs_error=0.0) for item in results]
    assert [flag.code for flag in scoring.gates(score, exact, RULES, exact=False)] == ["gate-exact"]
    assert scoring.gates(score, exact, RULES, exact=True) == ()
