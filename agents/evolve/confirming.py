"""Confirms the best of a run: when it ends, the leading candidates are judged again, and the pooled estimate decides.

The best of many judgings owes something to chance, so one judging of it says too much. The judgings for this are held
back from the run's cap while it searches. Each is committed step by step, as the first judging of a candidate is. Not
covered: why a run ends (`stops.py`) and which candidate is the best then (`model.leading`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from . import book as books
from .book import Book, Tagged
from .budget import Cost
from .config import CONFIRMING_SHARE
from .events import Draft, Live
from .model import CandidateView, Evaluator, JudgeResult, RepeatingEvaluator, guarded
from .slots import result_to_json
from .state import RunState
from .stops import Stop

LEADERS = 2
_WALL_SPARE = 1.5


def leaders(state: RunState) -> list[CandidateView]:
    """The correct candidates with the highest figures in their first judging, of those that were judged themselves."""
    found = [
        (item.result.counts or 0.0, item)
        for item in state.archive.candidates.values()
        if item.counts is not None and item.ticket is not None and item.result is not None
    ]
    return [item for _, item in sorted(found, key=lambda pair: -pair[0])[:LEADERS]]


def wall_for_confirming_s(state: RunState, evaluator: Evaluator) -> float:
    """How much of the wall time is kept for the judgings at the end, by how long those of correct kernels took.

    At most a fifth of the cap, and nothing if that does not hold two of them. Waiting in a queue is not in it, but for
    a spare half.
    """
    cap_s, count = state.config.caps.wall_s, state.config.held_back
    if cap_s is None or not count or not leaders(state) or not isinstance(evaluator, RepeatingEvaluator):
        return 0.0
    judged = (item for item in state.archive.candidates.values() if item.correct and item.ticket is not None)
    seconds = median(item.result.seconds for item in judged if item.result is not None)
    kept_s = min(cap_s / CONFIRMING_SHARE, _WALL_SPARE * count * seconds)
    return kept_s if kept_s >= 2 * seconds else 0.0


@dataclass
class Confirming:
    """The judgings at the end of a run, one at a time, the leaders by turns. `hold` makes it start no more.

    One that has a lease was started before, and goes on: settled at a pause, it would be charged once more afterwards.
    """

    book: Book
    evaluator: Evaluator
    load: Callable[[str], str]
    live: Live
    hold: asyncio.Event
    bound: Cost
    submitting: set[asyncio.Task[None]] = field(default_factory=set)
    submitted_at_s: dict[str, float] = field(default_factory=dict)  # by lease

    async def run(self, stop: Stop, settled: Sequence[Draft] = ()) -> bool:
        """False if it paused before the end. `settled` is written with its beginning. Raises errors of the log."""
        if not isinstance(self.evaluator, RepeatingEvaluator):
            return True
        if self.book.state.confirming is None and not self._begun(stop, settled):
            return True
        begun = self.book.state.confirming
        assert begun is not None  # noqa: S101 - it was just written
        while (candidate := self._next(begun.judgings)) is not None:
            number = len(candidate.confirmations) + 1
            lease = books.confirm_lease(candidate.id, number)
            if self.hold.is_set() and lease not in self.book.state.budget.leases:
                return False
            if not self._covered(candidate, number):
                return True
            await self._judge(self.evaluator, candidate, number)
        return True

    def _next(self, judgings: int) -> CandidateView | None:
        """The leader that was judged again least often: one that was rejected has left its place to the next best."""
        state = self.book.state
        done = sum(len(item.confirmations) for item in state.archive.candidates.values())
        return min(leaders(state), key=lambda item: len(item.confirmations), default=None) if done < judgings else None

    def _begun(self, stop: Stop, settled: Sequence[Draft]) -> bool:
        state = self.book.state
        names, count = [item.id for item in leaders(state)], state.config.held_back
        if not names or not count:
            return False
        payload = {"reason": stop.reason, "text": stop.text, "candidates": names, "judgings": count}
        self.book.commit(*settled, Draft("confirming.began", None, payload))
        return True

    def _covered(self, candidate: CandidateView, number: int) -> bool:
        """Reserves the judging; False if it does not fit into the budget."""
        lease, budget = books.confirm_lease(candidate.id, number), self.book.state.budget
        if lease in budget.leases:
            return True
        short = budget.fits(self.bound)
        if short is not None:
            self.book.commit(books.denied(short, candidate.id, "judging it again"))
            return False
        self.book.commit(books.reserved(lease, candidate.id, self.bound))
        return True

    async def _judge(self, evaluator: RepeatingEvaluator, candidate: CandidateView, number: int) -> None:
        lease = books.confirm_lease(candidate.id, number)

        async def judged() -> JudgeResult:
            await self._submit(evaluator, candidate, number)
            ticket = self.book.state.confirmation_tickets[lease]
            return await self.evaluator.wait(ticket, Tagged(self.live, candidate.id))

        result = await guarded(judged)
        if isinstance(result, Exception):
            result = JudgeResult("INTERNAL_ERROR", f"{type(result).__name__}: {result}")
        payload = {"number": number, "lease": lease, "result": result_to_json(result)}
        self.book.commit(
            Draft("confirmation.finished", candidate.id, payload),
            books.settled(lease, candidate.id, Cost(judgings=1, judging_s=result.seconds)),
        )

    async def _submit(self, evaluator: RepeatingEvaluator, candidate: CandidateView, number: int) -> None:
        """Is shielded from cancelling, since the ticket of a submission would be lost."""
        task = asyncio.create_task(self._submitted(evaluator, candidate, number))
        self.submitting.add(task)
        task.add_done_callback(self.submitting.discard)
        await asyncio.shield(task)

    async def _submitted(self, evaluator: RepeatingEvaluator, candidate: CandidateView, number: int) -> None:
        lease = books.confirm_lease(candidate.id, number)
        self.submitted_at_s[lease] = asyncio.get_running_loop().time()
        source = self.load(candidate.source_sha256 or "")
        ticket = await evaluator.again(candidate.ticket or "", number, source, candidate.language)
        if ticket != self.book.state.confirmation_tickets.get(lease):
            named = {"number": number, "lease": lease, "ticket": ticket}
            self.book.commit(Draft("confirmation.submitted", candidate.id, named))
