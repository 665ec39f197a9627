"""What the API takes and gives, as schemas, and how rows become them.

Ids are the public codes, never keys of the database. Absent is null. Does NOT look anything up.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Field, Schema

from benchmarks.models import Evaluation, Standing, Submission, Task, TaskVersion
from benchmarks.states import Visibility
from benchmarks.templatetags.kbench import holder
from benchmarks.waiting import waiting


class ConfigCount(Schema):
    shown: int
    hidden: int


class TaskOut(Schema):
    name: str = Field(description="OP/DIRECTION")
    path: str = Field(description="SUITE/OP/DIRECTION")
    title: str
    formula: str
    family: str
    labels: list[str]
    entries: int = Field(description="verified entries on the board of `device`")
    best: float | None = Field(description="best verified speedup there")


class TaskDetail(Schema):
    name: str
    path: str
    title: str
    summary: str
    formula: str
    labels: list[str]
    version: int
    content_sha256: str
    configurations: dict[str, ConfigCount] = Field(description="by device class")
    definition: dict[str, Any]
    reference_source: str
    starter: dict[str, str] = Field(description="by language")
    devices: dict[str, list[str]] = Field(description="device kinds that run a language")


class SubmissionIn(Schema):
    task: str = Field(description="OP/DIRECTION, or SUITE/OP/DIRECTION", max_length=300)
    language: str = Field(description="cpp, cuda or triton", max_length=20)
    source: str
    device: str = Field("", description="device kind; may be left out where only one runs the language", max_length=50)
    title: str = Field("", max_length=200)
    visibility: Visibility = Visibility.PUBLIC


class ScoreOut(Schema):
    speedup: float
    ci95: tuple[float, float]
    vs_eager: float | None
    vs_compile: float | None
    worst_config: str
    timing_trust: str


class EvaluationOut(Schema):
    id: UUID
    submission: UUID
    task: str
    language: str
    device: str
    ruleset: str
    state: str
    attempt: int
    waiting: str | None = Field(description="why it is queued still")
    ahead: int | None = Field(description="evaluations that go first")
    stage: str | None
    stage_text: str | None
    stage_done: int | None
    stage_total: int | None
    verdict: str | None
    reason: str | None
    score: ScoreOut | None
    queued: datetime
    built: datetime | None
    claimed: datetime | None
    started: datetime | None
    finished: datetime | None
    url: str
    events: str = Field(description="address of its event stream")
    report: dict[str, Any] | None = Field(None, description="the whole report, once there is one")


class Remark(Schema):
    code: str
    text: str
    line: int | None = None


class SubmissionOut(Schema):
    id: UUID
    task: str
    language: str
    title: str
    visibility: str
    source_sha256: str
    created: datetime
    evaluations: list[EvaluationOut]
    remarks: list[Remark] = Field([], description="what a look at the text has noted; it decides nothing")


class EntryOut(Schema):
    rank: int
    ties: int
    by: str
    method: str
    language: str
    score: ScoreOut
    judgings: int
    verified_at: datetime
    evaluation: UUID


class BaselineOut(Schema):
    title: str
    score: float


class LeaderboardOut(Schema):
    task: str
    version: int
    device: str
    ruleset: str
    page: int
    pages: int
    entries: list[EntryOut]
    baselines: list[BaselineOut]
    under_review: int


class QueueOut(Schema):
    device: str
    title: str
    queued: int
    running: int
    workers: int


class WorkerOut(Schema):
    name: str
    role: str
    device: str | None
    state: str
    state_text: str
    isolation: str
    heartbeat: datetime


class StatusOut(Schema):
    queues: list[QueueOut]
    workers: list[WorkerOut]
    notices: list[str]


def task_out(task: Task) -> TaskOut:
    best = getattr(task, "best", None)
    return TaskOut(
        name=task.name,
        path=task.path,
        title=task.title,
        formula=task.formula,
        family=task.family,
        labels=task.labels,
        entries=getattr(task, "entries", 0),
        best=best.score if best else None,
    )


def task_detail(version: TaskVersion, starter: dict[str, str], devices: dict[str, list[str]]) -> TaskDetail:
    task, parts = version.task, version.definition["devices"]
    return TaskDetail(
        name=task.name,
        path=task.path,
        title=task.title,
        summary=task.summary,
        formula=task.formula,
        labels=task.labels,
        version=version.number,
        content_sha256=version.content_sha256,
        configurations={
            name: ConfigCount(shown=len(part["configs"]), hidden=part["hidden"]) for name, part in parts.items()
        },
        definition=version.definition,
        reference_source=version.reference_source,
        starter=starter,
        devices=devices,
    )


def evaluation_out(evaluation: Evaluation, *, whole: bool = False) -> EvaluationOut:
    """`whole`: with the report."""
    submission, place = evaluation.submission, waiting(evaluation)
    return EvaluationOut(
        id=evaluation.code,
        submission=submission.code,
        task=evaluation.task_version.task.path,
        language=submission.language,
        device=evaluation.device_kind.slug,
        ruleset=evaluation.ruleset.name,
        state=evaluation.state,
        attempt=evaluation.attempt,
        waiting=place.reason if place else None,
        ahead=place.ahead if place else None,
        stage=evaluation.stage or None,
        stage_text=evaluation.stage_text or None,
        stage_done=evaluation.stage_done,
        stage_total=evaluation.stage_total,
        verdict=evaluation.verdict or None,
        reason=evaluation.reason_text or None,
        score=_score(evaluation),
        queued=evaluation.queued,
        built=evaluation.built,
        claimed=evaluation.claimed,
        started=evaluation.started,
        finished=evaluation.finished,
        url=evaluation.get_absolute_url(),
        events=f"/events/?topics={evaluation.topic}",
        report=evaluation.report if whole else None,
    )


def submission_out(
    submission: Submission, evaluations: list[Evaluation], remarks: list[Remark] | None = None
) -> SubmissionOut:
    return SubmissionOut(
        id=submission.code,
        task=submission.task_version.task.path,
        language=submission.language,
        title=submission.title,
        visibility=submission.visibility,
        source_sha256=submission.blob_id,
        created=submission.created,
        evaluations=[evaluation_out(item) for item in evaluations],
        remarks=remarks or [],
    )


def entry_out(row: Standing) -> EntryOut:
    evaluation = row.evaluation
    return EntryOut(
        rank=row.rank or 0,
        ties=getattr(row, "ties", 1),
        by=holder(evaluation),
        method=evaluation.submission.method.slug,
        language=evaluation.submission.language,
        score=ScoreOut(
            speedup=row.score,
            ci95=(row.score_lo, row.score_hi),
            vs_eager=evaluation.vs_eager,
            vs_compile=evaluation.vs_compile,
            worst_config=evaluation.worst_config,
            timing_trust=evaluation.timing_trust,
        ),
        judgings=row.judgings,
        verified_at=row.verified_at,
        evaluation=evaluation.code,
    )


def _score(evaluation: Evaluation) -> ScoreOut | None:
    if evaluation.score is None or evaluation.score_lo is None or evaluation.score_hi is None:
        return None
    return ScoreOut(
        speedup=evaluation.score,
        ci95=(evaluation.score_lo, evaluation.score_hi),
        vs_eager=evaluation.vs_eager,
        vs_compile=evaluation.vs_compile,
        worst_config=evaluation.worst_config,
        timing_trust=evaluation.timing_trust,
    )
