"""The budget of wall time: what counts when the process is too busy to look at the clock, and at both ends of a run."""

import asyncio
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from agents.evolve import loop
from agents.evolve.book import Book
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import _Wall, create
from agents.evolve.model import NoProposal, Proposal, ProposalRequest
from agents.evolve.search.forecasting import forecasting
from agents.evolve.state import RunState

from .test_confirming import BY_THE_WALL, Hanging
from .world import TASK, Judge, Recorded, Steady, of_type, run


class Busy(Steady):
    """Holds the process up, as a forecast does, or a log in a database."""

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        if request.stage == "optimise":
            time.sleep(0.3)
        return super().answer(request)


def folded(log: MemoryLog) -> RunState:
    return RunState.fold(log.read(), log.get_source)


def test_wall_time_of_a_busy_process_counts_when_it_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of 10 s and a proposal of 60 s, in small: who pauses and resumes searches for nothing."""
    monkeypatch.setattr(loop, "_SLICE_S", 0.05)

    class Asks(Busy):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            super().answer(request)
            return NoProposal("provider_error", "no key", pause=True)

    log = Recorded()
    create(log, RunConfig(TASK.name, caps=Caps(wall_s=5.0), generation_size=1))
    run(log, proposer=Steady(), verifiers=(), wishes=_once(log, "generation.closed", 1, "pause"))
    before_s = folded(log).budget.spent.wall_s
    assert run(log, proposer=Asks(), verifiers=()).state == "paused"
    assert folded(log).budget.spent.wall_s - before_s >= 0.28, "of 0.3 s"


def _once(log: MemoryLog, event: str, count: int, wish: str):  # type: ignore[no-untyped-def]
    async def wishes() -> str:
        return wish if len(of_type(log.read(), event)) >= count else "go"

    return wishes


def test_wall_time_counts_while_judgings_are_withdrawn_before_the_leaders_are_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_SLICE_S", 0.05)
    at: list[float] = []

    class Stubborn(Hanging):
        async def withdraw(self, ticket: str) -> None:
            at.append(time.monotonic())
            await asyncio.sleep(3600)

    log = Recorded()
    started = time.monotonic()
    run(log, BY_THE_WALL, verifiers=(), proposer=Steady(), judge=Stubborn())
    took_s = time.monotonic() - started
    assert at
    assert folded(log).budget.spent.wall_s == pytest.approx(min(2.0, took_s), abs=0.3)


def test_a_process_that_stood_still_for_hours_is_soon_awake_again() -> None:
    log = Recorded()
    create(log, RunConfig(TASK.name, caps=Caps(wall_s=86400.0)))
    book = Book(log)

    async def look() -> int:
        wall = _Wall(book)
        assert wall.tick()
        before = len(log.read())
        wall.since_s -= 8 * 3600  # type: ignore[operator]
        assert wall.tick()
        return len(log.read()) - before

    assert asyncio.run(look()) <= 10


@pytest.mark.parametrize("seed", range(3))
def test_looking_at_the_clock_ends_for_any_cap(seed: int) -> None:
    random = np.random.default_rng(seed)
    for cap_s in [*random.uniform(0, 100, 30), *random.uniform(0, 1e-3, 5), 1e-300, 5e-324, 0.1 + 0.2]:
        log = Recorded()
        create(log, RunConfig(TASK.name, caps=Caps(wall_s=float(cap_s))))
        book = Book(log)

        async def look(book: Book = book) -> None:
            wall = _Wall(book)
            wall.tick()
            for _ in range(40):
                if wall.since_s is not None:
                    wall.since_s -= float(random.uniform(0, 8))
                if not wall.tick():
                    return

        asyncio.run(look())
        assert book.state.budget.spent.wall_s <= cap_s


def test_wall_time_counts_that_passed_while_the_last_event_before_a_pause_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_SLICE_S", 0.05)

    class SlowLog(Recorded):
        def append(self, drafts):  # type: ignore[no-untyped-def]
            if any(draft.type == "generation.closed" for draft in drafts):
                time.sleep(0.5)
            return super().append(drafts)

    log = SlowLog()
    create(log, RunConfig(TASK.name, caps=Caps(wall_s=5.0), generation_size=1))
    started, pauses = time.monotonic(), 0

    class Asks(Steady):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            return NoProposal("provider_error", "no key", pause=True)

    while pauses < 3:
        assert run(log, proposer=Asks(), verifiers=()).state == "paused"
        pauses += 1
    took_s = time.monotonic() - started
    assert took_s >= 1.5
    assert folded(log).budget.spent.wall_s >= took_s - 0.5


def test_a_resumed_run_without_wall_time_asks_nobody() -> None:
    log = Recorded()
    create(log, RunConfig(TASK.name, caps=Caps(wall_s=0.0), generation_size=1))
    proposer = Steady()
    asked: list[str] = []
    real = proposer.answer

    def answer(request: ProposalRequest) -> Proposal | NoProposal:
        asked.append(request.candidate)
        return real(request)

    proposer.answer = answer  # type: ignore[method-assign]
    outcome = run(log, proposer=proposer, verifiers=(), judge=Judge())
    assert outcome.reason == "budget"
    assert asked == []
    assert not of_type(log.read(), "candidate.requested")


def test_forecasts_of_several_threads_leave_the_number_of_threads_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends first would restore it under the other, and who ends last restore one thread for good."""

    def threads() -> list[int]:
        return [item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"]

    before, seen = threads(), list[int]()

    def look(*_: object) -> None:
        seen.extend(threads())
        time.sleep(0.05)
        seen.extend(threads())

    monkeypatch.setattr(sys.modules[forecasting.__module__], "_most_promising", look)
    workers = [threading.Thread(target=forecasting, args=(None, (), None)) for _ in range(4)]
    for worker in workers:
        worker.start()
        time.sleep(0.02)
    for worker in workers:
        worker.join()
    assert (set(seen), threads()) == ({1}, before)
