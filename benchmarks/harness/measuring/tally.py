"""What was measured of one configuration, and what its calls are charged beside their own time.

Only the median call counts, so a kernel could do its work where no median looks: before GO, while it should be stopped,
in calls on decoys, or in a few calls for all others. Late starts and work while frozen are charged to the call itself,
and the rest to every call of the kernel. What decoys and the way to the stop take is compared with eager's, and both
share one allowance. Not covered: which calls are made (`calls.py`), statistics of the score (`scores/`).
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
from .contestants import CallResult
from .faults import Fault
from .session import EAGER, CallComparison

Contender = tuple[str, int]  # who, function
CANDIDATE: Contender = ("candidate", 0)
_EAGER: Contender = ("baseline", EAGER)

_DECOY_FACTOR, _DECOY_SPARE_US = 3.0, 1000.0  # a decoy is the first call after a break: its caches are cold
# so much more than eager a kernel may do outside of each call that counts: a part of the call, or this if it is more
_OUTSIDE_SPARE, _OUTSIDE_SPARE_US = 0.05, 3.0
# the same for the first decoy of a visit alone, whose caches are cold by chance
_FIRST_SPARE, _FIRST_SPARE_US = 0.1, 50.0
# and for each of the others, whose caches are a little colder than those of the call that counts
_LATER_SPARE, _LATER_SPARE_US = 0.05, 8.0
_QUICK = 10  # in per cent: the calls that no other work has slowed, even on a very busy machine
_MEDIAN_ERROR, _ERRORS_IN_DOUBT = 0.93, 2.0  # the standard error of a median of n values is 0.93 quartile ranges / √n


@dataclass(frozen=True)
class Excess:
    """By how much something takes longer than something else, and the standard error of that, in microseconds."""

    us: float
    error_us: float


@dataclass(frozen=True)
class VisitTimes:
    """Processor time in the visits of one launch to one contestant, in microseconds.

    While the supervisor waits for a processor a contestant spins, so the wait is taken off each call, down to the
    median call. Were such calls left out, a kernel could work in them for all others, since it sees them coming.
    """

    calls_us: NDArray[np.float64]  # of each visit the call that counts
    first_us: NDArray[np.float64]  # by how much longer its first decoy takes than the median call
    ahead_us: NDArray[np.float64]  # the same of all decoys together
    later_us: NDArray[np.float64]  # the same of each decoy after the first, in the mean of a visit that has any
    over_us: NDArray[np.float64]  # `CallResult.over_us` of the calls that count; empty with several cores
    decoys: float  # of the median visit, whoever is visited

    @property
    def usual_us(self) -> float:
        return median_us(self.calls_us)

    def first(self) -> Excess:
        """What the median visit does in its first decoy beside what a call takes."""
        scatter_us = math.hypot(iqr_us(self.first_us), iqr_us(self.calls_us))
        return Excess(median_us(self.first_us), _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.calls_us)))

    def ahead(self) -> Excess:
        """What the median visit does in decoys beside what a call takes, for each call that may profit from it.

        Whatever a kernel prepares for calls, it must prepare for as many of them as there are decoys: each of them but
        the first may be the one that counts.
        """
        scatter_us = math.hypot(iqr_us(self.ahead_us), self.decoys * iqr_us(self.calls_us))
        error_us = _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.calls_us))
        return Excess(median_us(self.ahead_us) / self.decoys, error_us / self.decoys)

    def later(self) -> Excess:
        """What the median visit does in each decoy after the first beside what a call takes."""
        if not len(self.later_us):
            return Excess(0.0, 0.0)
        scatter_us = math.hypot(iqr_us(self.later_us), iqr_us(self.calls_us))
        return Excess(median_us(self.later_us), _MEDIAN_ERROR * scatter_us / math.sqrt(len(self.later_us)))

    def over(self) -> Excess:
        """What the median call does after its end: processor time beyond that of its core until the order to stop.

        With several cores nothing is said: how long some of them idle is a matter of the kernel.
        """
        if not len(self.over_us):
            return Excess(0.0, 0.0)
        return Excess(median_us(self.over_us), _MEDIAN_ERROR * iqr_us(self.over_us) / math.sqrt(len(self.over_us)))

    def above_the_median(self) -> Excess:
        """How much more the mean visit takes than the median one, per call."""
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
    seen: dict[Contender, list[CallResult]] = field(default_factory=dict)  # timed calls, for what bounds their claims
    quickest_us: float = math.inf  # the shortest call so far with results that are right, whoever made it
    throttled: int = 0  # steps that were dropped because clocks were lowered

    def note(self, comparison: CallComparison) -> None:
        self.checked += 1
        self.max_abs_error = max(self.max_abs_error, comparison.max_abs_error)
        self.max_rel_error = max(self.max_rel_error, comparison.max_rel_error)

    def note_right(self, result: CallResult) -> None:
        """Of a baseline, or with results that have been compared."""
        self.quickest_us = min(self.quickest_us, result.wall_us or math.inf)

    def note_time(self, who: Contender, result: CallResult) -> None:
        self.seen.setdefault(who, []).append(result)
        if result.time_us is not None and result.resume_us is not None:
            self.times_us.setdefault(who, []).append(result.time_us)
            self.resumes_us.setdefault(who, []).append(result.resume_us)

    def result(self, shown_key: str) -> ConfigReport:
        """Errors of hidden configurations are not shown: they would tell their values apart."""
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
        """In the mean; 0 before the first step."""
        return float(np.mean([1 + len(visit.decoys) for visit in self.seen[who]])) if who in self.seen else 0.0

    def of_launches(self) -> list[NDArray[np.intp]]:
        """The places of the steps of each launch."""
        launches = np.array(self.launches)
        return [np.flatnonzero(launches == launch) for launch in np.unique(launches)]

    def charged_us(self, who: Contender, rules: Rules) -> NDArray[np.float64]:
        """The times of `who` with the delay of each call and the work beside it.

        A call is late by how much later than eager in the median of the same launch it was ready, beyond the slack.
        Where other work delays half of eager's calls that median says nothing, so it counts only as far as the rules
        allow it to lie above eager's 10th percentile.
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
        """What the kernel is charged per call for work outside of the calls that count: in decoys and after *done*.

        Decoys take longer than calls, as caches are cold after a break, and stopping takes time. The kernel may take as
        much longer as eager in the same launch, and a little more in all, and as much more as chance may explain: a
        kernel could scatter at will, so by chance no more than eager. Whoever gains in the median call has done the
        work in most of the visits. Work in decoys is shared by as many calls as there are decoys. It is charged in full
        to each call where the first decoy alone takes so much longer, or each of the others does, which a call that
        counts would take as long as. Which of them says most about a kernel depends on how cold its caches are, so the
        largest counts.
        """
        charged_us = np.zeros(len(self.launches))
        for steps in self.of_launches():
            kernel, eager = (self._times_of(who, steps) for who in (CANDIDATE, _EAGER))
            over, first = (_beyond(getattr(kernel, name)(), getattr(eager, name)()) for name in ("over", "first"))
            # a large call of eager may leave its decoys shorter than calls, which excuses nobody and accuses nobody
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
        """How much more processor time the mean visit takes than the median one, per call, over all launches."""
        found = [self._times_of(who, steps).above_the_median() for steps in self.of_launches()]
        return Excess(
            float(np.mean([item.us for item in found])), math.hypot(*(item.error_us for item in found)) / len(found)
        )


@dataclass(frozen=True)
class Gathered:
    """How much more the mean visit takes than the median one, beyond eager's and relative to the kernel's call.

    Medians do not see work that is done in a few calls for all others; means do. `share` is the mean over all
    configurations, `error` its standard error, since chance moves means.
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
        # taking waits off leaves a mean below the median, and eager's is of longer calls: it excuses, and never accuses
        shares.append((kernel.us - max(0.0, eager.us)) / usual_us)
        errors.append(math.hypot(kernel.error_us, eager.error_us) / usual_us)
    return Gathered(tuple(shares), float(np.mean(shares)), math.hypot(*errors) / len(errors))


def hidden_words(config: Config, fault: Fault) -> str:
    """The reason of a fault, without the details that would give a hidden configuration away."""
    if not config.hidden:
        return fault.reason
    return {
        Verdict.TIMEOUT: "a call took longer than the rules allow",
        Verdict.INCORRECT_VALUE: "values are further from the reference than the task allows",
        Verdict.INCORRECT_SHAPE: "a result has the wrong shape",
        Verdict.INCORRECT_DTYPE: "a result has the wrong dtype",
    }.get(
        fault.verdict,
        fault.reason if fault.verdict is not Verdict.RUNTIME_ERROR else "the kernel failed here",
    )


def with_decoys(call: CallResult, decoys: Sequence[CallResult]) -> CallResult:
    """`call` with the calls on decoys of the same visit."""
    return replace(call, carried_us=carried_us(decoys, call), decoys=tuple(decoys))


def carried_us(decoys: Sequence[CallResult], call: CallResult) -> float:
    """What `decoys` did beside computing, which could slow whoever comes next or be of use to `call`.

    That is work while they were frozen or should have been, and processor time far beyond that of `call`.
    """
    usual_us = _DECOY_FACTOR * call.used_us + _DECOY_SPARE_US
    return sum(decoy.woke_us + max(decoy.after_us, decoy.used_us - usual_us) for decoy in decoys)


def _beyond(kernel: Excess, eager: Excess) -> Excess:
    """By how much more, and what chance may explain: eager's own error, and the kernel's as far as it is no larger."""
    return Excess(kernel.us - eager.us, math.hypot(min(kernel.error_us, eager.error_us), eager.error_us))


def _at_least(excess: Excess, us: float) -> Excess:
    return replace(excess, us=max(us, excess.us))


def _certain_us(excess: Excess) -> float:
    return excess.us - _ERRORS_IN_DOUBT * excess.error_us


def visit_times(visits: Sequence[CallResult], decoys: float) -> VisitTimes:
    """Of at least one visit, if the median visit has so many `decoys`."""
    calls_us = _own_us(visits)
    usual_us = median_us(calls_us)
    first_us, others_us = np.zeros(len(visits)), np.zeros(len(visits))
    # the first decoy of a visit is slow for everybody, the others are calls like those that count
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
    """Processor time of each call without what the supervisor waited meanwhile, down to the usual call.

    On a very busy machine a contestant waits as well and does not spin, so that too much is taken off most calls. Then
    the usual call is one of the quickest.
    """
    used_us = np.array([call.used_us + call.woke_us for call in calls])
    without_us = used_us - np.array([call.waited_us for call in calls])
    usual_us = max(median_us(without_us), float(np.percentile(used_us, _QUICK)))
    own_us: NDArray[np.float64] = np.maximum(without_us, np.minimum(used_us, usual_us))
    return own_us
