"""The measurements of one configuration, and the time that is added to its calls for work outside of them.

The score uses the median time of a call. A kernel could therefore do part of its work where the median does not show
it: before the start of a call (GO), while the process should be stopped, in calls on decoys, or in a few calls for all
others. A late start and work while frozen are charged: their time is added to the call itself. All other such work is
charged to every call of the kernel. The time that decoys and stopping take is compared with eager's, and both share one
allowance. Not covered: which calls are made (`calls.py`), statistics of the score (`scores/`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..report import ConfigReport, Verdict
from ..rules import Rules
from ..scores.stats import iqr_us, median_us
from ..tasks.spec import Config
from .contestants import CallComparison, CallResult
from .faults import Fault
from .session import EAGER

Contender = tuple[str, int]  # who, function
CANDIDATE: Contender = ("candidate", 0)
_EAGER: Contender = ("baseline", EAGER)

_DECOY_FACTOR, _DECOY_SPARE_US = 3.0, 1000.0  # a decoy is the first call after a break: its caches are cold
# allowance of the kernel above eager for work outside of each timed call: the larger of this share of the call and this
_OUTSIDE_SPARE, _OUTSIDE_SPARE_US = 0.05, 3.0
# the same for the first decoy of a visit alone: how cold its caches are is chance
_FIRST_SPARE, _FIRST_SPARE_US = 0.1, 50.0
# the same for each of the other decoys, whose caches are a little colder than those of the timed call
_LATER_SPARE, _LATER_SPARE_US = 0.05, 8.0
_QUICK = 10  # percentile: even on a very busy machine, no other program has slowed these calls
# the standard error of a median of n values is 0.93 × interquartile range / √n
_MEDIAN_ERROR, _ERRORS_IN_DOUBT = 0.93, 2.0


@dataclass(frozen=True)
class Excess:
    """By how much one time exceeds another, and the standard error of this difference, in microseconds."""

    us: float
    error_us: float


@dataclass(frozen=True)
class VisitTimes:
    """Processor time in the visits of one launch to one contestant, in microseconds.

    A contestant spins while the supervisor waits for a processor. This wait is subtracted from each call, but never
    below the median call. Such calls are not left out: a kernel sees them coming and could work in them for all others.
    """

    calls_us: NDArray[np.float64]  # the timed call of each visit
    first_us: NDArray[np.float64]  # by how much longer its first decoy takes than the median call
    ahead_us: NDArray[np.float64]  # by how much longer all its decoys together take than as many median calls
    later_us: NDArray[np.float64]  # the same per decoy after the first: mean of each visit that has any
    over_us: NDArray[np.float64]  # `CallResult.over_us` of the timed calls; empty with several cores
    decoys: float  # median number in a visit, over all contestants

    @property
    def usual_us(self) -> float:
        return median_us(self.calls_us)

    def first(self) -> Excess:
        """By how much longer the first decoy takes than a call, in the median visit."""
        scatter_us = math.hypot(iqr_us(self.first_us), iqr_us(self.calls_us))
        return Excess(median_us(self.first_us), _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.calls_us)))

    def ahead(self) -> Excess:
        """By how much longer the decoys of the median visit take than as many calls, divided by their number.

        A kernel cannot know which call of a visit is the timed one: any call after the first may be. So what it
        prepares for the timed call, it must prepare for as many calls as there are decoys.
        """
        scatter_us = math.hypot(iqr_us(self.ahead_us), self.decoys * iqr_us(self.calls_us))
        error_us = _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.calls_us))
        return Excess(median_us(self.ahead_us) / self.decoys, error_us / self.decoys)

    def later(self) -> Excess:
        """By how much longer each decoy after the first takes than a call, in the median visit."""
        if not len(self.later_us):
            return Excess(0.0, 0.0)
        scatter_us = math.hypot(iqr_us(self.later_us), iqr_us(self.calls_us))
        return Excess(median_us(self.later_us), _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.later_us)))

    def over(self) -> Excess:
        """What the median call does after its end: processor time beyond what its core gave it until the order to stop.

        Zero with several cores: it depends on the kernel how long some of them idle, so nothing can be concluded.
        """
        if not len(self.over_us):
            return Excess(0.0, 0.0)
        return Excess(median_us(self.over_us), _MEDIAN_ERROR * iqr_us(self.over_us) / math.sqrt(len(self.over_us)))

    def above_the_median(self) -> Excess:
        """By how much the mean visit exceeds the median one, per call."""
        visits_us = self.calls_us + self.ahead_us / self.decoys
        error_us = math.sqrt(float(np.var(visits_us)) / max(1, len(visits_us) - 1))
        return Excess(float(visits_us.mean()) - median_us(visits_us), error_us)


@dataclass
class ConfigTally:
    """The measurements of one configuration so far."""

    config: Config
    fault: Fault | None = None
    calls: int = 0
    checked: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    times_us: dict[Contender, list[float]] = field(default_factory=dict)
    resumes_us: dict[Contender, list[float]] = field(default_factory=dict)
    launches: list[int] = field(default_factory=list)
    seen: dict[Contender, list[CallResult]] = field(default_factory=dict)  # timed calls; their times are bounded
    quickest_us: float = math.inf  # the shortest call so far with right results, by any contestant
    throttled: int = 0  # steps dropped because the GPU lowered its clocks

    def note(self, comparison: CallComparison) -> None:
        self.checked += 1
        self.max_abs_error = max(self.max_abs_error, comparison.max_abs_error)
        self.max_rel_error = max(self.max_rel_error, comparison.max_rel_error)

    def note_right(self, result: CallResult) -> None:
        """Call it for calls of a baseline, and for calls whose results were compared and are right."""
        self.quickest_us = min(self.quickest_us, result.wall_us or math.inf)

    def note_time(self, who: Contender, result: CallResult) -> None:
        self.seen.setdefault(who, []).append(result)
        if result.time_us is not None and result.resume_us is not None:
            self.times_us.setdefault(who, []).append(result.time_us)
            self.resumes_us.setdefault(who, []).append(result.resume_us)

    def result(self, shown_key: str) -> ConfigReport:
        """The report leaves out the errors on hidden configurations: they could reveal hidden values."""
        hidden, checked = self.config.hidden, self.checked > 0
        return ConfigReport(
            key=shown_key,
            group=self.config.group,
            correct=None if self.calls == 0 else self.fault is None,
            max_abs_error=self.max_abs_error if checked and not hidden else None,
            max_rel_error=self.max_rel_error if checked and not hidden else None,
            calls=self.calls,
            checked_calls=self.checked,
            failure="" if self.fault is None else hidden_words(self.config, self.fault),
        )

    def calls_of_a_visit(self, who: Contender) -> float:
        """Mean number of calls in a visit; 0 before the first step."""
        return float(np.mean([1 + len(visit.decoys) for visit in self.seen[who]])) if who in self.seen else 0.0

    def of_launches(self) -> list[NDArray[np.intp]]:
        """For each launch, the positions of its steps in `launches`."""
        launches = np.array(self.launches)
        return [np.flatnonzero(launches == launch) for launch in np.unique(launches)]

    def of_launch(self, launch: int) -> "ConfigTally":
        """The timed calls of one launch alone."""
        kept = [number for number, one in enumerate(self.launches) if one == launch]
        return replace(self, seen={who: [calls[number] for number in kept] for who, calls in self.seen.items()})

    def charged_us(self, who: Contender, rules: Rules) -> NDArray[np.float64]:
        """The times of `who`; the delay of each call and the work beside it are added.

        The delay is the time from waking until the call was ready, less eager's median in the same launch and a slack.
        If other programs delay half of eager's calls, this median says nothing. So it counts for at most eager's 10th
        percentile plus what the rules allow (`resume_scatter_us`).
        """
        resumes_us, eager_us = np.array(self.resumes_us[who]), np.array(self.resumes_us[_EAGER])
        allowed_us = np.zeros(len(self.launches))
        for steps in self.of_launches():
            most_us = np.percentile(eager_us[steps], 10, method="lower") + rules.time.resume_scatter_us
            allowed_us[steps] = min(median_us(eager_us[steps]), most_us)
        late_us = np.maximum(0.0, resumes_us - allowed_us - rules.time.resume_slack_us)
        beside_us = np.array([result.woke_us + result.carried_us + result.after_us for result in self.seen[who]])
        charged_us: NDArray[np.float64] = np.array(self.times_us[who]) + late_us + beside_us
        return charged_us

    def outside_us(self) -> NDArray[np.float64]:
        """The time added to each call of the kernel for work outside of timed calls: in decoys and after *done*.

        Decoys take longer than calls because caches are cold after a break, and stopping takes time. The kernel may
        exceed a call by as much as eager does in the same launch, plus a small allowance, plus what chance may explain.
        Since a kernel can make its times scatter at will, its scatter counts for no more than eager's. Medians are
        enough here: work that shortens the median call must be done in most visits.

        There are three estimates, and the largest is charged, because it depends on how cold the caches are which one
        shows the work. (1) The excess of all decoys, divided by their number, together with work after *done*. (2) The
        excess of the first decoy. (3) The excess of each other decoy, which should take as long as a timed call.
        """
        charged_us = np.zeros(len(self.launches))
        for steps in self.of_launches():
            kernel, eager = (self._times_of(who, steps) for who in (CANDIDATE, _EAGER))
            over, first = (_beyond(getattr(kernel, name)(), getattr(eager, name)()) for name in ("over", "first"))
            # decoys of eager may be shorter than its calls: such a negative excess must not be held against the kernel
            ahead = _beyond(kernel.ahead(), _at_least(eager.ahead(), eager.first().us / eager.decoys))
            later = _beyond(kernel.later(), _at_least(eager.later(), 0.0))
            more_us = (
                max(0.0, ahead.us) + max(0.0, over.us) - _ERRORS_IN_DOUBT * math.hypot(ahead.error_us, over.error_us)
            )
            charged_us[steps] = max(
                0.0,
                more_us - max(_OUTSIDE_SPARE * kernel.usual_us, _OUTSIDE_SPARE_US),
                _certain_us(first) - max(_FIRST_SPARE * kernel.usual_us, _FIRST_SPARE_US),
                _certain_us(later) - max(_LATER_SPARE * kernel.usual_us, _LATER_SPARE_US),
            )
        return charged_us

    def _times_of(self, who: Contender, steps: NDArray[np.intp]) -> VisitTimes:
        decoys = float(np.median([len(visit.decoys) for visits in self.seen.values() for visit in visits]))
        return visit_times([self.seen[who][place] for place in steps], max(1.0, decoys))

    def above_the_median(self, who: Contender) -> Excess:
        """By how much the mean visit exceeds the median one in processor time per call, averaged over all launches."""
        found = [self._times_of(who, steps).above_the_median() for steps in self.of_launches()]
        return Excess(
            float(np.mean([item.us for item in found])), math.hypot(*(item.error_us for item in found)) / len(found)
        )


@dataclass(frozen=True)
class Gathered:
    """By how much the mean visit exceeds the median one, less the same of eager, relative to the kernel's median call.

    A median does not show work that is done in a few calls for all others, but a mean does. `share` is the mean over
    all configurations. `error` is its standard error, because a mean also varies by chance.
    """

    by_config: tuple[float, ...]
    share: float
    error: float


def gathered(tallies: Sequence[ConfigTally]) -> Gathered:
    """Over the timed configurations, each of which has at least one step."""
    shares, errors = [], []
    for tally in tallies:
        kernel, eager = tally.above_the_median(CANDIDATE), tally.above_the_median(_EAGER)
        usual_us = max(1.0, median_us(np.array([call.used_us for call in tally.seen[CANDIDATE]])))
        # subtracting waits can leave eager's mean below its median; this is not held against the kernel
        shares.append((kernel.us - max(0.0, eager.us)) / usual_us)
        errors.append(math.hypot(kernel.error_us, eager.error_us) / usual_us)
    return Gathered(tuple(shares), float(np.mean(shares)), math.hypot(*errors) / len(errors))


def hidden_words(config: Config, fault: Fault) -> str:
    """The reason of a fault, without details that would reveal a hidden configuration."""
    if not config.hidden:
        return fault.reason
    return {
        Verdict.TIMEOUT: "a call took longer than the rules allow",
        Verdict.INCORRECT_VALUE: "values are further from the reference than the task allows",
        Verdict.INCORRECT_SHAPE: "a result has the wrong shape",
        Verdict.INCORRECT_DTYPE: "a result has the wrong dtype",
        Verdict.NONDETERMINISTIC: "the same input gave a right and a wrong result",
        Verdict.RUNTIME_ERROR: "the kernel failed here",
        Verdict.OUT_OF_MEMORY: "the kernel asked for more memory than it may have",
    }.get(fault.verdict, fault.reason)


def with_decoys(call: CallResult, decoys: Sequence[CallResult]) -> CallResult:
    """`call` together with the calls on decoys of its visit."""
    return replace(call, carried_us=carried_us(decoys, call), decoys=tuple(decoys))


def carried_us(decoys: Sequence[CallResult], call: CallResult) -> float:
    """Extra work of `decoys`, in microseconds: it could slow the next contestant or be of use to `call`.

    It is work while the process was frozen or should have stopped, and processor time far beyond that of `call`.
    """
    usual_us = _DECOY_FACTOR * call.used_us + _DECOY_SPARE_US
    return sum(decoy.woke_us + max(decoy.after_us, decoy.used_us - usual_us) for decoy in decoys)


def _beyond(kernel: Excess, eager: Excess) -> Excess:
    """The difference, with an error in which the kernel's own error counts for no more than eager's."""
    return Excess(kernel.us - eager.us, math.hypot(min(kernel.error_us, eager.error_us), eager.error_us))


def _at_least(excess: Excess, us: float) -> Excess:
    return replace(excess, us=max(us, excess.us))


def _certain_us(excess: Excess) -> float:
    return excess.us - _ERRORS_IN_DOUBT * excess.error_us


def visit_times(visits: Sequence[CallResult], decoys: float) -> VisitTimes:
    """The times of at least one visit; `decoys` is their median number in a visit."""
    calls_us = _own_us(visits)
    usual_us = median_us(calls_us)
    first_us, others_us = np.zeros(len(visits)), np.zeros(len(visits))
    # the first decoy of a visit is slow for every contestant; the others are like timed calls
    for sum_us, part in (
        (first_us, [visit.decoys[:1] for visit in visits]),
        (others_us, [visit.decoys[1:] for visit in visits]),
    ):
        every = [decoy for those in part for decoy in those]
        if every:
            which = np.repeat(np.arange(len(visits)), [len(those) for those in part])
            np.add.at(sum_us, which, _own_us(every) - usual_us)
    later = np.array([max(0, len(visit.decoys) - 1) for visit in visits])
    over_us = np.array([visit.over_us for visit in visits if visit.over_us is not None])
    later_us = others_us[later > 0] / later[later > 0]
    return VisitTimes(calls_us, first_us, first_us + others_us, later_us, over_us, decoys)


def _own_us(calls: Sequence[CallResult]) -> NDArray[np.float64]:
    """Processor time of each call, less the time that the supervisor waited meanwhile, but not below the usual call.

    The usual call is the median one. On a very busy machine a contestant waits, too, and does not spin, so too much is
    subtracted from most calls. Then one of the quickest calls is the usual one.
    """
    used_us = np.array([call.used_us + call.woke_us for call in calls])
    without_us = used_us - np.array([call.waited_us for call in calls])
    usual_us = max(median_us(without_us), float(np.percentile(used_us, _QUICK)))
    own_us: NDArray[np.float64] = np.maximum(without_us, np.minimum(used_us, usual_us))
    return own_us
