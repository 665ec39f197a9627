"""GET /recorded: results that were judged elsewhere or earlier, as bundles and entries; each says so.

Nothing here comes from this site's own judgings, and everything is missing where staff have switched it off. Does NOT
take bundles: `manage.py load_records` does.
"""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema

from benchmarks.models import RecordedBundle, RecordedEntry
from benchmarks.recorded import selectors as recorded

from .schemas import PageNumber, ScoreOut

ROWS_MAX = 1000

router = Router()


class RecordedBundleOut(Schema):
    recorded: Literal[True] = True
    name: str
    title: str
    about: str
    device: str
    machine: dict[str, str]
    ruleset: str
    ruleset_sha256: str | None
    file_sha256: str
    tasks: int
    entries: int
    judged_first: datetime
    judged_last: datetime


class RecordedEntryOut(Schema):
    recorded: Literal[True] = True
    id: str
    task: str
    rank: int | None = Field(description="among the entries of its bundle; null: its method has a better one")
    by: str
    method: str
    language: str
    judged_at: datetime
    judgings: int
    score: ScoreOut
    source_sha256: str


class RecordedPageOut(RecordedBundleOut):
    page: int
    pages: int
    rows: list[RecordedEntryOut]


class RecordedDetail(RecordedEntryOut):
    bundle: str
    device: str
    ruleset: str
    report: dict[str, Any] = Field(description="configurations, remarks and environment, as in the report")
    source: str | None = Field(description="null: the bundle contains none")


@router.get("", response=list[RecordedBundleOut], summary="Bundles of recorded results", url_name="recorded")
def bundles(request: HttpRequest) -> Any:
    return [_bundle(bundle) for bundle in recorded.bundles()]


@router.get("/{bundle}", response=RecordedPageOut, summary="The entries of a bundle")
def bundle(request: HttpRequest, bundle: str, page: PageNumber = 1) -> Any:
    found = recorded.bundle_named(bundle)
    rows = recorded.entries_of(found, page, ROWS_MAX)
    paged = {"page": rows.number, "pages": rows.paginator.num_pages, "rows": [_entry(row) for row in rows]}
    return {**_bundle(found), **paged}


@router.get("/{bundle}/entries/{id}", response=RecordedDetail, summary="A recorded entry with report and source")
def entry(request: HttpRequest, bundle: str, id: str) -> Any:
    found = recorded.bundle_named(bundle)
    row = recorded.entry_named(found, id)
    place = {"bundle": found.name, "device": found.device, "ruleset": found.ruleset}
    return {**_entry(row), **place, "report": row.report, "source": row.source}


def _bundle(bundle: RecordedBundle) -> dict[str, Any]:
    names = ("name", "title", "about", "device", "machine", "ruleset", "file_sha256", "tasks")
    return {
        **{name: getattr(bundle, name) for name in names},
        "ruleset_sha256": bundle.ruleset_sha256 or None,
        "entries": bundle.kernels,
        "judged_first": bundle.first,
        "judged_last": bundle.last,
    }


def _entry(row: RecordedEntry) -> dict[str, Any]:
    names = ("rank", "by", "method", "language", "judged_at", "judgings", "source_sha256")
    score = ScoreOut(
        speedup=row.score,
        ci95=(row.score_lo, row.score_hi),
        vs_eager=row.vs_eager,
        vs_compile=row.vs_compile,
        worst_config=row.worst_config,
        timing_trust=row.timing_trust,
        timing_revision=None,
    )
    return {**{name: getattr(row, name) for name in names}, "id": row.name, "task": row.task_path, "score": score}
