"""The times of replayed calls, as the host's clock took them between words, and what of them counts.

Not covered: measuring (`child/gpu/clock.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, Self

from ..measuring.answers import number_of, senseless
from ..measuring.contestants import CallResult
from ..measuring.tally import Contender
from ..sandbox.isolation import Child

_LEAST_US = 0.05
# The third word may come so much later than after nothing, and in single calls than for baselines: the host queues it
# when its caches are cold, which took up to 3 µs longer on an H100.
_LATE_SPARE_US = 5.0
# How much longer than usual the referee's kernel may take: on an H200 the 99th percentile was 20 to 80 µs beyond the
# median for all honest kernels but one (170 µs).
_TAIL_SPARE_US = 100.0
_START_SPARE_US = 20.0  # a waiting stream goes on after 8 to 12 µs; honest kernels' 99th percentile was 15 on an H200
# From the end until rows of the results are copied: 35 to 70 µs. A call where it takes longer is repeated, since the
# host may be busy; if it takes longer each time, the rest is added to the call.
SAMPLED_MAX_US = 100.0
UNFAIR_SHARE = 0.02  # of a call's time: a delay that could change it by less makes no judging NOISY
BLIND_MAX_US = 2.0  # a host that has not looked for longer does not know when a word came
MEASURED = ("call_us", "behind_us")


@dataclass(frozen=True)
class WordTimes:
    """Of one call in an executor or a baseline, in microseconds, less what an empty one takes."""

    call_us: float
    behind_us: float  # about zero; large if the word behind the call was not written by the stream

    @property
    def credited_us(self) -> float:
        return max(_LEAST_US, self.call_us)


class Lateness(NamedTuple):
    """What happened around a call, in microseconds; also what is usual for baselines."""

    behind_us: float  # from its end until the third word came
    tail_us: float  # how long the referee's own kernel took then, which device code cannot see or hasten
    sampled_us: float = 0.0  # from its end until rows of the results had been copied
    lead_us: float = 0.0  # how long the referee's own kernel took before it: long if work was left on the GPU
    start_us: float = 0.0  # from its release to its beginning

    @classmethod
    def of(cls, call: CallResult) -> Self:
        return cls(call.behind_us, call.tail_us or 0.0, call.sampled_us, call.lead_us, call.start_us)

    @classmethod
    def around(cls, times: WordTimes, answer: Mapping[str, Any], taken: Mapping[str, Any]) -> Self:
        """By the `answer` of the process that made the call, and what the referee has `taken` down."""
        told = {name: float(taken[name]) for name in ("tail_us", "sampled_us", "lead_us")}
        return cls(times.behind_us, **told, start_us=float(answer["start_us"]))

    def beyond_us(self, usual: "Lateness") -> float:
        """What is added to the call: about zero unless work went on before or after it, or its sample was delayed."""
        spares = (
            (self.behind_us - usual.behind_us, _LATE_SPARE_US),
            (self.tail_us - usual.tail_us, _TAIL_SPARE_US),
            (self.sampled_us, SAMPLED_MAX_US),
            (self.lead_us - usual.lead_us, _TAIL_SPARE_US),
            (self.start_us - usual.start_us, _START_SPARE_US),
        )
        return sum(max(0.0, late_us - spare_us) for late_us, spare_us in spares)


def is_worth(answer: Mapping[str, Any]) -> bool:
    """Whether the times of a call count; an answer that tells of a failure does."""
    return not answer.get("is_late") and answer.get("blind_us", 0.0) <= BLIND_MAX_US


def demand_times(answer: Mapping[str, Any], child: Child) -> None:
    """Raises RefereeError if a baseline's answer has not the times of a call."""
    for name in (*MEASURED, "blind_us", "start_us"):
        number_of(answer, name, child)
    if not isinstance(answer.get("is_late"), bool):
        raise senseless("is_late is neither true nor false", child)


def surely_us(answer: Mapping[str, Any]) -> float:
    """What a call took at least, in microseconds, with what an empty one takes still in it.

    A host that was blind saw the end at most `blind_us` late, and if it saw the start late, the call took longer than
    it says. Zero if the stream went on before everything was queued: such a time tells of the host alone.
    """
    if answer["is_late"]:
        return 0.0
    call_us = float(answer["call_us"])
    return call_us if is_worth(answer) else max(0.0, call_us - float(answer["blind_us"]))


def usual_lateness(seen: Mapping[Contender, Sequence[CallResult]]) -> Lateness:
    """What happens around calls of baselines, in the median; of each figure that of the baseline with the most."""
    medians = [map(median, zip(*map(Lateness.of, calls), strict=True)) for calls in seen.values()]
    return Lateness(*map(max, zip(*medians, strict=True)))


def percentiles_us(late: Sequence[Lateness]) -> dict[str, float]:
    """Delays around calls in microseconds: median and 99th percentile."""
    found = {}
    for name in Lateness._fields if late else ():
        values = sorted(getattr(item, name) for item in late if name != "sampled_us" or item.sampled_us)
        for percent in (50, 99) if values else ():
            found[name.replace("_us", f"_p{percent}_us")] = round(values[percent * (len(values) - 1) // 100], 2)
    return found
