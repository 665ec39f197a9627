"""Decides who is to blame if a GPU has too little memory: sessions that wait for other submissions, or nobody.

Sessions that wait hold memory which a judging may need. If memory is lacking before the submission is loaded, they are
ended and the verdict is NOISY; for an hour, judgings of that task on any GPU of this machine have such sessions ended
before they start, and no session is kept for the task. If the baselines lack memory as often without such sessions,
these are not to blame, and for an hour none is ended for that task and GPU unless memory is lacking more often.
If memory is lacking later, the submission may have taken it, or may only say so. Then the verdict is NOISY as well, but
for an hour only judgings of the same file (and of the few files that share its mark) have such sessions ended: a
submission ends none in its first judging, and marks no task. What still lacks memory then is the submission's fault if
the judging works without it. If it lacked before the submission was loaded, and no session waited, it is never the
submission's fault: another program, or a process that could not be ended, may hold the memory. Not covered: how much
memory a judging takes (`capacity.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import LacksMemory, NotAwake, RefereeError
from ..measuring.faults import Fault, may_lack_gpu_memory
from ..report import Verdict
from .discovery import Gpu
from .marks import COUNT_MAX, forget, mark_of, note, noted
from .room import demand_room

_ALONE = "the judge found too little GPU memory while nothing of the kernel was there"
_LEFT = "the kernel left too little GPU memory for its judging"
_HELD = "sessions that waited for other submissions held memory that was needed"


def lacked_memory(error: Exception) -> bool:
    """Whether `error` may mean too little GPU memory, for the submission or for the judge."""
    if isinstance(error, Fault):
        return error.lacks_gpu_memory
    return isinstance(error, LacksMemory) or (
        isinstance(error, RefereeError | NotAwake) and may_lack_gpu_memory(error.reason)
    )


def is_crowded(name: str) -> bool:
    """Whether judgings with this mark (`mark_of`, `mark_of_task`) have lately lacked memory that sessions held."""
    return noted(name) > 0


def note_crowded(name: str, lacks: int = COUNT_MAX) -> None:
    """For an hour judgings with this mark end the sessions that others keep; if it is a task's, none is kept for it.

    `lacks` is how often baselines have lacked memory, where that was counted.
    """
    note(name, lacks)


def lacks_anyway(gpu: Gpu, task: str, lacks: int, *, works: bool) -> bool:
    """Whether baselines of the task have lately lacked memory as often on `gpu` while no session held any.

    Without `works` a call has failed, and the question is whether one failed then as well.
    """
    return lacks <= noted(_anyway(gpu, task, works=works))


def note_anyway(gpu: Gpu, task: str, lacks: int, *, works: bool) -> None:
    """Baselines have lacked memory `lacks` times while no session held any: for an hour none is ended for so many."""
    name = _anyway(gpu, task, works=works)
    note(name, max(lacks, noted(name)))
    if lacks >= noted(task):  # as often as beside those sessions
        forget(task)


def _anyway(gpu: Gpu, task: str, *, works: bool) -> str:
    return f"{'lacks' if works else 'fails'} anyway {gpu.uuid} {task}"


def end_waiting(gpu: Gpu, task: str, *, somebody_waited: bool, lacks: int = COUNT_MAX) -> None:
    """Ends all sessions that wait on `gpu`. Raises Fault, NOISY, if there was one, for it held memory.

    One that waited when the judging began may have ended by itself since. `lacks` as for `note_crowded`.
    """
    if demand_room(gpu) or somebody_waited:
        note_crowded(task, lacks)
        raise Fault(Verdict.NOISY, f"{_HELD}; they have ended")


def next_time_alone(binary: Path) -> Fault:
    """NOISY: the next judging of this file ends the sessions that wait.

    This judging ends none, since a submission may claim a lack of memory.
    """
    note_crowded(mark_of(binary))
    return Fault(Verdict.NOISY, f"{_HELD}; they will end before it is judged again")


def needs_more(needs: str = "") -> Fault:
    """INTERNAL_ERROR: memory is lacking before the submission is loaded, and no session that waits holds it.

    `needs` as for `lack_is_told`. The rest is held by processes that kbench does not know, or by nobody.
    """
    reason = "a judging of this task needs more memory than is free on this GPU, even before the kernel is loaded"
    return Fault(Verdict.INTERNAL_ERROR, f"{reason}; {needs}" if needs else reason, lacks_gpu_memory=True)


@contextmanager
def lack_is_told(
    needs: str = "", has_lacked: Callable[[], bool] = lambda: False, is_alone: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Raises LacksMemory in place of a RefereeError if that tells of it, or if memory `has_lacked`.

    Our own processes fit into the GPU by design. `needs` tells how much the task alone takes, where that is much of the
    GPU. If the judge `is_alone`, nothing of the submission holds memory.
    """
    try:
        yield
    except RefereeError as error:
        if may_lack_gpu_memory(error.reason) or has_lacked():
            reason = _ALONE if is_alone() else _LEFT
            raise LacksMemory(f"{reason}; {needs}" if needs else reason) from error
        raise
