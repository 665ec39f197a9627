"""Stops a process between its calls and checks that it used no processor time while stopped.

A process is frozen by SIGSTOP. The kernel's own account of the process's processor time is read when every thread has
stopped and again at the resume: any work in between shows there, however the process was woken. The submission's
filter (`seccomp.py`) refuses the calls that could arrange such a wake-up. The last few microseconds of a thread on
its way to sleep may fall after the first reading on a busy machine, so `resume` returns what was used instead of
judging.
"""

import os
import signal
import time
from pathlib import Path

from ..errors import NotStopped

_STOPPED = "TtZX"


class Freezer:
    """Freezes and resumes one process, which may be gone at any time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._clock = (~pid << 3) | 2  # the clock of a process's processor time, as clock_getcpuclockid(3) makes it
        self._frozen_ns: int | None = None
        self._resumed_at = (0, 0)  # processor time and queue wait at the last resume

    def freeze(self, deadline_s: float = 2.0) -> None:
        """Returns when every thread has stopped. Raises NotStopped after `deadline_s`."""
        signal_quietly(self._pid, signal.SIGSTOP)
        until = time.monotonic() + deadline_s
        while not self._stopped():
            if time.monotonic() > until:
                raise NotStopped("a child did not stop when told to")
        before_ns = self._used_ns()
        while (now_ns := self._used_ns()) != before_ns:
            if time.monotonic() > until:
                raise NotStopped("a child uses processor time though it has stopped")
            before_ns = now_ns
        self._frozen_ns = now_ns

    def resume(self) -> int:
        """Lets it run; the processor time in ns that it has used since the freeze, over all threads."""
        self._resumed_at = now_ns, _ = self._used_ns(), queued_ns(self._pid)
        used_ns = 0 if self._frozen_ns is None else now_ns - self._frozen_ns
        self._frozen_ns = None
        signal_quietly(self._pid, signal.SIGCONT)
        return max(0, used_ns)

    def since_resume(self) -> tuple[int, int]:
        """Processor time of all threads and queue wait of the first one since the last resume, in ns."""
        used_ns, waited_ns = self._resumed_at
        return self._used_ns() - used_ns, queued_ns(self._pid) - waited_ns

    def _stopped(self) -> bool:
        return all(state_of(f"/proc/{self._pid}/task/{item}/stat") in _STOPPED for item in threads_of(self._pid))

    def _used_ns(self) -> int:
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:  # it is gone
            return self._frozen_ns or 0


def queued_ns(pid: int) -> int:
    """How long the first thread of a process has been ready to run without a processor, in all; 0 if nobody counts."""
    try:
        file = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    try:
        return int(os.read(file, 100).split()[1])
    except ProcessLookupError:
        return 0
    finally:
        os.close(file)


def threads_of(pid: int | None) -> list[int]:
    """The threads of a process; none if it is gone."""
    try:
        return [] if pid is None else [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def state_of(stat_file: str) -> str:
    """The letter that /proc shows for a process or thread; X if it is gone. Its name there may be any bytes."""
    try:
        return Path(stat_file).read_bytes().rpartition(b")")[2].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def signal_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
