"""Quick judgings of one submission after the other, on one task and one device: for searches that look at many.

Referee, eager and the inputs stay between two looks (`measuring/standing.py`, `gpu/standing.py`). What cannot be looked
at so on a GPU gets a quick judging of its own. The machine's lock is held during a look only. Not covered: rankings;
what a look says counts nowhere.
"""

from dataclasses import dataclass, field, replace

from .errors import ChildSurvived, NotStanding, SupervisorError
from .gpu.standing import GpuSessionKeeper
from .measuring.standing import SessionKeeper
from .report import Report
from .rules import Rules
from .source import NOBODY, Paths, Source, Watcher
from .stages import judge, look
from .tasks.spec import TaskSpec
from .tracks import CPU, open_track

_BROKEN_MAX = 2  # sessions that stay and break off on a GPU, before the rest is judged one by one


@dataclass
class Looks:
    """`judge` and `close` are called by the same thread: Linux ends a child with the thread that started it."""

    task: TaskSpec
    rules: Rules
    paths: Paths
    device: str
    broken: list[str] = field(default_factory=list)  # why sessions that stay broke off, on a GPU
    _keeper: SessionKeeper | GpuSessionKeeper = field(init=False)

    def __post_init__(self) -> None:
        on_cpu = open_track(self.device, self.rules, self.paths).device.device_class == CPU
        self._keeper = SessionKeeper(self.paths.scratch) if on_cpu else GpuSessionKeeper()

    def judge(self, source: Source, watcher: Watcher = NOBODY) -> Report:
        """A quick judging. On a GPU the report says why it was judged alone, if it was. Raises as `judge` does."""
        asked = (source, self.task, self.rules, self.paths)
        if isinstance(self._keeper, SessionKeeper):
            return look(*asked, device=self.device, keeper=self._keeper, watcher=watcher)
        alone = f"{_BROKEN_MAX} sessions broke off"
        if len(self.broken) < _BROKEN_MAX:
            try:
                return look(*asked, device=self.device, keeper=self._keeper, watcher=watcher)
            except NotStanding as error:
                alone = str(error)
            except ChildSurvived:
                raise
            except SupervisorError as error:
                alone = str(error)
                self.broken.append(alone)
        report = judge(*asked, device=self.device, quick=True, watcher=watcher)
        return replace(report, environment={**report.environment, "judged_alone": alone[:600]})

    def close(self) -> None:
        self._keeper.close()
