"""Medians, quartiles and bootstrap intervals over paired samples. Pure numpy, no knowledge of kernels.

All times are in microseconds; a sample is one step, in which every contestant was timed once on the same inputs. Steps
belong to launches: processes differ in where their memory lies, which moves times by some percent, so launches are
averaged and resampled as well.
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
    launch: NDArray[np.intp]  # which launch each step was made with
    weight: float = 1.0  # in a mean over configurations

    @property
    def steps(self) -> int:
        return len(self.kernel_us)

    def by_launch(self) -> "list[PairedTimes]":
        return [self._only(self.launch == number) for number in np.unique(self.launch)]

    def _only(self, mine: NDArray[np.bool_]) -> "PairedTimes":
        compiled = None if self.compile_us is None else self.compile_us[mine]
        return PairedTimes(self.kernel_us[mine], self.eager_us[mine], compiled, self.launch[mine], self.weight)


def median_us(times: Times) -> float:
    return float(np.median(times))


def medians_us(times: PairedTimes) -> tuple[float | None, ...]:
    """The medians of kernel, eager and torch.compile."""
    compiled = None if times.compile_us is None else median_us(times.compile_us)
    return median_us(times.kernel_us), median_us(times.eager_us), compiled


def iqr_us(times: Times) -> float:
    low, high = np.percentile(times, [25, 75])
    return float(high - low)


def speedup(times: PairedTimes) -> float:
    """The stronger baseline's median over the kernel's, the geometric mean over launches."""
    logs = [_log_speedup(part, np.arange(part.steps)[None, :])[0] for part in times.by_launch()]
    return float(np.exp(np.mean(logs)))


def interval(samples: Times) -> tuple[float, float]:
    """The central 95 % of bootstrap samples of a logarithm, as ratios."""
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(np.exp(low)), float(np.exp(high))


def mean_logs(logs: Times, all_times: Sequence[PairedTimes]) -> Times:
    """The weighted mean over configurations, which are the first axis."""
    mean: Times = np.average(logs, axis=0, weights=[times.weight for times in all_times])
    return mean


def bootstrap_log_speedups(all_times: Sequence[PairedTimes], samples: int, seed: int) -> NDArray[np.float64]:
    """Logarithms of resampled speedups, shape (configurations, samples).

    Launches are resampled first, the same ones for all configurations, then steps within each; pairs stay together.
    """
    draw = np.random.default_rng(seed)
    launches = len(all_times[0].by_launch())
    chosen = draw.integers(0, launches, size=(launches, samples))
    return np.stack([_resampled(times, draw, samples)[chosen, np.arange(samples)].mean(axis=0) for times in all_times])


def _resampled(times: PairedTimes, draw: np.random.Generator, samples: int) -> NDArray[np.float64]:
    """Shape (launches, samples)."""
    return np.stack(
        [_log_speedup(part, draw.integers(0, part.steps, size=(samples, part.steps))) for part in times.by_launch()]
    )


def _log_speedup(times: PairedTimes, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
    baseline = np.median(times.eager_us[chosen], axis=1)
    if times.compile_us is not None:
        baseline = np.minimum(baseline, np.median(times.compile_us[chosen], axis=1))
    result: NDArray[np.float64] = np.log(baseline / np.median(times.kernel_us[chosen], axis=1))
    return result
