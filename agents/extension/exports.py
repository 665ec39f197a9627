"""The runs of an account, for the archive of everything that the site keeps of it.

Does NOT write the archive: `benchmarks.accounts.exports` does.
"""

import json
from collections.abc import Iterator
from itertools import islice

from django.contrib.auth.models import User

from benchmarks.accounts.exports import File, as_json, picked

from ..models import Run, RunEvent
from ..record.withheld import readable_events

CHUNK_ROWS = 500
_RUN = ("proposer", "language", "seed", "state", "reason_text", "created", "started", "finished", "config", "spent")


def files_of(user: User) -> Iterator[File]:
    """`runs/CODE/run.json` and its log, an event a line."""
    for run in Run.objects.filter(owner=user).select_related("task_version__task__suite").order_by("pk"):
        yield f"runs/{run.code}/run.json", as_json({"task": run.task_version.task.path, **picked(run, _RUN)})
        yield f"runs/{run.code}/events.jsonl", b"".join(_lines(user, run))


def _lines(user: User, run: Run) -> Iterator[bytes]:
    """Without what staff have withheld in the run of somebody else that this one is a fork of."""
    events = RunEvent.objects.filter(run=run).order_by("seq").iterator(chunk_size=CHUNK_ROWS)
    while chunk := readable_events(user, islice(events, CHUNK_ROWS)):
        for event in chunk:
            yield json.dumps(picked(event, ("seq", "at_s", "type", "candidate", "payload"))).encode() + b"\n"
