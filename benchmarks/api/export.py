"""GET /export: the whole public record, page by page in a fixed order: every public submission with source and results.

Made for data sets: a reader who follows `next` gets each submission once. Does NOT contain reports: those are read
one by one.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest
from ninja import Field, Query, Router, Schema

from benchmarks.models import Evaluation, Submission
from benchmarks.submissions import selectors as submission_selectors
from benchmarks.submissions.selectors import EXPORT_ROWS_MAX
from benchmarks.templatetags.kbench import holder_of

CONFIG = ("key", "group", "correct", "kernel_us", "eager_us", "compile_us", "speedup", "speedup_lo", "speedup_hi",
          "roofline_fraction", "sol_score")  # fmt: skip
EVALUATION = ("reason", "verdict", "reason_text", "finished", "vs_eager", "vs_compile", "worst_config", "timing_trust",
              "timing_revision", "calls_library")  # fmt: skip

router = Router()


class ExportedConfig(Schema):
    """One configuration; null where nothing was measured."""

    key: str
    group: str
    correct: bool | None
    kernel_us: float | None
    eager_us: float | None
    compile_us: float | None
    speedup: float | None
    speedup_lo: float | None
    speedup_hi: float | None
    roofline_fraction: float | None
    sol_score: float | None = Field(description="score of SOL-ExecBench with our baseline and roofline; ranks nothing")


class ExportedEvaluation(Schema):
    id: UUID
    device: str
    ruleset: str
    reason: str
    verdict: str
    reason_text: str
    finished: datetime
    speedup: float | None = Field(description="over the stronger of PyTorch eager and torch.compile")
    speedup_lo: float | None
    speedup_hi: float | None
    vs_eager: float | None
    vs_compile: float | None
    worst_config: str
    timing_trust: str
    timing_revision: int = Field(description="as in the score of a leaderboard")
    calls_library: bool
    rank: int | None = Field(description="current rank; null: a better entry counts, or it is under review")
    under_review: bool
    configs: list[ExportedConfig]


class ExportedSubmission(Schema):
    id: UUID
    task: str = Field(description="SUITE/OP/DIRECTION")
    task_version: int
    task_licence: str = Field(description="of an imported task, as its suite's licence file says")
    task_origin: str = Field(description="of an imported task: the address or folder of its suite, and the file")
    language: str
    title: str
    by: str
    method: str
    method_kind: str
    moderation: str
    created: datetime
    source_sha256: str
    source: str
    evaluations: list[ExportedEvaluation] = Field(description="those with a verdict, oldest first")


class ExportPage(Schema):
    submissions: list[ExportedSubmission]
    next: UUID | None = Field(description="send this as `after` for the next page; null on the last page")


class ExportQuery(Schema):
    after: UUID | None = Field(None, description="the last submission that was read; left out for the first page")
    rows: int = Field(EXPORT_ROWS_MAX, ge=1, le=EXPORT_ROWS_MAX)


@router.get("", response=ExportPage, summary="The public record, oldest submissions first", url_name="export")
def export(request: HttpRequest, wanted: Query[ExportQuery]) -> Any:
    """Every public submission with its source and verdicts. What is made public or judged meanwhile may be missing."""
    rows = submission_selectors.exported(wanted.after, wanted.rows)
    if rows is None:
        raise Http404("There is no such public submission. Start again without `after`.")
    full = len(rows) == wanted.rows
    return ExportPage.model_construct(
        submissions=[_submission(row) for row in rows], next=rows[-1].code if full else None
    )


def _submission(row: Submission) -> ExportedSubmission:
    names = ("language", "title", "moderation", "created")
    return ExportedSubmission.model_construct(
        **{name: getattr(row, name) for name in names},
        id=row.code,
        task=row.task_version.task.path,
        task_version=row.task_version.number,
        task_licence=row.task_version.task.licence,
        task_origin=row.task_version.task.origin,
        by=holder_of(row),
        method=row.method.slug,
        method_kind=row.method.kind,
        source_sha256=row.blob_id,
        source=row.blob.text,
        evaluations=[_evaluation(item) for item in row.evaluations.all()],
    )


def _evaluation(row: Evaluation) -> ExportedEvaluation:
    standing = next(iter(row.standings.all()), None)
    return ExportedEvaluation.model_construct(
        **{name: getattr(row, name) for name in EVALUATION},
        id=row.code,
        device=row.device_kind.slug,
        ruleset=row.ruleset.name,
        speedup=row.score,
        speedup_lo=row.score_lo,
        speedup_hi=row.score_hi,
        rank=standing.rank if standing else None,
        under_review=standing.under_review if standing else False,
        configs=[
            ExportedConfig.model_construct(**{name: getattr(item, name) for name in CONFIG})
            for item in row.configs.all()
        ],
    )
