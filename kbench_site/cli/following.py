"""Following an evaluation until it ends: a bar for people at a terminal, a line per change for everybody else.

Closing the client changes nothing on the site. Does NOT print the result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .client import Client
from .output import INTERRUPTED, OUR_FAULT, leave, progress

LOOK_EVERY_S = 1.0


class Ticker(Protocol):
    """A receiver of progress."""

    def tell(self, text: str, done: int | None = None, total: int | None = None) -> None: ...


class Lines:
    """What changes, line by line."""

    def __init__(self) -> None:
        self._told = ""

    def tell(self, text: str, done: int | None = None, total: int | None = None) -> None:
        line = f"{text} ({done or 0} of {total})" if total else text
        if line != self._told:
            progress.print(line, style="dim")
        self._told = line


class Bar:
    """One line that moves."""

    def __init__(self, shown: Progress) -> None:
        self._shown, self._task = shown, shown.add_task("", total=None)

    def tell(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self._shown.update(self._task, description=text, completed=done or 0, total=total)


@contextmanager
def ticker() -> Iterator[Ticker]:
    if not progress.is_terminal:
        yield Lines()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=progress, transient=True) as shown:
        yield Bar(shown)


def followed(client: Client, code: str, timeout_s: float | None = None) -> dict[str, Any]:
    """The evaluation once it has ended. Leaves with a word on how to go on when it is interrupted or takes too long."""
    deadline = time.monotonic() + timeout_s if timeout_s else None
    try:
        with ticker() as told:
            while True:
                found: dict[str, Any] = client.evaluation(code, LOOK_EVERY_S)
                if found["finished"]:
                    return found
                _tell(told, found)
                if deadline is not None and time.monotonic() > deadline:
                    _leave_running(code, f"It has not ended within {timeout_s:g} s.", OUR_FAULT)
    except KeyboardInterrupt:
        _leave_running(code, "Interrupted.", INTERRUPTED)


def _leave_running(code: str, why: str, exit_code: int) -> NoReturn:
    leave(f"kbench: {why} Judging continues; follow it with: kbench watch {code}", exit_code)


def _tell(told: Ticker, found: dict[str, Any]) -> None:
    if found["queue"]:
        told.tell(f"queued: {_waiting(found['queue'])}")
    else:
        text = f"{found['stage'] or found['state']} {found['stage_text'] or ''}".rstrip()
        told.tell(text, found["stage_done"], found["stage_total"])


def _waiting(queue: dict[str, Any]) -> str:
    low, high = queue["wait_s_low"], queue["wait_s_high"]
    if low is None or high is None:
        return str(queue["reason"])
    return f"{queue['reason']} Number {queue['position']}, begins in {_span(low, high)}."


def _span(low_s: float, high_s: float) -> str:
    if high_s < 90:
        return f"{low_s:.0f} to {high_s:.0f} s"
    return f"{low_s / 60:.0f} to {high_s / 60:.0f} min"
