"""Compares the times that a contestant reports with the referee's clock.

Pure arithmetic. By the referee's clock a call lasts from GO until the GPU is free again. This should be the reported
time plus the time of an empty call (`null`), within a slack. If the report is shorter, part of the work was not in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..measuring.contestants import CallResult
from ..measuring.tally import CANDIDATE, ConfigTally, Contender
from ..rules import GpuRules

_MANY = 0.2  # of all calls
_LONG_US = 1000.0


class TrustedCalls(NamedTuple):
    """Calls of one kind that the submission has no part in."""

    beside: Sequence[CallResult]  # while its processes existed
    alone: Sequence[CallResult]  # when they had been ended


@dataclass(frozen=True)
class CallsAlone:
    """What was called when the submission's processes had been ended."""

    null: Sequence[CallResult]
    made: Mapping[tuple[int, Contender], Sequence[CallResult]] = field(default_factory=dict)  # of each configuration


def bound_us(result: CallResult) -> float:
    """The time from when the referee releases the GPU until its own kernel has run."""
    if result.wall_us is None or result.tail_us is None:
        raise ValueError("a call that did not end has no bound")
    return result.wall_us + result.tail_us - result.gate_us


def usual_us(pairs: Sequence[TrustedCalls], rules: GpuRules) -> float:
    """How much more time than claimed calls take on this machine, in the median.

    Of the trusted calls that were made beside the submission, the kind that took the most counts: a machine that is
    slow for them is slow for everybody. But what the submission leaves running between the calls slows them too, so
    each kind counts for at most a little more than it takes when the submission's processes have been ended.
    """
    return max(
        min(_median(_beyond_claim_us(kind.beside)), _median(_beyond_claim_us(kind.alone)) + rules.slack_us)
        for kind in pairs
    )


def slowed_us(kind: TrustedCalls) -> float:
    """How much more than their own time trusted calls took beside the submission than without it, in the median."""
    return _median(_beyond_claim_us(kind.beside)) - _median(_beyond_claim_us(kind.alone))


def excess_us(seen: Sequence[CallResult], usual_us: float) -> float:
    """How much more time than claimed the calls took, in the median; near zero for an honest contestant."""
    return _median(_beyond_claim_us(seen)) - usual_us


def trusted(ledger: ConfigTally, number: int, null: Sequence[CallResult], alone: CallsAlone) -> list[TrustedCalls]:
    """Empty calls, and calls of baselines that are short enough to show the overhead of a call."""
    baselines = [
        TrustedCalls(calls, alone.made.get((number, who), calls))
        for who, calls in ledger.seen.items()
        if who != CANDIDATE and comparable(calls)
    ]
    return [TrustedCalls(null, alone.null), *baselines]


def comparable(calls: Sequence[CallResult]) -> bool:
    """Whether trusted calls are short enough to show the overhead of a call; long ones scatter more."""
    return bool(calls) and _median(np.array([item.event_us or 0.0 for item in calls])) < _LONG_US


def spread_us(null: Sequence[CallResult]) -> float:
    """The scatter of empty calls: three times their median absolute deviation."""
    beyond = _beyond_claim_us(null)
    return 3.0 * _median(np.abs(beyond - _median(beyond)))


def slack_us(seen: Sequence[CallResult], scatter_us: float, rules: GpuRules) -> float:
    """The part of an excess that counts as noise and launch overhead; empty calls scatter by `scatter_us`."""
    claimed = _median(np.array([item.event_us or 0.0 for item in seen]))
    return rules.slack_us + rules.slack_fraction * claimed + scatter_us


def charges_us(seen: Sequence[CallResult], usual_us: float, scatter_us: float, rules: GpuRules) -> list[float]:
    """The time added to each call: what the referee measured beyond the reported time, slack and noise."""
    claims_us = np.array([item.event_us or 0.0 for item in seen])
    allowed_us = rules.slack_us + rules.slack_fraction * claims_us + scatter_us
    return [float(us) for us in np.maximum(0.0, _beyond_claim_us(seen) - usual_us - allowed_us)]


def busy(seen: Sequence[CallResult], usual_us: float, rules: GpuRules) -> bool:
    """Whether flushing the cache took too long before many of the calls: something else was running on the GPU.

    `usual_us` is what it takes before any submission is loaded. Whoever was called before left it running, so calls of
    everybody count.
    """
    slow = sum((item.flush_us or 0.0) > rules.contention * usual_us for item in seen)
    return slow > _MANY * len(seen)


def median_bound_us(seen: Sequence[CallResult]) -> float:
    return _median(np.array([bound_us(item) for item in seen]))


def _beyond_claim_us(seen: Sequence[CallResult]) -> NDArray[np.float64]:
    return np.array([bound_us(item) - (item.event_us or 0.0) for item in seen])


def _median(values: NDArray[np.float64]) -> float:
    return float(np.median(values))
