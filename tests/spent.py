"""What each file of tests cost: the seconds it took, and the processor seconds of everything that ran for it.

The second figure is the one to compare on a shared machine. A file that needs many seconds and few of a processor
waits. A control group counts all processes that a process of the tests has started, those included that were killed or
still run; where none can be made, only children that ended and were waited for count. Does NOT count what is done
before the first test: imports and collection.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

SHOWN_FROM_S = 5.0
SHOWN_MAX = 40
_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))  # where version 2 may be mounted
_NAME = "kbench-tests-"


class ControlGroup:
    """A control group (version 2) of this process and of all that it starts from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def entered(cls) -> Self | None:
        """None where this process may not make one."""
        try:
            parent = _own_group()
            for left in parent.glob(f"{_NAME}*"):  # by a run that was killed
                with suppress(OSError):
                    left.rmdir()
            folder = parent / f"{_NAME}{os.getpid()}"
            folder.mkdir()
            (folder / "cgroup.procs").write_text(str(os.getpid()))
            group = cls(folder)
            group.used_s()
        except OSError:
            return None
        return group

    def used_s(self) -> float:
        """Processor seconds so far."""
        figures = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(figures["usage_usec"]) / 1e6

    def left(self) -> None:
        """This process and what it has left running go back to where it came from."""
        with suppress(OSError):
            for pid in (self._folder / "cgroup.procs").read_text().split():
                (self._folder.parent / "cgroup.procs").write_text(pid)
            self._folder.rmdir()


def _own_group() -> Path:
    """Raises OSError where there is no hierarchy of version 2."""
    name = next(
        (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "/"
    )
    for root in _HIERARCHIES:
        if (root / "cgroup.procs").exists():
            return root / name.lstrip("/")
    raise FileNotFoundError("no control groups of version 2")


class ProcessorClock:
    """Processor seconds since it was asked last: of the control group `enter` has made, or of ended children."""

    def __init__(self) -> None:
        self._group: ControlGroup | None = None
        self._last_s = self._now_s()

    def enter(self) -> None:
        self._group = ControlGroup.entered()
        self._last_s = self._now_s()

    def leave(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.left()

    @property
    def counts_all(self) -> bool:
        return self._group is not None

    def lap_s(self) -> float:
        before_s, self._last_s = self._last_s, self._now_s()
        return self._last_s - before_s

    def _now_s(self) -> float:
        return sum(os.times()[:4]) if self._group is None else self._group.used_s()


@dataclass
class FileCost:
    took_s: float = 0.0
    processor_s: float = 0.0


def by_file(reports: Iterable[Any]) -> dict[str, FileCost]:
    """The costs of the files of these reports of phases of tests; other reports of pytest are left out."""
    costs: dict[str, FileCost] = {}
    for report in reports:
        if hasattr(report, "processor_s"):
            cost = costs.setdefault(report.nodeid.partition("::")[0], FileCost())
            cost.took_s += report.duration
            cost.processor_s += report.processor_s
    return costs


def table(costs: dict[str, FileCost]) -> list[str]:
    """A line for each of the files that took longest, and one for all files; empty if none took long."""
    longest = sorted(costs, key=lambda file: costs[file].took_s, reverse=True)
    shown = [file for file in longest if costs[file].took_s >= SHOWN_FROM_S][:SHOWN_MAX]
    if not shown:
        return []
    total = FileCost(sum(cost.took_s for cost in costs.values()), sum(cost.processor_s for cost in costs.values()))
    lines = [(costs[file], file) for file in shown] + [(total, "all files")]
    return [f"{cost.took_s:8.1f} s {cost.processor_s:8.1f} s  {file}" for cost, file in lines]
