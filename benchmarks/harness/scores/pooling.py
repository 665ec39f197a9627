"""Several judgings of the same code as one estimate: for boards, and for runs that judge their best candidates again.

Not covered: which judgings are of the same code.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median_high

from .quantiles import NORMAL_95, student_95

_LEAST_HALF = 0.002  # of the interval of a bound, whose upper end may be its score


@dataclass(frozen=True)
class SpeedupEstimate:
    """A speedup with its 95 % interval. Of a `bound` the lower end also tells what gaps between launches may hide."""

    score: float
    lo: float
    hi: float
    bound: bool = False

    @property
    def error(self) -> float:
        """The standard error of the logarithm; of a bound by its upper side, since its gap is no matter of chance."""
        if self.bound:
            return max(math.log(self.hi / self.score), _LEAST_HALF) / NORMAL_95
        return max(math.log(self.hi / self.lo) / (2 * NORMAL_95), 1e-6)


def pooled(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    """Several judgings of the same code as one: the mean of their logarithms, weighted by how sure each is.

    Where judgings differ by more than their intervals allow, what they differ by is added to the variance of each
    (DerSimonian and Laird, 1986): one that is very sure of itself then weighs little more than the others, whose code
    may have made them unsure. The interval stays within the ends of theirs: no slow judging may make a code reach
    further. So that of two holds the truth less often than 95 % says (docs/judging.md). Beside judgings that are none,
    a bound counts if its interval lies below their mean: its score is too high rather than too low, and a code could
    else avoid being replayed where it would do badly. What its lower end tells of gaps is left out then. Where all are
    bounds, the lower end is as far from the score as in the middle one, but not below all of theirs: neither the
    luckiest nor the unluckiest judging decides.
    """
    sure = [item for item in estimates if not item.bound]
    if not sure:
        return _mean_of_bounds(estimates)
    known = _mean(sure)
    lower = [item for item in estimates if item.bound and item.hi < known.score]
    return _mean([*sure, *(replace(item, lo=item.score**2 / item.hi) for item in lower)])


def _mean(estimates: Sequence[SpeedupEstimate], *, student: bool = True) -> SpeedupEstimate:
    """The interval is by Student's t from what the judgings scatter (Hartung and Knapp, 2001), for they are few.

    But it is not narrower than by the normal distribution, for a few may agree by chance.
    """
    if len(estimates) == 1:
        return estimates[0]
    logs, variances = [math.log(item.score) for item in estimates], [item.error**2 for item in estimates]
    between = _variance_between(logs, variances)
    weights = [1 / (variance + between) for variance in variances]
    mean = _weighted(logs, weights)
    half = NORMAL_95 / math.sqrt(math.fsum(weights))
    if student:
        scatter = _weighted([(value - mean) ** 2 for value in logs], weights) / (len(logs) - 1)
        half = max(half, student_95(len(logs)) * math.sqrt(scatter))
    lowest, highest = min(item.lo for item in estimates), max(item.hi for item in estimates)
    return SpeedupEstimate(math.exp(mean), max(math.exp(mean - half), lowest), min(math.exp(mean + half), highest))


def _variance_between(values: Sequence[float], variances: Sequence[float]) -> float:
    """The variance that the values have beside their own; by the method of moments of DerSimonian and Laird."""
    weights = [1 / variance for variance in variances]
    mean, whole = _weighted(values, weights), math.fsum(weights)
    surprise = math.fsum(weight * (value - mean) ** 2 for weight, value in zip(weights, values, strict=True))
    scale = whole - math.fsum(weight**2 for weight in weights) / whole
    return max(0.0, (surprise - len(values) + 1) / scale) if scale > 0 else 0.0


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, values, weights)) / math.fsum(weights)


def _mean_of_bounds(estimates: Sequence[SpeedupEstimate]) -> SpeedupEstimate:
    """The lower end is by the normal distribution: it is what counts, and must not fall for being judged twice."""
    mean, least = _mean(estimates), _mean(estimates, student=False).lo
    below, lowest = median_high(item.score / item.lo for item in estimates), min(item.lo for item in estimates)
    return SpeedupEstimate(mean.score, max(min(least, mean.score / below), lowest), mean.hi, bound=True)
