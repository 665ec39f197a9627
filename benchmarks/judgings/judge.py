"""The interface between jobs and a judge, and the judge of the site: the harness with the site's folders and settings.

`settings.KBENCH_JUDGE` names the class, so that tests run the real worker path with a fake. Does NOT cover states and
tables: a judge knows nothing of them.
"""

from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from .. import harness
from ..harness import Build, CancelCheck, Device, Isolation, Paths, Report, Rules, Source, StepListener, TaskSpec
from .artefacts import site_shelf


class Judge(Protocol):
    """Blocking; raises the harness's errors. `device` is a name of this machine: `cpu`, `cuda:0`."""

    def devices(self) -> tuple[Device, ...]: ...

    def compile(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Build: ...

    def prepare(
        self, task: TaskSpec, rules: Rules, *, device: str, on_step: StepListener, cancelled: CancelCheck
    ) -> None:
        """Makes ready of a task's baselines what needs no device; where nothing is missing, at once."""

    def judge(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        quick: bool,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Report: ...

    def audit(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        report: Report,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Report:
        """The report of an accepted kernel with what a profiler and a sanitizer say, or with another verdict."""

    def isolation(self) -> Isolation: ...

    def versions(self, device: str) -> dict[str, str]:
        """Of compiler, and of a GPU CUDA and driver."""

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

    def compile(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Build:
        return harness.compile_source(
            source, task, rules, self.paths, device=device, on_step=on_step, cancelled=cancelled
        )

    def prepare(
        self, task: TaskSpec, rules: Rules, *, device: str, on_step: StepListener, cancelled: CancelCheck
    ) -> None:
        harness.prepare_task(task, rules, self.paths, device=device, on_step=on_step, cancelled=cancelled)

    def judge(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        quick: bool,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Report:
        harness.keep_ready()  # a worker judges again and again
        return harness.judge(
            source,
            task,
            rules,
            self.paths,
            device=device,
            quick=quick,
            public=settings.KBENCH_PUBLIC,
            on_step=on_step,
            cancelled=cancelled,
        )

    def audit(
        self,
        source: Source,
        task: TaskSpec,
        rules: Rules,
        *,
        device: str,
        report: Report,
        on_step: StepListener,
        cancelled: CancelCheck,
    ) -> Report:
        return harness.audit(
            source, task, rules, self.paths, device=device, report=report, on_step=on_step, cancelled=cancelled
        )

    def isolation(self) -> Isolation:
        return harness.isolation_in_force()

    def versions(self, device: str) -> dict[str, str]:
        return harness.versions_on(device)

    def self_test(self, device: str) -> None:
        harness.self_test(harness.default_rules(settings.KBENCH_RULESET), self.paths, device)
