"""The JSON of runs in the API. Absent is null.

Does NOT validate what a person wants: the form of the site does, for both.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from django.urls import reverse
from ninja import Field, Schema

from ..driving import external
from ..evolve.texts import sentence
from ..models import Candidate, Run, RunEvent
from ..selectors import best_candidates, purses
from ..states import IN_FLIGHT, CandidateState

PARENTS_MAX = 16
GENERATION_MAX = 10_000
COUNTS = "what candidates are compared by: the score or, where its time is only bounded, the lower end of its interval"
Tokens = Annotated[int, Field(ge=0, le=100_000_000)]


class RunIn(Schema):
    task: str
    kind: Literal["site", "external"] = Field("site", description="external: your agent sends the candidates")
    agent: str = Field("", description="of an external run: what the agent calls itself", max_length=80)
    proposer: str = "template-evo"
    device: str = ""
    language: str = ""
    judgings: int | None = None
    minutes: float | None = None
    usd: float | None = None
    input_tokens: Tokens | None = Field(None, description="of an external run, as the agent counts them")
    output_tokens: Tokens | None = Field(None, description="of an external run, as the agent counts them")
    target: float | None = None
    seed: int | None = None
    verifiers: list[str] = ["static", "compile"]  # noqa: RUF012 - pydantic copies it
    memory: bool = Field(False, description="begin with the site's results for related tasks and earlier runs")
    curriculum: bool = Field(False, description="one configuration first, then all; uses the verifier screen")


class CandidateIn(Schema):
    """A kernel that the agent of an external run proposes, and what it says of it."""

    source: str = Field(description="the whole text in the language of the run")
    parents: list[Annotated[str, Field(max_length=80)]] = Field(
        [], description="candidates that it was made from", max_length=PARENTS_MAX
    )
    name: str = Field("", description="a few words", max_length=200)
    thought: str = Field("", description="why it should be faster", max_length=4_000)
    prompt: str = Field("", description="what the model was asked", max_length=external.PROMPT_CHARS_MAX)
    operator: str = Field("", description="how it was made, such as mutate or cross", max_length=40)
    model: str = Field("", max_length=100)
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    usd: float = Field(0.0, ge=0, le=1_000)
    generation: int | None = Field(None, ge=0, le=GENERATION_MAX, description="by default one after its parents")
    island: int = Field(0, ge=0, le=100)
    key: str = Field("", description="the same key again is the same candidate", max_length=80)


class CloseIn(Schema):
    text: str = Field("", description="why the agent ends the run", max_length=500)


class CandidateOut(Schema):
    """A candidate of a run. `feedback` is a text for its maker: times and remarks, or what went wrong."""

    id: str
    run: str
    url: str
    state: str
    ended: bool = Field(description="nothing will follow")
    parents: list[str]
    name: str
    evaluation: str | None
    refused: str | None = Field(description="why it was not judged")
    verdict: str | None
    reason: str | None
    score: float | None
    counts: float | None = Field(description=COUNTS)
    ci95: tuple[float, float] | None
    vs_eager: float | None
    vs_compile: float | None
    best: bool = Field(description="whether it is the best of its run")
    configs: list[dict[str, Any]] = Field(description="without the values of hidden ones")
    feedback: str | None


class ForkIn(Schema):
    judgings: int | None = None
    minutes: float | None = None
    usd: float | None = None
    seed: int | None = None


class PurseOut(Schema):
    """What a run has spent and reserved in one currency; a missing cap is null."""

    currency: str
    spent: float
    reserved: float
    cap: float | None


class BestOut(Schema):
    candidate: str
    score: float
    counts: float = Field(description=COUNTS)
    judgings: int = Field(description="how many judgings of it the score is pooled from")
    source_sha256: str
    evaluation: str | None


class RunOut(Schema):
    id: str
    url: str
    task: str
    device: str
    language: str
    method: str
    proposer: str
    seed: int
    state: str
    wish: str
    reason: str
    reason_text: str
    created: datetime
    started: datetime | None
    finished: datetime | None
    last_seq: int
    generation: int | None
    candidates: int
    judgings: int
    best: BestOut | None
    budget: list[PurseOut]
    forked_from: str | None


class RunPage(Schema):
    page: int
    pages: int
    runs: list[RunOut]


class EventOut(Schema):
    seq: int
    at_s: float
    type: str
    candidate: str | None
    text: str
    payload: dict[str, Any]


class EventPage(Schema):
    """`ended`: nothing will follow these events."""

    events: list[EventOut]
    last_seq: int
    ended: bool


def runs_out(runs: Sequence[Run]) -> list[RunOut]:
    best = best_candidates(runs)
    return [_run_out(run, best.get(run.pk)) for run in runs]


def run_out(run: Run) -> RunOut:
    return runs_out([run])[0]


def _run_out(run: Run, best: Candidate | None) -> RunOut:
    return RunOut(
        id=str(run.code),
        url=run.get_absolute_url(),
        task=run.task_version.task.path,
        device=run.device_kind.slug,
        language=run.language,
        method=run.method.slug,
        proposer=run.proposer,
        seed=run.seed,
        state=run.state,
        wish=run.wish,
        reason=run.reason,
        reason_text=run.reason_text,
        created=run.created,
        started=run.started,
        finished=run.finished,
        last_seq=run.last_seq,
        generation=run.generation,
        candidates=run.candidate_count,
        judgings=run.judged_count,
        best=_best_out(best),
        budget=[
            PurseOut(currency=item.name, spent=item.spent, reserved=item.reserved, cap=item.cap) for item in purses(run)
        ],
        forked_from=str(run.forked_from.code) if run.forked_from else None,
    )


def _best_out(row: Candidate | None) -> BestOut | None:
    if row is None or row.score is None or row.counts is None:
        return None
    return BestOut(
        candidate=row.key,
        score=row.score,
        counts=row.counts,
        judgings=row.judgings,
        source_sha256=row.source_sha256,
        evaluation=row.ticket or None,
    )


def candidate_out(row: Candidate, feedback: str | None) -> CandidateOut:
    dropped = row.state == CandidateState.DROPPED
    lo, hi = row.score_lo, row.score_hi
    return CandidateOut(
        id=row.key,
        run=str(row.run.code),
        url=reverse("run-candidate", args=[row.run.code, row.key]),
        state=row.state,
        ended=row.state not in IN_FLIGHT or row.run.is_finished,
        parents=row.parents,
        name=row.name,
        evaluation=row.ticket or None,
        refused=f"{row.drop_reason}: {row.drop_text}" if dropped else None,
        verdict=row.verdict or None,
        reason=row.verdict_text or None,
        score=row.score,
        counts=row.counts,
        ci95=None if lo is None or hi is None else (lo, hi),
        vs_eager=row.vs_eager,
        vs_compile=row.vs_compile,
        best=row.key == row.run.best_key,
        configs=row.configs,
        feedback=feedback,
    )


def event_out(row: RunEvent) -> EventOut:
    return EventOut(
        seq=row.seq,
        at_s=row.at_s,
        type=row.type,
        candidate=row.candidate or None,
        text=sentence(row),
        payload=row.payload,
    )
