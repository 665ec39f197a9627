"""The data types of the search (proposals, candidates, results) and the interfaces of its plug-ins.

There are three kinds of plug-in: a `Proposer` makes sources, a `Verifier` checks a source before it is judged, an
`Evaluator` has it judged. Not covered: the order of calls (`loop.py`) and the meaning of a log (`archive.py`).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from benchmarks.harness import SpeedupEstimate, TaskSpec, is_bound, pooled, what_counts

from .budget import Caps, Cost
from .events import Live
from .memory import RunMemory
from .rng import Rng
from .templates import Genome

PASS = "PASS"  # noqa: S105 - a verdict, not a password
OURS = ("NOISY", "INTERNAL_ERROR")  # verdicts that say nothing about the kernel
LUCK_MAX = 1.1  # by which one judging of a kernel lies above others of it at most
SLOW = "slow"  # the fault of a kernel that screening has dropped: correct as far as it looked, and slower than the best

T = TypeVar("T")
UNPROMISING = "no setting that is left is expected to be faster"
Stage = Literal["translate", "optimise"]
Decision = Literal["accept", "reject", "abstain"]
RefusalReason = Literal[
    "duplicate",
    "empty",
    "too_long",
    "unparsable",
    "wrong_task",
    "no_parent",
    "provider_error",
    "budget",
    "template_error",
    "unpromising",
]


@dataclass(frozen=True)
class Proposal:
    """One proposed kernel. `params` are the genes if it comes from a template."""

    source: str
    language: str
    name: str = ""
    thought: str = ""
    params: Genome | None = None
    template: str | None = None
    parents: tuple[str, ...] = ()
    operator: str = ""
    arm: str | None = None


@dataclass(frozen=True)
class NoProposal:
    """A refusal and its reason. `pause`: only a person can solve the problem (no credit left), so the run pauses.

    `exhausted`: there is nothing left to propose, so the run may end.
    """

    reason: RefusalReason
    text: str
    pause: bool = False
    exhausted: bool = False


@dataclass(frozen=True)
class Reason:
    """Why a verifier thinks so; `line` is 1-based."""

    text: str
    line: int | None = None


@dataclass(frozen=True)
class VerifierOpinion:
    """A verifier's opinion of a source. `probability` is that of a correct kernel.

    `resources` may hold `registers`, `spill_bytes`, `shared_bytes` and `binary_sha256`; the last lets identical
    binaries share one judging.
    """

    decision: Decision
    reasons: tuple[Reason, ...] = ()
    fault: str | None = None
    probability: float | None = None
    seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)
    resources: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class JudgeResult:
    """What the judge found. `configs` are those of the report's JSON form, hidden ones without values."""

    verdict: str
    reason: str
    score: float | None = None
    ci95: tuple[float, float] | None = None
    vs_eager: float | None = None
    vs_compile: float | None = None
    configs: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] | None = None
    timing_trust: str | None = None
    seconds: float = 0.0  # that the judging took, waiting left out
    log_tail: str = ""  # of the stage that failed

    @property
    def correct(self) -> bool:
        return self.verdict == PASS

    @property
    def ours(self) -> bool:
        return self.verdict in OURS

    @property
    def counts(self) -> float | None:
        """The figure by which it is compared with others: of a bound the lower end of its interval."""
        if self.score is None:
            return None
        return what_counts(self.score, self.ci95[0] if self.ci95 else self.score, self.timing_trust or "")

    @property
    def estimate(self) -> SpeedupEstimate | None:
        """Its score for pooling."""
        if self.score is None:
            return None
        lo, hi = self.ci95 or (self.score, self.score)
        return SpeedupEstimate(self.score, lo, hi, is_bound(self.timing_trust or ""))


@dataclass(frozen=True)
class CandidateView:
    """One slot of the search and all that is known of it. `state` says how far it came.

    proposing → proposed → verified → judging → judged; or refused (`refusal`), or dropped by a verifier.
    The text of the source is in the log: `ArchiveView.source`.
    """

    id: str  # GENERATION-SLOT
    generation: int
    slot: int
    island: int
    stage: Stage
    state: str = "proposing"
    source_sha256: str | None = None
    language: str = ""
    name: str = ""
    thought: str = ""
    params: Genome | None = None
    template: str | None = None
    parents: tuple[str, ...] = ()
    operator: str = ""
    arm: str | None = None
    cell: tuple[str, ...] = ()
    refusal: NoProposal | None = None
    opinions: Mapping[str, VerifierOpinion] = field(default_factory=dict)
    ticket: str | None = None
    result: JudgeResult | None = None
    reused_from: str | None = None  # whose result this is, where the binaries are the same
    cost: Cost = field(default_factory=Cost)
    confirmations: tuple[JudgeResult, ...] = ()  # of the same source, at the end of the run

    @property
    def correct(self) -> bool:
        """Whether each judging of it that says something about the kernel accepted it."""
        again = all(item.correct or item.ours for item in self.confirmations)
        return self.result is not None and self.result.correct and again

    @property
    def judgings(self) -> int:
        """How many judgings its score is pooled from."""
        return 1 + sum(item.correct for item in self.confirmations) if self.correct else 0

    @property
    def pooled(self) -> SpeedupEstimate | None:
        """Of all judgings that accepted it; None unless it is correct."""
        if self.result is None or not self.correct:
            return None
        known = [item.estimate for item in (self.result, *self.confirmations) if item.correct]
        return pooled([item for item in known if item is not None]) if self.result.estimate is not None else None

    @property
    def score(self) -> float | None:
        """None unless the judge accepted it."""
        if self.confirmations:
            return self.pooled.score if self.pooled is not None else None
        return self.result.score if self.result is not None and self.result.correct else None

    @property
    def counts(self) -> float | None:
        """What counts of its score where candidates are compared; None unless the judge accepted it."""
        if self.confirmations:
            known = self.pooled
            return None if known is None else known.lo if known.bound else known.score
        return self.result.counts if self.result is not None and self.result.correct else None

    @property
    def lo(self) -> float | None:
        """The lower end of the interval of its score."""
        return self.pooled.lo if self.pooled is not None else None

    @property
    def counted_where(self) -> str:
        """What a sentence adds to the figure that counts; empty if it is the score."""
        return " at the lower end of its interval" if self.pooled is not None and self.pooled.bound else ""

    @property
    def estimate(self) -> float | None:
        """Estimated score of a candidate that screening dropped as slower and that was not judged."""
        slow = [item for item in self.opinions.values() if item.decision == "reject" and item.fault == SLOW]
        return float((slow[0].resources or {})["estimate"]) if slow and self.result is None else None

    @property
    def failed(self) -> bool:
        """Whether the judge rejected it, or a verifier rejected it and it was not judged."""
        if self.result is not None:
            return not (self.result.correct or self.result.ours)
        if self.estimate is not None:
            return False
        return self.state == "dropped" or (self.refusal is not None and self.refusal.reason == "wrong_task")


class Scored(Protocol):
    """A correct candidate: here, or as a row of the site. `lo` is the lower end of its interval."""

    @property
    def generation(self) -> int: ...

    @property
    def slot(self) -> int: ...

    @property
    def judgings(self) -> int: ...

    @property
    def counts(self) -> float | None: ...

    @property
    def lo(self) -> float | None: ...


S = TypeVar("S", bound=Scored)


def best_of(scored: Sequence[S]) -> S | None:
    """The one of which the most counts; the earlier one of equals. One that was confirmed, if there are any.

    But one that was not is the best if its whole interval lies so far above that no luck explains it. After a single
    accepted judging in all it only has to lie above: that one may speak against the candidate that it was made for, and
    the others have not been asked about.
    """
    confirmed = _first([item for item in scored if item.judgings > 1])
    if confirmed is None:
        return _first(scored)
    again = sum(item.judgings - 1 for item in scored)
    least = (LUCK_MAX if again > 1 else 1.0) * (confirmed.counts or 0.0)
    return _first([confirmed, *(item for item in scored if (item.lo or 0.0) > least)])


def _first(scored: Sequence[S]) -> S | None:
    return max(scored, key=lambda item: (item.counts or 0.0, -item.generation, -item.slot), default=None)


def leading(candidates: Iterable[CandidateView]) -> CandidateView | None:
    """The best of those that are correct. One with the binary, and so the result, of another stands behind that."""
    known = {item.id: item for item in candidates}
    return best_of([item for item in known.values() if item.counts is not None and item.reused_from not in known])


@dataclass(frozen=True)
class ArchiveView:
    """The archive as of one event; immutable. Candidates are in the order of generation and slot."""

    seq: int
    candidates: Mapping[str, CandidateView]
    islands: tuple[tuple[str, ...], ...]  # the elites of each, fast first
    champions: Mapping[str, str]  # the fastest candidate on each configuration
    children: Mapping[str, int]  # how often each was a parent
    load: Callable[[str], str] = field(compare=False, repr=False)

    @property
    def best(self) -> CandidateView | None:
        return leading(self.candidates.values())

    def members(self, island: int) -> tuple[CandidateView, ...]:
        """Possible parents on an island: its elites and all champions; without elites, those of all islands."""
        own = self.islands[island] or tuple(name for elites in self.islands for name in elites)
        names = dict.fromkeys((*own, *self.champions.values()))
        return tuple(item for name, item in self.candidates.items() if name in names)

    def source(self, candidate: CandidateView) -> str:
        """The text that was proposed. Raises KeyError for a candidate without one."""
        return self.load(candidate.source_sha256 or "")


@dataclass(frozen=True)
class ProposalRequest:
    """Everything that a proposer may use. The same request gives the same `rng`."""

    task: TaskSpec
    language: str
    device_kind: str
    stage: Stage
    generation: int
    slot: int
    island: int
    parents: tuple[CandidateView, ...]  # slow to fast, at most five
    view: ArchiveView
    rng: Rng
    last_failure: CandidateView | None
    budget_left: Caps  # None where there is no cap
    memory: RunMemory | None = None  # of earlier runs; None where there is none

    @property
    def candidate(self) -> str:
        return f"{self.generation}-{self.slot}"


class Meter(Protocol):
    """Records paid calls. `left` is the rest of the reservation; it decreases as calls open and close."""

    @property
    def left(self) -> Cost: ...

    def open(self, bound: Cost) -> None:
        """A call starts that can cost up to `bound`; if it is never closed, that much counts as spent.

        Raises ValueError if that is more than `left`.
        """
        ...

    def attempt(
        self, role: str, model: str, status: int | None, text: str = "", retry_after_s: float | None = None
    ) -> None:
        """Commits an `llm.attempt` at once. It changes no amount."""
        ...

    def free(self) -> None:
        """Closes the open call: it failed and cost nothing."""
        ...

    def tool(self, said: Mapping[str, Any], source: str | None, cost: Cost) -> None:
        """Closes the open call of a tool, which cost `cost`, and commits a `tool.called` at once, with its source."""
        ...

    def usage(self, role: str, model: str, usage: Mapping[str, Any], cost: Cost) -> None:
        """Closes the open call: it cost `cost`. The `llm.usage` is committed together with what the call gave."""
        ...


class Proposer(Protocol):
    """Proposes kernels. Its choices must depend on the request alone, not on state of its own."""

    name: str
    needs_key: bool

    def bound(self, request: ProposalRequest) -> Cost:
        """The maximum cost of `propose`, which is reserved beforehand. Calling `bound` costs nothing."""
        ...

    async def propose(self, request: ProposalRequest, meter: Meter, live: Live) -> Proposal | NoProposal: ...


class Verifier(Protocol):
    """Checks a source before it is judged and returns an opinion."""

    id: str
    version: str

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion: ...


@runtime_checkable
class PaidVerifier(Protocol):
    """A verifier that costs money: asked only where a free one abstained, and only if `bound` can be reserved."""

    id: str
    version: str

    def bound(self, source: str, language: str, task: TaskSpec) -> Cost: ...

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion: ...


@runtime_checkable
class RacingVerifier(Protocol):
    """A verifier that compares with the best kernel as of the opening; not asked before there is one."""

    id: str
    version: str

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion: ...

    async def race(
        self, source: str, language: str, task: TaskSpec, best_source: str, best_score: float
    ) -> VerifierOpinion: ...


@runtime_checkable
class ClosingVerifier(Protocol):
    """A verifier that keeps processes; whoever made it closes it."""

    def close(self) -> None:
        """Blocks until they are gone."""


class Evaluator(Protocol):
    """Has a source judged. The same key gives the same ticket and is never judged twice."""

    async def submit(self, candidate_key: str, source: str, language: str) -> str: ...

    async def wait(self, ticket: str, live: Live) -> JudgeResult: ...

    async def withdraw(self, ticket: str) -> None:
        """Withdraws an evaluation and returns within a second. One that has ended is not changed."""
        ...


@runtime_checkable
class RepeatingEvaluator(Protocol):
    """An evaluator that can judge a source again."""

    async def again(self, ticket: str, number: int, source: str, language: str) -> str:
        """A ticket of another judging of what `ticket` is of; the same number gives the same ticket."""
        ...


async def guarded(call: Callable[[], Awaitable[T]]) -> T | Exception:
    """The answer of a plug-in, or what it raised: its faults may cost a slot or a judging, never the run."""
    try:
        return await call()
    except Exception as error:  # noqa: BLE001 - the edge to a plug-in: the caller writes the fault into the log
        return error
