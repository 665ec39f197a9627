"""One contestant: a frozen child process that is woken for one call at a time and timed by the supervisor's clock.

Several input sets are prepared for a call, and GO says which one counts. A contestant can therefore compute ahead
only between waking and GO, and that time is measured as well (`resume_us`), without what it waited for a processor
that other programs used. The measured time ends when a sample of the results has been read from the contestant's
memory. When every thread has stopped, the sample is read again to detect late writes, and the results are copied;
copying is not part of the time. Not covered: whether the results are correct (the referee decides) and what a time
means (`scores/scoring.py`).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ChildSurvived, SupervisorError
from ..protocol import Link, ProtocolError, Status, Word, make_links
from ..sandbox.crowd import TreeWork
from ..sandbox.deadlines import FairDeadline
from ..sandbox.freezer import now_ns, scheduled
from ..sandbox.isolation import Child, Room, python_argv, spawn
from ..tasks.spec import Config
from .memory import ControlPage, Layout, OutputMemory, Sample

_POLLS_PER_LOOK = 4096
_LOOK_S = 0.5
_LATE_NS = 100_000  # from here on the queue wait is read; reading takes time, in which anybody could compute ahead


@dataclass(frozen=True)
class CallResult:
    """The supervisor's measurements of one call. Times are None if the call did not end."""

    status: Status | None  # None: the child died or ran out of time
    wall_us: float | None = None
    resume_us: float | None = None  # from waking to GO, without waiting for a processor
    text: str = ""
    error: str = ""
    early: bool = False  # DONE before GO
    late: bool = False  # results changed after DONE
    timed_out: bool = False
    exit_code: int | None = None
    lost: bool = False  # the machine has ended the child, and nothing that it did
    event_us: float | None = None  # GPU: as the child's device events claim it
    tail_us: float | None = None  # GPU: from DONE (replayed: from the report) until the referee's own kernel had run
    flush_us: float | None = None  # GPU: how long flushing the cache took before the call
    behind_us: float = 0.0  # GPU, replayed: until the word came that was queued when the last one had been seen
    start_us: float = 0.0  # GPU, replayed: from its release until the word before it
    lead_us: float = 0.0  # GPU, replayed: how long the referee's own kernel took right before the call
    sampled_us: float = 0.0  # GPU, replayed: from the end until rows of the results had been copied
    gate_us: float = 0.0  # GPU: how long the referee kept it occupied after GO
    copied: bool = False  # GPU: a result was copied within the timed window
    foreign: bool = False  # a result is said to lie where there is no memory, or on a GPU outside the shared memory
    woke_us: float = 0.0  # processor time that the process has used while it was frozen before this call
    used_us: float = 0.0  # processor time of all its threads from waking until they had stopped
    after_us: float = 0.0  # of this, what was used after the order to stop, beyond what stopping takes
    over_us: float | None = None  # on one core: `RunSpan.over_ns`, without `after_us`
    carried_us: float = 0.0  # what the decoys before this call did and no call was charged for
    decoys: tuple["CallResult", ...] = ()  # the calls on decoys of the same visit
    waited_us: float = 0.0  # for how long the supervisor waited for a processor meanwhile
    throttled: tuple[str, ...] = ()  # GPU: why its clocks were lowered

    @property
    def time_us(self) -> float | None:
        """The time that counts: from the device's events if there are any, else from the supervisor's clock."""
        return self.wall_us if self.event_us is None else self.event_us


@dataclass(frozen=True)
class CallComparison:
    """The referee's comparison of the results of one call."""

    ok: bool
    reason: str
    max_abs_error: float
    max_rel_error: float
    distribution: str
    intact: bool = True  # the inputs are as they were before the call


class Starved(TimeoutError):
    """A limit is over, but others had the processors for so long that it says nothing of who waited for them."""


class WholeLimit:
    """The limit of all that a child says until something is done: each message that is no answer uses it up.

    Who waits for a processor that others use has more time (`FairDeadline`).
    """

    def __init__(self, work: Callable[[], TreeWork], limit_s: float) -> None:
        self.limit_s = limit_s
        self._deadline = FairDeadline(work, limit_s)

    def interrupted(self) -> AbstractContextManager[None]:
        """Meanwhile it is us for whom the child waits."""
        return self._deadline.interrupted()

    def is_over(self) -> bool:
        return self._deadline.is_over()

    @property
    def is_starved(self) -> bool:
        """Once it is over: whether others had the processors, so that the child is not to blame."""
        return self._deadline.is_starved

    def look(self) -> None:
        """To be called again and again, so that `excused_s` is known."""
        self._deadline.look()

    @property
    def excused_s(self) -> float:
        """The time that others took from the child, as far as patience goes."""
        return self._deadline.took_s - self._deadline.charged_s

    @property
    def not_excused_s(self) -> float:
        """What others took beyond that."""
        return self._deadline.charged_s - self._deadline.own_s

    @property
    def look_s(self) -> float:
        """How long to wait for a message until the next look at everything else."""
        left_s = self._deadline.left_s
        return min(_LOOK_S, max(0.01, left_s)) if left_s > 0 else _LOOK_S


class Actor:
    """A child that runs a module of `child/` and shares a control page; the one who made it kills it.

    `control` is the page of one that came before it; whoever passes it on has emptied it.
    """

    def __init__(self, module: str, control: ControlPage | None = None) -> None:
        self.module = module
        self.control = control or ControlPage()
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
        """Sends the child its memory layout and what to load."""
        self.link.send(**message, control=self.control.fd)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The child's next message. Raises TimeoutError, or ProtocolError if it is gone or the message is invalid."""
        return self.link.receive(timeout_s)

    def messages(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Its messages as they come, for as long as they are asked for.

        Raises as `receive` does, TimeoutError when `timeout_s` have passed in all, however much the child says.
        """
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            yield self.receive(left_s)
        raise TimeoutError(f"{timeout_s:g} s have passed")

    def messages_within(self, limit: WholeLimit, look: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
        """The same within a limit that is fair to who waits for a processor. `look` is called in between.

        Raises Starved, a TimeoutError, if not even that was enough.
        """
        while not limit.is_over():
            look()
            try:
                message = self.receive(limit.look_s)
            except TimeoutError:
                continue
            yield message
        raise (Starved if limit.is_starved else TimeoutError)(f"{limit.limit_s:g} s have passed")

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self.close()

    def close(self) -> None:
        """Releases the memory shared with the child; does nothing the second time."""
        if self._link is not None:
            self._link.close()
        self.control.close()

    def pending_message(self) -> dict[str, Any]:
        """The child's message about the call that has just ended, if any."""
        try:
            return self.link.receive(0.5)
        except (TimeoutError, ProtocolError):
            return {}

    def broken(self, timeout_s: float) -> CallResult:
        """The outcome of a call that did not come to its end; the child is gone afterwards."""
        code, lost = self.child.wait(0.2), self.child.is_lost()
        with suppress(ChildSurvived):  # it is told again, and of whom, when the session ends
            self.child.kill()
        if code is None:
            return CallResult(None, timed_out=True, text=f"no answer within {timeout_s:g} s")
        return CallResult(None, exit_code=code, lost=lost)


class Contestant(Actor):
    """An actor on the processor, called and timed by the supervisor itself."""

    def __init__(self, module: str, configs: Sequence[Config], layout: Layout, inputs_fd: int, cores: int) -> None:
        super().__init__(module)
        self._cores = cores
        self.outputs = OutputMemory(layout, configs)
        self._inputs_fd = inputs_fd
        self._draw = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))

    def start(
        self, room: Room, log: Path, filter_program: bytes = b"", fds: Sequence[int] = (), arguments: Sequence[str] = ()
    ) -> None:
        # opened anew: the place in a file and its locks are shared by all who inherit the same open file
        self._its_inputs_fd = os.open(f"/proc/self/fd/{self._inputs_fd}", os.O_RDONLY)
        try:
            super().start(room, log, filter_program, (*fds, self._its_inputs_fd), arguments)
        finally:
            os.close(self._its_inputs_fd)

    def open(self, message: dict[str, Any]) -> None:
        super().open({**message, "inputs": self._its_inputs_fd})

    def call(
        self, config: int, choice: int, *, function: int = 0, timeout_s: float, compared: bool = True
    ) -> CallResult:
        """Runs one call on input set `choice` and leaves the child frozen, or dead; copies its results if `compared`.

        Raises NotStopped, and PermissionError where the memory of a child cannot be read.
        """
        self._step += 1
        waited_ns = scheduled("thread-self").queued_ns
        words, pid = self.control.words, self.child.pid or 0
        sample = Sample(self.outputs.results(config), self._draw)
        words[Word.FUNCTION], words[Word.CONFIG], words[Word.CHOICE] = function, config, 0
        words[Word.STEP] = self._step
        resumed_ns = now_ns()
        woke_ns = self.child.resume()
        if not self._await(Word.READY, timeout_s):
            return self.broken(timeout_s)
        early = words[Word.DONE] == self._step
        used_ns, waiting_ns = self.child.since_resume() if now_ns() - resumed_ns > _LATE_NS else (0, 0)
        words[Word.CHOICE] = choice
        started_ns = now_ns()
        words[Word.GO] = self._step
        if not self._await(Word.DONE, timeout_s):
            return self.broken(timeout_s)
        status, places = words[Word.STATUS], self._places(config)  # read once: the page is not ours alone
        at_done = sample.read(pid, places)
        ended_ns = now_ns()
        stop = self.child.freeze()
        after_ns = stop.late_ns(self._cores, others_ns=max(0, waiting_ns - used_ns))
        result = CallResult(
            status=None,
            wall_us=(ended_ns - started_ns) / 1e3,
            resume_us=own_lateness_us(started_ns - resumed_ns, used_ns, waiting_ns),
            woke_us=woke_ns / 1e3,
            used_us=stop.used_ns / 1e3,
            after_us=after_ns / 1e3,
            over_us=(stop.over_ns - after_ns) / 1e3 if self._cores == 1 else None,
            waited_us=(scheduled("thread-self").queued_ns - waited_ns) / 1e3,
            early=early,
        )
        if status != Status.OK:
            return self._refused(result, status)
        frozen = sample.read(pid, places)
        copied = not compared or self.outputs.copy(config, pid, places)
        if self.child.exit_code() is not None:
            return self.broken(timeout_s)
        foreign = at_done is None or frozen is None or not copied
        return replace(result, status=Status.OK, foreign=foreign, late=at_done != frozen)

    def renew(self) -> None:
        """Ends the process; another may be started, over a control page that no process has seen. Outputs stay."""
        if self._child is not None:
            self._child.kill()
        super().close()
        self.control, self._step, self._child, self._link = ControlPage(), 0, None, None

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

    def _places(self, config: int) -> NDArray[np.uint64]:
        """Where the contestant says that the results lie, as addresses of its own."""
        count = len(self.outputs.results(config))
        return self.control.numbers[Word.PLACES : Word.PLACES + count].copy()

    def _refused(self, result: CallResult, status: int) -> CallResult:
        try:
            known = Status(status)
        except ValueError:
            return replace(result, text="the process answered with an unknown status")
        message = self.pending_message()
        return replace(result, status=known, text=str(message.get("text", "")), error=str(message.get("error", "")))


def own_lateness_us(late_ns: int, used_ns: int, queued_ns: int) -> float:
    """The charged part of `late_ns`: not the first thread's wait for a processor, but all processor time used."""
    return max(late_ns - queued_ns, used_ns) / 1e3
