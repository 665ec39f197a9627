"""Memory that the calls of a kernel use up: it was prepared before, and no earlier call has touched it.

Calls of an honest kernel touch the same memory again and again, or fresh memory that the operating system clears
within the call. A kernel that cleared workspaces for many calls while it was loaded, or in calls whose time does not
count, touches another one in each call. Linux marks the pages that a process touches, and tells how many are marked.
A process can see when the marks are taken off, and be honest for a while, so all rounds but one in five are measured.
Not covered: memory that a kernel uses again after few calls (what clears it in between is in `tally.py`), and pages of
2 MiB, which are marked as a whole.
"""

import mmap
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_ROUNDS = 4  # of a launch, after one in which the marks are set again: over these the growth is measured
_QUANTILE = 75  # in per cent: who uses up memory in most calls does so in three of eight measured rounds, or in more
_SPARE_BYTES = 16 * 1024  # of a call: what is used now and then, such as parts of the interpreter
_TRIAL_BYTES, _TRIALS = 8 << 20, 3


@dataclass(frozen=True)
class Touched:
    """Memory of a process, in bytes: what it has touched since the marks were taken off, and what it has in all.

    Without what is only read from files: other processes mark that, too.
    """

    touched_bytes: int
    own_bytes: int


def forget(pid: int) -> None:
    """Takes the marks off; does nothing if the operating system has no marks or the process is gone."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_bytes(b"1")
    except OSError:
        return


def look(pid: int, without: os.stat_result) -> Touched | None:
    """Counts marked memory, without shared pages of the file `without`. None if not told, or if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_bytes()
    except OSError:
        return None
    device = f"{os.major(without.st_dev):02x}:{os.minor(without.st_dev):02x}".encode()
    left_out = [device, str(without.st_ino).encode()]
    touched_kb = own_kb = 0
    area: dict[bytes, int] = {}
    counts = True  # a private copy of the file is memory like any other
    for line in [*text.split(b"\n")[:-1], b"0-0 ---p 0 00:00 0"]:  # a file's name may hold a carriage return
        words = line.split()
        if line[:1].isupper():
            if words[-1] == b"kB":
                area[words[0]] = int(words[1])
            continue
        if counts:
            written_kb = area.get(b"Private_Dirty:", 0) + area.get(b"Shared_Dirty:", 0)
            touched_kb += min(area.get(b"Referenced:", 0), written_kb)
            own_kb += written_kb
        area, counts = {}, words[3:5] != left_out or not words[1].endswith(b"s")
    return Touched(touched_kb * 1024, own_kb * 1024)


def fresh_us_per_byte() -> float:
    """The time per byte in which this machine's operating system clears and maps memory at its first touch."""
    taken_ns = []
    for _ in range(_TRIALS):
        with mmap.mmap(-1, _TRIAL_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            values = np.frombuffer(memory, dtype=np.uint8)
            started_ns = time.thread_time_ns()
            values[:: mmap.PAGESIZE] = 1
            taken_ns.append(time.thread_time_ns() - started_ns)
            del values
    return min(taken_ns) / 1e3 / _TRIAL_BYTES


@dataclass
class _Launch:
    rounds: int = 0  # since the marks were taken off
    first: Touched | None = None
    used_bytes: list[int] = field(default_factory=list)


class Watch:
    """Measures what the calls of each launch use up. The process is frozen whenever it is asked."""

    def __init__(self, forget: Callable[[], None], look: Callable[[], Touched | None]) -> None:
        self._forget, self._look = forget, look
        self._launches: dict[int, _Launch] = {}

    def round_begins(self, launch: int, *, hidden: bool) -> None:
        """A round with calls of `hidden` configurations becomes the first of five, which is not measured.

        So the fresh memory that such calls take cannot hide what other calls use up.
        """
        now = self._launches.setdefault(launch, _Launch())
        if hidden:
            now.rounds = 0
        if now.rounds == 0:
            self._forget()

    def round_ends(self, launch: int) -> None:
        now = self._launches[launch]
        now.rounds += 1
        if now.rounds == 1:
            now.first = self._look()
        elif now.rounds == 1 + _ROUNDS:
            last, now.rounds = self._look(), 0
            if now.first and last:
                grown_bytes = last.touched_bytes - now.first.touched_bytes
                now.used_bytes.append((grown_bytes - (last.own_bytes - now.first.own_bytes)) // _ROUNDS)

    def used_bytes(self, calls: float, memory_bytes: int) -> float:
        """What a round of `calls` calls uses up beyond what is usual, in the launch with the larger value.

        `memory_bytes` is the size of the arguments and results of all configurations. So much is usual, since the
        allocator may give a call memory that calls of other configurations have had before.
        """
        used = [float(np.percentile(item.used_bytes, _QUANTILE)) for item in self._launches.values() if item.used_bytes]
        return max(0.0, max(used, default=0.0) - calls * _SPARE_BYTES - memory_bytes / _ROUNDS)
