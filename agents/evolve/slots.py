"""Processes the candidates of one generation: proposed, compared, verified, judged.

Slots run in parallel, but duplicates are decided in the order of the slots, so the outcome does not depend on which is
faster. Every step is committed before the next; a run that died continues at the step it had reached. Not covered:
which generations there are (`loop.py`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.harness import device_class

from . import book as books
from .archive import speedups
from .book import Book, Tagged
from .budget import Cost
from .config import RunConfig
from .curriculum import narrowed
from .events import Draft, LogEvent
from .model import (
    SLOW,
    CandidateView,
    Evaluator,
    JudgeResult,
    NoProposal,
    PaidVerifier,
    RacingVerifier,
    Reason,
    Verifier,
    VerifierOpinion,
    guarded,
)
from .novelty import Novelty, binary_of, twin
from .proposing import Asking, refused
from .rng import Rng


@dataclass
class _Gate:
    """Lets slots pass in their order."""

    passed: list[asyncio.Event]

    async def turn(self, place: int) -> None:
        for earlier in self.passed[:place]:
            await earlier.wait()

    def leave(self, place: int) -> None:
        self.passed[place].set()


@dataclass(frozen=True)
class _Umpire:
    """A name for verdicts that are recorded like a verifier's but need no look at a source."""

    id: str
    version: str


_FINALS = _Umpire("finals", "1")


def finalists(config: RunConfig) -> int | None:
    """How many candidates of a generation are judged after screening: the run's option `finalists`. None means all."""
    count = config.options.get("finalists")
    return count if isinstance(count, int) and count > 0 else None


def estimate_of(candidate: CandidateView) -> float | None:
    """The score that screening has estimated for a candidate that it let pass; None without an estimate."""
    opinion = candidate.opinions.get("screen")
    if opinion is None or opinion.decision != "accept" or not opinion.resources:
        return None
    return float(opinion.resources["estimate"])


def _gate(count: int) -> _Gate:
    return _Gate([asyncio.Event() for _ in range(count)])


@dataclass
class Round:
    """The work on the generation that is open. `hold` makes it start no more slots."""

    book: Book
    asking: Asking
    verifiers: Sequence[Verifier]
    evaluator: Evaluator
    novelty: Novelty
    hold: asyncio.Event
    asked_to_pause: str | None = None
    submitting: set[asyncio.Task[None]] = field(default_factory=set)
    submitted_at_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generation = self.book.state.generation
        assert generation is not None  # noqa: S101 - whoever makes a round has opened one
        self.names = generation.candidates
        self._named, self._built, self._over, self._screened = (_gate(len(self.names)) for _ in range(4))
        self._room = asyncio.Semaphore(self.book.state.config.concurrency)
        self._bench = asyncio.Semaphore(self.book.state.config.judgings_at_once)
        self._finalists = finalists(self.book.state.config)

    async def run(self) -> None:
        """Returns when no slot is at work. Raises errors of the log. If cancelled, it leaves no task running."""
        tasks = [asyncio.create_task(self._slot(place)) for place in range(len(self.names))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def complete(self) -> bool:
        return all(self._candidate(place).state in ("judged", "refused", "dropped") for place in range(len(self.names)))

    async def _slot(self, place: int) -> None:
        try:
            async with self._room:
                if not self._may_start(place):
                    return
                await self._prepare(place)
                if self._finalists is None:
                    await self._settle(place)
            if self._finalists is not None:
                await self._settle(place)
        finally:
            for gate in (self._named, self._built, self._over, self._screened):
                gate.leave(place)

    def _may_start(self, place: int) -> bool:
        """While a pause is wanted, only candidates that the judge already has may go on."""
        candidate = self._candidate(place)
        if candidate.state not in ("proposing", "proposed", "verified"):
            return True
        return not self.hold.is_set() and self.asked_to_pause is None and self._covered(candidate)

    async def _prepare(self, place: int) -> None:
        """Until the candidate is screened."""
        if self._candidate(place).state == "proposing":
            await self._propose(place)
        if self._candidate(place).state == "proposed":
            await self._named.turn(place)
            self._compare(place)
        self._named.leave(place)
        if self._candidate(place).state in ("proposed", "verified"):
            await self._verify(place)
        self._screened.leave(place)

    async def _settle(self, place: int) -> None:
        """Until the candidate is judged, or is known not to need it.

        If there are finals, this waits until all are screened. So it takes none of the places of those at work.
        """
        if self._candidate(place).state in ("proposed", "verified"):
            await self._built.turn(place)
            await self._reuse(place)
        if self._candidate(place).state in ("proposed", "verified") and self._finalists is not None:
            await self._reach_finals(place, self._finalists)
        if self._candidate(place).state in ("proposed", "verified", "judging"):
            await self._await_judging(place)

    def _candidate(self, place: int) -> CandidateView:
        return self.book.state.archive.candidates[self.names[place]]

    def _earlier(self, place: int) -> Iterator[CandidateView]:
        """The candidates from before this generation, and those of the slots before this one."""
        names = (*self.book.state.base.view.candidates, *self.names[:place])
        return (self.book.state.archive.candidates[name] for name in names)

    async def _propose(self, place: int) -> None:
        await self.asking.propose(self._candidate(place))
        refusal = self._candidate(place).refusal
        if refusal is not None and refusal.pause:
            self.asked_to_pause = refusal.text

    def _covered(self, candidate: CandidateView) -> bool:
        """Reserves again what was settled at a pause or a crash. Refuses a candidate that no longer fits the budget."""
        opening, budget = self.asking.opening, self.book.state.budget
        wanted = {books.judge_lease(candidate.id): opening.judging}
        if candidate.state == "proposing":
            wanted[books.propose_lease(candidate.id)] = opening.proposer.bound(opening.request(candidate))
        missing = {lease: cost for lease, cost in wanted.items() if lease not in budget.leases and cost != Cost()}
        short = budget.fits(sum(missing.values(), Cost())) if missing else None
        if short is not None:
            refusal = NoProposal("budget", f"continuing would exceed the cap of {short}")
            denied = books.denied(short, candidate.id, "going on")
            self.book.commit(denied, *refused(self.book, candidate, refusal))
            return False
        if missing:
            self.book.commit(*(books.reserved(lease, candidate.id, cost) for lease, cost in missing.items()))
        return True

    def _compare(self, place: int) -> None:
        candidate = self._candidate(place)
        refusal = self.novelty.duplicate(candidate, self._earlier(place))
        if refusal is not None:
            self.book.commit(*refused(self.book, candidate, refusal))

    async def _verify(self, place: int) -> None:
        """Afterwards the candidate is `dropped`, or goes on, perhaps against a verifier's advice."""
        for verifier in self.verifiers:
            candidate = self._candidate(place)
            if any(item.decision == "reject" for item in candidate.opinions.values()):
                return
            early = isinstance(verifier, RacingVerifier) and self.book.state.base.view.best is None
            if verifier.id not in candidate.opinions and not early:
                await self._consult(candidate, verifier)

    async def _consult(self, candidate: CandidateView, verifier: Verifier) -> None:
        self._say(candidate, {"phase": "verifying", "verifier": verifier.id})
        lease = books.verify_lease(candidate.id, verifier.id)
        source = self.novelty.load(candidate.source_sha256 or "")
        if isinstance(verifier, PaidVerifier) and not self._paid(candidate, verifier, source):
            return
        opinion = await self._opinion(verifier, source, candidate)
        paid = lease in self.book.state.budget.leases
        settling = [books.settled(lease, candidate.id, opinion.cost)] if paid else []
        self.book.commit(*self._verdict(candidate, verifier, opinion), *settling)

    def _paid(self, candidate: CandidateView, verifier: PaidVerifier, source: str) -> bool:
        """Whether to ask a paid verifier: an earlier one has abstained, and the price could be reserved."""
        if not any(item.decision == "abstain" for item in candidate.opinions.values()):
            return False
        cost = verifier.bound(source, candidate.language, self.asking.opening.task)
        short = self.book.state.budget.fits(cost)
        if short is not None:
            self.book.commit(books.denied(short, candidate.id, f"asking {verifier.id}"))
            return False
        self.book.commit(books.reserved(books.verify_lease(candidate.id, verifier.id), candidate.id, cost))
        return True

    async def _opinion(self, verifier: Verifier, source: str, candidate: CandidateView) -> VerifierOpinion:
        opinion = await guarded(lambda: self._said(verifier, source, candidate))
        if not isinstance(opinion, Exception):
            return opinion
        text = f"{verifier.id} failed: {type(opinion).__name__}: {opinion}"
        self.book.commit(Draft("error", candidate.id, {"text": text}))
        lease = self.book.state.budget.leases.get(books.verify_lease(candidate.id, verifier.id), Cost())
        return VerifierOpinion("abstain", (Reason(text),), cost=lease)

    async def _said(self, verifier: Verifier, source: str, candidate: CandidateView) -> VerifierOpinion:
        task, view, focus = self.asking.opening.task, self.book.state.base.view, self.book.state.focus
        best = view.best
        if not isinstance(verifier, RacingVerifier) or best is None:
            return await verifier.judge(source, candidate.language, task)
        if focus is not None:
            best = view.candidates[view.champions[focus.config]]
            task = narrowed(task, device_class(candidate.language), focus.config)
        best_source = self.novelty.load(best.source_sha256 or "")
        return await verifier.race(source, candidate.language, task, best_source, best.counts or 0.0)

    def _verdict(self, candidate: CandidateView, verifier: Verifier | _Umpire, opinion: VerifierOpinion) -> list[Draft]:
        """The events of a verdict. A candidate that is dropped releases the judging that was reserved for it."""
        rejects = opinion.decision == "reject"
        audit = rejects and self._audited(candidate)
        payload = {
            **asdict(opinion),
            "verifier": verifier.id,
            "version": verifier.version,
            "reasons": [asdict(item) for item in opinion.reasons],
            "cost": opinion.cost.to_json(),
            "resources": dict(opinion.resources) if opinion.resources is not None else None,
            "audit": audit,
        }
        lease = books.judge_lease(candidate.id)
        back = [books.settled(lease, candidate.id, Cost())] if rejects and not audit else []
        return [Draft("verdict", candidate.id, payload), *back]

    def _audited(self, candidate: CandidateView) -> bool:
        config = self.book.state.config
        return Rng(config.seed, "audit", candidate.generation, candidate.slot).random() < config.audit_fraction

    async def _reuse(self, place: int) -> None:
        """Takes the result of an earlier candidate that compiled to the same binary, once that result is known."""
        candidate = self._candidate(place)
        other = twin(candidate, self._earlier(place))
        if other is None:
            return
        self._built.leave(place)
        if other.id in self.names:
            await self._over.passed[self.names.index(other.id)].wait()
        result = self.book.state.archive.candidates[other.id].result
        if result is not None and not result.ours:
            self._finish(candidate, result, Cost(), reused_from=other.id)

    async def _reach_finals(self, place: int, count: int) -> None:
        """Waits until all are screened. Drops the candidate if so many others have better estimates."""
        for slot in self._screened.passed:
            await slot.wait()
        candidate = self._candidate(place)
        if _FINALS.id in candidate.opinions:  # before a crash, or a pause
            return
        first = self._firsts()
        ranked = sorted(set(first.values()), key=lambda other: (-self._estimate(other), other))
        if place in first and first[place] in ranked[count:]:
            said = Reason(f"{count} others of its generation have better estimates on the timed configurations")
            opinion = VerifierOpinion("reject", (said,), fault=SLOW, resources={"estimate": self._estimate(place)})
            self.book.commit(*self._verdict(candidate, _FINALS, opinion))

    def _firsts(self) -> dict[int, int]:
        """Of each slot with an estimate the first one that compiled to the same binary: they need one place together.

        Without those that take the result of a candidate from before, and those that are refused or that a verifier
        rejects. Nothing here changes once all are screened.
        """
        first, slot_of = dict[int, int](), dict[str, int]()
        before = [item for item in self._earlier(0) if item.result is not None and not item.result.ours]
        for other in range(len(self.names)):
            candidate = self._candidate(other)
            rejected = any(said.decision == "reject" for name, said in candidate.opinions.items() if name != _FINALS.id)
            rejected |= candidate.state == "refused"
            if estimate_of(candidate) is not None and not rejected and twin(candidate, before) is None:
                binary = binary_of(replace(candidate, result=None))  # as a verifier told it
                first[other] = slot_of.setdefault(binary or f"slot {other}", other)
        return first

    def _estimate(self, place: int) -> float:
        return estimate_of(self._candidate(place)) or 0.0

    async def _await_judging(self, place: int) -> None:
        if self._bench.locked():
            self._say(self._candidate(place), {"phase": "waiting", "text": "for another candidate to be judged"})
        async with self._bench:
            if self._may_start(place):
                await self._judge(place)

    async def _judge(self, place: int) -> None:
        candidate = self._candidate(place)
        live = Tagged(self.asking.live, candidate.id)

        async def judged() -> JudgeResult:
            await self._submit(candidate)
            self._built.leave(place)
            return await self.evaluator.wait(self._candidate(place).ticket or "", live)

        result = await guarded(judged)
        if isinstance(result, Exception):
            result = JudgeResult("INTERNAL_ERROR", f"{type(result).__name__}: {result}")
        self._finish(candidate, result, Cost(judgings=1, judging_s=result.seconds))

    async def _submit(self, candidate: CandidateView) -> None:
        """Is shielded from cancelling, since the ticket of a submission would be lost."""
        task = asyncio.create_task(self._submitted(candidate))
        self.submitting.add(task)
        task.add_done_callback(self.submitting.discard)
        await asyncio.shield(task)

    async def _submitted(self, candidate: CandidateView) -> None:
        self.submitted_at_s[candidate.id] = asyncio.get_running_loop().time()
        source = self.novelty.load(candidate.source_sha256 or "")
        ticket = await self.evaluator.submit(candidate.id, source, candidate.language)
        if ticket != candidate.ticket:
            self.book.commit(Draft("evaluation.submitted", candidate.id, {"key": candidate.id, "ticket": ticket}))

    def _finish(
        self, candidate: CandidateView, result: JudgeResult, cost: Cost, reused_from: str | None = None
    ) -> None:
        finished = Draft(
            "evaluation.finished", candidate.id, {"result": result_to_json(result), "reused_from": reused_from}
        )
        lease = books.judge_lease(candidate.id)
        news = announcements(self.book, finished)
        self.book.commit(finished, books.settled(lease, candidate.id, cost), *news, *self._arm(candidate, result))

    def _arm(self, candidate: CandidateView, result: JudgeResult) -> list[Draft]:
        """For the arm that made the candidate: what counts of it divided by that of its best parent."""
        if candidate.arm is None:
            return []
        known = self.book.state.archive.candidates
        before = max((known[name].counts or 0.0 for name in candidate.parents), default=0.0)
        gain = result.counts / before if result.correct and result.counts and before else None
        return [Draft("arm.updated", candidate.id, {"arm": candidate.arm, "gain": gain, "usd": candidate.cost.usd})]

    def _say(self, candidate: CandidateView, payload: dict[str, Any]) -> None:
        Tagged(self.asking.live, candidate.id).say("slot", payload)


def result_to_json(result: JudgeResult) -> dict[str, Any]:
    return {**asdict(result), "configs": [dict(item) for item in result.configs]}


def announcements(book: Book, finished: Draft) -> list[Draft]:
    """Events for the places in the archive that the candidate gets, and for candidates that lose their last place."""
    after = book.state.archive.copy()
    after.apply(LogEvent(book.state.seq + 1, 0.0, finished.type, finished.candidate, finished.payload))
    name = str(finished.candidate)
    places = after.holds(name)
    if not places:
        return []
    candidate = after.candidates[name]
    payload = {"places": places, "score": candidate.score, "island": candidate.island, "cell": list(candidate.cell)}
    lost = sorted(book.state.archive.members() - after.members())
    return [
        Draft("archive.inserted", name, {**payload, "configs": sorted(speedups(candidate))}),
        *(Draft("archive.evicted", item, {"by": name}) for item in lost),
    ]
