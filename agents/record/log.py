"""The log of a run in the database: events, rows for pages and the wake-up of readers are committed together.

There is one writer at a time: an append succeeds only with the run's claim. Numbers have no gaps. Does NOT decide
anything; the meaning of events is in `projection.py`.
"""

import hashlib
import time
import uuid
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q

from benchmarks import events as signals
from benchmarks.notifications.telling import notify
from benchmarks.states import NotificationKind

from ..evolve.events import Draft, LogEvent
from ..models import Candidate, Opinion, Run, RunEvent, RunSource
from .projection import Picture, keys_of

RUN_FIELDS = [
    *("config", "state", "started", "finished", "reason", "reason_text", "claim", "last_seq", "generation"),
    *("candidate_count", "judged_count", "best_score", "best_key", "spent", "leases"),
]
_NOT_OF_THE_LOG = ("id", "run", "key", "position", "withheld")
CANDIDATE_FIELDS = [field.name for field in Candidate._meta.concrete_fields if field.name not in _NOT_OF_THE_LOG]


class RunClaimLost(Exception):
    """The run belongs to another worker now; the holder of this claim must stop without an error."""


class DbLog:
    """An `EventLog` of one run, for one thread, as the holder of `claim`."""

    def __init__(self, run: Run, claim: uuid.UUID) -> None:
        self.run_pk, self.claim = run.pk, claim

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        """Raises RunClaimLost if another process holds the run."""
        if not drafts:
            return []
        with transaction.atomic():
            run = Run.objects.select_for_update().filter(pk=self.run_pk, claim=self.claim).first()
            if run is None:
                raise RunClaimLost
            now = time.time()
            events = [
                LogEvent(run.last_seq + place, now, draft.type, draft.candidate, draft.payload)
                for place, draft in enumerate(drafts, 1)
            ]
            RunEvent.objects.bulk_create(
                RunEvent(
                    run=run,
                    seq=event.seq,
                    at_s=event.at_s,
                    type=event.type,
                    candidate=event.candidate or "",
                    payload=dict(event.payload),
                )
                for event in events
            )
            _project(run, events)
            signals.wake(run.topic)
        return events

    def read(self, after: int = 0) -> list[LogEvent]:
        return read(self.run_pk, after)

    def put_source(self, text: str) -> str:
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        RunSource.objects.get_or_create(sha256=sha256, defaults={"text": text})
        return sha256

    def get_source(self, sha256: str) -> str:
        return source(sha256)


def read(run_pk: int, after: int = 0, until: int | None = None) -> list[LogEvent]:
    rows = RunEvent.objects.filter(run=run_pk, seq__gt=after).order_by("seq")
    found = rows if until is None else rows.filter(seq__lte=until)
    columns = found.values_list("seq", "at_s", "type", "candidate", "payload")
    return [LogEvent(seq, at_s, type_, key or None, payload) for seq, at_s, type_, key, payload in columns]


def source(sha256: str) -> str:
    """Raises KeyError for a text that was never put."""
    text = RunSource.objects.filter(pk=sha256).values_list("text", flat=True).first()
    if text is None:
        raise KeyError(sha256)
    return text


def source_in(run: Run, sha256: str) -> str:
    """The same for a run that may be a recorded one."""
    return str(run.kept.sources[sha256]) if run.kept else source(sha256)


def _project(run: Run, events: list[LogEvent]) -> None:
    named = Q(key__in=keys_of(run, events))
    if any(event.type == "confirmation.finished" for event in events):  # it may give the run another best
        named = Q()
    rows = Candidate.objects.filter(named, run=run)
    picture = Picture(run, {row.key: row for row in rows})
    known = Opinion.objects.filter(candidate__in=[row.pk for row in picture.candidates.values()])
    for said in known.select_related("candidate"):
        picture.opinions.setdefault(said.candidate.key, []).append(said)
    for event in events:
        picture.apply(event)
    run.save(update_fields=RUN_FIELDS)
    if any(event.type == "run.finished" for event in events):
        _tell_owner(run)
    changed = [picture.candidates[key] for key in picture.touched]
    Candidate.objects.bulk_create([row for row in changed if row.pk is None])
    Candidate.objects.bulk_update([row for row in changed if row.first_seq != row.last_seq], CANDIDATE_FIELDS)
    _save_opinions([said for key in picture.touched for said in picture.opinions.get(key, [])])


def _tell_owner(run: Run) -> None:
    if run.owner is not None:
        best = f" Its best kernel has {run.best_score:.2f}×." if run.best_score else " It found no correct kernel."
        why = (run.reason_text or run.reason).removesuffix(".")
        text = f"Your run on {run.task_version.task.name} has ended: {why}.{best}"
        notify(run.owner, NotificationKind.RUN_ENDED, text, run.get_absolute_url())


def _save_opinions(said: list[Opinion]) -> None:
    for item in said:
        item.candidate_id = item.candidate.pk
    Opinion.objects.bulk_create([item for item in said if item.pk is None], ignore_conflicts=True)
    Opinion.objects.bulk_update([item for item in said if item.pk is not None and item.truth], ["truth"])
