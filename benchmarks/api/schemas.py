"""The schemas of the API's requests and answers, and their construction from rows.

Ids are the public codes, never keys of the database. Absent is null. Does NOT look anything up.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from ninja import Field, Schema

from benchmarks.harness import LANGUAGES
from benchmarks.judgings.waiting import Waiting, waiting
from benchmarks.models import Evaluation, Submission, Task, TaskVersion
from benchmarks.quotas import QuotaUse
from benchmarks.states import Visibility

_LANGUAGES = tuple(LANGUAGES)

PAGE_MAX = 1_000_000
PageNumber = Annotated[int, Field(ge=1, le=PAGE_MAX, description="from 1; numbers beyond the end give the last page")]

TeamName = Annotated[str, Field(max_length=24, description="name of a team")]


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
    difficulty: str = Field(description="easy, medium or hard, derived from its definition; empty: not graded")
    entries: int = Field(description="verified entries on the board of `device`")
    best: float | None = Field(description="best verified speedup there")


class TaskDetail(Schema):
    name: str
    path: str
    title: str
    summary: str
    formula: str
    labels: list[str]
    licence: str = Field(
        description="of an imported task, as its suite's licence file says; empty where none was found"
    )
    origin: str = Field(description="of an imported task: the address or folder of its suite, and the file")
    difficulty: str
    difficulty_facts: dict[str, Any] = Field(description="what the difficulty was derived from")
    version: int
    content_sha256: str
    configurations: dict[str, ConfigCount] = Field(description="by device class")
    definition: dict[str, Any]
    reference_source: str
    starter: dict[str, str] = Field(description="by language")
    devices: dict[str, list[str]] = Field(description="device kinds that run a language")


EXAMPLE_SOURCE = """#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return at::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


class SubmissionIn(Schema):
    task: str = Field(description="OP/DIRECTION, or SUITE/OP/DIRECTION: mnist_linear_relu/forward", max_length=300)
    language: str = Field(
        description=f"{', '.join(_LANGUAGES[:-1])} or {_LANGUAGES[-1]}", max_length=20, examples=["cpp"]
    )
    source: str = Field(description="the whole text, in UTF-8", examples=[EXAMPLE_SOURCE])
    device: str = Field(
        "",
        description="device kind, or `cpu` for that of this site's CPU; needed only where a GPU and another kind "
        "run the language",
        max_length=50,
    )
    title: str = Field("", max_length=200)
    visibility: Visibility = Visibility.PUBLIC
    judge_again: bool = Field(False, description="judge the source even if it was submitted before")
    team: str = Field("", max_length=24, description="one of your teams, for which the submission is made")
    quick: bool = Field(False, description="check correctness only: takes seconds, no score, no rank")


class SubmissionChange(Schema):
    """What is left out stays as it is."""

    title: str | None = Field(None, max_length=200)
    visibility: Visibility | None = None


class ScoreOut(Schema):
    speedup: float
    ci95: tuple[float, float]
    vs_eager: float | None
    vs_compile: float | None
    worst_config: str
    timing_trust: str
    timing_revision: int | None = Field(
        description="revision of the judge's timing: on a GPU the same kernel may get another score under another one; "
        "0 on a CPU and for old evaluations, null for recorded entries"
    )


class QueuePlaceOut(Schema):
    """Where a queued evaluation stands, and for how long: most waits end between `wait_s_low` and `wait_s_high`."""

    position: int = Field(description="1 is next")
    ahead: int = Field(description="evaluations ahead of it on the same device kind")
    running: int = Field(description="evaluations of the same device kind that are compiled or judged now")
    wait_s_low: float | None = Field(description="seconds until judging begins; null if it cannot be estimated")
    wait_s_high: float | None
    reason: str = Field(description="why it waits")
    no_estimate: str | None = Field(description="why there is no estimate")


class SourceOut(Schema):
    language: str
    sha256: str = Field(description="of the source in UTF-8")
    source: str


class EvaluationOut(Schema):
    id: UUID
    submission: UUID
    task: str
    language: str
    device: str
    ruleset: str
    quick: bool = Field(description="a quick check: PASS means correct; there is no score")
    state: str
    attempt: int
    queue: QueuePlaceOut | None = Field(description="while it is queued")
    waiting: str | None = Field(description="the reason in `queue`")
    ahead: int | None = Field(description="as in `queue`")
    stage: str | None
    stage_text: str | None
    stage_done: int | None
    stage_total: int | None
    verdict: str | None
    reason: str | None
    score: ScoreOut | None
    provisional_vs_eager: float | None = Field(
        description="until its baselines are prepared: approximate speedup over PyTorch eager; never ranked"
    )
    queued: datetime
    built: datetime | None
    claimed: datetime | None
    started: datetime | None
    finished: datetime | None
    url: str
    events: str = Field(description="address of its event stream")
    report: dict[str, Any] | None = Field(None, description="the full report, when it exists")


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
    team: str | None = Field(description="the team that it was made for")
    moderation: str = Field(description="ok, hidden or invalidated by staff; the page gives the reason")
    source_sha256: str
    created: datetime
    evaluations: list[EvaluationOut]
    remarks: list[Remark] = Field([], description="remarks of the source check; they do not affect the verdict")


class SubmissionLine(Schema):
    id: UUID
    task: str
    language: str
    title: str
    visibility: str
    source_sha256: str
    created: datetime
    evaluation: UUID | None = Field(description="the newest one")
    state: str | None
    verdict: str | None
    score: ScoreOut | None


class SubmissionPage(Schema):
    page: int
    pages: int
    submissions: list[SubmissionLine]


class MeterOut(Schema):
    code: str = Field(description="in-flight, public-per-day or judging-seconds-per-day")
    title: str
    unit: str
    used: float
    limit: int | None = Field(description="null means no limit")
    left: float | None
    retry_after_s: int | None = Field(description="when to try again, if nothing is left")


class QuotaOut(Schema):
    meters: list[MeterOut]


def task_out(task: Task) -> TaskOut:
    """Not checked here: there may be a thousand, and what an operation returns is checked when it leaves."""
    return TaskOut.model_construct(
        name=task.name,
        path=task.path,
        title=task.title,
        formula=task.formula,
        family=task.family,
        labels=task.labels,
        difficulty=task.difficulty,
        entries=getattr(task, "entries", 0),
        best=getattr(task, "best_score", None),
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
        licence=task.licence,
        origin=task.origin,
        difficulty=task.difficulty,
        difficulty_facts=task.difficulty_facts,
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
        quick=evaluation.is_quick,
        state=evaluation.state,
        attempt=evaluation.attempt,
        queue=_place(place) if place else None,
        waiting=place.reason if place else None,
        ahead=place.ahead if place else None,
        stage=evaluation.stage or None,
        stage_text=evaluation.stage_text or None,
        stage_done=evaluation.stage_done,
        stage_total=evaluation.stage_total,
        verdict=evaluation.verdict or None,
        reason=evaluation.reason_text or None,
        score=_score(evaluation),
        provisional_vs_eager=None if evaluation.is_finished else evaluation.provisional,
        queued=evaluation.queued,
        built=evaluation.built,
        claimed=evaluation.claimed,
        started=evaluation.started,
        finished=evaluation.finished,
        url=evaluation.get_absolute_url(),
        events=f"/events/?topics={evaluation.topic}",
        report=evaluation.report if whole else None,
    )


def _place(found: Waiting) -> QueuePlaceOut:
    return QueuePlaceOut(
        position=found.position,
        ahead=found.ahead,
        running=found.running,
        wait_s_low=found.estimate.low_s if found.estimate else None,
        wait_s_high=found.estimate.high_s if found.estimate else None,
        reason=found.reason,
        no_estimate=found.no_estimate or None,
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
        team=str(submission.team) if submission.team else None,
        moderation=submission.moderation,
        source_sha256=submission.blob_id,
        created=submission.created,
        evaluations=[evaluation_out(item) for item in evaluations],
        remarks=remarks or [],
    )


def submission_line(row: Submission) -> SubmissionLine:
    """`row.newest` is its newest evaluation, or None."""
    newest: Evaluation | None = row.newest  # type: ignore[attr-defined]
    return SubmissionLine(
        id=row.code,
        task=row.task_version.task.path,
        language=row.language,
        title=row.title,
        visibility=row.visibility,
        source_sha256=row.blob_id,
        created=row.created,
        evaluation=newest.code if newest else None,
        state=newest.state if newest else None,
        verdict=newest.verdict or None if newest else None,
        score=_score(newest) if newest else None,
    )


def meter_out(meter: QuotaUse) -> MeterOut:
    return MeterOut(
        code=meter.code,
        title=meter.kind.title,
        unit=meter.kind.unit,
        used=meter.used,
        limit=meter.limit,
        left=meter.left,
        retry_after_s=meter.retry_after_s,
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
        timing_revision=evaluation.timing_revision,
    )
