"""Stop, pause and the end of the wall time: what they leave behind."""

import asyncio
import time

import pytest

from agents.evolve import loop
from agents.evolve.budget import Caps, Cost
from agents.evolve.config import RunConfig
from agents.evolve.events import Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import RunOutcome, create, drive
from agents.evolve.model import JudgeResult, Meter, NoProposal, Proposal, ProposalRequest
from agents.evolve.state import RunState

from .world import TASK, Judge, Recorded, Scripted, Steady, of_type, run


class Wishes:
    """Says `wish` once `when` holds, and what came before until then."""

    def __init__(self, log: MemoryLog, event: str, count: int, wish: str) -> None:
        self.log, self.event, self.count, self.wish = log, event, count, wish

    async def __call__(self) -> str:
        if len(of_type(self.log.read(), self.event)) < self.count:
            return "go"
        return self.wish


class Endless(Steady):
    """Answers nothing after the translation, in the middle of a paid call."""

    async def propose(self, request: ProposalRequest, meter: Meter, live: Quiet) -> Proposal | NoProposal:
        if request.stage == "optimise":
            meter.open(Cost(usd=0.5))
            await asyncio.sleep(3600)
        return self.answer(request)


class Slow(Judge):
    """Never comes to an end after the translation."""

    async def wait(self, ticket: str, live: Quiet) -> JudgeResult:
        if not ticket.startswith("ticket 0"):
            await asyncio.sleep(3600)
        return await super().wait(ticket, live)


class Stubborn(Slow):
    """Does not even withdraw."""

    async def withdraw(self, ticket: str) -> None:
        await asyncio.sleep(3600)


async def drive_it(
    log: MemoryLog,
    wishes: object,
    proposer: Scripted | None = None,
    judge: Judge | None = None,
    caps: Caps | None = None,
) -> tuple[RunOutcome, set[str]]:
    """The outcome, and the tasks that are still there."""
    if not log.read():
        create(log, RunConfig(TASK.name, caps=caps or Caps(judgings=40), generation_size=4))
    outcome = await drive(
        log,
        proposer or Steady(),
        (),
        judge or Judge(),
        Quiet(),
        wishes,
        task=TASK,  # type: ignore[arg-type]
    )
    return outcome, {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]


def folded(log: MemoryLog) -> RunState:
    return RunState.fold(log.read(), log.get_source)


@pytest.mark.parametrize("judge", [Slow(), Stubborn()])
async def test_a_stop_withdraws_what_is_being_judged(judge: Judge) -> None:
    log = MemoryLog()
    wishes = Wishes(log, "evaluation.submitted", 5, "stop")
    outcome, tasks = await drive_it(log, wishes, judge=judge)
    state = folded(log)
    assert (outcome.state, outcome.reason, tasks) == ("finished", "stopped", set())
    assert [event.type for event in log.read()].count("run.stopping") == 1
    assert state.budget.leases == {}
    assert state.budget.spent.judgings == 5
    assert state.budget.spent.judging_s < 4 * RunConfig(TASK.name).judging_bound_s
    if not isinstance(judge, Stubborn):
        assert sorted(judge.withdrawn) == [f"ticket 1-{slot}" for slot in range(4)]


async def test_a_stop_ends_open_calls_and_counts_them_as_spent() -> None:
    log = MemoryLog()
    outcome, tasks = await drive_it(
        log, Wishes(log, "generation.opened", 2, "stop"), proposer=Endless(Cost(usd=1.0)), caps=Caps(usd=10.0)
    )
    state = folded(log)
    assert (outcome.reason, tasks, state.budget.leases) == ("stopped", set(), {})
    assert state.budget.spent.usd == pytest.approx(4 * 0.5)


async def test_a_run_that_died_while_stopping_ends_at_once() -> None:
    log, judge = MemoryLog(), Slow()
    wishes = Wishes(log, "evaluation.submitted", 5, "stop")
    await drive_it(log, wishes, judge=judge)
    cut = MemoryLog()
    cut._sources, at = log._sources, of_type(log.read(), "run.stopping")[0].seq
    cut._events = log.read()[:at]
    judge.withdrawn.clear()
    outcome, tasks = await drive_it(cut, wishes, judge=judge)
    assert (outcome.reason, tasks) == ("stopped", set())
    assert len(judge.withdrawn) == 4
    assert folded(cut).budget.leases == {}


async def test_a_pause_lets_what_is_in_flight_come_to_its_end() -> None:
    log = MemoryLog()
    create(log, RunConfig(TASK.name, caps=Caps(judgings=40), generation_size=16, concurrency=2))
    wishes, judge = Wishes(log, "evaluation.submitted", 5, "pause"), Judge(pause_s=0.3)
    outcome, tasks = await drive_it(log, wishes, judge=judge)
    state = folded(log)
    paused = [item for item in state.archive.candidates.values() if item.state == "proposing"]
    assert (outcome.state, tasks, state.status) == ("paused", set(), "paused")
    assert state.budget.leases == {}
    assert state.budget.spent.judgings == sum(judge.judged.values())
    assert paused
    wishes.count = 1000
    outcome, _ = await drive_it(log, wishes, judge=judge)
    assert outcome.reason == "budget"
    assert not [item for item in folded(log).archive.candidates.values() if item.state == "proposing"]
    assert folded(log).budget.spent.judgings == sum(judge.judged.values()) == 40


async def test_a_pause_submits_none_of_those_that_wait_for_another_to_be_judged() -> None:
    log = MemoryLog()
    create(log, RunConfig(TASK.name, caps=Caps(judgings=40), generation_size=16, concurrency=4, judgings_at_once=1))
    wishes, judge = Wishes(log, "evaluation.submitted", 5, "pause"), Judge(pause_s=0.3)
    outcome, tasks = await drive_it(log, wishes, judge=judge)
    waiting = [item for item in folded(log).archive.candidates.values() if item.state == "proposed"]
    assert (outcome.state, tasks) == ("paused", set())
    assert waiting
    assert folded(log).budget.leases == {}
    wishes.count = 1000
    outcome, _ = await drive_it(log, wishes, judge=judge)
    assert outcome.reason == "budget"
    assert folded(log).budget.spent.judgings == sum(judge.judged.values()) == 40


def test_a_pause_right_after_a_crash_changes_nothing() -> None:
    whole, config = Recorded(), RunConfig(TASK.name, caps=Caps(judgings=14))
    run(whole, config, proposer=Scripted(Cost(usd=0.01)))
    for end in whole.ends[1:-1]:
        log = whole.until(end)

        async def pause() -> str:
            return "pause"

        outcome = run(log, proposer=Scripted(Cost(usd=0.01)), wishes=pause)
        assert outcome.state == "paused" or end > of_type(whole.read(), "generation.closed")[-2].seq
        assert folded(log).budget.leases == {}
        assert run(log, proposer=Scripted(Cost(usd=0.01))).reason == "budget"
        assert folded(log).archive.sha256() == folded(whole).archive.sha256()
        assert folded(log).budget.spent.judgings == 14


async def test_a_stop_while_a_provider_is_waited_for() -> None:
    class Gone(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            return NoProposal("provider_error", "connection refused")

    log = MemoryLog()
    outcome, tasks = await drive_it(log, Wishes(log, "note", 1, "stop"), proposer=Gone())
    assert (outcome.reason, tasks) == ("stopped", set())


async def test_wall_time_is_a_currency() -> None:
    log = MemoryLog()
    outcome, tasks = await drive_it(log, Wishes(log, "run.created", 9, "stop"), judge=Slow(), caps=Caps(wall_s=0.6))
    state = folded(log)
    assert (outcome.reason, tasks, state.budget.leases) == ("budget", set(), {})
    assert state.budget.spent.wall_s == pytest.approx(0.6)


async def test_wall_time_counts_while_the_process_is_too_busy_to_look_at_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy(Steady):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            time.sleep(0.2)
            return super().answer(request)

    monkeypatch.setattr(loop, "_SLICE_S", 0.05)
    log = MemoryLog()
    outcome, _ = await drive_it(
        log, Wishes(log, "run.created", 9, "stop"), proposer=Busy(), caps=Caps(judgings=400, wall_s=1.0)
    )
    events = log.read()
    assert (outcome.reason, folded(log).budget.spent.wall_s) == ("budget", pytest.approx(1.0))
    assert len(of_type(events, "proposal.received")) <= 10, "2 s of proposals, where the cap is 1 s"


async def test_what_is_cancelled_from_outside_stands_as_after_a_crash() -> None:
    log = MemoryLog()
    task = asyncio.create_task(drive_it(log, Wishes(log, "run.created", 9, "stop"), judge=Slow()))
    while len(of_type(log.read(), "evaluation.submitted")) < 5:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert folded(log).status == "running"
    assert asyncio.all_tasks() == {asyncio.current_task()}
    outcome, _ = await drive_it(log, Wishes(log, "run.created", 9, "stop"))
    assert outcome.reason == "budget"
    assert folded(log).budget.spent.judgings == 40


async def test_a_log_that_fails_ends_the_driving_and_not_the_run() -> None:
    class Full(MemoryLog):
        def append(self, drafts: list) -> list:  # type: ignore[type-arg]
            if len(self.read()) > 40:
                raise OSError("no space left")
            return super().append(drafts)

    log = Full()
    with pytest.raises(OSError, match="no space left"):
        await drive_it(log, Wishes(log, "run.created", 9, "stop"))
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_run_that_ends_its_process_again_and_again_is_paused() -> None:
    """A person who resumes it gives it as many tries again."""
    log = MemoryLog()

    class Deadly(Scripted):
        async def propose(self, request: ProposalRequest, meter: Meter, live: Quiet) -> Proposal | NoProposal:
            raise KeyboardInterrupt

    create(log, RunConfig(TASK.name, caps=Caps(judgings=5)))
    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(drive_it(log, Wishes(log, "run.finished", 1, "go"), Deadly()))
    outcome, _ = asyncio.run(drive_it(log, Wishes(log, "run.finished", 1, "go"), Deadly()))
    assert outcome.state == "paused"
    assert "without progress" in outcome.text
    again, _ = asyncio.run(drive_it(log, Wishes(log, "run.finished", 1, "go")))
    assert again.state == "finished"
