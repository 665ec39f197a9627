"""Judges two sources on one task in one sitting, on a processor, and says how their scores compare.

Each has a judging of its own, with its own processes and baselines. While they are timed they take turns after every
round, so changes in the speed of the machine meet both alike. Not covered: rankings, for which `judge` gives scores.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .report import Report
from .rules import Rules
from .sandbox.isolation import demand_isolation
from .scores.stats import PairedTimes, bootstrap_log_speedups, interval, mean_logs
from .source import NOBODY, Paths, Source, Step, StepListener, Watcher
from .stages import StagedJudging
from .tasks.spec import TaskSpec
from .tracks import CPU, open_track


@dataclass(frozen=True)
class JudgedTogether:
    """Both reports, and the score of the first over that of the second; None unless both have one."""

    first: Report
    second: Report
    ratio: float | None
    ci95: tuple[float, float] | None


def judge_together(first: Source, second: Source, task: TaskSpec, rules: Rules, paths: Paths) -> JudgedTogether:
    """Judges both, with the time limits of two judgings for the two. Raises as `judge` does."""
    isolation, turns = demand_isolation(public=False), _Turns(2)
    works = [
        StagedJudging(
            source,
            task,
            open_track(CPU, _for_two(rules), paths),
            False,
            Watcher(turns.after_round(number)),
            locked=True,
        )
        for number, source in enumerate((first, second))
    ]

    def judged(number: int) -> Report:
        with turns.of(number):
            return works[number].judged(isolation)

    with works[0].track.lock(NOBODY), ThreadPoolExecutor(2) as pool:
        one, other = pool.map(judged, range(2))
    if one.score is None or other.score is None:
        return JudgedTogether(one, other, None, None)
    ratio = one.score.speedup / other.score.speedup
    low, high = _ci95(works[0].times, works[1].times, rules)
    return JudgedTogether(one, other, ratio, (min(low, ratio), max(high, ratio)))


class _Turns:
    """Lets one of several threads work at a time."""

    def __init__(self, count: int) -> None:
        self._queue = list(range(count))
        self._changed = threading.Condition()

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """Waits for the first turn of thread `number`; when this is left, it has no turns any more."""
        self._wait(number)
        try:
            yield
        finally:
            with self._changed:
                self._queue.remove(number)
                self._changed.notify_all()

    def after_round(self, number: int) -> StepListener:
        """Lets the others work whenever thread `number` begins a round of timed calls."""

        def told(step: Step) -> None:
            if step.stage == "time" and step.state == "progress":
                with self._changed:
                    self._queue.append(self._queue.pop(0))
                    self._changed.notify_all()
                self._wait(number)

        return told

    def _wait(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue[0] == number)


def _for_two(rules: Rules) -> Rules:
    time, limits = rules.time, rules.limits
    return replace(
        rules,
        time=replace(time, budget_s=2 * time.budget_s),
        limits=replace(limits, judging_s=2 * limits.judging_s),
    )


def _ci95(first: Mapping[str, PairedTimes], second: Mapping[str, PairedTimes], rules: Rules) -> tuple[float, float]:
    """Of the ratio of two scores whose steps were made in turns: each resampling takes the same steps of both."""
    logs = []
    for one, other in ((first, second), (second, first)):
        times = [one[key].first(min(one[key].steps, other[key].steps)) for key in first]
        logs.append(mean_logs(bootstrap_log_speedups(times, rules.score.bootstrap_samples, seed=0), times))
    return interval(logs[0] - logs[1])
