"""One timing at a time: a lock per processor and per GPU, across all processes and data folders of a machine.

Whoever waits next holds the turn, so that one who has just let go cannot go first again. Not covered: the order among
those who wait for the turn.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import Cancelled
from .source import CancelCheck, Step, StepListener

_POLL_S = 0.2


@contextmanager
def machine_lock(name: str, text: str, on_step: StepListener, stage: str, cancelled: CancelCheck) -> Iterator[None]:
    """Held while the block runs. Says `text` once while it waits; raises Cancelled."""
    folder, told = Path(tempfile.gettempdir()), False
    with _open_shared(folder / f"kbench-{name}.lock") as lock:
        with _open_shared(folder / f"kbench-{name}.turn") as turn:
            while not (_try_lock(turn) and _try_lock(lock)):
                if not told:
                    on_step(Step(stage, "waiting", text=text))
                told = True
                if cancelled():
                    raise Cancelled
                time.sleep(_POLL_S)
        yield


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Among the processes of one data folder; waits without a word."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _open_shared(path: Path) -> Iterator[int]:
    """A lock file that every user of the machine may lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if os.fstat(fd).st_uid == os.getuid() and stat.S_IMODE(os.fstat(fd).st_mode) != 0o666:
            os.fchmod(fd, 0o666)
        yield fd
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
