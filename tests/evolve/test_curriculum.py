"""One shape first: which configuration, what is judged meanwhile, when it ends, and that a crash changes nothing."""

from dataclasses import replace
from typing import Any

import pytest

from agents.evolve.begin import fork
from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.curriculum import largest_headroom, narrowed
from agents.evolve.logs import MemoryLog
from agents.evolve.model import UNPROMISING, NoProposal, Proposal, ProposalRequest, VerifierOpinion
from agents.evolve.state import RunState
from benchmarks.harness import TaskSpec
from tests.evolve import world
from tests.evolve.llm_requests import candidate


class WatchedRacing(world.Racing):
    """Notes which configurations each race was on, and against what."""

    def __init__(self) -> None:
        super().__init__()
        self.races: list[tuple[tuple[str, ...], str]] = []

    async def race(
        self, source: str, language: str, task: TaskSpec, best_source: str, best_score: float
    ) -> VerifierOpinion:
        self.races.append((tuple(item.key for item in task.configs_for("cpu")), best_source))
        return await super().race(source, language, task, best_source, best_score)


def config(**more: Any) -> RunConfig:
    values: dict[str, Any] = {"caps": Caps(judgings=60), "curriculum": 3, "verifiers": ("screen",), "seed": 4}
    return RunConfig(task=world.TASK.name, **{**values, **more})


def driven(**more: Any) -> tuple[world.Recorded, WatchedRacing]:
    log, racing = world.Recorded(), WatchedRacing()
    world.run(log, config(**more), verifiers=(racing,))
    return log, racing


def test_it_begins_with_the_largest_headroom_and_ends_with_all_configurations() -> None:
    log, racing = driven()
    began, ended = world.of_type(log.read(), "curriculum.began", "curriculum.ended")
    before = RunState.fold(log.read()[: began.seq - 1], log.get_source)
    assert before.best is not None
    assert began.payload["config"] == largest_headroom(before.best)
    assert ended.payload["config"] == began.payload["config"]
    alone = [configs for configs, _ in racing.races if configs == (began.payload["config"],)]
    assert alone
    assert racing.races[: len(alone)] == [item for item in racing.races if item[0] in set(alone)]
    assert len(racing.races[-1][0]) > 1


def test_meanwhile_the_fastest_there_is_what_to_beat() -> None:
    log, racing = driven()
    began, ended = world.of_type(log.read(), "curriculum.began", "curriculum.ended")
    key, events = began.payload["config"], log.read()
    champions = set()
    for event in world.of_type(events[began.seq : ended.seq], "generation.opened"):
        state = RunState.fold(events[: event.seq], log.get_source)
        view = state.base.view
        champions.add(view.source(view.candidates[view.champions[key]]))
    assert {best for configs, best in racing.races if configs == (key,)} <= champions


def test_what_is_slower_there_is_not_judged() -> None:
    log, _ = driven(audit_fraction=0.0)
    began, ended = world.of_type(log.read(), "curriculum.began", "curriculum.ended")
    span = log.read()[began.seq : ended.seq]
    dropped = {event.candidate for event in world.of_type(span, "verdict") if event.payload["decision"] == "reject"}
    assert dropped
    assert not dropped & {event.candidate for event in world.of_type(log.read(), "evaluation.submitted")}
    state = RunState.fold(log.read(), log.get_source)
    said = next(iter(state.archive.candidates[str(next(iter(dropped)))].opinions.values()))
    assert began.payload["config"] in said.reasons[0].text or said.fault != "slow"


def test_its_rules_end_it_and_not_the_run() -> None:
    log, _ = driven(curriculum=1, plateau=50)
    (ended,) = world.of_type(log.read(), "curriculum.ended")
    assert ended.payload["text"] == "no gain of 1 % on this configuration in 1 generations"
    log, _ = driven(curriculum=40, caps=Caps(judgings=12))
    (ended,) = world.of_type(log.read(), "curriculum.ended")
    assert ended.payload["text"] == "half of the 12 judgings are spent"


def test_a_search_that_expects_nothing_more_ends_it_and_not_the_run() -> None:
    """On all configurations another setting may be the fastest."""

    class Narrow(world.Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            if request.generation in (3, 6):
                return NoProposal("unpromising", UNPROMISING, exhausted=True)
            return super().answer(request)

    log = world.Recorded()
    found = world.run(log, config(curriculum=40), proposer=Narrow(), verifiers=(WatchedRacing(),))
    (ended,) = world.of_type(log.read(), "curriculum.ended")
    assert ended.payload["text"] == UNPROMISING
    assert (found.reason, found.text) == ("exhausted", UNPROMISING)
    assert len(world.of_type(log.read(), "generation.opened")) == 7


def test_the_plateau_of_the_run_does_not_count_meanwhile() -> None:
    log, _ = driven(curriculum=6, plateau=2, caps=Caps(judgings=400))
    (ended,) = world.of_type(log.read(), "curriculum.ended")
    state = RunState.fold(log.read(), log.get_source)
    assert state.reason == "plateau"
    after = world.of_type(log.read()[ended.seq :], "generation.closed")
    assert len(after) >= 2


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_a_crash_at_any_commit_changes_nothing(part: int) -> None:
    log, _ = driven(caps=Caps(judgings=24))
    whole = RunState.fold(log.read(), log.get_source)
    assert world.of_type(log.read(), "curriculum.ended")
    for end in log.ends[part:-1:20]:
        again = log.until(end)
        world.run(again, config(caps=Caps(judgings=24)), verifiers=(WatchedRacing(),))
        state = RunState.fold(again.read(), again.get_source)
        assert state.archive.sha256() == whole.archive.sha256()
        assert (state.focus_over, state.focused) == (whole.focus_over, whole.focused)
        assert state.budget.spent.judgings == whole.budget.spent.judgings
        assert state.budget.leases == {}


def test_a_fork_goes_on_with_it() -> None:
    log, _ = driven()
    began, ended = world.of_type(log.read(), "curriculum.began", "curriculum.ended")
    opened = world.of_type(log.read()[began.seq : ended.seq], "generation.opened")
    new = MemoryLog()
    fork(log, opened[-1].seq, new, seed=9)
    state = RunState.fold(new.read(), new.get_source)
    assert state.focus is not None
    assert state.focus.config == began.payload["config"]


def test_without_a_verifier_that_races_it_does_not_begin() -> None:
    log = MemoryLog()
    world.run(log, config(caps=Caps(judgings=8)), verifiers=())
    assert not world.of_type(log.read(), "curriculum.began")
    with pytest.raises(ConfigError, match="curriculum needs the verifier screen"):
        config(verifiers=("static",))


def test_hidden_and_unknown_configurations_do_not_count_alone() -> None:
    assert narrowed(world.TASK, "cpu", "no such") == world.TASK
    hidden = next(item for item in world.TASK.configs_for("cpu") if item.hidden)
    assert narrowed(world.TASK, "cpu", hidden.key) == world.TASK
    assert [item.key for item in narrowed(world.TASK, "cpu", world.CONFIGS[1]).configs_for("cpu")] == [world.CONFIGS[1]]


def test_without_a_roofline_the_smallest_speedup_has_the_largest_headroom() -> None:
    one = candidate("1-0", 1.0)
    assert one.result is not None
    rows = ({"key": "a", "speedup": 2.0}, {"key": "b", "speedup": 0.5, "roofline_fraction": 0.9}, {"key": "c"})
    assert largest_headroom(replace(one, result=replace(one.result, configs=rows))) == "b"
    assert largest_headroom(replace(one, result=replace(one.result, configs=rows[:1]))) is None
