"""Drives a run: it asks for kernels until one is correct, then opens generation after generation until the run ends.

`drive` continues from the last event of the log. If it is killed at any moment and called again, the result is the
same. Each cost is reserved in the budget before it can arise (a lease) and settled at the true amount afterwards.
`wishes` tells whether the owner wants to stop or pause. Not covered: what proposers, verifiers and evaluators do, and
starting a run (`begin.py`).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.harness import TaskSpec, UsageError, default_suites, find_task

from . import book as books
from .begin import create, fork
from .book import Book, LeaseMeter
from .budget import Cost
from .confirming import Confirming, wall_for_confirming_s
from .events import Draft, EventLog, Live
from .memory import RunMemory
from .model import CandidateView, Evaluator, Proposer, RacingVerifier, Verifier, guarded
from .notes import note_of
from .novelty import Novelty
from .proposing import Asking, Opening
from .slots import Round
from .state import RunState
from .stops import Stop, provider_wait_s, stop_reason

__all__ = ["DriveWish", "RunOutcome", "create", "drive", "fork"]

DriveWish = Literal["go", "pause", "stop"]
Sleep = Callable[[float], Awaitable[None]]
_POLL_S = 0.2
_GRACE_S = 0.4  # time that plug-ins get to end
_SLICE_S = 10.0  # wall time is reserved in slices of this length
_WALL = "wall"
_VAIN_MAX = 5


@dataclass(frozen=True)
class RunOutcome:
    """What `drive` returns. A paused run continues when `drive` is called again."""

    state: Literal["finished", "paused"]
    reason: str
    text: str


async def drive(  # noqa: PLR0917 - the parts of a run, in the order of use
    log: EventLog,
    proposer: Proposer,
    verifiers: Sequence[Verifier],
    evaluator: Evaluator,
    live: Live,
    wishes: Callable[[], Awaitable[DriveWish]],
    *,
    task: TaskSpec | None = None,
    sleep: Sleep = asyncio.sleep,
) -> RunOutcome:
    """Drives the run in `log` until it is finished or paused. If `task` is not given, it is looked up by its name.

    Raises what the log raises. If it is cancelled, the run is left as after a crash.
    """
    book = Book(log)
    if book.state.status == "finished":
        return _outcome(book.state)
    try:
        task = task or find_task(default_suites(), book.state.config.task)
    except UsageError as error:
        book.commit(Draft("run.finished", None, {"reason": "invalid", "text": str(error)}))
        return _outcome(book.state)
    return await _Drive(book, task, proposer, verifiers, evaluator, live, wishes, sleep).go()


def _outcome(state: RunState) -> RunOutcome:
    if state.status == "finished":
        return RunOutcome("finished", state.reason or "", state.text)
    return RunOutcome("paused", "paused", state.text)


@dataclass
class _Drive:
    book: Book
    task: TaskSpec
    proposer: Proposer
    verifiers: Sequence[Verifier]
    evaluator: Evaluator
    live: Live
    wishes: Callable[[], Awaitable[DriveWish]]
    sleep: Sleep
    meters: dict[str, LeaseMeter] = field(default_factory=dict)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    round: Round | None = None
    confirming: Confirming | None = None

    def __post_init__(self) -> None:
        races = any(isinstance(item, RacingVerifier) for item in self.verifiers)
        memory = RunMemory.of_options(self.state.config.options)
        self.opening = Opening(self.book, self.task, self.proposer, memory=memory, races=races)
        self.asking = Asking(self.opening, self.live, self.meters)
        self.novelty = Novelty(self.book.log.get_source)
        self.wall = _Wall(self.book)

    @property
    def state(self) -> RunState:
        return self.book.state

    async def go(self) -> RunOutcome:
        """Searches until the run ends, then judges the leaders again, and watches meanwhile whether it must stop."""
        self._enter()
        if self.state.status == "stopping":
            await self._withdraw_all()
            self._finish(_STOPPED)
            return _outcome(self.state)
        if self.state.vain > _VAIN_MAX:
            self._pause(
                f"resumed {self.state.vain} times without progress: the run itself may crash the process that drives it"
            )
            return _outcome(self.state)
        if not self.wall.tick():  # before anybody is asked for a proposal, which may cost money
            await self._withdraw_all()
            self._finish(_decided(self.state) or _NO_WALL_TIME)
            return _outcome(self.state)
        try:
            stop, is_over = await self._until_stopped(self._work())
            if stop is _CLOSING:  # and not one that says the same, when all wall time has been used
                await self._withdraw_all()
                stop, is_over = await self._until_stopped(self._confirmed(stop, self._settlements()))
            if is_over:
                await self._withdraw_all()
            self._finish(stop)
        finally:
            await _end(self._submitting)
        return _outcome(self.state)

    async def _until_stopped(self, doing: Coroutine[Any, Any, Stop | None]) -> tuple[Stop | None, bool]:
        """Why the run ends, None if it pauses, and whether `doing` was ended for that."""
        work, watch = asyncio.create_task(doing), asyncio.create_task(self._watch())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            return (work.result(), False) if work.done() else (watch.result(), True)
        finally:
            await _end({work, watch})

    def _enter(self) -> None:
        """Writes to the log that the run starts or resumes, unless it is stopping.

        Leases that a crash left open count as spent in full, except for judgings, which are found again by their key.
        """
        orphans = [
            books.settled(lease, _candidate_of(lease), cost)
            for lease, cost in self.state.budget.leases.items()
            if not lease.endswith("/judge")
        ]
        if self.state.status == "stopping":
            if orphans:
                self.book.commit(*orphans)
            return
        kind = "run.resumed" if self.state.started else "run.started"
        self.book.commit(Draft(kind, None, {}), *orphans)

    async def _work(self) -> Stop | None:
        """Returns why the run ends; None if it pauses."""
        while True:
            if self._searches and self.state.generation is not None and not await self._generation():
                return None
            stop = _decided(self.state) or stop_reason(self.state)
            if stop is not None:
                return await self._confirmed(stop)
            await self._wait_for_provider()
            if self.hold.is_set():
                self._pause("")
                return None
            self.opening.migrate()
            if not self.opening.open():
                return await self._confirmed(Stop("budget", "the next candidate does not fit into the budget"))

    async def _confirmed(self, stop: Stop, settled: Sequence[Draft] = ()) -> Stop | None:
        """Judges the leaders again before the run ends. None if it pauses."""
        load, bound = self.book.log.get_source, self.opening.judging
        self.confirming = Confirming(self.book, self.evaluator, load, self.live, self.hold, bound)
        if await self.confirming.run(stop, settled):
            return stop
        self._pause("")
        return None

    async def _generation(self) -> bool:
        """Works on the open generation and closes it. False if the run paused before."""
        number = self.state.generations[-1].number
        self.round = Round(self.book, self.asking, self.verifiers, self.evaluator, self.novelty, self.hold)
        await self.round.run()
        complete, reason = self.round.complete, self.round.asked_to_pause
        if complete:
            self.book.commit(Draft("generation.closed", None, {"number": number}))
        if reason is not None or not complete:
            self._pause(reason or "")
            return False
        return True

    async def _wait_for_provider(self) -> None:
        left_s = provider_wait_s(self.state)
        if left_s:
            self.book.commit(Draft("note", None, {"text": f"the provider failed; asking again in {left_s:.0f} s"}))
        while left_s > 0 and not self.hold.is_set():
            await self.sleep(min(_POLL_S, left_s))
            left_s -= _POLL_S

    async def _watch(self) -> Stop:
        """Returns as soon as the run must stop, with the reason."""
        while True:
            wish = await self.wishes()
            if self.state.status not in ("running", "stopping"):
                return _STOPPED
            if wish == "stop":
                if self.state.status != "stopping":
                    self.book.commit(Draft("run.stopping", None, {}))
                return _STOPPED
            (self.hold.set if wish == "pause" else self.hold.clear)()
            if not self.wall.tick():
                return _decided(self.state) or _NO_WALL_TIME
            if self._searches and self.wall.left_s() <= wall_for_confirming_s(self.state, self.evaluator):
                return _CLOSING
            await asyncio.sleep(self.wall.next_look_s())

    async def _withdraw_all(self) -> None:
        """Withdraws whatever is being judged, within a second."""
        if self._submitting:
            await asyncio.wait(self._submitting, timeout=_GRACE_S / 2)
            await _end(self._submitting)
        judging = [(item.id, item.ticket or "") for item in self._in_flight() if item.state == "judging"]
        again = [(str(_candidate_of(lease)), ticket) for lease, ticket in self.state.confirmation_tickets.items()]
        await asyncio.gather(*(self._withdraw(*item) for item in (*judging, *again)))

    @property
    def _searches(self) -> bool:
        return self.confirming is None and self.state.confirming is None

    @property
    def _submitting(self) -> set[asyncio.Task[None]]:
        """What is handed to the judge at this moment."""
        return {
            *(self.round.submitting if self.round else ()),
            *(self.confirming.submitting if self.confirming else ()),
        }

    async def _withdraw(self, candidate: str, ticket: str) -> None:
        fault = await guarded(lambda: asyncio.wait_for(self.evaluator.withdraw(ticket), _GRACE_S))
        if isinstance(fault, Exception):
            text = f"{candidate} could not be withdrawn: {type(fault).__name__}: {fault}"
            self.book.commit(Draft("error", candidate, {"text": text}))

    def _in_flight(self) -> list[CandidateView]:
        generation = self.state.generation
        return self.state.of(generation) if generation is not None else []

    def _pause(self, text: str) -> None:
        self.book.commit(*self._settlements(), Draft("run.paused", None, {"text": text}))

    def _finish(self, stop: Stop | None) -> None:
        """Ends the run; does nothing without a `stop`, as after a pause."""
        if stop is None:
            return
        finished = Draft("run.finished", None, {"reason": stop.reason, "text": stop.text})
        note = note_of(self.state)
        written = [Draft("task.note", None, {"text": note})] if note else []
        self.book.commit(*self._settlements(), *written, finished)
        self.book.close()

    def _settlements(self) -> list[Draft]:
        """Settles every open lease at what is known to be spent, or else at its full amount."""
        return [
            books.settled(lease, _candidate_of(lease), self._spent(lease, cost))
            for lease, cost in self.state.budget.leases.items()
        ]

    def _spent(self, lease: str, cost: Cost) -> Cost:
        name = _candidate_of(lease)
        if name is None:
            return self.wall.elapsed()
        if lease.endswith("/propose"):
            return self.meters[name].total if name in self.meters else Cost()
        if lease == books.judge_lease(name):
            since_s = self.round.submitted_at_s.get(name) if self.round is not None else None
            judging = self.state.archive.candidates[name].state == "judging"
            return self._judged(since_s, cost) if judging else Cost()
        if lease.endswith("/judge"):
            since_s = self.confirming.submitted_at_s.get(lease) if self.confirming is not None else None
            return self._judged(since_s, cost) if lease in self.state.confirmation_tickets else Cost()
        return cost

    def _judged(self, since_s: float | None, bound: Cost) -> Cost:
        """The cost of a judging that was given up: at most the time since it was submitted."""
        if since_s is None:
            return bound
        return Cost(judgings=1, judging_s=min(bound.judging_s, asyncio.get_running_loop().time() - since_s))


@dataclass
class _Wall:
    """The budget of wall time, reserved in slices while the run is driven. Without a cap nothing is written.

    A slice that was looked at late counts in full: a process may have been too busy to look at the clock.
    """

    book: Book
    since_s: float | None = None

    def tick(self) -> bool:
        """Settles a slice that has passed and reserves the next one. False if no wall time is left."""
        budget = self.book.state.budget
        if budget.caps.wall_s is None:
            return True
        used = self.elapsed()
        if _WALL in budget.leases and used.wall_s < budget.leases[_WALL].wall_s:
            return True
        if _WALL in budget.leases:
            self.book.commit(books.settled(_WALL, None, used))
        left_s = budget.caps.wall_s - budget.spent.wall_s
        if left_s <= 0:
            self.book.commit(books.denied("wall_s", None, "going on"))
            return False
        self.since_s = asyncio.get_running_loop().time()
        self.book.commit(books.reserved(_WALL, None, Cost(wall_s=min(_SLICE_S, left_s))))
        return True

    def elapsed(self) -> Cost:
        """The wall time used since the open slice began, at most what is left of the cap."""
        budget = self.book.state.budget
        if _WALL not in budget.leases or self.since_s is None or budget.caps.wall_s is None:
            return budget.leases.get(_WALL, Cost())
        left_s = budget.caps.wall_s - budget.spent.wall_s
        return Cost(wall_s=min(left_s, asyncio.get_running_loop().time() - self.since_s))

    def left_s(self) -> float:
        """Of the cap; infinite without one."""
        budget = self.book.state.budget
        if budget.caps.wall_s is None:
            return math.inf
        return budget.caps.wall_s - budget.spent.wall_s - self.elapsed().wall_s

    def next_look_s(self) -> float:
        lease = self.book.state.budget.leases.get(_WALL)
        return _POLL_S if lease is None else min(_POLL_S, max(0.0, lease.wall_s - self.elapsed().wall_s))


_STOPPED = Stop("stopped", "stopped by its owner")
_NO_WALL_TIME = Stop("budget", "the run has used all of its wall time")
_CLOSING = Stop("budget", "the rest of the wall time was kept for judging the leaders again")


def _decided(state: RunState) -> Stop | None:
    """Why the run ends, if that was settled before its leaders were judged again."""
    return Stop(state.confirming.reason, state.confirming.text) if state.confirming is not None else None


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancels `tasks` and waits for them, but at most `_GRACE_S` seconds: a plug-in may ignore it."""
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    done, _ = await asyncio.wait(tasks, timeout=_GRACE_S)
    for task in done:
        if not task.cancelled():
            task.exception()


def _candidate_of(lease: str) -> str | None:
    return lease.split("/", maxsplit=1)[0] if "/" in lease else None
