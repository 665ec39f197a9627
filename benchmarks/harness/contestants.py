"""One contestant: a frozen child that is woken for one call at a time, and the supervisor's clock around that call.

The inputs of a call lie ready in several sets; which one counts is said at GO, so nothing can be computed ahead but
within the time from waking to GO, which is measured as well (`resume_us`). The results are sampled at DONE and again
when every thread has stopped: what changed in between was written too late.
Not covered: what the results are worth (the referee says) and what a time means (`scoring.py`).
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ChildSurvived, SupervisorError
from .isolation import Child, Room, python_argv, spawn
from .memory import ControlPage, Layout, OutputMemory
from .protocol import Link, ProtocolError, Status, Word, make_links
from .spec import Config

_POLLS_PER_LOOK = 4096
_SAMPLES = 64


@dataclass(frozen=True)
class CallResult:
    """What the supervisor saw of one call. Times are None unless the call came to its end."""

    status: Status | None  # None: the child died or ran out of time
    wall_us: float | None = None
    resume_us: float | None = None
    text: str = ""
    error: str = ""
    early: bool = False  # DONE before GO
    late: bool = False  # results changed after DONE
    timed_out: bool = False
    exit_code: int | None = None
    event_us: float | None = None  # GPU: as the child's device events claim it
    tail_us: float | None = None  # GPU: from DONE until the referee's own kernel had run
    flush_us: float | None = None  # GPU: how long flushing the cache took before the call
    gate_us: float = 0.0  # GPU: how long the referee kept it occupied after GO
    copied: bool = False  # GPU: a result was copied within the timed window
    foreign: bool = False  # GPU: a result is said to lie outside of the shared memory
    throttled: tuple[str, ...] = ()  # GPU: why its clocks were lowered

    @property
    def time_us(self) -> float | None:
        """What counts: the device's events where there are any, else the supervisor's clock."""
        return self.wall_us if self.event_us is None else self.event_us


class Actor:
    """A child that runs `child/<module>.py` and shares a control page; the one who made it kills it."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.control = ControlPage()
        self._step = 0
        self._child: Child | None = None
        self._link: Link | None = None

    def start(
        self, room: Room, log: Path, filter_program: bytes = b"", fds: Sequence[int] = (), arguments: Sequence[str] = ()
    ) -> None:
        ours, theirs = make_links()
        try:
            argv = python_argv(self.module, str(theirs.fileno()), *arguments)
            inherited = (theirs.fileno(), self.control.fd, *fds)
            self._child = spawn(argv, room, log, fds=inherited, filter_program=filter_program)
        finally:
            theirs.close()
        self._link = ours

    @property
    def started(self) -> bool:
        return self._child is not None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise SupervisorError("a contestant was used before it was started")
        return self._child

    @property
    def link(self) -> Link:
        if self._link is None:
            raise SupervisorError("a contestant was used before it was started")
        return self._link

    def open(self, message: dict[str, Any]) -> None:
        """Tells the child its memory and what to load."""
        self.link.send(**message, control=self.control.fd)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The child's next message. Raises TimeoutError, or ProtocolError if it is gone or talks nonsense."""
        return self.link.receive(timeout_s)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self.close()

    def close(self) -> None:
        """Gives back what it shared with the child, once."""
        if self._link is not None:
            self._link.close()
        self.control.close()

    def pending_message(self) -> dict[str, Any]:
        """What the child said of the call that has just ended, if anything."""
        try:
            return self.link.receive(0.5)
        except (TimeoutError, ProtocolError):
            return {}

    def broken(self, timeout_s: float) -> CallResult:
        """The outcome of a call that did not come to its end; the child is gone afterwards."""
        code = self.child.wait(0.2)
        with suppress(ChildSurvived):  # it is told again, and of whom, when the session ends
            self.child.kill()
        if code is None:
            return CallResult(None, timed_out=True, text=f"no answer within {timeout_s:g} s")
        return CallResult(None, exit_code=code)


class Contestant(Actor):
    """An actor on the processor, called and timed by the supervisor itself."""

    def __init__(self, module: str, configs: Sequence[Config], layout: Layout, inputs_fd: int) -> None:
        super().__init__(module)
        self.outputs = OutputMemory(layout, configs)
        self._inputs_fd = inputs_fd
        self._draw = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))

    def start(
        self, room: Room, log: Path, filter_program: bytes = b"", fds: Sequence[int] = (), arguments: Sequence[str] = ()
    ) -> None:
        super().start(room, log, filter_program, (*fds, self._inputs_fd, self.outputs.fd), arguments)

    def open(self, message: dict[str, Any]) -> None:
        super().open({**message, "inputs": self._inputs_fd, "outputs": self.outputs.fd})

    def call(self, config: int, choice: int, *, function: int = 0, timeout_s: float) -> CallResult:
        """Runs one call on input set `choice` and leaves the child frozen, or dead."""
        self._step += 1
        words = self.control.words
        self.outputs.poison(config)
        places = self.outputs.places(config, _SAMPLES, self._draw)
        words[Word.FUNCTION], words[Word.CONFIG], words[Word.CHOICE] = function, config, 0
        words[Word.STEP] = self._step
        resumed_ns = _now_ns()
        self.child.resume()
        if not self._await(Word.READY, timeout_s):
            return self.broken(timeout_s)
        early = words[Word.DONE] == self._step
        words[Word.CHOICE] = choice
        started_ns = _now_ns()
        words[Word.GO] = self._step
        arrived = self._await(Word.DONE, timeout_s)
        ended_ns = _now_ns()
        if not arrived:
            return self.broken(timeout_s)
        sampled = self.outputs.sample(places)
        self.child.freeze()
        late = not np.array_equal(sampled, self.outputs.sample(places))
        return self._ended((ended_ns - started_ns) / 1e3, (started_ns - resumed_ns) / 1e3, early=early, late=late)

    def close(self) -> None:
        super().close()
        self.outputs.close()

    def _await(self, word: Word, timeout_s: float) -> bool:
        """Spins until the child has set `word` to this step; False if it died or time ran out."""
        words, step = self.control.words, self._step
        deadline = time.monotonic() + timeout_s
        while True:
            for _ in range(_POLLS_PER_LOOK):
                if words[word] == step:
                    return True
            if time.monotonic() > deadline or self.child.exit_code() is not None:
                return words[word] == step

    def _ended(self, wall_us: float, resume_us: float, *, early: bool, late: bool) -> CallResult:
        try:
            status = Status(self.control.words[Word.STATUS])
        except ValueError:
            return CallResult(None, text="the process answered with an unknown status")
        message = {} if status is Status.OK else self.pending_message()
        return CallResult(
            status=status,
            wall_us=wall_us,
            resume_us=resume_us,
            text=str(message.get("text", "")),
            error=str(message.get("error", "")),
            early=early,
            late=late,
        )


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
