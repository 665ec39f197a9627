"""Recorded runs: a file of one is checked and loaded, and pages read it as rows that are never saved.

A run that this site did not drive has no rows among those of its own runs. Whatever shows it folds its log anew. Shown
are runs on tasks that this site has, unless recorded results are switched off. Does NOT read a file (`kept_file.py`).
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from benchmarks.extensions import Loaded
from benchmarks.models import DeviceKind, Method
from benchmarks.recorded.bundles import BundleError
from benchmarks.recorded.selectors import are_shown
from benchmarks.selectors import find_active_version
from benchmarks.states import MethodKind

from ..evolve.config import RunConfig
from ..evolve.events import LogEvent
from ..evolve.model import PASS
from ..evolve.texts import sentence
from ..models import Candidate, Opinion, RecordedRun, Run, RunEvent
from .kept_file import KeptEvent, KeptHeader, read_file
from .kept_payloads import demand_payload
from .projection import Picture

SHOWN_MAX = 20
LEASES_MAX = 1_000
_SUMMARY = ("language", "best_score", "judged_count")


def load_run(path: Path) -> Loaded:
    """All of the file or, with a BundleError, nothing of it. It replaces an earlier file of the same name."""
    header, sources, events, file_sha256 = read_file(path)
    ended = _checked(header, sources, events)
    before = RecordedRun.objects.filter(name=header.name).first()
    if before is not None and before.file_sha256 == file_sha256:
        return Loaded(header.name, unchanged=1)
    columns = {
        "code": header.code,
        "header": header.model_dump(mode="json"),
        "summary": {
            **{name: getattr(ended.run, name) for name in _SUMMARY},
            "began_s": events[0].at_s,
            **_interval(ended),
        },
        "sources": sources,
        "events": [event.model_dump(mode="json") for event in events],
        "file_sha256": file_sha256,
        "loaded": timezone.now(),
    }
    try:
        with transaction.atomic():
            RecordedRun.objects.update_or_create(name=header.name, defaults=columns)
    except IntegrityError as error:
        raise BundleError("line 1: another recorded run has this code") from error
    return Loaded(header.name, created=int(before is None), replaced=int(before is not None))


def run_remove(name: str) -> bool:
    """False: there was none of that name."""
    return bool(RecordedRun.objects.filter(name=name).delete()[0])


def runs_shown() -> list[Run]:
    """What lists show of them; their logs are not read."""
    rows = RecordedRun.objects.defer("sources", "events")[:SHOWN_MAX] if are_shown() else ()
    found = [(row, _run(row)) for row in rows]
    for row, run in found:
        if run is not None:
            vars(run).update({name: row.summary[name] for name in _SUMMARY})
            vars(run).update({name: row.summary.get(name) for name in ("score_lo", "score_hi")})
            run.created = datetime.fromtimestamp(row.summary["began_s"], UTC)
    return [run for _, run in found if run is not None]


def run_with(code: UUID) -> Run | None:
    """The recorded run of that code, as it ended; None where there is none or nothing recorded is shown."""
    row = RecordedRun.objects.defer("sources").filter(code=code).first()
    run = _run(row) if row is not None and are_shown() else None
    return picture_of(run).run if run is not None else None


def picture_of(run: Run, until: int | None = None) -> Picture:
    """A recorded run as of an event, with its candidates and opinions."""
    assert run.kept is not None  # noqa: S101 - for recorded runs alone
    picture = Picture(_blank(run))
    for event in run.kept.events[: until if until is None else max(until, 1)]:
        picture.apply(LogEvent(**event))
    for row in picture.candidates.values():
        row.ticket = ""  # of the judge that judged it: this site has no such evaluation
    return picture


def rows_of(run: Run, until: int | None = None) -> list[RunEvent]:
    """Its events as rows, the oldest first."""
    assert run.kept is not None  # noqa: S101 - for recorded runs alone
    events = run.kept.events[:until]
    return [RunEvent(run=run, **{**event, "candidate": event["candidate"] or ""}) for event in events]


def _run(row: RecordedRun) -> Run | None:
    """Before its first event. None where this site does not have the task."""
    version = find_active_version(*row.header["task"].split("/"))
    if version is None:
        return None
    kind = DeviceKind(
        slug=row.header["device"], title=row.header["device_title"], device_class=row.header["device_class"]
    )
    method = Method(slug="recorded", title=row.header["method_title"], kind=MethodKind.AGENT)
    run = Run(code=row.code, task_version=version, device_kind=kind, method=method)
    run.kept = row
    return run


def _blank(run: Run) -> Run:
    """The same run before its first event."""
    assert run.kept is not None  # noqa: S101 - for recorded runs alone
    first = run.kept.events[0]
    config = first["payload"]["config"]
    fresh = Run(
        code=run.code,
        task_version=run.task_version,
        device_kind=run.device_kind,
        method=run.method,
        language=config.get("language", ""),
        proposer=config.get("proposer", ""),
        seed=config.get("seed", 0),
        created=datetime.fromtimestamp(first["at_s"], UTC),
    )
    fresh.kept = run.kept
    return fresh


def _checked(header: KeptHeader, sources: dict[str, str], events: list[KeptEvent]) -> Picture:
    """The run as it ended: its log can be folded, and the rows made of it are such as the tables could hold."""
    if not events or events[0].type != "run.created":
        raise BundleError("the log does not begin with the event run.created")
    _demand_course(events)
    where = "event 1"
    try:
        RunConfig.from_json(events[0].payload["config"])
        picture = Picture(Run(code=header.code))
        for event in events:
            where = f"event {event.seq}"
            demand_payload(event.type, event.payload)
            picture.apply(LogEvent(event.seq, event.at_s, event.type, event.candidate, event.payload))
            sentence(event)
            if len(picture.run.leases) > LEASES_MAX:
                raise ValueError("more reservations are open than a run can have")
        where = "the run as a whole"
        _check_row(picture.run, "task_version", "device_kind", "method", "language", "proposer", "seed", "owner")
        for row in picture.candidates.values():
            where = f"candidate {row.key}"
            _check_candidate(row, picture, sources)
    except BundleError as error:
        raise BundleError(f"{where}: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, ValidationError) as error:
        raise BundleError(f"{where}: {type(error).__name__}: {str(error)[:300]}") from error
    picture.run.language = events[0].payload["config"].get("language", "")
    return picture


def _interval(ended: Picture) -> dict[str, float | None]:
    best = ended.candidates.get(ended.run.best_key)
    return {"score_lo": best.score_lo, "score_hi": best.score_hi} if best else {}


def _check_candidate(row: Candidate, picture: Picture, sources: dict[str, str]) -> None:
    _check_row(row, "run")
    for said in picture.opinions.get(row.key, []):
        _check_row(said, "run", "candidate")
    named = {*row.parents, *row.probabilities, *filter(None, [row.reused_from])}
    if not named <= picture.candidates.keys():
        raise ValueError("it names a candidate that the log does not have")
    if (row.source_sha256 or row.judged_as) and row.source_sha256 not in sources:
        raise ValueError("its source is missing")
    if row.reused_from and _result(picture.candidates[row.reused_from]) != _result(row):
        raise ValueError("its result differs from that of the candidate that it names")


def _result(row: Candidate) -> tuple[str, float | None, float | None, float | None]:
    """As its first judging ended."""
    if row.estimates:
        score, lo, hi, _ = row.estimates[0]
        return PASS, score, lo, hi
    return row.verdict, row.score, row.score_lo, row.score_hi


def _demand_course(events: list[KeptEvent]) -> None:
    """Raises BundleError for events that no run has more than once, or in another order."""
    once = Counter(event.type for event in events if event.type in ("run.created", "run.started", "run.finished"))
    if once["run.finished"] != 1 or events[-1].type != "run.finished":
        raise BundleError("the last event is not the end of the run")
    if max(once.values()) > 1:
        raise BundleError("the run begins twice")
    judged = Counter(event.candidate for event in events if event.type == "evaluation.finished")
    if max(judged.values(), default=0) > 1:
        raise BundleError("a candidate was judged twice")
    asked = Counter(
        (event.candidate, str(event.payload.get("verifier"))) for event in events if event.type == "verdict"
    )
    if max(asked.values(), default=0) > 1:
        raise BundleError("a verifier gives two opinions on a candidate")
    narrowed = [event.type for event in events if event.type.startswith("curriculum.")]
    if narrowed not in ([], ["curriculum.began"], ["curriculum.began", "curriculum.ended"]):
        raise BundleError("the phase with one configuration begins and ends at most once")


def _check_row(row: Run | Candidate | Opinion, *unchecked: str) -> None:
    """Raises ValidationError, and ValueError for what a column would turn into something else."""
    fields: list[models.Field[Any, Any]] = [
        field for field in row._meta.concrete_fields if field.name not in (*unchecked, "id")
    ]
    before = {field.attname: getattr(row, field.attname) for field in fields}
    row.clean_fields(exclude={*unchecked, "id"})
    changed = [name for name, value in before.items() if getattr(row, name) != value]
    if changed:
        raise ValueError(f"{changed[0]} has the wrong type")
