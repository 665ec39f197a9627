"""Medians, quartiles and bootstrap intervals over paired samples. Pure numpy, no knowledge of kernels.

All times are in microseconds; a sample is one step, in which every contestant was timed once on the same inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


@dataclass(frozen=True)
class PairedTimes:
    """Times of one configuration, one entry per step. `compile_us` is None where torch.compile has no time."""

    kernel_us: Times
    eager_us: Times
    compile_us: Times | None

    @property
    def steps(self) -> int:
        return len(self.kernel_us)


def median_us(times: Times) -> float:
    return float(np.median(times))


def iqr_us(times: Times) -> float:
    low, high = np.percentile(times, [25, 75])
    return float(high - low)


def speedup(times: PairedTimes) -> float:
    """The stronger baseline's median over the kernel's."""
    return float(np.exp(_log_speedup(times, np.arange(times.steps)[None, :])[0]))


def interval(samples: Times) -> tuple[float, float]:
    """The central 95 % of bootstrap samples of a logarithm, as ratios."""
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(np.exp(low)), float(np.exp(high))


def bootstrap_log_speedups(all_times: Sequence[PairedTimes], samples: int, seed: int) -> NDArray[np.float64]:
    """Logarithms of resampled speedups, shape (configurations, samples). Pairs stay together."""
    draw = np.random.default_rng(seed)
    return np.stack(
        [_log_speedup(times, draw.integers(0, times.steps, size=(samples, times.steps))) for times in all_times]
    )


def _log_speedup(times: PairedTimes, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
    baseline = np.median(times.eager_us[chosen], axis=1)
    if times.compile_us is not None:
        baseline = np.minimum(baseline, np.median(times.compile_us[chosen], axis=1))
    result: NDArray[np.float64] = np.log(baseline / np.median(times.kernel_us[chosen], axis=1))
    return result
