"""The leaders of a run are judged again when it ends, and the pooled estimate decides which is the best."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.confirming import wall_for_confirming_s
from agents.evolve.events import LogEvent
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import fork
from agents.evolve.model import (
    CandidateView,
    JudgeResult,
    NoProposal,
    Proposal,
    ProposalRequest,
    VerifierOpinion,
    leading,
)
from agents.evolve.state import RunState
from benchmarks.harness import SpeedupEstimate, pooled

from .test_stopping import Wishes
from .world import TASK, Judge, Racing, Recorded, Scripted, Steady, kernel, of_type, run, truth, values_of

CONFIG = RunConfig(TASK.name, caps=Caps(judgings=20), confirmations=4)
LUCKY = "1-0"  # judged as 5 % faster than it is: with luck, faster than all others


class Luck(Judge):
    """The first judging of one candidate is lucky. `again` are the results of later ones by name, in turn."""

    def __init__(self, **again: list[JudgeResult]) -> None:
        super().__init__()
        self.later = again

    async def wait(self, ticket: str, live: Any) -> JudgeResult:
        found = await super().wait(ticket, live)
        key, _, number = ticket.removeprefix("ticket ").partition(" again ")
        if number and key.replace("-", "_") in {name.removeprefix("c") for name in self.later}:
            return self.later[f"c{key.replace('-', '_')}"][int(number) - 1]
        if key != LUCKY or number:
            return found
        assert found.score is not None
        return replace(found, score=1.05 * found.score, ci95=(1.04 * found.score, 1.06 * found.score))


def searched(judge: Judge, config: RunConfig = CONFIG) -> tuple[RunState, list[LogEvent]]:
    log = MemoryLog()
    run(log, config, verifiers=(), proposer=Steady(), judge=judge)
    return RunState.fold(log.read(), log.get_source), log.read()


def test_who_was_only_lucky_is_not_the_best() -> None:
    state, events = searched(Luck())
    unconfirmed, _ = searched(Luck(), replace(CONFIG, confirmations=0))
    assert unconfirmed.best is not None
    assert unconfirmed.best.id == LUCKY
    (began,) = of_type(events, "confirming.began")
    lucky, steady = began.payload["candidates"]
    assert (lucky, began.payload["judgings"], began.payload["reason"]) == (LUCKY, 4, "budget")
    again = of_type(events, "confirmation.finished")
    assert [event.candidate for event in again] == [lucky, steady, lucky, steady]
    assert state.best is not None
    assert (state.best.id, state.best.judgings) == (steady, 3)
    assert state.best.score == pytest.approx(truth(state.load(state.best.source_sha256 or "")).score)
    assert state.archive.view(state.seq).best == state.best
    known = state.archive.candidates[lucky]
    assert known.result is not None
    results = [known.result, *known.confirmations]
    parts = [SpeedupEstimate(item.score, *item.ci95) for item in results if item.score and item.ci95]
    assert known.score == pooled(parts).score == known.counts
    assert (state.status, state.reason) == ("finished", "budget")


@pytest.mark.parametrize(("cap", "most"), [(20, 4), (12, 2), (9, 1), (4, 0)])
def test_they_are_taken_from_the_judgings_of_the_run(cap: int, most: int) -> None:
    state, events = searched(Luck(), replace(CONFIG, caps=Caps(judgings=cap)))
    assert len(of_type(events, "confirmation.finished")) == most
    assert state.budget.spent.judgings == cap
    assert not state.budget.leases


class Told(Steady):
    """Remembers how many judgings each proposal was told of."""

    def answer(self, request: Any) -> Any:
        self.left = [*getattr(self, "left", ()), (request.candidate, request.budget_left.judgings)]
        return super().answer(request)


def test_a_proposer_is_told_what_is_left_for_the_search() -> None:
    proposer = Told()
    run(MemoryLog(), CONFIG, verifiers=(), proposer=proposer, judge=Luck())
    left = dict(proposer.left)
    assert (left["0-0"], left["1-0"], left["4-0"]) == (20, 15, 3)


def test_no_cap_is_exceeded() -> None:
    caps = Caps(judgings=20, judging_s=316)  # each takes a second, and 300 are reserved for it
    state, events = searched(Luck(), replace(CONFIG, caps=caps))
    assert len(of_type(events, "confirmation.finished")) == 1
    assert of_type(events, "budget.denied")[-1].payload["currency"] == "judging_s"
    assert state.budget.spent.judging_s <= 316 - 300 + 1
    assert (state.status, state.reason, state.budget.leases) == ("finished", "budget", {})


def test_what_fails_when_it_is_judged_again_is_not_the_best() -> None:
    wrong, noisy = JudgeResult("NONDETERMINISTIC", "differs"), JudgeResult("NOISY", "too noisy")
    state, events = searched(Luck(c1_0=[noisy, wrong]))
    other = of_type(events, "confirming.began")[0].payload["candidates"][1]
    assert state.best is not None
    assert state.best.id == other
    lucky = state.archive.candidates[LUCKY]
    assert (lucky.correct, lucky.score, lucky.counts, lucky.judgings) == (False, None, None, 0)


def test_what_is_rejected_leaves_its_place_to_the_next_best() -> None:
    wrong = JudgeResult("INCORRECT_VALUE", "wrong")
    state, events = searched(Luck(c1_0=[wrong]))
    other = of_type(events, "confirming.began")[0].payload["candidates"][1]
    first, second, third, fourth = (event.candidate for event in of_type(events, "confirmation.finished"))
    assert (first, second, fourth) == (LUCKY, other, other)
    assert third not in (LUCKY, other)
    judged = [item.result.score for item in state.archive.candidates.values() if item.result and item.id != LUCKY]
    assert state.archive.candidates[str(third)].score == pytest.approx(sorted(judged)[-2])  # type: ignore[type-var]


def test_what_is_our_fault_says_nothing() -> None:
    noisy = JudgeResult("NOISY", "too noisy")
    state, events = searched(Luck(c1_0=[noisy, noisy]))
    lucky = state.archive.candidates[LUCKY]
    assert (lucky.correct, lucky.judgings) == (True, 1)
    assert lucky.result is not None
    assert lucky.score == pytest.approx(lucky.result.score)
    assert state.best is not None
    assert state.best.id == of_type(events, "confirming.began")[0].payload["candidates"][1]


class Plain(Judge):
    """Cannot judge again."""

    again = None  # type: ignore[assignment]


def test_a_run_without_it_ends_as_before() -> None:
    for judge, config in ((Plain(), CONFIG), (Judge(), replace(CONFIG, confirmations=0))):
        state, events = searched(judge, config)
        assert not of_type(events, "confirming.began", "confirmation.submitted", "confirmation.finished")
        assert state.best is not None
        assert state.best.judgings == 1


def test_a_reached_target_stays_the_reason() -> None:
    state, events = searched(Luck(), replace(CONFIG, target=0.9))
    assert state.reason == of_type(events, "confirming.began")[0].payload["reason"] == "target"
    assert state.text.startswith(f"{LUCKY} reached 0.9")
    assert state.best is not None
    assert state.best.score is not None
    assert state.best.score < 0.9


def test_a_run_that_is_paused_or_killed_in_between_goes_on_with_the_rest() -> None:
    whole = Recorded()
    run(whole, CONFIG, verifiers=(), proposer=Steady(), judge=Luck())
    first = of_type(whole.read(), "confirming.began")[0].seq
    best = RunState.fold(whole.read(), whole.get_source).best
    assert best is not None
    for end in [end for end in whole.ends if end >= first - 1][:-1]:
        log, judge = whole.until(end), Luck()
        run(log, verifiers=(), proposer=Steady(), judge=judge)
        state = RunState.fold(log.read(), log.get_source)
        assert (state.best, state.reason) == (best, "budget")
        assert state.budget.spent.judgings == 20
        assert not state.budget.leases
        assert len(of_type(log.read(), "confirming.began")) == 1
    log = MemoryLog()
    run(
        log,
        CONFIG,
        verifiers=(),
        proposer=Steady(),
        judge=Unhurried(),
        wishes=Wishes(log, "confirmation.submitted", 1, "pause"),
    )  # type: ignore[arg-type]
    state = RunState.fold(log.read(), log.get_source)
    assert (state.status, state.budget.leases) == ("paused", {})
    assert 0 < len(of_type(log.read(), "confirmation.finished")) < 4
    run(log, verifiers=(), proposer=Steady(), judge=Luck())
    assert RunState.fold(log.read(), log.get_source).best == best


async def wishes_a_pause() -> str:
    return "pause"


def test_a_judging_that_is_in_progress_goes_on_through_a_pause_and_is_charged_once() -> None:
    whole = Recorded()
    run(whole, CONFIG, verifiers=(), proposer=Steady(), judge=Luck())
    first = of_type(whole.read(), "confirming.began")[0].seq
    best = RunState.fold(whole.read(), whole.get_source).best
    for end in [end for end in whole.ends if end >= first][:-1]:
        log = whole.until(end)
        run(log, verifiers=(), proposer=Steady(), judge=Luck(), wishes=wishes_a_pause)
        paused = RunState.fold(log.read(), log.get_source)
        assert (paused.budget.leases, paused.confirmation_tickets) == ({}, {})
        run(log, verifiers=(), proposer=Steady(), judge=Luck())
        state = RunState.fold(log.read(), log.get_source)
        assert (state.best, state.reason, state.budget.spent.judgings) == (best, "budget", 20)
        assert len(of_type(log.read(), "confirmation.finished")) == 4


class Unhurried(Luck):
    """A second judging takes long enough for a wish to be heard."""

    async def wait(self, ticket: str, live: Any) -> JudgeResult:
        if " again " in ticket:
            await asyncio.sleep(0.5)
        return await super().wait(ticket, live)


class Endless(Luck):
    """A second judging takes for ever."""

    async def wait(self, ticket: str, live: Any) -> JudgeResult:
        if " again " in ticket:
            await asyncio.sleep(3600)
        return await super().wait(ticket, live)


def test_a_run_that_is_stopped_in_between_withdraws_what_is_judged_again() -> None:
    log, judge = MemoryLog(), Endless()
    run(
        log,
        CONFIG,
        verifiers=(),
        proposer=Steady(),
        judge=judge,
        wishes=Wishes(log, "confirmation.submitted", 1, "stop"),
    )  # type: ignore[arg-type]
    state = RunState.fold(log.read(), log.get_source)
    assert judge.withdrawn == [f"ticket {LUCKY} again 1"]
    assert (state.status, state.reason, state.budget.leases) == ("finished", "stopped", {})
    assert state.budget.spent.judgings == 17
    assert state.best is not None
    assert (state.best.id, state.best.judgings) == (LUCKY, 1)


def test_the_end_of_the_wall_time_does_not_replace_the_reason() -> None:
    state, events = searched(Endless(), replace(CONFIG, target=0.9, caps=Caps(judgings=20, wall_s=1.5)))
    assert of_type(events, "confirmation.submitted")
    assert not of_type(events, "confirmation.finished")
    began = of_type(events, "confirming.began")[0].payload
    assert (state.status, state.reason, state.text) == ("finished", "target", began["text"])
    assert state.budget.spent.wall_s == pytest.approx(1.5)


class Hanging(Luck):
    """The first judgings of the third generation take for ever, others a tenth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.1

    async def wait(self, ticket: str, live: Any) -> JudgeResult:
        if ticket.startswith("ticket 2-") and " again " not in ticket:
            await asyncio.sleep(3600)
        return await super().wait(ticket, live)


BY_THE_WALL = replace(CONFIG, caps=Caps(wall_s=2.0))


def test_wall_time_is_kept_for_it_and_what_is_in_flight_then_is_withdrawn() -> None:
    log, judge = Recorded(), Hanging()
    run(log, BY_THE_WALL, verifiers=(), proposer=Steady(), judge=judge)
    state = RunState.fold(log.read(), log.get_source)
    (began,) = of_type(log.read(), "confirming.began")
    assert began.payload["reason"] == "budget"
    assert "kept for judging the leaders again" in state.text
    assert len(of_type(log.read(), "confirmation.finished")) == 4
    assert (state.status, state.reason, state.budget.leases) == ("finished", "budget", {})
    assert judge.withdrawn
    assert all(ticket.startswith("ticket 2-") for ticket in judge.withdrawn)
    assert state.best is not None
    assert state.best.judgings == 3
    assert 1.6 <= state.budget.spent.wall_s <= 2.0, "a fifth was kept"


def test_a_run_that_is_killed_then_has_the_wall_time_that_it_had_not_reserved() -> None:
    log = Recorded()
    run(log, BY_THE_WALL, verifiers=(), proposer=Steady(), judge=Hanging())
    first = of_type(log.read(), "confirming.began")[0].seq
    for end in [end for end in log.ends if end >= first - 1][:-1]:
        again = log.until(end)
        reserves = bool(RunState.fold(again.read(), again.get_source).budget.leases.get("wall"))
        run(again, verifiers=(), proposer=Steady(), judge=Hanging())
        state, events = RunState.fold(again.read(), again.get_source), again.read()
        assert (state.status, state.reason, state.budget.leases) == ("finished", "budget", {})
        assert state.budget.spent.wall_s <= 2.0
        assert len(of_type(events, "confirmation.finished")) <= 4
        assert reserves or len(of_type(events, "confirmation.finished")) == 4
        assert len(of_type(events, "budget.denied")) <= 1


def test_how_much_wall_time_is_kept_follows_from_the_judgings_so_far() -> None:
    """Each has taken a second."""
    log = MemoryLog()
    run(log, replace(CONFIG, confirmations=0), verifiers=(), proposer=Steady(), judge=Luck())
    state = RunState.fold(log.read(), log.get_source)

    def kept_s(wall_s: float | None, confirmations: int = 4, evaluator: Any = None) -> float:
        state.config = replace(CONFIG, caps=Caps(wall_s=wall_s, judgings=99), confirmations=confirmations)
        return wall_for_confirming_s(state, evaluator or Luck())

    assert kept_s(100.0) == 1.5 * 4
    assert kept_s(20.0) == 4.0, "a fifth at most"
    assert kept_s(9.0) == 0.0, "which does not hold two judgings"
    assert kept_s(100.0, confirmations=0) == kept_s(None) == 0.0
    for item in list(state.archive.candidates.values())[:-1]:  # that fail sooner than others are accepted
        wrong = JudgeResult("INCORRECT_VALUE", "wrong", seconds=0.01)
        state.archive.candidates[item.id] = replace(item, result=wrong)
    assert kept_s(100.0) == 1.5 * 4
    assert kept_s(100.0, evaluator=object()) == 0.0, "it judges nothing again"
    state = RunState.fold(log.read()[:2], log.get_source)
    assert kept_s(100.0) == 0.0, "there is no correct kernel"


def test_a_fork_searches_on_with_the_first_judgings() -> None:
    log, other = MemoryLog(), MemoryLog()
    run(log, CONFIG, proposer=Scripted(), judge=Luck())
    fork(log, log.read()[-1].seq, other, 7, CONFIG)
    state = RunState.fold(other.read(), other.get_source)
    assert state.confirming is None
    assert all(not item.confirmations for item in state.archive.candidates.values())


WRONG = JudgeResult("INCORRECT_VALUE", "wrong")


def test_a_fork_revives_nothing_that_was_rejected() -> None:
    log, other = MemoryLog(), MemoryLog()
    run(log, CONFIG, proposer=Steady(), verifiers=(), judge=Luck(c1_0=[WRONG]))
    fork(log, log.read()[-1].seq, other, 7, CONFIG)
    old, state = (RunState.fold(item.read(), item.get_source) for item in (log, other))
    rejected = state.archive.candidates[LUCKY]
    assert (rejected.result, rejected.correct, rejected.failed) == (WRONG, False, True)
    assert old.best is not None
    assert state.best is not None
    assert state.best.id == old.best.id
    assert not state.archive.holds(LUCKY)
    assert LUCKY not in {event.candidate for event in of_type(other.read(), "archive.inserted", "migration")}
    run(other, proposer=Scripted(), judge=Luck())
    again = RunState.fold(other.read(), other.get_source)
    assert (again.status, again.archive.holds(LUCKY)) == ("finished", [])
    assert not [item for item in of_type(other.read(), "archive.evicted") if item.payload["by"] == LUCKY]


class Alike:
    """Finds that whatever was proposed in the slots 0 and 1 compiles to the same."""

    id, version = "alike", "1"

    async def judge(self, source: str, language: str, task: Any) -> VerifierOpinion:
        generation, slot, _ = values_of(source)
        return VerifierOpinion("accept", resources={"binary_sha256": f"{generation} {max(1, slot)}"})


def test_nor_what_compiled_to_the_same() -> None:
    log, other = MemoryLog(), MemoryLog()
    run(log, CONFIG, proposer=Steady(), verifiers=(Alike(),), judge=Luck(c1_0=[WRONG]))
    fork(log, log.read()[-1].seq, other, 7, CONFIG)
    twin = RunState.fold(other.read(), other.get_source).archive.candidates["1-1"]
    assert (twin.reused_from, twin.result) == (LUCKY, WRONG)


class OneFine(Steady):
    """Only the first candidate is correct."""

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        fine = request.stage == "translate"
        return Proposal(kernel(request.generation, request.slot, 40, broken=not fine), "cpp", params={})


def test_a_fork_may_have_nothing_left_on_the_configuration_that_counts_alone() -> None:
    log, other = MemoryLog(), MemoryLog()
    config = replace(CONFIG, curriculum=9, verifiers=("screen",), audit_fraction=1.0, caps=Caps(judgings=10))
    run(log, config, proposer=OneFine(), verifiers=(Racing(),), judge=Luck(c0_0=[WRONG]))
    assert of_type(log.read(), "curriculum.began")
    fork(log, log.read()[-1].seq, other, 7, config)
    assert RunState.fold(other.read(), other.get_source).best is None
    assert run(other, proposer=Steady(), verifiers=(Racing(),)).state == "finished"
    assert RunState.fold(other.read(), other.get_source).best is not None


def test_the_setting_is_checked_and_is_off_in_logs_of_before() -> None:
    with pytest.raises(ConfigError, match="confirmations"):
        RunConfig(TASK.name, confirmations=-1)
    before = CONFIG.to_json()
    del before["confirmations"]
    assert RunConfig.from_json(before).confirmations == 0


def test_a_twin_of_what_was_rejected_is_not_the_best_either() -> None:
    """It has the binary, and so the first result, of a candidate that was then judged again."""
    passed, wrong = JudgeResult("PASS", "", score=1.9, ci95=(1.88, 1.92)), JudgeResult("INCORRECT_VALUE", "wrong")
    first = CandidateView("1-0", 1, 0, 0, "optimise", result=passed, confirmations=(wrong,))
    twin = CandidateView("1-1", 1, 1, 0, "optimise", result=passed, reused_from="1-0")
    other = CandidateView("1-2", 1, 2, 0, "optimise", result=replace(passed, score=1.2, ci95=(1.18, 1.22)))
    assert leading([first, twin, other]) is other
    assert leading([replace(first, confirmations=()), twin, other]) is not other


def passed(score: float) -> JudgeResult:
    return JudgeResult("PASS", "", score=score, ci95=(score - 0.01, score + 0.01))


def candidate(slot: int, first: float, *again: JudgeResult) -> CandidateView:
    return CandidateView(f"1-{slot}", 1, slot, 0, "optimise", result=passed(first), confirmations=again)


def test_what_luck_does_not_explain_is_the_best_without_being_confirmed() -> None:
    noisy = JudgeResult("NOISY", "too noisy")
    unlucky = candidate(0, 3.0, noisy, noisy)
    slower = candidate(1, 1.2, passed(1.2), passed(1.19))
    assert leading([unlucky, slower]) is unlucky
    halved = [candidate(slot, first, passed(1.0), passed(1.0)) for slot, first in enumerate((3.0, 2.95))]
    third = candidate(2, 2.9)
    assert [item.score for item in halved] == [pytest.approx(1.44, abs=0.02)] * 2
    assert leading([*halved, third]) is third


def test_a_twin_does_not_lead_with_the_luck_that_the_other_had() -> None:
    lucky = candidate(0, 3.0, passed(1.0), passed(1.0))
    twin = replace(candidate(1, 3.0), reused_from=lucky.id)
    assert leading([lucky, twin]) is lucky


def test_a_single_judging_confirms_nothing() -> None:
    fallen, other = candidate(0, 1.80, passed(1.55)), candidate(1, 1.78)
    assert leading([fallen, other]) is other
    held = candidate(0, 1.80, passed(1.76))
    assert leading([held, other]) is held, "whose interval does not lie above"


def test_what_luck_explains_is_not() -> None:
    confirmed = candidate(1, 1.3, passed(1.2), passed(1.2))
    assert leading([candidate(0, 1.31), confirmed]) is confirmed
    assert confirmed.score is not None
    near, far = candidate(2, 1.1 * confirmed.score + 0.009), candidate(3, 1.1 * confirmed.score + 0.011)
    assert leading([near, confirmed]) is confirmed
    assert leading([far, near, confirmed]) is far
