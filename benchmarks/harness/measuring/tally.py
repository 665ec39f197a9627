"""What was measured of one configuration, and what its calls are charged beside their own time.

Only the median call counts, so a kernel could do its work where no median looks: before GO, while it should be stopped,
in calls on decoys, or in a few calls for all others. The first two are charged to the call itself, the other two to
every call of the kernel. Not covered: which calls are made (`calls.py`), statistics of the score (`scores/`).
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
_AHEAD_SPARE_US, _AHEAD_SPARE = 50.0, 0.1  # by so much the decoys may take longer than eager's do, the larger one
_MEDIAN_ERROR, _ERRORS_IN_DOUBT = 0.93, 2.0  # the standard error of a median of n values is 0.93 quartile ranges / √n


@dataclass(frozen=True)
class Excess:
    """A mean over a median, and its standard error, in microseconds."""

    us: float
    error_us: float


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
    throttled: int = 0  # steps that were dropped because clocks were lowered

    def note(self, comparison: CallComparison) -> None:
        self.checked += 1
        self.max_abs_error = max(self.max_abs_error, comparison.max_abs_error)
        self.max_rel_error = max(self.max_rel_error, comparison.max_rel_error)

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

    def ahead_us(self) -> NDArray[np.float64]:
        """What the kernel does in decoys for the calls that count, per call.

        Decoys take longer than calls, as caches are cold after a break. The kernel's may take as much longer as eager's
        in the same launch, and a little more, and as much more as chance may explain: a kernel could scatter at will,
        so by chance no more than eager. Whoever gains in the median call has done the work in most of the visits.
        """
        charged_us = np.zeros(len(self.launches))
        for steps in self.of_launches():
            kernel, eager = ([self.seen[who][place] for place in steps] for who in (CANDIDATE, _EAGER))
            usual_us = median_us(np.array([visit.used_us for visit in kernel]))
            (kernel_us, kernel_error_us), (eager_us, eager_error_us) = colder_us(kernel), colder_us(eager)
            doubt_us = _ERRORS_IN_DOUBT * math.hypot(min(kernel_error_us, eager_error_us), eager_error_us)
            allowed_us = eager_us + max(_AHEAD_SPARE_US, _AHEAD_SPARE * usual_us) + doubt_us
            charged_us[steps] = max(0.0, kernel_us - allowed_us)
        return charged_us

    def above_the_median(self, who: Contender) -> Excess:
        """How much more processor time the mean visit takes than the median one.

        While the supervisor waits for a processor a contestant spins. So its wait is taken off, down to the median
        visit. Were such visits left out, a kernel could work in them for all others, since it sees them coming.
        """
        means, squares = [], []
        for steps in self.of_launches():
            seen = [self.seen[who][place] for place in steps]
            visits_us, waited_us = (
                np.array([getattr(visit, name) for visit in seen]) for name in ("visit_us", "waited_us")
            )
            usual_us = median_us(visits_us)
            own_us = np.maximum(visits_us - waited_us, np.minimum(visits_us, usual_us))
            means.append(own_us.mean() - usual_us)
            squares.append(float(np.var(own_us)) / max(1, len(own_us) - 1))
        return Excess(float(np.mean(means)), math.sqrt(sum(squares)) / len(squares))


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
    """`call` with what the calls on decoys of the same visit have taken."""
    return replace(
        call,
        carried_us=carried_us(decoys, call),
        decoy_us=max((decoy.used_us for decoy in decoys), default=0.0),
        visit_us=call.used_us + call.woke_us + max((decoy.used_us + decoy.woke_us for decoy in decoys), default=0.0),
        waited_us=call.waited_us + sum(decoy.waited_us for decoy in decoys),
    )


def carried_us(decoys: Sequence[CallResult], call: CallResult) -> float:
    """What `decoys` did beside computing, which could slow whoever comes next or be of use to `call`.

    That is work while they were frozen or should have been, and processor time far beyond that of `call`.
    """
    usual_us = _DECOY_FACTOR * call.used_us + _DECOY_SPARE_US
    return sum(decoy.woke_us + max(decoy.after_us, decoy.used_us - usual_us) for decoy in decoys)


def colder_us(visits: Sequence[CallResult]) -> tuple[float, float]:
    """How much more processor time decoys take than the calls that count, both in the median of one launch.

    And the standard error of that: beside other work a contestant spins while the supervisor waits for a processor.
    """
    decoys_us, calls_us = (np.array([getattr(visit, name) for visit in visits]) for name in ("decoy_us", "used_us"))
    error_us = _MEDIAN_ERROR * math.hypot(iqr_us(decoys_us), iqr_us(calls_us)) / math.sqrt(len(visits))
    return max(0.0, median_us(decoys_us) - median_us(calls_us)), error_us
