"""The interface between jobs and a judge, and the judge of the site: the harness with the site's folders and settings.

`settings.KBENCH_JUDGE` names the class, so that tests run the real worker path with a fake. Does NOT cover states and
tables: a judge knows nothing of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from .. import emulator, harness
from ..emulator import EmulatorReport
from ..harness import Build, Device, Isolation, Paths, Profile, Report, Rules, Source, TaskSpec, Watcher
from .artefacts import site_shelf


@dataclass(frozen=True)
class Assignment:
    """What a judge is given. `device` is a name of this machine: `cpu`, `cuda:0`. `quick` is a look, not a ranking."""

    source: Source
    task: TaskSpec
    rules: Rules
    device: str
    quick: bool = False


class Judge(Protocol):
    """Blocking; raises the harness's errors."""

    def devices(self) -> tuple[Device, ...]: ...

    def compile(self, assignment: Assignment, watcher: Watcher) -> Build: ...

    def prepare(self, task: TaskSpec, rules: Rules, *, device: str, watcher: Watcher) -> None:
        """Makes ready of a task's baselines what needs no device; where nothing is missing, at once."""

    def is_prepared(self, task: TaskSpec, rules: Rules, *, device: str) -> bool:
        """Whether `prepare` has nothing left to do."""

    def judge(self, assignment: Assignment, watcher: Watcher) -> Report: ...

    def audit(self, assignment: Assignment, report: Report, watcher: Watcher) -> Report:
        """The report of an accepted kernel with what a profiler and a sanitizer say, or with another verdict."""

    def emulate(self, assignment: Assignment, watcher: Watcher) -> EmulatorReport:
        """Runs a CUDA source without a GPU."""

    def profile(self, assignment: Assignment, times_us: Mapping[str, float], watcher: Watcher) -> Profile:
        """What limits the kernel; `times_us` are those of a judging, by configuration."""

    def isolation(self) -> Isolation: ...

    def versions(self, device: str) -> dict[str, str]:
        """Of compiler, and of a GPU CUDA and driver."""

    def builds_ahead(self) -> tuple[Callable[[], None], ...]:
        """What a new machine builds before it judges on its processor, as jobs that may run at the same time."""

    def self_test(self, device: str) -> None:
        """Raises SupervisorError where a tiny good or a tiny bad kernel gets a wrong verdict."""


def site_judge() -> Judge:
    judge: Judge = import_string(settings.KBENCH_JUDGE)()
    return judge


class HarnessJudge:
    """The real one."""

    def __init__(self) -> None:
        self.paths = Paths(settings.DATA_DIR, site_shelf())

    def devices(self) -> tuple[Device, ...]:
        return harness.devices_here()

    def compile(self, assignment: Assignment, watcher: Watcher) -> Build:
        given = assignment
        return harness.compile_source(
            given.source, given.task, given.rules, self.paths, device=given.device, watcher=watcher
        )

    def prepare(self, task: TaskSpec, rules: Rules, *, device: str, watcher: Watcher) -> None:
        harness.prepare_task(task, rules, self.paths, device=device, watcher=watcher)

    def is_prepared(self, task: TaskSpec, rules: Rules, *, device: str) -> bool:
        return harness.is_prepared(task, rules, self.paths, device=device)

    def judge(self, assignment: Assignment, watcher: Watcher) -> Report:
        harness.keep_ready()  # a worker judges again and again
        report = harness.judge(
            assignment.source,
            assignment.task,
            assignment.rules,
            self.paths,
            device=assignment.device,
            quick=assignment.quick,
            public=settings.KBENCH_PUBLIC,
            watcher=watcher,
        )
        image = {"image": settings.KBENCH_IMAGE} if settings.KBENCH_IMAGE else {}
        return replace(report, environment={**report.environment, **image})

    def audit(self, assignment: Assignment, report: Report, watcher: Watcher) -> Report:
        given = assignment
        return harness.audit(
            given.source, given.task, given.rules, self.paths, report=report, device=given.device, watcher=watcher
        )

    def emulate(self, assignment: Assignment, watcher: Watcher) -> EmulatorReport:
        harness.demand_isolation(public=settings.KBENCH_PUBLIC)
        given = assignment
        return emulator.check(given.source, given.task, given.rules, self.paths, cancelled=watcher.cancelled)

    def profile(self, assignment: Assignment, times_us: Mapping[str, float], watcher: Watcher) -> Profile:
        return harness.profile(
            assignment.source,
            assignment.task,
            assignment.rules,
            self.paths,
            device=assignment.device,
            times_us=times_us,
            public=settings.KBENCH_PUBLIC,
            watcher=watcher,
        )

    def isolation(self) -> Isolation:
        return harness.isolation_in_force()

    def versions(self, device: str) -> dict[str, str]:
        return harness.versions_on(device)

    def builds_ahead(self) -> tuple[Callable[[], None], ...]:
        return harness.builds_ahead(harness.default_rules(settings.KBENCH_RULESET), self.paths)

    def self_test(self, device: str) -> None:
        harness.self_test(harness.default_rules(settings.KBENCH_RULESET), self.paths, device)
