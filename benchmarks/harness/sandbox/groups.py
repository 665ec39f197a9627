"""Bounds the memory of a whole sandbox by a control group of its own, where the operator has given us some to make.

The limits of `isolation.py` hold for each process, and know only some kinds of memory. A group counts all that the
processes of a sandbox take together: pages, files in memory, and what the system's kernel keeps for them, such as names
of files, pipes and semaphores. `KBENCH_CGROUP` names a folder of cgroup v2 that belongs to this user and holds no
process but this program's, as systemd makes for a unit with `Delegate=`; or a folder of the memory hierarchy of
version 1. Without it there are no groups. Not covered: memory of GPUs, and what processes outside touched first, such
as inputs that the judge writes.
"""

import functools
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import IsolationError

_PREFIX = "kbench-"
_OURS = "kbench"  # what is no sandbox, as version 2 allows processes in the leaves alone
_TRIED_BYTES = 64 << 20
_OWN_TASKS = 8  # bubblewrap, its first process, and the tools that set limits and then become something else
_AT_ONCE_BYTES = 1 << 20  # so much a processor may take from a group before it is counted, and some more
_SHARE = 0.5  # of the memory there is, for whoever has no limit: with more it takes it from all others
_REMOVED_WITHIN_S = 2.0  # the last processes are on their way out
_LIMITS = (("memory.max", "memory.swap.max"), ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"))


@dataclass(frozen=True)
class Group:
    """The group of one sandbox. `limits_tasks`: Linux holds it to its number of processes and threads, too."""

    folder: Path
    memory_bytes: int
    limits_tasks: bool

    @property
    def door(self) -> str:
        """The file by which a process enters: whoever writes 0 is in."""
        return str(self.folder / "cgroup.procs")

    def has_overrun(self) -> bool:
        """Whether Linux has ended a process of it because the group had reached its limit, not the machine."""
        return self._has_ended_one() and self._was_full()

    def met_shortage(self) -> bool:
        """Whether Linux has ended a process of it because the machine had no memory left, not the group."""
        return self._has_ended_one() and not self._was_full()

    def _has_ended_one(self) -> bool:
        return self._events.get("oom_kill", "0") != "0"

    def _was_full(self) -> bool:
        """Version 1 does not always count how often the limit was reached."""
        if "oom" in self._events:
            return self._events["oom"] != "0"
        most = _words(self.folder / "memory.max_usage_in_bytes")
        return bool(most) and int(most[0]) > self.memory_bytes - _AT_ONCE_BYTES

    @property
    def _events(self) -> dict[str, str]:
        return _pairs(self.folder / "memory.events") or _pairs(self.folder / "memory.oom_control")

    def used_s(self) -> float | None:
        """Processor time of all that were ever in it; None with version 1, whose groups of memory do not count it."""
        used_us = _pairs(self.folder / "cpu.stat").get("usage_usec")
        return None if used_us is None else int(used_us) / 1e6

    def end(self) -> None:
        """Kills what is left in it, and removes it. If that fails, a process that starts after this one removes it."""
        with suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1")
        until = time.monotonic() + _REMOVED_WITHIN_S
        while not _is_removed(self.folder) and time.monotonic() < until:
            time.sleep(0.002)


@functools.cache
def home() -> Path | None:
    """Below which folder groups can be made, tried once; None without `KBENCH_CGROUP`.

    Raises IsolationError if that folder cannot be used: whoever names it relies on it.
    """
    named = os.environ.get("KBENCH_CGROUP", "")
    if not named:
        return None
    folder = Path(named)
    try:
        _share_controllers(folder)
        _sweep(folder)
        group = _made(folder, _TRIED_BYTES, 1)
        try:
            enters = ["/bin/sh", "-c", 'echo 0 > "$1"', "sh", group.door]
            subprocess.run(enters, capture_output=True, text=True, timeout=20, check=True)
        finally:
            group.end()
    except subprocess.CalledProcessError as error:
        raise IsolationError(f"KBENCH_CGROUP={named}: a process cannot enter a group there: {error.stderr}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IsolationError(f"KBENCH_CGROUP={named} cannot hold the groups of sandboxes: {error}") from error
    return folder


def new_group(memory_bytes: int | None, tasks: int) -> Group | None:
    """For one sandbox; None where there are no groups. Raises IsolationError, as `home` does.

    Without `memory_bytes` it may have a share of the memory that all groups can have together.
    """
    folder = home()
    if folder is None:
        return None
    try:
        return _made(folder, int(_SHARE * _memory_bytes(folder)) if memory_bytes is None else memory_bytes, tasks)
    except OSError as error:
        raise IsolationError(f"no control group could be made for a sandbox: {error}") from error


def ended_for_memory() -> int:
    """How many processes of this machine Linux has ended for want of memory; 0 where it does not tell."""
    return int(_pairs(Path("/proc/vmstat")).get("oom_kill", "0"))


def _memory_bytes(folder: Path) -> int:
    """What the groups below `folder` can have together: the machine's memory, or less where a group above has a limit.

    A container does not always see the groups above its own.
    """
    files = [above / limit for above in (folder, *folder.parents) for limit, _ in _LIMITS]
    given = [int(words[0]) for file in files if (words := _words(file)) and words[0].isdecimal()]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *given])


def _share_controllers(folder: Path) -> None:
    """Lets groups below `folder` have limits. Version 2 demands that no process is in it then."""
    control = folder / "cgroup.subtree_control"
    if not control.exists() or {"memory", "pids"} <= set(_words(control)):
        return
    ours = folder / _OURS
    ours.mkdir(exist_ok=True)
    for pid in _words(folder / "cgroup.procs"):
        with suppress(ProcessLookupError):
            (ours / "cgroup.procs").write_text(pid)
    control.write_text("+memory +pids")


def _sweep(folder: Path) -> None:
    """Removes groups whose maker is gone; one with processes stays."""
    for item in folder.glob(f"{_PREFIX}*"):
        maker = item.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", maker).exists():
            _is_removed(item)


def _made(folder: Path, memory_bytes: int, tasks: int) -> Group:
    item = folder / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    item.mkdir()
    limits = next((names for names in _LIMITS if (item / names[0]).exists()), None)
    if limits is None:
        _is_removed(item)
        raise OSError("its groups have no limit of memory")
    in_all = 0 if limits[1] == "memory.swap.max" else memory_bytes  # version 1 limits memory and swap together
    settings = {"pids.max": tasks + _OWN_TASKS, "memory.oom.group": 1, limits[0]: memory_bytes, limits[1]: in_all}
    for name, value in settings.items():
        if (item / name).exists():
            (item / name).write_text(str(value))
    return Group(item, memory_bytes, (item / "pids.max").exists())


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _pairs(file: Path) -> dict[str, str]:
    words = _words(file)
    return dict(zip(words[::2], words[1::2], strict=True))


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
