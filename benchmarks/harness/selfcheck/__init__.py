"""Tests a device before it judges: a correct and an incorrect kernel in each language must get the right verdicts.

A worker runs this at its start and after an internal error, and takes no work if it fails. The kernels are for
mnist_linear_relu/forward and lie in `kernels/`. Not covered: how fast or how quiet the machine is.
"""

from dataclasses import replace
from pathlib import Path

from ..errors import SupervisorError
from ..languages import LANGUAGES
from ..report import Report, Verdict
from ..rules import Rules
from ..source import Paths, Source
from ..stages import judge
from ..tasks.spec import TaskSpec, find_task
from ..tracks import open_track

_KERNELS = Path(__file__).parent / "kernels"
_EXPECTED = {"right": Verdict.PASS, "wrong": Verdict.INCORRECT_VALUE}
_ATTEMPTS = 3
_STEPS = {"steps_per_config": 3, "min_steps_per_config": 3}


def _judged(source: Source, task: TaskSpec, rules: Rules, paths: Paths, device: str) -> Report:
    """A verdict that is our own fault, such as a noisy moment, is asked for again."""
    for _ in range(_ATTEMPTS):
        report = judge(source, task, rules, paths, device=device, quick=True)
        if not report.verdict.ours:
            break
    return report


def self_test(rules: Rules, paths: Paths, device: str = "cpu") -> None:
    """Raises SupervisorError if a verdict is not the expected one."""
    task = find_task(_KERNELS.parents[2] / "suites", "mnist_linear_relu/forward")
    short = replace(rules, time=replace(rules.time, **_STEPS))
    wanted = open_track(device, rules, paths).device.device_class
    proving = (item for item in LANGUAGES.values() if item.device_classes[0] == wanted and not item.is_module)
    for language in proving:
        for name, expected in _EXPECTED.items():
            file = _KERNELS / f"{name}{language.suffix}"
            report = _judged(Source(file.read_text(), language.name), task, short, paths, device)
            if report.verdict is not expected:
                found = f"{report.verdict} for {file.name}, not {expected}: {report.reason}"
                raise SupervisorError(f"the self-test of {device} got {found}")
