"""What torch.compile builds for a task on a GPU, prepared once per machine, and the peaks of that GPU."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..compilers.builds import compiler_environment
from ..measuring.baselines import Preparation, baseline_room, task_folder
from ..measuring.contestants import Actor
from ..measuring.memory import describe, overlay
from .crew import gpu_filter, on_gpu
from .discovery import Gpu


@dataclass(kw_only=True)
class GpuPreparation(Preparation):
    gpu: Gpu
    bytecode: Path | None

    @property
    def machine(self) -> tuple[str, ...]:
        return (*compiler_environment().values(), self.gpu.title, self.gpu.driver, self.gpu.accelerator)

    def start(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Actor:
        room = baseline_room(self.task.folder / "reference.py", cache, self.rules)
        child = Actor("gpu.baseline")
        with ExitStack() as failed:
            failed.callback(child.kill)
            room = on_gpu(room, self.gpu, self.bytecode)
            child.start(room, log, gpu_filter(), arguments=(self.gpu.accelerator,))
            child.open(
                {
                    "configs": describe(self.configs, overlay(self.configs, [1] * len(self.configs))),
                    "direction": self.task.direction,
                    "task": task_folder(self.task),
                    "prepare": True,
                    "wanted": wanted,
                    "instead": instead,
                }
            )
            failed.pop_all()
        return child
