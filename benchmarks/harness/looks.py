"""Quick judgings of one submission after the other, on one task and one device: for searches that look at many.

On a processor the referee, eager and the inputs stay between two looks (`measuring/standing.py`), on a GPU nothing
does. The machine's lock is held during a look only. Not covered: rankings; what a look says counts nowhere.
"""

from dataclasses import dataclass, field

from .measuring.standing import SessionKeeper
from .report import Report
from .rules import Rules
from .source import NOBODY, Paths, Source, Watcher
from .stages import look
from .tasks.spec import TaskSpec


@dataclass
class Looks:
    """`judge` and `close` are called by the same thread: Linux ends a child with the thread that started it."""

    task: TaskSpec
    rules: Rules
    paths: Paths
    device: str
    _keeper: SessionKeeper = field(init=False)

    def __post_init__(self) -> None:
        self._keeper = SessionKeeper(self.paths.scratch)

    def judge(self, source: Source, watcher: Watcher = NOBODY) -> Report:
        """A quick judging. Raises as `judge` does."""
        device, keeper = self.device, self._keeper
        return look(source, self.task, self.rules, self.paths, device=device, keeper=keeper, watcher=watcher)

    def close(self) -> None:
        self._keeper.close()
