"""What a process of ours died of, read from the end of its log.

A log also holds warnings, such as that torch found no memory for one plan and took another. They say nothing about why
the process ended. Not covered: processes that a signal ended; they print nothing.
"""

from ..errors import NotAwake, Overloaded, ProcessLost, ProcessorsBusy, RefereeError
from ..sandbox.isolation import Child
from .contestants import Starved

_LOG_BYTES, _ENDS_WITHIN_S = 4000, 0.2
_TRACEBACK, _FRAME = "Traceback (most recent call last):", '  File "'
_GOES_ON = ("The above exception was the direct cause", "During handling of the above exception")
_ABORTS, _WHAT = ("terminate called after throwing", "Fatal Python error"), "what():"


def died_of(log: str) -> str:
    """The first line of the exception that ended a process, after those of its causes; empty if the log has none.

    The beginning of the log may be missing.
    """
    found: list[str] = []
    is_in_frames = goes_on = False
    for line in log.splitlines():
        if line.startswith(_GOES_ON):
            goes_on = True
        elif line.startswith(_TRACEBACK):
            found, goes_on, is_in_frames = found if goes_on else [], False, True
        elif line.startswith(_FRAME):
            is_in_frames = True
        elif line.startswith(_ABORTS):
            found, is_in_frames = [line], False
        elif (is_in_frames and line[:1].strip()) or line.lstrip().startswith(_WHAT):
            found.append(line.strip())
            is_in_frames = False
    return "; ".join(found)


def failed(reason: str, child: Child) -> RefereeError | ProcessLost:
    """The error for a process of ours that failed. If it has ended, what it died of belongs to the reason."""
    reason, log = _told(reason, child)
    return ProcessLost("a process of the judge") if _is_lost(child) else RefereeError(reason, log=log)


def not_awake(what: str, child: Child, error: Exception) -> NotAwake | Overloaded:
    """The error for a process that knows no submission yet: it ended, or did not answer in time."""
    if isinstance(error, Starved):
        return ProcessorsBusy(f"{what} did not start in time")
    reason, log = _told(f"{what} did not start: {error}", child)
    return ProcessLost(what) if _is_lost(child) else NotAwake(reason, log=log)


def _is_lost(child: Child) -> bool:
    return child.wait(_ENDS_WITHIN_S) is not None and child.is_lost()


def _told(reason: str, child: Child) -> tuple[str, str]:
    log, has_ended = child.log_tail(_LOG_BYTES), child.wait(_ENDS_WITHIN_S) is not None
    return with_cause(reason, log) if has_ended else reason, log


def cause_of(child: Child) -> str:
    """What a process that has ended died of; empty if it runs or its log does not tell.

    Device code of a submission can print into the log of an executor: nothing may be decided by it in its favour.
    """
    return died_of(child.log_tail(_LOG_BYTES)) if child.wait(_ENDS_WITHIN_S) is not None else ""


def with_cause(reason: str, log: str) -> str:
    cause = died_of(log)
    return f"{reason}: {cause}" if cause else reason
