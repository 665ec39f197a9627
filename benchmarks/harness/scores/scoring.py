"""Computes a score from paired times and decides whether it must be reviewed.

Score = geometric mean over all timed configurations of `min(eager, compile) / kernel`, from paired medians, weighted by
calls where the task says how often each configuration is called; its interval comes from resampling launches and steps.
Where the times of a judging on a GPU are bounded, the intervals reach down to what baselines without gaps would give.
Not covered: correctness, decided before anything is scored.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..report import ConfigReport, Flag, Score
from ..rules import Rules
from . import stats
from .stats import PairedTimes

_LEAST_SHARE = 1e-4  # a lower end is above zero


class BaselineTimes(NamedTuple):
    """Of one configuration. Without torch.compile `compile_us` is None, as in a report."""

    eager_us: float | None
    compile_us: float | None = None


def with_times(result: ConfigReport, times: PairedTimes, floor_us: float | None, rules: Rules) -> ConfigReport:
    """`result` with medians, quartile ranges, speedup and its interval."""
    logs = stats.bootstrap_log_speedups([times], rules.score.bootstrap_samples, _seed(result.key))[0]
    kernel_us = stats.median_us(times.kernel_us)
    ratio = stats.speedup(times)
    low, high = stats.interval(logs)
    return replace(
        result,
        kernel_us=kernel_us,
        eager_us=stats.median_us(times.eager_us),
        compile_us=None if times.compile_us is None else stats.median_us(times.compile_us),
        kernel_iqr_us=stats.iqr_us(times.kernel_us),
        eager_iqr_us=stats.iqr_us(times.eager_us),
        compile_iqr_us=None if times.compile_us is None else stats.iqr_us(times.compile_us),
        launches_us=tuple(stats.medians_us(part) for part in times.by_launch()),
        speedup=ratio,
        ci95=(min(low, ratio), max(high, ratio)),
        roofline_fraction=None if floor_us is None else floor_us / kernel_us,
    )


def score(results: Sequence[ConfigReport], times: Mapping[str, PairedTimes], rules: Rules, timing_trust: str) -> Score:
    """The score over `results`, all of which have times. `timing_trust` says who held the clock."""
    paired = [times[item.key] for item in results]
    weights = [item.weight for item in paired]
    seed = _seed(*(item.key for item in results))
    logs = stats.bootstrap_log_speedups(paired, rules.score.bootstrap_samples, seed)
    low, high = stats.interval(stats.mean_logs(logs, paired))
    speedup = geometric_mean([_known(item.speedup) for item in results], weights)
    worst = min(results, key=lambda item: _known(item.speedup))
    return Score(
        speedup=speedup,
        ci95=(min(low, speedup), max(high, speedup)),
        vs_eager=geometric_mean([stats.speedup(replace(item, compile_us=None)) for item in paired], weights),
        vs_compile=_vs_compile(paired),
        worst_config=worst.key,
        timing_trust=timing_trust,
    )


def _vs_compile(paired: Sequence[PairedTimes]) -> float | None:
    """None unless every configuration has a torch.compile time. Same launches and medians as the score."""
    ratios = [
        stats.speedup(replace(item, eager_us=item.compile_us, compile_us=None))
        for item in paired
        if item.compile_us is not None
    ]
    return geometric_mean(ratios, [item.weight for item in paired]) if len(ratios) == len(paired) else None


def half_width(value: Score) -> float:
    """Half the interval, relative to the score."""
    return (value.ci95[1] - value.ci95[0]) / 2 / value.speedup


def settled(value: Score, times: Mapping[str, PairedTimes], rules: Rules) -> Score | None:
    """`value` if its interval is narrow enough; None if the machine was too noisy.

    Where the interval of the baselines, timed in the same steps, is narrow enough and at most half as wide as the
    score's, the kernel's own time varies. Measuring again would not help, so the lower end of the interval counts, and
    no more of the interval than is allowed of others.
    """
    width, limit = half_width(value), rules.score.max_half_width
    if width <= limit:
        return value
    alone = [replace(item, kernel_us=np.ones(item.steps)) for item in times.values()]
    logs = stats.bootstrap_log_speedups(alone, rules.score.bootstrap_samples, _seed(*times))
    low, high = stats.interval(stats.mean_logs(logs, alone))
    baselines_width = (high - low) / 2 / math.sqrt(low * high)
    if baselines_width > min(limit, width / 2):
        return None
    low, high = value.ci95
    return replace(value, speedup=low, ci95=(low, min(high, low * (1 + 2 * limit))))


def baseline_gap(results: Sequence[ConfigReport], replayed: Mapping[str, BaselineTimes]) -> dict[str, float]:
    """By configuration, the time of the stronger baseline when it is replayed, as a share of its time in the judging.

    Only baselines that have a time in the judging count: a torch.compile whose results are wrong has none. A
    configuration without any in `replayed` has no share. A share is at most 1. It is rounded as in the report, so that
    intervals can be computed again from that.
    """
    shares = {}
    for item in results:
        pairs = zip(BaselineTimes(item.eager_us, item.compile_us), replayed.get(item.key, ()), strict=False)
        known_us = [(now_us, us) for now_us, us in pairs if now_us is not None and us is not None]
        if known_us:
            now_us, replayed_us = map(min, zip(*known_us, strict=True))
            shares[item.key] = min(1.0, max(_LEAST_SHARE, round(replayed_us / now_us, 4)))
    return shares


def lowered(
    value: Score, results: Sequence[ConfigReport], times: Mapping[str, PairedTimes], shares: Mapping[str, float]
) -> tuple[Score, list[ConfigReport]]:
    """Score and configurations with intervals that reach down to what the shorter times of baselines would give.

    `shares` are those of `baseline_gap`. The lower end of a configuration is multiplied by its share, that of the score
    by their mean, weighted as the score is. Scores, speedups and upper ends stay. For a score that is `settled`.
    """
    timed = [item for item in results if item.key in times]
    weights = [times[item.key].weight for item in timed]
    mean = geometric_mean([shares.get(item.key, 1.0) for item in timed], weights)
    low, high = value.ci95
    return replace(value, ci95=(low * mean, high)), [_lowered(item, shares.get(item.key, 1.0)) for item in results]


def _lowered(result: ConfigReport, share: float) -> ConfigReport:
    return result if result.ci95 is None else replace(result, ci95=(result.ci95[0] * share, result.ci95[1]))


def gates(value: Score, results: Sequence[ConfigReport], rules: Rules, *, exact: bool) -> tuple[Flag, ...]:
    """The reasons why a result must be reviewed before it is ranked."""
    found = []
    if value.speedup > rules.gates.max_speedup:
        found.append(Flag("gate-speedup", f"more than {rules.gates.max_speedup:g}× over the stronger baseline"))
    found += [
        Flag("gate-roofline", f"{item.key}: faster than the memory and arithmetic of this machine allow")
        for item in under_the_floor(results, rules)
    ]
    if not exact and all(item.max_abs_error == 0 for item in results):
        found.append(Flag("gate-exact", "an error of exactly zero where rounding is expected"))
    return tuple(found)


def under_the_floor(results: Sequence[ConfigReport], rules: Rules) -> tuple[ConfigReport, ...]:
    """The configurations that took less time than the roofline allows."""
    limit = rules.gates.max_roofline_fraction
    return tuple(item for item in results if item.roofline_fraction is not None and item.roofline_fraction > limit)


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    weights = [1.0] * len(values) if weights is None else weights
    logs = (weight * math.log(value) for value, weight in zip(values, weights, strict=True))
    return math.exp(sum(logs) / sum(weights))


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a configuration without times cannot be scored")
    return value


def _seed(*words: str) -> int:
    """Fixed by the configurations, so that a report can be recomputed from its samples."""
    return zlib.crc32("\0".join(words).encode())
