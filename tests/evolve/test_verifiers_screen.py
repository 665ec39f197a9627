"""Screening: what is clearly slower than the best is dropped, what is in doubt is judged, and a part of the rest."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.logs import MemoryLog
from agents.evolve.model import SLOW, JudgeResult, Proposal, ProposalRequest, VerifierOpinion
from agents.evolve.proposers.template_evo import TemplateEvo
from agents.evolve.state import RunState
from agents.evolve.verifiers import find_verifiers
from agents.evolve.verifiers.screen import GPU_BYTES_MAX, ScreenVerifier, opinion_of, two_configs
from benchmarks.harness import Paths, Source, TaskSpec, default_suites, find_task
from tests.evolve import world
from tests.evolve.llm_requests import candidate, request_of

TASK = find_task(default_suites(), "mnist_pool/forward")
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()


def timed(*speedups: float, width: float = 0.02) -> JudgeResult:
    rows = [
        {"key": key, "speedup": value, "ci95": [value * (1 - width), value * (1 + width)]}
        for key, value in zip("ab", speedups, strict=True)
    ]
    return JudgeResult("PASS", "fine", 1.0, configs=tuple(rows))


@pytest.mark.parametrize(
    ("mine", "decision"),
    [
        (timed(2.0, 2.0), "accept"),
        (timed(2.4, 1.6), "accept"),  # about as fast, in another way
        (timed(1.9, 1.9), "accept"),  # slower by less than the margin and the intervals
        (timed(1.5, 1.5, width=0.6), "accept"),  # nobody knows
        (timed(1.6, 1.6), "reject"),
        (timed(3.0, 0.5), "reject"),
    ],
)
def test_only_what_is_clearly_slower_is_dropped(mine: JudgeResult, decision: str) -> None:
    opinion = opinion_of(mine, timed(2.0, 2.0), best_score=3.0)
    assert opinion.decision == decision
    assert opinion.fault == (SLOW if decision == "reject" else None)


def test_its_estimate_is_relative_to_the_best() -> None:
    opinion = opinion_of(timed(1.0, 1.0), timed(2.0, 2.0), best_score=3.0)
    assert opinion.resources == {"ratio": 0.5, "estimate": 1.5}
    dropped = replace(candidate("1-0", 1.0), state="dropped", result=None, opinions={"screen": opinion})
    assert (dropped.score, dropped.estimate, dropped.failed) == (None, 1.5, False)


def test_wrong_results_are_dropped_and_our_own_faults_are_not() -> None:
    wrong = opinion_of(JudgeResult("INCORRECT_VALUE", "wrong at [0]"), timed(2.0, 2.0), 3.0)
    assert (wrong.decision, wrong.fault, wrong.reasons[0].text) == ("reject", "incorrect_value", "wrong at [0]")
    assert opinion_of(JudgeResult("INTERNAL_ERROR", "no device"), timed(2.0, 2.0), 3.0).decision == "abstain"
    assert opinion_of(timed(2.0, 2.0), JudgeResult("INTERNAL_ERROR", "no device"), 3.0).decision == "abstain"


def test_two_configurations_are_the_smallest_and_the_largest_that_are_shown() -> None:
    few = two_configs(TASK, "cpp").configs_for("cpu")
    shown = [item for item in TASK.configs_for("cpu") if not item.hidden]
    sizes = [item.bytes_moved for item in shown]
    assert [item.bytes_moved for item in few] == [min(sizes), max(sizes)]
    assert not any(item.hidden for item in few)


def test_the_best_is_timed_once() -> None:
    measured = []

    def measure(source: Source, task: TaskSpec, given_up: threading.Event) -> JudgeResult:
        measured.append(source.text)
        return timed(1.0, 1.0)

    async def race() -> list[VerifierOpinion]:
        verifier = ScreenVerifier(measure)
        racing = (verifier.race(f"new {number}", "cpp", TASK, "best", 1.0) for number in range(3))
        return list(await asyncio.gather(*racing))

    assert [item.decision for item in asyncio.run(race())] == ["accept"] * 3
    assert sorted(measured) == ["best", "new 0", "new 1", "new 2"]


def screened(seed: int, *verifiers: Any, judgings: int = 400, **changes: Any) -> tuple[RunState, world.Judge]:
    log, judge = MemoryLog(), world.Judge()
    settings = {"caps": Caps(judgings=judgings), "plateau": 12, "audit_fraction": 0.1, **changes}
    config = RunConfig(task=world.TASK.name, seed=seed, **settings)
    world.run(log, config, judge=judge, verifiers=verifiers)
    return RunState.fold(log.read(), log.get_source), judge


def test_a_run_judges_what_may_be_the_best_and_a_part_of_the_rest() -> None:
    racing = world.Racing()
    state, judge = screened(3, racing)
    candidates = state.archive.candidates.values()
    slow = [item for item in candidates if any(said.fault == SLOW for said in item.opinions.values())]
    dropped, audited = [item for item in slow if item.state == "dropped"], [item for item in slow if item.result]
    assert dropped
    assert audited
    assert not {item.id for item in dropped} & set(judge.judged)
    assert {item.id for item in audited} <= set(judge.judged)
    assert all(item.estimate is not None and not item.failed for item in dropped)
    assert len(judge.judged) < len(racing.asked)
    assert state.budget.spent.judgings == len(judge.judged)
    assert state.budget.leases == {}


@pytest.mark.parametrize(("size", "concurrency"), [(4, 4), (6, 6), (6, 4), (4, 1)])
def test_only_the_best_of_a_generation_reach_the_judge(size: int, concurrency: int) -> None:
    """By their estimates, whichever of them was screened first, and however few are screened at once."""
    changes = {"audit_fraction": 0.0, "options": {"finalists": 1}, "generation_size": size, "concurrency": concurrency}
    state, judge = screened(3, world.Racing(), plateau=6, **changes)
    assert state.status == "finished"
    of_finals = [item for item in state.archive.candidates.values() if "finals" in item.opinions]
    assert of_finals
    for number in range(1, max(item.generation for item in of_finals) + 1):
        generation = [item for item in state.archive.candidates.values() if item.generation == number]
        timed = [item for item in generation if item.opinions.get("screen") and item.opinions["screen"].resources]
        accepted = [item for item in timed if item.opinions["screen"].decision == "accept"]
        kept = [item for item in accepted if item.state != "dropped"]
        assert len(kept) == min(1, len(accepted))
        estimates = {item.id: (item.opinions["screen"].resources or {})["estimate"] for item in accepted}
        assert all(estimates[item.id] == max(estimates.values()) for item in kept)
    assert all(item.estimate is not None and not item.failed for item in of_finals)
    assert state.budget.spent.judgings == len(judge.judged)
    assert state.budget.leases == {}


@pytest.mark.parametrize("margin", [0.1, "wide"])
def test_a_margin_that_makes_no_sense_is_refused(margin: object, tmp_path: Path) -> None:
    config = RunConfig(task=TASK.name, verifiers=("screen",), options={"screen_margin": margin})
    with pytest.raises(ConfigError, match="screen_margin"):
        find_verifiers(config, {"data": tmp_path, "device": "cpu"})


def test_a_margin_of_one_drops_whatever_is_slower_for_certain() -> None:
    mine, best = timed(1.9, 1.9), timed(2.0, 2.0)
    assert opinion_of(mine, best, 3.0).decision == "accept"
    assert opinion_of(mine, best, 3.0, margin=1.0).decision == "reject"


def test_on_a_gpu_both_configurations_leave_room_for_a_judging() -> None:
    large = find_task(default_suites(), "llama_rmsnorm/backward")
    few = two_configs(large, "cuda").configs_for("cuda")
    assert max(item.bytes_moved for item in few) <= GPU_BYTES_MAX
    assert max(item.bytes_moved for item in large.configs_for("cuda")) > GPU_BYTES_MAX


def test_a_search_learns_from_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropped setting counts with its estimate, not as one that failed."""
    from agents.evolve.proposers import template_evo

    seen: list[Any] = []
    monkeypatch.setattr(template_evo, "next_move", lambda _template, trials, *_: seen.extend(trials))
    template = template_evo.find_template("mnist_pool/forward", "cpp")
    assert template is not None
    opinion = opinion_of(timed(1.0, 1.0), timed(2.0, 2.0), best_score=3.0)
    row = replace(
        candidate("1-0", 1.0),
        state="dropped",
        result=None,
        template=template.name,
        params=template.default,
        opinions={"screen": opinion},
    )
    request = replace(request_of(others=[row]), task=TASK)
    asyncio.run(TemplateEvo().propose(request, None, None))  # type: ignore[arg-type]
    assert [item.fitness for item in seen] == [1.5]


def test_it_is_found_by_name_after_the_cheap_ones(tmp_path: Path) -> None:
    config = RunConfig(task=TASK.name, verifiers=("screen", "static", "compile"))
    found = find_verifiers(config, {"data": tmp_path, "device": "cpu"})
    assert [item.id for item in found] == ["static", "compile", "screen"]


@pytest.mark.alone
@pytest.mark.sandbox
def test_a_real_kernel_with_a_slow_copy_beside_it_is_told_apart(paths: Paths) -> None:
    wasted = "    volatile double wasted = 0;\n    for (int i = 0; i < 20000000; ++i) wasted = wasted + i;\n"
    place = KERNEL.index("const int64_t planes")
    slow = f"{KERNEL[:place]}{wasted.lstrip()}    {KERNEL[place:]}"
    verifier = find_verifiers(RunConfig(task=TASK.name, verifiers=("screen",)), {"data": paths.data, "device": "cpu"})[
        0
    ]
    assert isinstance(verifier, ScreenVerifier)
    try:
        opinion = asyncio.run(verifier.race(slow, "cpp", TASK, KERNEL, 2.0))
    finally:
        verifier.close()
    assert (opinion.decision, opinion.fault) == ("reject", SLOW)


class Slots(world.Scripted):
    """The first of a generation is the kernel that the run began with, later ones are slower."""

    def answer(self, request: ProposalRequest) -> Proposal:
        if request.stage == "translate":
            return self._proposal(world.kernel(40, 40, 40), "translate")
        text = world.kernel(40, 40, 40 - request.slot) + f"// {request.generation}.{request.slot}\n"
        return Proposal(text, "cpp", params={"g": request.generation, "s": request.slot}, template="genes")


class Binary:
    """Tells what a kernel compiles to."""

    id, version = "compile", "1"

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        return VerifierOpinion("accept", resources={"binary_sha256": str(world.values_of(source))})


def test_what_compiles_to_the_binary_of_another_takes_no_place_in_the_finals() -> None:
    log = MemoryLog()
    caps = Caps(judgings=30)
    config = RunConfig(
        world.TASK.name, caps=caps, plateau=1, audit_fraction=0.0, generation_size=2, options={"finalists": 1}
    )
    world.run(log, config, proposer=Slots(), verifiers=(Binary(), world.Racing()))
    state = RunState.fold(log.read(), log.get_source)
    twin, other = (state.archive.candidates[f"1-{slot}"] for slot in range(2))
    assert (twin.reused_from, other.reused_from, other.state) == ("0-0", None, "judged")


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


def test_no_verifier_speaks_twice_of_a_candidate_after_a_crash() -> None:
    config = RunConfig(
        world.TASK.name,
        caps=Caps(judgings=40),
        plateau=4,
        audit_fraction=0.4,
        generation_size=6,
        concurrency=2,
        judgings_at_once=1,
        options={"finalists": 1},
    )
    whole = world.Recorded()
    world.run(whole, config, verifiers=(world.Racing(),), sleep=at_once)
    ends = whole.ends[1:-1:3]
    assert len(ends) > 20
    for end in ends:
        log = whole.until(end)
        world.run(log, verifiers=(world.Racing(),), sleep=at_once)
        said = Counter((item.candidate, item.payload["verifier"]) for item in log.read() if item.type == "verdict")
        assert max(said.values()) == 1, end
