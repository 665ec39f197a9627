"""What torch.compile builds for a task on a GPU, prepared once per machine, and the peaks of that GPU."""

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..compilers.builds import compiler_environment
from ..errors import LacksMemory
from ..measuring.answers import numbers_of
from ..measuring.baselines import MachineLock, Preparation, PreparedBaseline, baseline_room, task_folder
from ..measuring.contestants import Actor, WholeLimit
from ..measuring.faults import first_line, may_lack_gpu_memory
from ..measuring.memory import describe, overlay
from ..source import Paths
from .capacity import is_clearly_more, is_nearly_all
from .crew import gpu_filter, on_gpu
from .discovery import Gpu, free_bytes
from .marks import COUNT_MAX, mark_of_task, note, noted
from .room import demand_room

_TOO_LITTLE = "torch.compile found too little GPU memory for its baseline"
_NEEDS_MORE = "it needs more memory than this GPU has"
_OF_GPU = re.compile(r"OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation")
_MIB = 1 << 20
_TUNING = "cold calls, queued ahead"  # how kernels of torch.compile are chosen; what was built otherwise is built again


@dataclass(kw_only=True)
class GpuPreparation(Preparation):
    """With `in_turns`, a lock of the GPU, several may compile side by side, and each has the GPU to itself when it
    needs it. The memory of the GPU is not shared out: for a machine that judges nothing meanwhile. Too little of it
    says nothing about the task then.
    """

    gpu: Gpu
    bytecode: Path | None
    in_turns: MachineLock | None = None
    _turn: ExitStack = field(default_factory=ExitStack, init=False)
    _has_turn: bool = field(default=False, init=False)
    _room: tuple[int, int] | None = field(default=None, init=False)  # as the last child told it

    @property
    def machine(self) -> tuple[str, ...]:
        return (*compiler_environment().values(), self.gpu.title, self.gpu.driver, self.gpu.accelerator, _TUNING)

    def compiled(self, paths: Paths) -> PreparedBaseline:
        with self._turn:
            return super().compiled(paths)

    def _lacks_memory(self, problem: str) -> bool:
        return may_lack_gpu_memory(problem)

    def _compile(self, cache: Path, log: Path) -> None:
        """What found too little memory is compiled once more in a process of its own. Raises LacksMemory.

        If that had nearly all memory of the GPU, its configuration has no torch.compile here. Else another program may
        hold the memory, so nothing is kept of it, and it is tried again after an hour, or when there is clearly more.
        """
        if len(self.problems) < len(self.configs) and self.in_turns is None and self._has_lacked_as_much():
            raise LacksMemory(f"{_TOO_LITTLE} less than an hour ago")
        super()._compile(cache, log)
        for number in [number for number, problem in self.problems.items() if problem and self._lacks_memory(problem)]:
            del self.problems[number]
            self._room = None
            super()._compile(cache, log)
            problem = self.problems[number]
            if problem and self._lacks_memory(problem):
                self._explain_lack(number, problem)

    @property
    def _mark(self) -> str:
        return f"unprepared {self.gpu.uuid} {mark_of_task(self.task)}"

    def _has_lacked_as_much(self) -> bool:
        """Whether it has lately failed for want of memory, and there is not clearly more now."""
        lacked_mib = noted(self._mark)
        if not lacked_mib:
            return False
        demand_room(self.gpu)  # as for what failed
        now_bytes = free_bytes(self.gpu)
        return now_bytes is None or not is_clearly_more(now_bytes, lacked_mib * _MIB, self.gpu.memory_bytes)

    def _explain_lack(self, number: int, problem: str) -> None:
        """Raises LacksMemory, with a note for later judgings, unless the process had the GPU's memory for itself."""
        of_gpu = _OF_GPU.search(problem) is not None  # a compiler may lack memory of the host, for a while
        if of_gpu and self.in_turns is None and self._room is not None and is_nearly_all(*self._room):
            self.problems[number] = _NEEDS_MORE
            return
        del self.problems[number]
        if self.in_turns is None:
            note(self._mark, COUNT_MAX if self._room is None else max(1, self._room[0] // _MIB))
        raise LacksMemory(f"{_TOO_LITTLE} ({self.configs[number].key}): {first_line(problem)}")

    def start(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Actor:
        if wanted:  # torch.compile tries kernels at full size; an errand needs little, and a session may be open
            demand_room(self.gpu)
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
                    "in_turns": self.in_turns is not None,
                }
            )
            failed.pop_all()
        return child

    def _record(self, child: Actor, number: int, message: dict[str, Any]) -> None:
        """And how much memory was left to it."""
        super()._record(child, number, message)
        if message.get("room"):
            free, total = numbers_of(message, "room", 2, child.child)
            self._room = (int(free), int(total))

    def _note(self, child: Actor, message: dict[str, Any], limit: WholeLimit) -> None:
        """Hands the GPU over in between; waiting for it is not the child's time."""
        if self.in_turns is None or "gpu" not in message:
            return
        if message["gpu"] != "wanted":
            self._turn.close()
            self._has_turn = False
            return
        with limit.interrupted():
            if not self._has_turn:
                self._turn.enter_context(self.in_turns(self.watcher))
                self._has_turn = True
                demand_room(self.gpu)  # a session may have come since
            child.link.send(turn=True)
