"""What torch.compile builds for a task on a GPU, prepared once per machine, and the peaks of that GPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..baselines import Preparation, PreparedBaseline, Progress, baseline_room, key, task_folder
from ..contestants import Actor
from ..memory import describe, overlay
from ..rules import RuleSet
from ..source import Paths
from ..spec import Config, TaskSpec
from .crew import gpu_filter
from .discovery import Gpu


def prepare(
    task: TaskSpec, configs: Sequence[Config], rules: RuleSet, paths: Paths, *, gpu: Gpu, progress: Progress
) -> PreparedBaseline:
    """The prepared baselines of `task` on `gpu`, made now if this machine does not have them yet."""
    work = GpuPreparation(task, configs, rules, progress)
    work.gpu = gpu
    return work.kept(paths, key(task, configs, gpu.title, gpu.driver, gpu.accelerator))


class GpuPreparation(Preparation):
    gpu: Gpu

    def start(self, wanted: list[int], cache: Path, log: Path) -> Actor:
        room = baseline_room(self.task.folder / "reference.py", cache, self.rules)
        environment = {**room.environment, **self.gpu.environment()}
        child = Actor("gpu_baseline")
        try:
            child.start(
                replace(room, environment=environment, devices=self.gpu.nodes, memory_bytes=None),
                log,
                gpu_filter(),
                arguments=(self.gpu.accelerator,),
            )
            child.open(
                {
                    "configs": describe(self.configs, overlay(self.configs, [1] * len(self.configs))),
                    "direction": self.task.direction,
                    "task": task_folder(self.task),
                    "prepare": True,
                    "wanted": wanted,
                }
            )
        except BaseException:
            child.kill()
            raise
        return child
