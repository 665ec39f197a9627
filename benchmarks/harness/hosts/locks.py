"""Locks for one timing at a time per processor and per GPU, across all processes and data folders of a machine.

Builds share the processor's lock with each other but never with a timing. The next waiting process holds a turn lock,
so a process that has just released the lock cannot take it again first: after a timing, the builds that waited for it
may run, and no others. Not covered: the order among the processes that wait for the turn.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

from ..errors import Cancelled, SupervisorError
from ..source import Step, Watcher

HOST_IS_BUSY = "another submission is being timed or built on this machine"
_GPU_IS_BUSY = "another submission is being judged on this GPU"
_POLL_S = 0.2
_SHARED = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW  # everybody may put links into a temporary folder


@contextmanager
def machine_lock(name: str, text: str, stage: str, watcher: Watcher) -> Iterator[None]:
    """An exclusive lock. Reports `text` once while it waits; raises Cancelled."""
    with open_shared(f"kbench-{name}.lock") as lock:
        with open_shared(f"kbench-{name}.turn") as turn:
            waiting = Step(stage, "waiting", text=text)
            _wait_until(lambda: try_lock(turn) and try_lock(lock), waiting, watcher)
        yield


@contextmanager
def build_lock(
    name: str, text: str, stage: str, watcher: Watcher, *, places: int, kind: str = "build"
) -> Iterator[None]:
    """As `machine_lock`, but shared by as many builds of a `kind` as there are `places`."""
    with ExitStack() as stack:
        open_places = [stack.enter_context(open_shared(f"kbench-{name}.{kind}{place}")) for place in range(places)]
        lock = stack.enter_context(open_shared(f"kbench-{name}.lock"))
        mine: list[int] = []
        with open_shared(f"kbench-{name}.turn") as turn:

            def have() -> bool:
                mine.extend(islice(filter(try_lock, open_places), 1 - len(mine)))
                return bool(mine) and try_lock(turn, fcntl.LOCK_SH) and try_lock(lock, fcntl.LOCK_SH)

            _wait_until(have, Step(stage, "waiting", text=text), watcher)
        yield


def host_build_lock(stage: str, watcher: Watcher, *, kind: str = "build") -> AbstractContextManager[None]:
    """As many of a `kind` at a time as there are processors, and no timing on them meanwhile."""
    return build_lock("cpu", HOST_IS_BUSY, stage, watcher, places=len(os.sched_getaffinity(0)), kind=kind)


@contextmanager
def gpu_lock(uuid: str, stage: str, watcher: Watcher) -> Iterator[None]:
    """One at a time on a GPU, and no timing on the processors meanwhile: host code may keep all of them busy."""
    with machine_lock(f"gpu-{uuid}", _GPU_IS_BUSY, stage, watcher), host_build_lock(stage, watcher, kind="gpu"):
        yield


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """A lock among the processes of one data folder; waits silently."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def watched_file_lock(path: Path, waiting: Step, watcher: Watcher) -> Iterator[None]:
    """As `file_lock`, but tells `waiting` once and may be given up."""
    with path.open("w") as file:
        _wait_until(lambda: try_lock(file.fileno()), waiting, watcher)
        yield


def _wait_until(have: Callable[[], bool], waiting: Step, watcher: Watcher) -> None:
    told = False
    while not have():
        if not told:
            watcher.on_step(waiting)
        told = True
        if watcher.cancelled():
            raise Cancelled
        time.sleep(_POLL_S)


@contextmanager
def open_shared(name: str) -> Iterator[int]:
    """A lock file that every user of the machine may lock. Raises SupervisorError where another user left none."""
    path = Path(tempfile.gettempdir()) / name
    try:
        fd = _opened(path)
    except OSError as error:
        raise SupervisorError(f"the lock {path} cannot be used: {error.strerror}") from error
    try:
        if os.fstat(fd).st_uid == os.getuid() and stat.S_IMODE(os.fstat(fd).st_mode) != 0o666:
            os.fchmod(fd, 0o666)
        yield fd
    finally:
        os.close(fd)


def read_shared(name: str, most_bytes: int) -> tuple[bytes, float]:
    """The beginning of such a file, and when it was written last in seconds since the epoch; b"" and 0 without one.

    Creates none. Raises SupervisorError where another user left none that can be read.
    """
    path = Path(tempfile.gettempdir()) / name
    try:
        fd = os.open(path, _SHARED)
    except FileNotFoundError:
        return b"", 0.0
    except OSError as error:
        raise SupervisorError(f"the file {path} cannot be used: {error.strerror}") from error
    try:
        return os.pread(fd, most_bytes, 0), os.fstat(fd).st_mtime
    except OSError as error:
        raise SupervisorError(f"the file {path} cannot be used: {error.strerror}") from error
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    """Where temporary folders are protected (fs.protected_regular), nobody may open another's file with O_CREAT."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, _SHARED)
        with suppress(FileExistsError):
            return os.open(path, _SHARED | os.O_CREAT | os.O_EXCL, 0o666)


def try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
