"""The state of a run, computed from its log: status, archive, budget and the open generation.

Not covered: what to do next (`loop.py`).
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .archive import Archive, speedups
from .budget import Budget
from .config import RunConfig
from .events import LogEvent
from .model import ArchiveView, CandidateView, Stage


class BrokenLog(ValueError):
    """An event cannot follow those before it. The text names the event and what is wrong."""


@dataclass
class Generation:
    """One round of proposals."""

    number: int
    stage: Stage
    candidates: list[str] = field(default_factory=list)
    closed: bool = False
    best: float | None = None  # what counted of the best of the whole run, when it was closed


@dataclass
class Focus:
    """The configuration that counts alone for a while. `reached`: the best speedup on it after each generation."""

    config: str
    speedup: float  # when it began
    reached: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Ending:
    """Why the run ends, and how many judgings its leaders get before."""

    reason: str
    text: str
    judgings: int


@dataclass(frozen=True)
class Base:
    """Archive and budget as they were when the latest generation was opened: all that its choices depend on."""

    view: ArchiveView
    budget: Budget


@dataclass
class RunState:
    """Fold every event into it with `apply`."""

    load: Callable[[str], str] = field(repr=False)
    seq: int = 0
    status: str = "new"  # created, running, paused, stopping, finished
    reason: str | None = None  # why it finished
    text: str = ""
    started: bool = False
    vain: int = 0  # times that it was taken up since it last got anywhere
    inherited: int = 0  # generations that came from another run
    config: RunConfig = field(init=False)
    prices: Mapping[str, Any] = field(default_factory=dict)
    archive: Archive = field(init=False)
    budget: Budget = field(init=False)
    base: Base = field(init=False)
    generations: list[Generation] = field(default_factory=list)
    focus: Focus | None = None
    focus_over: bool = False  # all configurations count again
    focused: int = 0  # generations when they began to count again
    confirming: Ending | None = None
    confirmation_tickets: dict[str, str] = field(default_factory=dict)  # by lease, of those that are open

    def __post_init__(self) -> None:
        self.archive = Archive(self.load)

    @classmethod
    def fold(cls, events: Iterable[LogEvent], load: Callable[[str], str]) -> "RunState":
        state = cls(load)
        for event in events:
            state.apply(event)
        return state

    @property
    def generation(self) -> Generation | None:
        """The one that is open."""
        return self.generations[-1] if self.generations and not self.generations[-1].closed else None

    @property
    def next_number(self) -> int:
        return self.generations[-1].number + 1 if self.generations else 0

    @property
    def best(self) -> CandidateView | None:
        return self.archive.candidates[self.archive.best] if self.archive.best is not None else None

    def copy(self) -> "RunState":
        """Whatever is applied to the copy leaves this one as it is."""
        twin = copy.copy(self)
        twin.archive = self.archive.copy()
        twin.generations = [  # the others are not changed any more
            *self.generations[:-1],
            *(replace(item, candidates=list(item.candidates)) for item in self.generations[-1:]),
        ]
        twin.confirmation_tickets = dict(self.confirmation_tickets)
        if self.focus is not None:
            twin.focus = replace(self.focus, reached=list(self.focus.reached))
        if self.status != "new":
            twin.budget = self.budget.copy()
        return twin

    def apply(self, event: LogEvent) -> None:
        """Raises BrokenLog; the state is of no use after that."""
        try:
            self._apply(event)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise BrokenLog(f"Event {event.seq} of the log, {event.type}, cannot be applied ({what}).") from error

    def _apply(self, event: LogEvent) -> None:
        if event.seq != self.seq + 1:
            raise ValueError(f"event {event.seq} after event {self.seq}")
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event)
        self.vain = self.vain + (event.type == "run.resumed") if event.type in _NO_PROGRESS else 0
        self.archive.apply(event)
        if event.type.startswith("budget."):
            self.budget.apply(event)
        self.seq = event.seq

    def of(self, generation: Generation) -> list[CandidateView]:
        return [self.archive.candidates[name] for name in generation.candidates]

    @property
    def is_unpromising(self) -> bool:
        """In the last generation the search expected nothing of any setting that was left."""
        last = self.of(self.generations[-1]) if self.generations else []
        return bool(last) and all(item.refusal and item.refusal.reason == "unpromising" for item in last)


def _created(state: RunState, event: LogEvent) -> None:
    state.config = RunConfig.from_json(event.payload["config"])
    state.prices = event.payload.get("prices", {})
    state.budget = Budget(state.config.caps)
    state.status = "created"


def _running(state: RunState, event: LogEvent) -> None:
    if not state.started:
        state.inherited = len(state.generations)
    state.status, state.started = "running", True


def _paused(state: RunState, event: LogEvent) -> None:
    state.status, state.text = "paused", event.payload.get("text", "")


def _stopping(state: RunState, event: LogEvent) -> None:
    state.status = "stopping"


def _finished(state: RunState, event: LogEvent) -> None:
    state.status, state.reason, state.text = "finished", event.payload["reason"], event.payload["text"]


def _opened(state: RunState, event: LogEvent) -> None:
    state.generations.append(Generation(event.payload["number"], event.payload["stage"]))
    state.base = Base(state.archive.view(event.payload["base_seq"]), state.budget.copy())


def _requested(state: RunState, event: LogEvent) -> None:
    state.generations[-1].candidates.append(str(event.candidate))


def _closed(state: RunState, event: LogEvent) -> None:
    generation = state.generations[-1]
    generation.closed, generation.best = True, state.best.counts if state.best is not None else None
    if state.focus is not None and state.focus.config in state.archive.champions:  # not so after some forks
        champion = state.archive.candidates[state.archive.champions[state.focus.config]]
        state.focus.reached.append(speedups(champion)[state.focus.config])


def _focused(state: RunState, event: LogEvent) -> None:
    state.focus = Focus(event.payload["config"], event.payload["speedup"])


def _generalised(state: RunState, event: LogEvent) -> None:
    state.focus, state.focus_over, state.focused = None, True, len(state.generations)


def _confirming(state: RunState, event: LogEvent) -> None:
    data = event.payload
    state.confirming = Ending(data["reason"], data["text"], data["judgings"])


def _confirmation_submitted(state: RunState, event: LogEvent) -> None:
    state.confirmation_tickets[event.payload["lease"]] = event.payload["ticket"]


def _confirmation_finished(state: RunState, event: LogEvent) -> None:
    state.confirmation_tickets.pop(event.payload["lease"], None)


_NO_PROGRESS = ("run.resumed", "budget.reserved", "budget.settled", "llm.attempt", "tool.called", "note", "error")

_HANDLERS: Mapping[str, Callable[[RunState, LogEvent], None]] = {
    "run.created": _created,
    "run.started": _running,
    "run.resumed": _running,
    "run.paused": _paused,
    "run.stopping": _stopping,
    "run.finished": _finished,
    "confirming.began": _confirming,
    "confirmation.submitted": _confirmation_submitted,
    "confirmation.finished": _confirmation_finished,
    "curriculum.began": _focused,
    "curriculum.ended": _generalised,
    "generation.opened": _opened,
    "generation.closed": _closed,
    "proposal.requested": _requested,
}
