"""What torch.compile builds for a task on a GPU, prepared once per machine, and the peaks of that GPU."""

from collections.abc import Sequence
from pathlib import Path

from ..baselines import Preparation, Progress, baseline_room, key, task_folder
from ..contestants import Actor
from ..memory import describe, overlay
from ..rules import RuleSet
from ..spec import Config, TaskSpec
from .crew import gpu_filter, on_gpu
from .discovery import Gpu


class GpuPreparation(Preparation):
    def __init__(
        self,
        task: TaskSpec,
        configs: Sequence[Config],
        rules: RuleSet,
        progress: Progress,
        *,
        gpu: Gpu,
        bytecode: Path | None,
    ) -> None:
        super().__init__(task, configs, rules, progress)
        self._gpu, self._bytecode = gpu, bytecode

    @property
    def name(self) -> str:
        return key(self.task, self.configs, self._gpu.title, self._gpu.driver, self._gpu.accelerator)

    def start(self, wanted: list[int], cache: Path, log: Path) -> Actor:
        room = baseline_room(self.task.folder / "reference.py", cache, self.rules)
        child = Actor("gpu_baseline")
        try:
            room = on_gpu(room, self._gpu, self._bytecode, trusted=True)
            child.start(room, log, gpu_filter(), arguments=(self._gpu.accelerator,))
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
