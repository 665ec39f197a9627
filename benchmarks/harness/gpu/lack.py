"""Decides who is to blame if a GPU has too little memory: sessions that wait for other submissions, or nobody.

Sessions that wait hold memory which a judging may need. If it lacks some, they are ended and the verdict is NOISY. For
an hour, judgings of that task on any GPU of this machine have such sessions ended before they start, and no session is
kept for the task. What still lacks memory then is the submission's fault if the judging works without it. Not covered:
how much memory a judging takes (`capacity.py`).
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ..errors import LacksMemory, RefereeError
from ..hosts.locks import open_shared
from ..measuring.faults import NO_MEMORY, Fault
from ..report import Verdict
from .discovery import Gpu
from .room import demand_room

_CROWDED_S = 3600.0


def lacked_memory(error: Exception) -> bool:
    """Whether `error` says that there was too little memory, for the submission or for the judge."""
    if isinstance(error, Fault):
        return error.verdict is Verdict.OUT_OF_MEMORY
    return isinstance(error, RefereeError) and (isinstance(error, LacksMemory) or bool(NO_MEMORY.search(str(error))))


def is_crowded(task: str) -> bool:
    """Whether a judging of `task` on this machine has lately lacked memory that sessions could have held."""
    with _mark(task) as file:
        found = os.fstat(file)
    return found.st_size > 0 and time.time() - found.st_mtime < _CROWDED_S


def note_crowded(task: str) -> None:
    """For a while no session is kept for `task`, and its judgings end those that others keep."""
    with _mark(task) as file:
        os.pwrite(file, b"1", 0)


def forget_crowded(task: str) -> None:
    """Memory was lacking without such sessions as well."""
    with _mark(task) as file:
        os.ftruncate(file, 0)


def _mark(task: str) -> AbstractContextManager[int]:
    """A file that all workers of this machine see."""
    return open_shared(f"kbench-crowded-{hashlib.sha256(task.encode()).hexdigest()[:16]}")


def end_waiting(gpu: Gpu, task: str, *, somebody_waited: bool) -> None:
    """Ends all sessions that wait on `gpu`. Raises Fault, NOISY, if there was one, for it held memory.

    One that waited when the judging began may have ended by itself since.
    """
    if demand_room(gpu) or somebody_waited:
        note_crowded(task)
        held = "sessions that waited for other submissions held memory that was needed; they have ended"
        raise Fault(Verdict.NOISY, held)


@contextmanager
def lack_is_told(needs: str = "") -> Iterator[None]:
    """Raises LacksMemory in place of a RefereeError that tells of it. Our own processes fit into the GPU by design.

    `needs` tells how much the task alone takes, where that is much of the GPU.
    """
    try:
        yield
    except RefereeError as error:
        if NO_MEMORY.search(str(error)):
            reason = "the kernel left too little GPU memory for its judging"
            raise LacksMemory(f"{reason}; {needs}" if needs else reason) from error
        raise
