"""Opens a generation, and asks for one proposal and records it in the log.

Choices depend on nothing but the archive and the budget as of the opening, and on keyed random numbers. Whatever a
proposer answers or raises becomes an event. Not covered: what happens to a proposal then (`slots.py`).
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from benchmarks.harness import Rules, Source, TaskSpec, check_source, default_rules

from . import book as books
from . import curriculum
from .archive import cell_of
from .book import Book, LeaseMeter, Tagged
from .budget import Budget, Caps, Cost
from .events import Draft, Live
from .memory import RunMemory
from .model import (
    ArchiveView,
    CandidateView,
    NoProposal,
    Proposal,
    ProposalRequest,
    Proposer,
    RefusalReason,
    Stage,
    guarded,
)
from .rng import Rng
from .selection import last_failure, migrations, select

_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME_CHARS, _THOUGHT_CHARS, _TEXT_CHARS = 200, 4000, 2000


@dataclass(frozen=True)
class _Place:
    stage: Stage
    generation: int
    slot: int


@dataclass(frozen=True)
class Opening:
    """Opens generations of a run."""

    book: Book
    task: TaskSpec
    proposer: Proposer
    rules: Rules = field(default_factory=default_rules)
    memory: RunMemory = field(default_factory=RunMemory)
    races: bool = False  # a verifier compares with the best kernel, so one configuration can be timed alone

    def migrate(self) -> None:
        """Sends elites to islands that stand still. Committed before the generation, whose archive holds them."""
        state = self.book.state
        found = migrations(state.archive, state.next_number, state.config.stagnation)
        drafts = [
            Draft(
                "migration",
                item.candidate,
                {"from_island": item.from_island, "to_island": item.to_island, "generation": state.next_number},
            )
            for item in found
        ]
        if drafts:
            self.book.commit(*drafts)

    def open(self) -> bool:
        """False if not even one slot can be paid."""
        state = self.book.state
        stage: Stage = "translate" if state.best is None else "optimise"
        opened = {"number": state.next_number, "base_seq": state.seq, "stage": stage}
        slots = [*self._slots(stage, state.archive.view(state.seq), state.budget.copy())]
        if slots[0].type == "budget.denied":
            self.book.commit(slots[0])
            return False
        turn = curriculum.turn(state) if self.races else []
        self.book.commit(*turn, Draft("generation.opened", None, opened), *slots)
        return True

    def request(self, candidate: CandidateView) -> ProposalRequest:
        """The request of a slot of the open generation, the same every time it is asked."""
        base = self.book.state.base
        parents = tuple(base.view.candidates[name] for name in candidate.parents)
        place = _Place(candidate.stage, candidate.generation, candidate.slot)
        return self._request(place, parents, base.view, base.budget.left())

    def _slots(self, stage: Stage, view: ArchiveView, budget: Budget) -> Iterator[Draft]:
        config = self.book.state.config
        number, left = self.book.state.next_number, budget.left()
        kept = Cost(judgings=self._kept(stage))
        for slot in range(config.generation_size if stage == "optimise" else 1):
            chosen = select(view, self._island(number, slot), Rng(config.seed, "select", number, slot))
            request = self._request(_Place(stage, number, slot), chosen.parents, view, left)
            costs = {books.propose_lease(request.candidate): self.proposer.bound(request)}
            costs[books.judge_lease(request.candidate)] = self.judging
            short = budget.fits(sum(costs.values(), kept))
            if short is not None:
                yield books.denied(short, None, f"candidate {request.candidate}")
                return
            yield _requested(request, chosen.probabilities)
            for lease, cost in costs.items():
                if cost != Cost():
                    budget.reserve(lease, cost)
                    yield books.reserved(lease, request.candidate, cost)

    @property
    def judging(self) -> Cost:
        return Cost(judgings=1, judging_s=self.book.state.config.judging_bound_s)

    def _kept(self, stage: Stage) -> int:
        """The judgings that are held back for the end; none while there is no correct kernel."""
        return self.book.state.config.held_back if stage == "optimise" else 0

    def _for_search(self, left: Caps, stage: Stage) -> Caps:
        return left if left.judgings is None else replace(left, judgings=max(0, left.judgings - self._kept(stage)))

    def _island(self, number: int, slot: int) -> int:
        config = self.book.state.config
        return (number * config.generation_size + slot) % config.islands

    def _request(
        self, place: _Place, parents: tuple[CandidateView, ...], view: ArchiveView, left: Caps
    ) -> ProposalRequest:
        config, island = self.book.state.config, self._island(place.generation, place.slot)
        return ProposalRequest(
            task=self.task,
            language=config.language,
            device_kind=config.device_kind,
            stage=place.stage,
            generation=place.generation,
            slot=place.slot,
            island=island,
            parents=parents,
            view=view,
            rng=Rng(config.seed, "propose", place.generation, place.slot),
            last_failure=last_failure(view, None if place.stage == "translate" else island),
            budget_left=self._for_search(left, place.stage),
            memory=self.memory,
        )


@dataclass(frozen=True)
class Asking:
    """Asks for one proposal and writes down what comes."""

    opening: Opening
    live: Live
    meters: dict[str, LeaseMeter]  # of the calls that are open

    async def propose(self, candidate: CandidateView) -> None:
        """Afterwards the candidate is `proposed` or `refused`. Its reservations are open before."""
        book, lease = self.opening.book, books.propose_lease(candidate.id)
        meter = LeaseMeter(book, candidate.id, book.state.budget.leases.get(lease, Cost()))
        self.meters[candidate.id] = meter
        answer = await self._answer(self.opening.request(candidate), meter)
        settling = [books.settled(lease, candidate.id, meter.total)] if lease in book.state.budget.leases else []
        book.commit(*meter.drafts, *self._outcome(candidate, answer), *settling)
        del self.meters[candidate.id]

    async def _answer(self, request: ProposalRequest, meter: LeaseMeter) -> Proposal | NoProposal:
        live = Tagged(self.live, request.candidate)
        live.say("slot", {"phase": "proposing"})
        answer = await guarded(lambda: self.opening.proposer.propose(request, meter, live))
        if isinstance(answer, Exception):
            reason: RefusalReason = "provider_error" if self.opening.proposer.needs_key else "template_error"
            return NoProposal(reason, f"{type(answer).__name__}: {answer}")
        if isinstance(answer, NoProposal):
            return answer
        limit = self.opening.rules.source.max_bytes
        return unusable(answer, request.language, limit) or cleaned(answer, request.view.candidates)

    def _outcome(self, candidate: CandidateView, answer: Proposal | NoProposal) -> list[Draft]:
        if isinstance(answer, NoProposal):
            return refused(self.opening.book, candidate, answer)
        received = self._received(candidate, answer)
        problem = check_source(Source(answer.source, answer.language), self.opening.task, self.opening.rules).problem
        if problem is None:
            return [received]
        return [received, *refused(self.opening.book, candidate, NoProposal("wrong_task", problem))]

    def _received(self, candidate: CandidateView, proposal: Proposal) -> Draft:
        payload = {
            "generation": candidate.generation,
            "slot": candidate.slot,
            "island": candidate.island,
            "source_sha256": self.opening.book.log.put_source(proposal.source),
            "language": proposal.language,
            "name": proposal.name,
            "thought": proposal.thought,
            "params": dict(proposal.params) if proposal.params is not None else None,
            "template": proposal.template,
            "parents": list(proposal.parents),
            "operator": proposal.operator,
            "arm": proposal.arm,
            "cell": list(cell_of(proposal)),
        }
        return Draft("proposal.received", candidate.id, payload)


def refused(book: Book, candidate: CandidateView, refusal: NoProposal) -> list[Draft]:
    """The refusal, and its judging given back."""
    payload = {
        "generation": candidate.generation,
        "slot": candidate.slot,
        "reason": refusal.reason,
        "text": readable(refusal.text)[:_TEXT_CHARS],
        "pause": refusal.pause,
        "exhausted": refusal.exhausted,
    }
    lease = books.judge_lease(candidate.id)
    back = [books.settled(lease, candidate.id, Cost())] if lease in book.state.budget.leases else []
    return [Draft("proposal.rejected", candidate.id, payload), *back]


def unusable(proposal: Proposal, language: str, limit: int) -> NoProposal | None:
    """What is no kernel at all, so that not even its text is kept."""
    source = proposal.source
    if not isinstance(source, str) or not source.strip():
        return NoProposal("empty", "the answer holds no code")
    if len(source) > limit or len(source.encode(errors="replace")) > limit:
        return NoProposal("too_long", f"the code has {len(source)} characters, the rules allow {limit} bytes")
    if source != readable(source):
        return NoProposal("unparsable", "the code is not text: it holds control characters or broken Unicode")
    if proposal.language != language:
        return NoProposal("wrong_task", f"the code is in {proposal.language}, this run is in {language}")
    return None


def cleaned(proposal: Proposal, known: Container[str]) -> Proposal:
    """The same with words that any store can keep, and with parents that are `known`."""
    params = proposal.params
    return replace(
        proposal,
        name=readable(str(proposal.name))[:_NAME_CHARS],
        thought=readable(str(proposal.thought))[:_THOUGHT_CHARS],
        params={str(name): value if isinstance(value, int) else str(value) for name, value in params.items()}
        if params is not None
        else None,
        parents=tuple(name for name in proposal.parents if name in known),
    )


def readable(text: str) -> str:
    """Without control characters and lone surrogates."""
    return _UNREADABLE.sub("", text)


def _requested(request: ProposalRequest, probabilities: dict[str, float]) -> Draft:
    payload = {
        "generation": request.generation,
        "slot": request.slot,
        "island": request.island,
        "stage": request.stage,
        "parents": [item.id for item in request.parents],
        "probabilities": probabilities,
    }
    return Draft("proposal.requested", request.candidate, payload)
