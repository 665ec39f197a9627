"""Stops a process between its calls and checks that it used no processor time while stopped.

A process is frozen by SIGSTOP. The kernel's own account of the process's processor time is read when every thread has
stopped and again at the resume: any work in between shows there, however the process was woken. The submission's
filter (`seccomp.py`) refuses the calls that could arrange such a wake-up. The last few microseconds of a thread on
its way to sleep may fall after the first reading on a busy machine, so `resume` returns what was used instead of
judging. A thread goes on after the order to stop while it is in a system call, or until the first thread has had a
processor to see the order, so `freeze` returns what was used until then. Readings of a thread that is running lack
what it has used since the system's last tick: only those of a stopped process are compared.
"""

import os
import signal
import time
from dataclasses import dataclass
from typing import Literal

from ..errors import NotStopped
from .crowd import threads_of

_STOPPED = "TtZX"
_STAT_BYTES = 512  # the state follows a name of at most 64 bytes
_STOPPING_NS = 25_000  # a thread uses some microseconds on its way to its stop


@dataclass(frozen=True)
class RunSpan:
    """What a process did from its last resume until its last thread had stopped."""

    used_ns: int  # processor time of all its threads
    ran_ns: int  # from the resume until it was told to stop
    others_ns: int = 0  # for how long its first thread waited meanwhile for a processor that others used

    def late_ns(self, cores: int, others_ns: int) -> int:
        """Processor time that `cores` cannot have given it before it was told to stop, beyond what stopping takes.

        Of their time other programs had `others_ns`.
        """
        return max(0, self.used_ns + others_ns - cores * (self.ran_ns + _STOPPING_NS))

    @property
    def over_ns(self) -> int:
        """Processor time beyond what one core gave it until the order to stop; negative for who woke up slowly."""
        return self.used_ns + self.others_ns - self.ran_ns


class Freezer:
    """Freezes and resumes one process, which may be gone at any time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._clock = (~pid << 3) | 2  # the clock of a process's processor time, as clock_getcpuclockid(3) makes it
        self._frozen_ns: int | None = None
        self._resumed_at = (0, Scheduled())  # processor time of all threads, and the first one's, at the last resume
        self._resumed_ns = now_ns()

    def freeze(self, deadline_s: float = 2.0) -> RunSpan:
        """Returns when every thread has stopped. Raises NotStopped after `deadline_s`."""
        signal_quietly(self._pid, signal.SIGSTOP)
        told_ns, queued_ns = now_ns(), scheduled(self._pid).queued_ns
        until = time.monotonic() + deadline_s
        while not self._stopped():
            if time.monotonic() > until:
                raise NotStopped("a child did not stop when told to")
        before_ns = self._used_ns()
        while (used_ns := self._used_ns()) != before_ns:
            if time.monotonic() > until:
                raise NotStopped("a child uses processor time although it has stopped")
            before_ns = used_ns
        self._frozen_ns = used_ns
        before_all_ns, before = self._resumed_at
        # its own threads are no others: while they had the processor their time counts as used
        own_ns = used_ns - before_all_ns - (scheduled(self._pid).ran_ns - before.ran_ns)
        others_ns = max(0, queued_ns - before.queued_ns - max(0, own_ns))
        return RunSpan(used_ns - before_all_ns, told_ns - self._resumed_ns, others_ns)

    def resume(self) -> int:
        """Lets it run; the processor time in ns that it has used since the freeze, over all threads."""
        self._resumed_at = total_ns, _ = self._used_ns(), scheduled(self._pid)
        used_ns = 0 if self._frozen_ns is None else total_ns - self._frozen_ns
        self._frozen_ns = None
        self._resumed_ns = now_ns()
        signal_quietly(self._pid, signal.SIGCONT)
        return max(0, used_ns)

    def since_resume(self) -> tuple[int, int]:
        """Processor time of all threads and queue wait of the first one since the last resume, in ns."""
        used_ns, first = self._resumed_at
        return self._used_ns() - used_ns, scheduled(self._pid).queued_ns - first.queued_ns

    def _stopped(self) -> bool:
        return all(state_of(f"/proc/{self._pid}/task/{item}/stat") in _STOPPED for item in threads_of(self._pid))

    def _used_ns(self) -> int:
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:  # it is gone
            return self._frozen_ns or 0


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


@dataclass(frozen=True)
class Scheduled:
    """Of one thread, in all: how long it ran, and how long it was ready to run without a processor."""

    ran_ns: int = 0
    queued_ns: int = 0


def scheduled(pid: int | Literal["thread-self"]) -> Scheduled:
    """The first thread of a process; zeros if nobody counts or it is gone."""
    try:
        file = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return Scheduled()
    try:
        ran, queued, _ = os.read(file, 100).split()
        return Scheduled(int(ran), int(queued))
    except ProcessLookupError:
        return Scheduled()
    finally:
        os.close(file)


def state_of(stat_file: str) -> str:
    """The letter that /proc shows for a process or thread; X if it is gone. Its name there may be any bytes."""
    try:
        file = os.open(stat_file, os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    try:
        return os.read(file, _STAT_BYTES).rpartition(b")")[2].split(None, 1)[0].decode()
    except ProcessLookupError:
        return "X"
    finally:
        os.close(file)


def signal_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
