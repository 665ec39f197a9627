"""Work that can be done before a judging: compiling a source, and compiling the baselines of a task.

A judging then finds both in their caches. Not covered: when it is worth it (the site and `lab` decide).
"""

import time
from contextlib import nullcontext

from .compilers import builds
from .compilers.builds import Build
from .errors import UsageError
from .rules import Rules
from .source import NOBODY, Paths, Source, Step, Watcher
from .tasks.spec import TaskSpec
from .tracks import GpuTrack, open_track


def compile_source(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    device: str = "cpu",
    watcher: Watcher = NOBODY,
) -> Build:
    """Compiles ahead of `judge`, which then finds the build in the cache. On a CPU it waits for timings."""
    track = open_track(device, rules, paths)
    there = builds.kept(source, rules, paths, target=track.target)
    with nullcontext() if there else track.build_lock(watcher):
        watcher.on_step(Step("compile", "started", text=task.name))
        return there or builds.build(source, rules, paths, target=track.target, cancelled=watcher.cancelled)


def prepare_task(
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    device: str = "cpu",
    watcher: Watcher = NOBODY,
) -> None:
    """Compiles the baselines of `task` ahead of `judge`, where that takes no device from a judging: on a CPU.

    Its steps are reported as progress of compiling. Raises Overloaded, which tells nothing of task or device.
    """
    track = open_track(device, rules, paths)
    if track.device.device_class != "cpu":
        return
    preparation = track.preparation(task, watcher, stage="compile")
    with preparation.turn(paths, track.build_lock):
        preparation.compiled(paths)


def prepare_side_by_side(task: TaskSpec, rules: Rules, paths: Paths, *, device: str) -> float:
    """Compiles the baselines of `task` on a GPU that judges nothing meanwhile, in seconds.

    Threads may call it for as many tasks as there is memory for: the GPU is one's alone when torch.compile tries
    kernels. Raises UsageError for a device that is no GPU, SupervisorError.
    """
    track, began_s = open_track(device, rules, paths), time.monotonic()
    if not isinstance(track, GpuTrack):
        raise UsageError("baselines are prepared side by side on GPUs only")
    preparation = track.preparation(task, NOBODY, stage="prepare", in_turns=True)
    with preparation.turn(paths, lambda _: nullcontext()):
        preparation.compiled(paths)
    return time.monotonic() - began_s


def is_prepared(task: TaskSpec, rules: Rules, paths: Paths, *, device: str = "cpu") -> bool:
    """Whether `prepare_task` has nothing left to do."""
    track = open_track(device, rules, paths)
    return track.device.device_class != "cpu" or track.preparation(task, NOBODY, stage="prepare").is_ready(paths)
