"""Tests a device before it judges: a correct and an incorrect kernel in each language must get the right verdicts.

A worker runs this at its start and after an internal error, and takes no work if it fails. The kernels are for
mnist_linear_relu/forward and lie in `kernels/`. What a CPU needs for it and for every judging can be built ahead.
Not covered: how fast or how quiet the machine is.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ..compilers import builds
from ..errors import SupervisorError
from ..languages import LANGUAGES
from ..report import Report, Verdict
from ..rules import Rules
from ..source import NOBODY, Paths, Source
from ..stages import judge
from ..tasks.spec import TaskSpec, find_task
from ..tracks import CPU, CpuTrack, host_ahead_lock, open_track

_KERNELS = Path(__file__).parent / "kernels"
_EXPECTED = {"right": Verdict.PASS, "wrong": Verdict.INCORRECT_VALUE}
_ATTEMPTS = 3
_STEPS = {"steps_per_config": 3, "min_steps_per_config": 3}


def _judged(source: Source, task: TaskSpec, rules: Rules, paths: Paths, device: str) -> Report:
    """Judges again if the verdict is our own fault, such as NOISY."""
    for _ in range(_ATTEMPTS):
        report = judge(source, task, rules, paths, device=device, quick=True, rehearsal=True)
        if not report.verdict.ours:
            break
    return report


def self_test(rules: Rules, paths: Paths, device: str = "cpu") -> None:
    """Raises SupervisorError if a verdict is not the expected one."""
    short = replace(rules, time=replace(rules.time, **_STEPS))
    wanted = open_track(device, rules, paths).device.device_class
    for file, source, expected in _kernels(wanted):
        report = _judged(source, _task(), short, paths, device)
        if report.verdict is not expected:
            found = f"{report.verdict} for {file.name}, not {expected}: {report.reason}"
            raise SupervisorError(f"the self-test of {device} got {found}")


def builds_ahead(rules: Rules, paths: Paths) -> tuple[Callable[[], None], ...]:
    """What a new machine builds before it judges on its processor, as jobs that may run at the same time.

    Whatever has not been built ahead is built by the first who needs it.
    """
    track = CpuTrack(rules, paths)

    def tools() -> None:
        with host_ahead_lock():
            track.prepare_tools()
            for _, source, _ in _kernels(CPU):
                builds.build(source, rules, paths)

    def baselines() -> None:
        """Of the task that the guides begin with; what torch.compile learns of the machine serves every other task."""
        preparation = track.preparation(_task(), NOBODY, stage="prepare")
        with preparation.turn(paths, lambda _: host_ahead_lock()):
            preparation.compiled(paths)

    return tools, baselines


def _task() -> TaskSpec:
    return find_task(_KERNELS.parents[2] / "suites", "mnist_linear_relu/forward")


def _kernels(device_class: str) -> Iterator[tuple[Path, Source, Verdict]]:
    """Those of the languages of a class of devices, with the verdict that each must get."""
    for language in LANGUAGES.values():
        if language.device_classes[0] == device_class and not language.is_module and language.package is None:
            for name, expected in _EXPECTED.items():
                file = _KERNELS / f"{name}{language.suffix}"
                yield file, Source(file.read_text(), language.name), expected
