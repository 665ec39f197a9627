"""Where a GPU has too little memory: whether sessions that wait for other submissions, or nobody, are to blame.

Sessions that wait hold memory which a judging may need. If it lacks some, they are ended, the verdict is NOISY, and the
next judging of the task on this GPU has them ended before it starts. What still lacks memory then is the submission's
fault if the judging works without it. Not covered: how much memory a judging takes (`capacity.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import LacksMemory, RefereeError
from ..measuring.faults import NO_MEMORY, Fault
from ..report import Verdict
from .discovery import Gpu
from .room import demand_room

_crowded: set[tuple[str, str]] = set()  # GPUs and tasks


def is_crowded(gpu: Gpu, task: str) -> bool:
    """Whether a judging of `task` in this process has lacked memory that sessions on `gpu` could have held."""
    return (gpu.uuid, task) in _crowded


def note_crowded(gpu: Gpu, task: str) -> None:
    """From now on no session is kept for `task`, and its judgings end those that others keep."""
    _crowded.add((gpu.uuid, task))


def end_waiting(gpu: Gpu, task: str) -> None:
    """Ends all sessions that wait on `gpu`. Raises Fault, NOISY, if there was one, for it held memory."""
    if demand_room(gpu):
        note_crowded(gpu, task)
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
