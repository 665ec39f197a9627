"""Bounds how many processes, threads, names of files and mappings a sandbox has, where the system's kernel does not.

Linux counts a user's processes for each user namespace, so a limit that is set inside bubblewrap holds for one sandbox
(`isolation.py`); but it holds for nobody whom the machine knows as root, and without bubblewrap it counts whatever else
the user runs. Of a folder in memory it counts the pages of files, and bubblewrap sets no limit of their number: a
symbolic link takes a kilobyte of the kernel's memory and no page. And a mapping takes some of that memory and keeps a
file open that has no descriptor any more, of which a machine has so many in all: Linux limits mappings for each process
alone. So a process beside the supervisor counts twenty times a second and ends what has too many: `watch` starts it,
and this file is also its script. It also ends a sandbox of which a process has made Linux end others before it when
the machine has no memory left, which nothing else refuses where /proc can be written. Standard library only. Not
covered: what is started or made in between, and names and that order without bubblewrap.
"""

import functools
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_POLL_S = 0.05
_LOOK_AT_LEAST_S = 1.0  # at every sandbox, however little has changed on the machine
_NEW_TASKS = 32  # on the machine since the last look; fewer cannot be what it is for
# The same of open files and of memory that Linux keeps: to count mappings disturbs whoever has them
_NEW_FILES = 5_000
_NEW_KERNEL_KB = 32 << 10
_SHORT_SHARE = 0.25  # of the machine's memory: while less is available, each look asks who would be ended first
_ROUNDS_MAX = 1000  # of ending a tree that grows meanwhile
_LISTS_MAX = 5  # of the threads of a process that starts and ends them meanwhile
_FOLDERS_IN_MEMORY = ("/tmp", "/dev/shm")  # noqa: S108 - of the sandboxes
_TICKS_IN_S = os.sysconf("SC_CLK_TCK")
_IDLE_SHARE = 0.05  # of its time a processor may be idle while others are ready to run elsewhere
_LINE_MAX_BYTES = 4096  # so much is written at once, whoever else writes
_one_thread = threading.Lock()


@dataclass
class _Crowd:
    """A sandbox. `pidfd` means its first process, whatever number that gets."""

    pid: int
    pidfd: int
    tasks: int | None
    names: int | None
    mappings: int | None
    log: Path
    ends_first: bool  # none of its processes may be ended for want of memory later than `enter.py` wanted
    folders: tuple[str, ...] = ()  # in memory, once they are known


def watch(
    pid: int,
    log: Path,
    *,
    tasks: int | None = None,
    names: int | None = None,
    mappings: int | None = None,
    ends_first: bool = False,
) -> None:
    """From now on the process and all that it starts end once they are more than `tasks`; `log` then says so.

    So they do with more than `names` in one of the folders that they have in memory, or with more than `mappings`
    together while the machine's open files or the memory of its kernel become more. With `ends_first` they also end
    once one of them has lowered its `oom_score_adj`.
    """
    limits = {"tasks": tasks, "names": names, "mappings": mappings, "ends_first": ends_first}
    order = {"pid": pid, "log": str(log), **limits}
    line = json.dumps(order).encode() + b"\n"
    if len(line) > _LINE_MAX_BYTES:
        raise ValueError(f"the path of the log is too long: {log}")
    with _one_thread:
        try:
            os.write(_orders(), line)
        except BrokenPipeError:  # somebody has ended it
            with _watcher():  # closes the pipe
                _watcher.cache_clear()
            os.write(_orders(), line)


def _orders() -> int:
    """Where the process that watches reads what it is to watch."""
    orders = _watcher().stdin
    assert orders is not None  # noqa: S101 - it is a pipe
    return orders.fileno()


@functools.cache
def _watcher() -> subprocess.Popen[bytes]:
    """It ends with the last process that can give it orders."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def tasks_below(pid: int, limit: int) -> int:
    """The processes and threads from `pid` on; counted up to `limit` and a little more."""
    count = 0
    for item in tree_of(pid):
        with suppress(OSError):
            count += os.stat(f"/proc/{item}/task").st_nlink - 2
        if count > limit:
            break
    return count


def mappings_below(pid: int, limit: int) -> int:
    """Of all processes from `pid` on; counted up to `limit` and a little more."""
    count = 0
    for item in tree_of(pid):
        count += _mappings_of(item, limit - count)
        if count > limit:
            break
    return count


def _mappings_of(pid: int, limit: int) -> int:
    """All threads of a process have the same ones, but Linux shows none of a thread that has ended."""
    for _ in range(_LISTS_MAX):
        for thread in threads_of(pid):
            count = 0
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/maps", "rb", buffering=0) as file:
                while count <= limit and (part := file.read(1 << 16)):
                    count += part.count(b"\n")
            if count:
                return count
        if is_gone(pid):
            break
    return 0


def folders_in_memory(pid: int) -> tuple[str, ...]:
    """As we see those of the sandbox that bubblewrap makes as `pid`; none before they are there."""
    for inner in itertools.islice(tree_of(pid), 1, 3):  # its first process, and the one that this has started
        for thread in threads_of(inner):
            root = f"/proc/{inner}/task/{thread}/root"
            with suppress(OSError):  # that thread may have ended, also where it was the first one
                found = {f"{root}{folder}": folder for folder in _FOLDERS_IN_MEMORY}
                if all(os.stat(place).st_dev != os.stat(ours).st_dev for place, ours in found.items()):
                    return tuple(found)
    return ()


def _names_in(item: _Crowd) -> int:
    """The most in one of its folders; looks for these where the thread through which we see them has ended."""
    for _ in range(2):
        with suppress(OSError):
            found = [os.statvfs(folder) for folder in item.folders]
            if found:
                return max(each.f_files - each.f_ffree for each in found)
        item.folders = folders_in_memory(item.pid)
    return 0


def has_lowered(pid: int) -> bool:
    """Whether a process has a lower `oom_score_adj` than bubblewrap, of which all have inherited theirs."""
    scores: list[int] = []
    for one in tree_of(pid):
        with suppress(OSError, ValueError):
            scores.append(int(Path(f"/proc/{one}/oom_score_adj").read_text()))
    return bool(scores) and min(scores) < scores[0]


def tree_of(pid: int) -> Iterator[int]:
    """`pid` and all processes below it, each before its children."""
    waiting, seen = [pid], {pid}
    while waiting:
        item = waiting.pop()
        yield item
        new = [child for child in children_of(item) if child not in seen]
        seen.update(new)
        waiting += new


def children_of(pid: int) -> list[int]:
    """Of all threads of a process; none if it is gone."""
    found: list[int] = []
    for thread in threads_of(pid):
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def threads_of(pid: int | None) -> list[int]:
    """The threads of a process, the first one also when it has ended before the others; none if it is gone."""
    try:
        return [] if pid is None else [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def is_gone(pid: int) -> bool:
    """Whether all threads of a process have ended. If only the first one has, its state shows as that of the whole."""
    try:
        words = _stat(str(pid))
    except OSError:
        return True
    return words[0] in (b"Z", b"X") and int(words[17]) <= 1  # how many threads there are


def _stat(place: str) -> list[bytes]:
    """What /proc tells of a process or thread after its name, which may be any bytes."""
    return Path(f"/proc/{place}/stat").read_bytes().rpartition(b")")[2].split()


@dataclass(frozen=True)
class TreeWork:
    """Processor time of a process and all below it, ended ones included, and whether one of them could run now.

    Not `counts_all`: without the time of children for which nobody has waited and nobody will. `spare_s` is what the
    processors of the process had to spare since the machine was started, all of them together.
    """

    used_s: float
    is_ready: bool  # on a processor, or waiting for one that others use
    spare_s: float = 0.0
    counts_all: bool = True


def work_of(pid: int) -> TreeWork:
    """Zero for a process that is gone."""
    ticks, is_ready = 0, False
    for item in tree_of(pid):
        with suppress(OSError, IndexError, ValueError):
            ticks += sum(map(int, _stat(str(item))[11:15]))  # its own, and of children that it has waited for
        is_ready = is_ready or any(map(partial(_is_ready, item), threads_of(item)))
    return TreeWork(ticks / _TICKS_IN_S, is_ready, _spare_s(pid), counts_all=False)


def _spare_s(pid: int) -> float:
    """Idle time of the processors on which it may run, beyond the part that is idle also where all are busy."""
    try:
        names = {f"cpu{number}" for number in os.sched_getaffinity(pid)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    except OSError:
        return 0.0
    # user, nice, system, idle, iowait, irq, softirq, steal
    times = [list(map(int, words[1:9])) for words in lines if words[0] in names]
    return sum(ticks[3] + ticks[4] - _IDLE_SHARE * sum(ticks) for ticks in times) / _TICKS_IN_S


def _is_ready(pid: int, thread: int) -> bool:
    try:
        return _stat(f"{pid}/task/{thread}")[0] == b"R"
    except (OSError, IndexError):
        return False


def end_tree(pid: int) -> None:
    """Kills all that is below a process, to which whoever loses its parent comes (`enter.py`), then its group.

    The process itself is stopped meanwhile, so it starts no more. Without bubblewrap nothing else finds all of them.
    """
    with suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    for _ in range(_ROUNDS_MAX):
        alive = [item for item in tree_of(pid) if item != pid and not is_gone(item)]
        if not alive:
            break
        for item in alive:
            with suppress(OSError):
                os.kill(item, signal.SIGKILL)
    for end in (os.killpg, os.kill):  # it leads a group of its own, where nobody has changed that
        with suppress(OSError):
            end(pid, signal.SIGKILL)


def _end(item: _Crowd, why: str) -> None:
    """Says so first: once the child is gone, its supervisor looks for the mark, and authors read the log."""
    with suppress(OSError):
        mark_of(item.log).touch()
    with suppress(OSError):
        log = os.open(item.log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        os.write(log, f"\nended: it {why}\n".encode())
        os.close(log)
    end_tree(item.pid)


def mark_of(log: Path) -> Path:
    """The file that is there once a sandbox with this log was ended here. No sandbox can make or remove it."""
    return log.with_name(f"{log.name}.ended")


def _main() -> None:
    with suppress(OSError):  # so many others must not keep it from counting
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    watched: dict[int, _Crowd] = {}
    lines, looked_s = b"", 0.0
    tasks = _Growth(_tasks_of_the_machine, _NEW_TASKS)
    mapped = [_Growth(_files_of_the_machine, _NEW_FILES), _Growth(_kernel_memory_kb, _NEW_KERNEL_KB)]
    orders = _readable(0)
    while True:
        if orders.poll(_POLL_S * 1000 if watched else None):
            data = os.read(0, 1 << 16)
            if not data:
                return
            *whole, lines = (lines + data).split(b"\n")
            watched |= {item.pidfd: item for item in map(_registered, whole) if item is not None}
        now_s = time.monotonic()
        is_crowded = tasks.is_seen() or now_s - looked_s >= _LOOK_AT_LEAST_S
        at_scores = is_crowded or (any(item.ends_first for item in watched.values()) and _is_short_of_memory())
        at_mappings = any(growth.is_seen() for growth in mapped)
        _look(watched, at_tasks=is_crowded, at_mappings=at_mappings, at_scores=at_scores)
        if is_crowded:
            looked_s = now_s


def _registered(line: bytes) -> _Crowd | None:
    data = json.loads(line)
    try:
        return _Crowd(**(data | {"pidfd": os.pidfd_open(data["pid"]), "log": Path(data["log"])}))
    except ProcessLookupError:
        return None


def _look(watched: dict[int, _Crowd], *, at_tasks: bool, at_mappings: bool, at_scores: bool) -> None:
    for item in list(watched.values()):
        is_gone = bool(_readable(item.pidfd).poll(0))
        why = "" if is_gone else _too_many(item, at_tasks=at_tasks, at_mappings=at_mappings)
        if not (is_gone or why) and at_scores and item.ends_first and has_lowered(item.pid):
            why = "has lowered its oom_score_adj"
        if why:
            _end(item, why)
        if is_gone or why:
            os.close(item.pidfd)
            del watched[item.pidfd]


def _too_many(item: _Crowd, *, at_tasks: bool, at_mappings: bool) -> str:
    """What a sandbox has too many of."""
    if item.names is not None and _names_in(item) > item.names:
        return f"had more than {item.names} names in a folder"
    if at_tasks and item.tasks is not None and tasks_below(item.pid, item.tasks) > item.tasks:
        return f"had more than {item.tasks} processes and threads"
    if at_mappings and item.mappings is not None and mappings_below(item.pid, item.mappings) > item.mappings:
        return f"had more than {item.mappings} mappings of memory"
    return ""


def _readable(fd: int) -> select.poll:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll


@dataclass
class _Growth:
    """A number of the machine that is cheap to read and grows with any sandbox."""

    read: Callable[[], int]
    step: int
    least: int = 0  # since growth was seen last

    def is_seen(self) -> bool:
        """Whether it has become larger by `step` since it was seen to grow last, or was least since then."""
        now = self.read()
        is_larger = now - self.least >= self.step
        self.least = now if is_larger else min(self.least, now)
        return is_larger


def _tasks_of_the_machine() -> int:
    """0 where the system does not tell."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _files_of_the_machine() -> int:
    """Those that are open, with or without a descriptor; 0 where the system does not tell."""
    try:
        return int(Path("/proc/sys/fs/file-nr").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _kernel_memory_kb() -> int:
    """What it cannot give back, such as mappings; 0 where the system does not tell."""
    return _meminfo().get("SUnreclaim", 0)


def _is_short_of_memory() -> bool:
    found = _meminfo()
    return found.get("MemAvailable", 0) < _SHORT_SHARE * found.get("MemTotal", 0)


def _meminfo() -> dict[str, int]:
    """In kilobytes; empty where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}


if __name__ == "__main__":
    _main()
