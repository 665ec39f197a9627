"""What torch.compile builds for a task on a GPU, prepared once per machine, and the peaks of that GPU."""

from dataclasses import replace
from pathlib import Path

from ..baselines import Preparation, baseline_room, key, task_folder
from ..contestants import Actor
from ..memory import describe, overlay
from .crew import gpu_filter, with_bytecode
from .discovery import Gpu


class GpuPreparation(Preparation):
    gpu: Gpu
    bytecode: Path | None

    def start(self, wanted: list[int], cache: Path, log: Path) -> Actor:
        room = baseline_room(self.task.folder / "reference.py", cache, self.rules)
        environment = {**room.environment, **self.gpu.environment()}
        child = Actor("gpu_baseline")
        try:
            room = replace(room, environment=environment, devices=self.gpu.nodes, memory_bytes=None)
            room = with_bytecode(room, self.bytecode, trusted=True)
            child.start(room, log, gpu_filter(), arguments=(self.gpu.accelerator,))
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


def name_of(work: GpuPreparation) -> str:
    """The name of everything that prepared baselines depend on."""
    gpu = work.gpu
    return key(work.task, work.configs, gpu.title, gpu.driver, gpu.accelerator)
