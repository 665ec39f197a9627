"""Shows the progress of an evaluation: a bar at a terminal, elsewhere a line for each stage and each tenth of it.

An evaluation on a site is followed until it ends; closing the client does not affect it. Does NOT print the result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.harness import Step, Watcher

from .client import Client
from .output import INTERRUPTED, OUR_FAULT, leave, progress

LOOK_EVERY_S = 1.0


class Ticker(Protocol):
    """A receiver of progress."""

    def tell(self, text: str, done: int | None = None, total: int | None = None) -> None: ...


class Lines:
    """A line for each new text, and for each tenth of a count."""

    def __init__(self) -> None:
        self._told: tuple[str, int] = ("", 0)

    def tell(self, text: str, done: int | None = None, total: int | None = None) -> None:
        now = text, 10 * (done or 0) // total if total else 0
        if now != self._told:
            progress.print(f"{text} ({done or 0} of {total})" if total else text, style="dim")
        self._told = now


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


@contextmanager
def watched() -> Iterator[Watcher]:
    """Shows the steps of a judging on this machine."""
    with ticker() as told:

        def on_step(step: Step) -> None:
            if step.state != "finished":
                told.tell(titled(step.stage, step.text), step.done, step.total)

        yield Watcher(on_step)


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
        told.tell(
            titled(found["stage"] or found["state"], found["stage_text"]), found["stage_done"], found["stage_total"]
        )


def titled(stage: str, text: str | None) -> str:
    return f"{stage}: {text}" if text else stage


def _waiting(queue: dict[str, Any]) -> str:
    low, high = queue["wait_s_low"], queue["wait_s_high"]
    if low is None or high is None:
        return str(queue["reason"])
    return f"{queue['reason']} Number {queue['position']}, begins in {_span(low, high)}."


def _span(low_s: float, high_s: float) -> str:
    if high_s < 90:
        return f"{low_s:.0f} to {high_s:.0f} s"
    return f"{low_s / 60:.0f} to {high_s / 60:.0f} min"
