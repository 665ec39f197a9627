"""The JSON of runs in the API. Absent is null.

Does NOT validate what a person wants: the form of the site does, for both.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ninja import Schema

from ..models import Candidate, Run, RunEvent
from ..record.texts import sentence
from ..selectors import best_candidates, purses


class RunIn(Schema):
    task: str
    proposer: str = "template-evo"
    device: str = ""
    language: str = ""
    judgings: int | None = None
    minutes: float | None = None
    usd: float | None = None
    target: float | None = None
    seed: int | None = None
    verifiers: list[str] = ["static", "compile"]  # noqa: RUF012 - pydantic copies it


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
    if row is None or row.score is None:
        return None
    return BestOut(candidate=row.key, score=row.score, source_sha256=row.source_sha256, evaluation=row.ticket or None)


def event_out(row: RunEvent) -> EventOut:
    return EventOut(
        seq=row.seq,
        at_s=row.at_s,
        type=row.type,
        candidate=row.candidate or None,
        text=sentence(row),
        payload=row.payload,
    )
