"""The events of a run, and the interface of a store for them.

A run is its log: archive, budget, state and every view are computed from it. Not covered: where logs are kept
(`logs.py`, and the site's own store) and what the types mean (`docs/agents.md` has the table).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

TYPES = (
    "run.created",
    "run.started",
    "run.resumed",
    "run.paused",
    "run.stopping",
    "run.finished",
    "generation.opened",
    "generation.closed",
    "proposal.requested",
    "proposal.received",
    "proposal.rejected",
    "verdict",
    "evaluation.submitted",
    "evaluation.finished",
    "confirming.began",
    "confirmation.submitted",
    "confirmation.finished",
    "archive.inserted",
    "archive.evicted",
    "migration",
    "curriculum.began",
    "curriculum.ended",
    "arm.updated",
    "budget.reserved",
    "budget.settled",
    "budget.denied",
    "tool.called",
    "llm.attempt",
    "llm.usage",
    "task.note",
    "note",
    "error",
    "human.action",
)


@dataclass(frozen=True)
class Draft:
    """An event before it has a number. The payload is plain JSON."""

    type: str
    candidate: str | None
    payload: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"there is no event type {self.type!r}")


@dataclass(frozen=True)
class LogEvent:
    """One committed fact. `seq` is dense from 1; `at_s`, seconds since 1970, is for people and decides nothing."""

    seq: int
    at_s: float
    type: str
    candidate: str | None
    payload: Mapping[str, Any]


class EventLog(Protocol):
    """A store of one run with one writer."""

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        """Commits all of `drafts` or none."""
        ...

    def read(self, after: int = 0) -> list[LogEvent]:
        """Every event with a greater number, in order."""
        ...

    def put_source(self, text: str) -> str:
        """Keeps a text under its sha256, which it returns. Call it before the event that names it."""
        ...

    def get_source(self, sha256: str) -> str:
        """Raises KeyError for a text that was never put."""
        ...


class Live(Protocol):
    """Progress that need not survive: streamed tokens, the stage of an evaluation."""

    def say(self, topic: str, payload: Mapping[str, Any]) -> None: ...


class Quiet:
    """The `Live` of somebody who does not watch."""

    def say(self, topic: str, payload: Mapping[str, Any]) -> None:
        return
