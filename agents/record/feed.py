"""The event stream of a run: the events of its log under their numbers, and progress that is not stored.

A reader that comes back with `Last-Event-ID` gets every later event once. Does NOT carry sources or whole results:
pages fetch those.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from benchmarks.events import READ_MAX, formatted
from benchmarks.extensions import News

from ..evolve.texts import sentence
from ..models import Run, RunEvent
from ..states import RunStatus
from .withheld import EVERYBODY, readable_events


class RunLog:
    """The feed of `run:CODE`."""

    def latest(self, topics: list[str]) -> News:
        newest = _rows(topics[0]).order_by("-seq")[:1]
        return News(_told(newest), ended=False)

    def read(self, topics: list[str], after: int) -> News:
        # Asked before the events are read: what finished until then has its last event in the table.
        ended = Run.objects.filter(code=_code(topics[0]), state=RunStatus.FINISHED).exists()
        rows = _rows(topics[0]).filter(seq__gt=after).order_by("seq")[:READ_MAX]
        found = _told(rows)
        return News(found, ended and len(found) < READ_MAX)


def _rows(topic: str) -> Any:
    return RunEvent.objects.filter(run__code=_code(topic), run__hidden=False)


def _code(topic: str) -> str:
    return topic.partition(":")[2]


def _told(rows: Iterable[RunEvent]) -> list[tuple[int, bytes]]:
    """A stream is shared by all readers, so it contains only what everyone may read."""
    return [_numbered(row) for row in readable_events(EVERYBODY, rows)]


def _numbered(row: RunEvent) -> tuple[int, bytes]:
    data = {"seq": row.seq, "at_s": row.at_s, "type": row.type, "candidate": row.candidate, "text": sentence(row)}
    return row.seq, formatted("run-event", data, row.seq)


def may_follow(_user: AbstractBaseUser | AnonymousUser, name: str) -> bool:
    """Everyone may follow a run that exists and is not hidden."""
    try:
        return Run.objects.filter(code=UUID(name), hidden=False).exists()
    except ValueError:
        return False
