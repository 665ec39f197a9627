"""GET /leaderboards: one page of a board as JSON or CSV, ranked as the site shows it, and the history of its record.

Does NOT rank: ranks are stored with the standings, and a filter leaves them as they are.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema

from benchmarks import selectors
from benchmarks.boards import selectors as board_selectors
from benchmarks.boards.selectors import BoardKey, EntryFilter
from benchmarks.models import Evaluation
from benchmarks.selectors import PAGE_ROWS
from benchmarks.templatetags.kbench import holder
from benchmarks.views.parts.boards import baseline_lines

from .problems import Problem
from .schemas import PageNumber, ScoreOut
from .submissions import version_of
from .tables import table

ROWS_MAX = 1000
VERSION_MAX = 100_000
KINDS_LISTED = "`kbench status`, or `GET status`, lists the device kinds of this site."
SCORE_COLUMNS = ["speedup", "ci95_lo", "ci95_hi", "vs_eager", "vs_compile", "worst_config", "timing_trust"]

router = Router()


class EntryOut(Schema):
    rank: int
    ties: int
    by: str
    method: str
    language: str
    score: ScoreOut
    worst_speedup: float | None = Field(description="on the worst configuration")
    roofline: tuple[float, float] | None = Field(description="fraction of the roofline, lowest and highest")
    kernel_us: float | None = Field(description="time of a call: geometric mean over the timed configurations")
    of_tolerance: float | None = Field(
        description="largest error of a shown configuration as a share of the task's tolerance; 1 is just allowed"
    )
    energy_mj: float | None = Field(description="of one call: geometric mean over the timed configurations")
    energy_ci95_mj: tuple[float, float] | None = Field(description="its 95 % interval")
    calls_library: bool = Field(description="the source check found calls of library operators")
    judgings: int
    contested: bool = Field(
        description="replayed evaluations of the same code by others are far apart from it, and count in the score "
        "until this site has judged it itself"
    )
    verified_at: datetime
    evaluation: UUID


class BaselineOut(Schema):
    title: str
    score: float


class ReviewOut(Schema):
    by: str
    reason: str
    evaluation: UUID


class LeaderboardOut(Schema):
    task: str
    version: int
    device: str
    processors: list[str] = Field(description="models that workers of a kind of CPU have reported")
    ruleset: str
    old: bool = Field(description="of an earlier task version or rule set")
    page: int
    pages: int
    entries: list[EntryOut]
    baselines: list[BaselineOut]
    under_review: int = Field(description="entries; `reviews` has the newest 50 of them")
    reviews: list[ReviewOut]


class RecordOut(Schema):
    at: datetime
    by: str
    method: str
    score: ScoreOut
    evaluation: UUID


class BoardQuery(Schema):
    """Which board."""

    task: str
    device: str = ""
    ruleset: str = ""
    version: int | None = Field(None, ge=1, le=VERSION_MAX, description="an earlier version of the task")
    format: Literal["json", "csv"] = "json"

    def key(self) -> BoardKey:
        """Raises Problem, and Http404 for a version that does not exist."""
        found = version_of(self.task)
        if self.version is not None:
            task = found.task
            found = selectors.version_numbered(task.suite.slug, task.op, task.direction, str(self.version))
        device = self.device or selectors.default_device(found)
        try:
            return board_selectors.board_key(found, device, self.ruleset)
        except Http404 as error:
            rules = f" under the rules {self.ruleset}" if self.ruleset else ""
            detail = f"There is no leaderboard of {self.task} on {device or 'any device'}{rules}; {KINDS_LISTED}"
            raise Problem(HTTPStatus.NOT_FOUND, "not-found", detail) from error


class EntryQuery(BoardQuery):
    """And what of it."""

    kind: Literal["", "human", "agent", "library"] = ""
    language: str = ""
    calls: Literal["", "with", "without"] = Field("", description="calls of library operators")
    timing: Literal["", "replayed", "audited", "bounded"] = Field("", description="how a time on a GPU was obtained")
    author: str = Field("", max_length=150, description="name of an account")
    page: PageNumber = 1
    rows: int = Field(PAGE_ROWS, ge=1, le=ROWS_MAX, description="per page")


@router.get("", response=LeaderboardOut, summary="One page of a leaderboard", url_name="leaderboard")
def leaderboard(request: HttpRequest, wanted: Query[EntryQuery]) -> Any:
    """A filter narrows the entries, not their ranks."""
    board = _board(wanted.key(), wanted)
    return _as_csv(board) if wanted.format == "csv" else board


@router.get("/record", response=list[RecordOut], summary="The record over time", url_name="record")
def record(request: HttpRequest, wanted: Query[BoardQuery]) -> Any:
    """Oldest first, each with the score of the judging that set it."""
    records = [_record(row) for row in board_selectors.board_records(wanted.key())]
    return _records_as_csv(records) if wanted.format == "csv" else records


def _board(key: BoardKey, wanted: EntryQuery) -> LeaderboardOut:
    chosen = EntryFilter.of(wanted.kind, wanted.language, wanted.calls, wanted.timing, wanted.author)
    rows = board_selectors.board_rows(key, wanted.page, chosen, wanted.rows)
    baselines = baseline_lines(board_selectors.board_baselines(key))
    reviews = board_selectors.board_under_review(key)
    return LeaderboardOut(
        task=key.version.task.path,
        version=key.version.number,
        device=key.device.slug,
        processors=key.device.processors,
        ruleset=key.ruleset.name,
        old=board_selectors.is_old(key),
        page=rows.number,
        pages=rows.paginator.num_pages,
        entries=[_entry(row) for row in rows],
        baselines=[BaselineOut(title=line.title, score=line.score) for line in baselines],
        under_review=board_selectors.count_under_review(key, reviews),
        reviews=[
            ReviewOut(by=holder(row.evaluation), reason=row.review_reason, evaluation=row.evaluation.code)
            for row in reviews
        ],
    )


def _entry(row: Any) -> EntryOut:
    """Not checked here: there may be a thousand, and what an operation returns is checked when it leaves."""
    evaluation, figures = row.evaluation, row.figures
    energy = figures.get("energy")
    return EntryOut.model_construct(
        rank=row.rank,
        ties=row.ties,
        by=holder(evaluation),
        method=evaluation.submission.method.slug,
        language=evaluation.submission.language,
        score=_score(evaluation, row),
        worst_speedup=figures.get("worst"),
        roofline=(figures["floor"], figures["roof"]) if figures.get("roof") is not None else None,
        kernel_us=figures.get("time_us"),
        of_tolerance=figures.get("of_tolerance"),
        energy_mj=energy.mj if energy else None,
        energy_ci95_mj=(energy.lo_mj, energy.hi_mj) if energy else None,
        calls_library=row.evaluation.calls_library,
        judgings=row.judgings,
        contested=row.is_contested,
        verified_at=row.verified_at,
        evaluation=evaluation.code,
    )


def _record(row: Any) -> RecordOut:
    return RecordOut(
        at=row.finished,
        by=holder(row),
        method=row.submission.method.slug,
        score=_score(row, row),
        evaluation=row.code,
    )


def _score(evaluation: Evaluation, row: Any) -> ScoreOut:
    """`row` is the evaluation itself, or its standing."""
    return ScoreOut.model_construct(
        speedup=row.score,
        ci95=(row.score_lo, row.score_hi),
        vs_eager=evaluation.vs_eager,
        vs_compile=evaluation.vs_compile,
        worst_config=evaluation.worst_config,
        timing_trust=evaluation.timing_trust,
        timing_revision=min(row.timing_revision, evaluation.timing_revision),
    )


def _as_csv(board: LeaderboardOut) -> HttpResponse:
    columns = ["rank", "ties", *SCORE_COLUMNS, "by", "method", "language", "judgings", "verified_at", "evaluation",
               "worst_speedup", "roofline_least", "roofline_most", "calls_library", "kernel_us",
               "of_tolerance", "energy_mj", "energy_lo_mj", "energy_hi_mj", "timing_revision", "contested"]  # fmt: skip
    return table("leaderboard", columns, (_cells(entry) for entry in board.entries))


def _records_as_csv(records: list[RecordOut]) -> HttpResponse:
    columns = ["at", *SCORE_COLUMNS, "by", "method", "evaluation", "timing_revision"]
    cells = (
        [row.at.isoformat(), *_score_cells(row.score), row.by, row.method, row.evaluation, row.score.timing_revision]
        for row in records
    )
    return table("record", columns, cells)


def _cells(entry: EntryOut) -> list[object]:
    least, most = entry.roofline or (None, None)
    return [
        *(entry.rank, entry.ties, *_score_cells(entry.score)),
        *(entry.by, entry.method, entry.language, entry.judgings, entry.verified_at.isoformat(), entry.evaluation),
        *(entry.worst_speedup, least, most, entry.calls_library),
        *(entry.kernel_us, entry.of_tolerance, entry.energy_mj, *(entry.energy_ci95_mj or (None, None))),
        *(entry.score.timing_revision, entry.contested),
    ]


def _score_cells(score: ScoreOut) -> list[object]:
    return [score.speedup, *score.ci95, score.vs_eager, score.vs_compile, score.worst_config, score.timing_trust]
