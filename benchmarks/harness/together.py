"""Judges two sources on one task in one sitting, on a processor, so that their scores can be compared.

Each has a judging of its own, with its own processes and baselines. While they are timed they take turns after every
round, so changes in the speed of the machine meet both alike. Not covered: rankings, for which `judge` gives scores.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from .ahead import prepare_task
from .report import Report
from .rules import Rules
from .sandbox.isolation import demand_isolation
from .source import NOBODY, Paths, Source, Step, StepListener, Watcher
from .stages import StagedJudging
from .tasks.spec import TaskSpec
from .tracks import CPU, open_track


def judge_together(first: Source, second: Source, task: TaskSpec, rules: Rules, paths: Paths) -> tuple[Report, Report]:
    """The reports on both, with the time limits of two judgings for the two. Raises as `judge` does."""
    isolation, turns, ours = demand_isolation(public=False), _Turns(2), _for_two(rules)

    def judged(number: int, source: Source) -> Report:
        with turns.of(number):
            watcher = Watcher(turns.after_round(number))
            work = StagedJudging(source, task, open_track(CPU, ours, paths), False, watcher, locked=True)
            return work.judged(isolation)

    prepare_task(task, ours, paths, device=CPU)  # who prepares baselines waits for the lock that is held from here on
    with open_track(CPU, ours, paths).lock(NOBODY), ThreadPoolExecutor(2) as pool:
        one, other = pool.map(judged, range(2), (first, second))
    return one, other


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
