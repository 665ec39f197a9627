"""Begins a log: as a new run, or as a fork with the results of another one.

Not covered: going on (`loop.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .config import RunConfig
from .events import Draft, EventLog, LogEvent
from .memory import RunMemory
from .model import OURS, PASS
from .state import RunState

_FOUND = {
    "generation.opened",
    "generation.closed",
    "proposal.requested",
    "proposal.received",
    "proposal.rejected",
    "verdict",
    "evaluation.submitted",
    "evaluation.finished",
    "archive.inserted",
    "archive.evicted",
    "migration",
    "curriculum.began",
    "curriculum.ended",
}
_PLACES = {"archive.inserted", "archive.evicted", "migration"}


def create(log: EventLog, config: RunConfig, prices: Mapping[str, Any] | None = None, **origin: Any) -> None:
    """Writes the first event. `prices` are those of the models, kept with the run."""
    log.append([Draft("run.created", None, {"config": config.to_json(), "prices": dict(prices or {}), **origin})])


def fork(log: EventLog, at_seq: int, new_log: EventLog, seed: int, config: RunConfig | None = None) -> None:
    """Begins in `new_log` a run whose archive is that of `log` at `at_seq`; it has spent nothing.

    Candidates that were in flight are left out. Of confirmations only those that rejected a candidate count: each takes
    the place of its first judging. `config` replaces that of the old run, in all but the islands. Raises BrokenLog
    where either log cannot be folded.
    """
    events = [event for event in log.read() if event.seq <= at_seq]
    old = RunState.fold(events, log.get_source)
    chosen = replace(config or old.config, seed=seed, islands=old.config.islands)
    create(new_log, chosen, old.prices, forked_from={"seq": at_seq})
    settled = {item.id for item in old.archive.candidates.values() if item.state in ("judged", "refused", "dropped")}
    kept = [
        event for event in events if event.type in _FOUND and (event.candidate is None or event.candidate in settled)
    ]
    for event in kept:
        if event.type == "proposal.received":
            new_log.put_source(log.get_source(event.payload["source_sha256"]))
    for kernel in RunMemory.of_options(chosen.options).kernels:
        new_log.put_source(log.get_source(kernel.source_sha256))
    closing = [Draft("generation.closed", None, {"number": old.generation.number})] if old.generation else []
    drafts = [*_drafts(kept, _rejections(events)), *closing]
    if drafts:
        new_log.append(drafts)
    RunState.fold(new_log.read(), new_log.get_source)


def _rejections(events: Sequence[LogEvent]) -> dict[str | None, Mapping[str, Any]]:
    """The results that rejected candidates when they were judged again, also for those with the same binary."""
    found: dict[str | None, Mapping[str, Any]] = {}
    for event in events:
        if event.type == "confirmation.finished" and event.payload["result"]["verdict"] not in (PASS, *OURS):
            found.setdefault(event.candidate, event.payload["result"])
    judged = [event for event in events if event.type == "evaluation.finished"]
    twins = {event.candidate: event.payload.get("reused_from") for event in judged}
    return {**found, **{name: found[twin] for name, twin in twins.items() if twin in found}}


def _drafts(events: Sequence[LogEvent], rejections: Mapping[str | None, Mapping[str, Any]]) -> list[Draft]:
    drafts = []
    for event in events:
        rejection, payload = rejections.get(event.candidate), event.payload
        if event.type in _PLACES and (rejection is not None or payload.get("by") in rejections):
            continue
        if rejection is not None and event.type == "evaluation.finished":
            payload = {**payload, "result": rejection}
        drafts.append(Draft(event.type, event.candidate, payload))
    return drafts
