"""What a reader is not told of a run: the words of candidates whose submissions they may not open.

Such a candidate keeps its place, its outcome and its times; what its maker wrote is gone, and so is what may quote it:
reasons and logs of compiler, verifiers and judge. What is made once for all readers says what EVERYBODY may read.
Does NOT cover sources: the page of a candidate leaves them out itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AnonymousUser

from benchmarks.models import Evaluation
from benchmarks.querysets import User

from ..models import Candidate, RunEvent

EVERYBODY = AnonymousUser()
_OF_PAYLOAD: dict[str, Any] = {
    "name": None,
    "thought": None,
    "prompt": None,
    "text": None,
    "params": None,
    "template": None,
    "reasons": [],
}
_OF_RESULT = {"reason": "", "log_tail": ""}
_OF_ROW: dict[str, Any] = {
    "name": "",
    "thought": "",
    "params": None,
    "template": "",
    "verdict_text": "",
    "drop_text": "",
}


def hidden_tickets(user: User, rows: Sequence[Candidate]) -> set[str]:
    """Of candidates whose submissions this reader may not open: made private, or hidden by staff."""
    judged = Evaluation.objects.filter(code__in=[row.ticket for row in rows if row.ticket])
    hidden = judged.exclude(pk__in=judged.readable_by(user))
    return {str(code) for code in hidden.values_list("code", flat=True)}


def readable_events(user: User, rows: Iterable[RunEvent]) -> list[RunEvent]:
    """The same events of one run, without the words that this reader is not told."""
    events = list(rows)
    withheld = _withheld(user, events[0].run_id, {row.candidate for row in events if _speaks(row)}) if events else set()
    for row in events:
        if row.candidate in withheld:
            row.payload = _silent(row.payload)
    return events


def readable_candidates(user: User, rows: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates of one run, as it is or as it was, without the words that this reader is not told."""
    withheld = _withheld(user, rows[0].run_id, {row.key for row in rows}) if rows else set()
    for row in rows:
        if row.key in withheld:
            vars(row).update(_OF_ROW, configs=_without_failures(row.configs))
    return list(rows)


def _withheld(user: User, run: int, keys: set[str]) -> set[str]:
    """By what the table knows now: in the past of a run a candidate had no submission yet."""
    judged = list(Candidate.objects.filter(run=run, key__in=keys).exclude(ticket="").only("key", "ticket"))
    hidden = hidden_tickets(user, judged)
    return {row.key for row in judged if row.ticket in hidden}


def _speaks(row: RunEvent) -> bool:
    return bool(row.candidate) and not row.payload.keys().isdisjoint({*_OF_PAYLOAD, "result"})


def _silent(payload: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: _OF_PAYLOAD.get(name, value) for name, value in payload.items()}
    if "result" in kept:
        result = kept["result"]
        kept["result"] = {**result, **_OF_RESULT, "configs": _without_failures(result.get("configs", ()))}
    return kept


def _without_failures(configs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**item, "failure": ""} if "failure" in item else dict(item) for item in configs]
