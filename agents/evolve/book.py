"""The open log of a run together with its state, and the meter of a paid call.

There is one writer, so the state in memory is always the fold of the log. Not covered: deciding anything.
"""

from collections.abc import Mapping
from typing import Any

from .budget import CURRENCIES, Cost
from .events import Draft, EventLog, Live, LogEvent
from .state import RunState


class Book:
    """Every change of a run goes through `commit`, so its log holds nothing that cannot be folded."""

    def __init__(self, log: EventLog) -> None:
        """Raises BrokenLog."""
        self.log = log
        self.state = RunState.fold(log.read(), log.get_source)
        self._closed = False

    def close(self) -> None:
        """Nothing can be committed afterwards, also not by tasks that are still running."""
        self._closed = True

    def commit(self, *drafts: Draft) -> None:
        """All of them or none; the state follows. Raises BrokenLog and whatever the log raises."""
        if self._closed:
            raise RuntimeError("this run is over")
        self.rehearse(*drafts)
        for event in self.log.append(drafts):
            self.state.apply(event)

    def rehearse(self, *drafts: Draft) -> None:
        """Folds them into a copy of the state. Raises BrokenLog where they cannot follow the log."""
        trial = self.state.copy()
        for seq, draft in enumerate(drafts, self.state.seq + 1):
            trial.apply(LogEvent(seq, 0.0, draft.type, draft.candidate, draft.payload))


class LeaseMeter:
    """A `Meter` over one reservation. `total` is what to settle it at, whenever that is."""

    def __init__(self, book: Book, candidate: str, bound: Cost) -> None:
        self._book, self._candidate = book, candidate
        self._bound, self._spent, self._open = bound, Cost(), Cost()
        self.drafts: list[Draft] = []  # what is to be committed together with the answer

    @property
    def left(self) -> Cost:
        return self._bound - self.total

    @property
    def total(self) -> Cost:
        return self._spent + self._open

    def open(self, bound: Cost) -> None:
        short = [name for name in CURRENCIES if getattr(bound, name) > getattr(self.left, name)]
        if short or self._open != Cost():
            raise ValueError(f"a call of up to {bound} exceeds what is left of the budget, {self.left}")
        self._open = bound

    def attempt(
        self, role: str, model: str, status: int | None, text: str = "", retry_after_s: float | None = None
    ) -> None:
        payload = {"role": role, "model": model, "status": status, "retry_after_s": retry_after_s, "text": text}
        self._book.commit(Draft("llm.attempt", self._candidate, payload))

    def free(self) -> None:
        self._open = Cost()

    def tool(self, said: Mapping[str, Any], source: str | None, cost: Cost) -> None:
        self._open = Cost()
        self._spent += cost
        kept = self._book.log.put_source(source) if source is not None else None
        self._book.commit(Draft("tool.called", self._candidate, {**said, "source_sha256": kept}))

    def usage(self, role: str, model: str, usage: Mapping[str, Any], cost: Cost) -> None:
        self._open = Cost()
        self._spent += cost
        payload = {"role": role, "model": model, "usage": dict(usage), "cost_usd": cost.usd}
        self.drafts.append(Draft("llm.usage", self._candidate, payload))


class Tagged:
    """A `Live` that says of which candidate it speaks."""

    def __init__(self, live: Live, candidate: str) -> None:
        self._live, self._candidate = live, candidate

    def say(self, topic: str, payload: Mapping[str, Any]) -> None:
        self._live.say(topic, {**payload, "candidate": self._candidate})


def propose_lease(candidate: str) -> str:
    return f"{candidate}/propose"


def judge_lease(candidate: str) -> str:
    return f"{candidate}/judge"


def confirm_lease(candidate: str, number: int) -> str:
    """Of a judging that confirms a candidate; it ends as the lease of its first judging does."""
    return f"{candidate}/confirm-{number}/judge"


def verify_lease(candidate: str, verifier: str) -> str:
    return f"{candidate}/verify/{verifier}"


def reserved(lease: str, candidate: str | None, cost: Cost) -> Draft:
    return Draft("budget.reserved", candidate, {"lease": lease, "cost": cost.to_json()})


def settled(lease: str, candidate: str | None, cost: Cost) -> Draft:
    return Draft("budget.settled", candidate, {"lease": lease, "cost": cost.to_json()})


def denied(currency: str, candidate: str | None, what: str) -> Draft:
    return Draft(
        "budget.denied", candidate, {"currency": currency, "text": f"{what} would exceed the cap of {currency}"}
    )
