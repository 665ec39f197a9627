"""Hundreds of runs with random caps, costs and faults: no cap is passed, no lease is left open."""

import asyncio
from collections import Counter

from agents.evolve.budget import CURRENCIES, Budget, Caps, Cost
from agents.evolve.config import RunConfig
from agents.evolve.events import LogEvent, Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.model import JudgeResult, Meter, NoProposal, Proposal, ProposalRequest, VerifierOpinion
from agents.evolve.rng import Rng
from agents.evolve.state import RunState
from benchmarks.harness import TaskSpec

from .world import TASK, Judge, Recorded, Scripted, kernel, of_type, run

RUNS = 400


class Erratic(Scripted):
    """Costs what it likes within its bound, fails often, and now and then in the middle of a call."""

    def bound(self, request: ProposalRequest) -> Cost:
        rng = request.rng.child("bound")
        return Cost(usd=rng.random(), input_tokens=rng.integers(2000), output_tokens=rng.integers(2000))

    async def propose(self, request: ProposalRequest, meter: Meter, live: Quiet) -> Proposal | NoProposal:
        rng, bound = request.rng.child("call"), meter.left
        meter.open(bound)
        await asyncio.sleep(0)
        fate = rng.random()
        if fate < 0.1:
            raise ConnectionResetError("in mid-stream")
        if fate < 0.2:
            meter.attempt("propose", "m", 429, retry_after_s=1.0)
            meter.free()
            return NoProposal("provider_error", "429", pause=fate < 0.11)
        share = rng.random()
        tokens = {"output_tokens": int(bound.output_tokens * share)}
        meter.usage("propose", "m", tokens, Cost(bound.usd * share, int(bound.input_tokens * share), **tokens))
        if request.stage == "translate":
            return Proposal(kernel(5, 5, request.generation), "cpp", params={})
        return self.answer(request)


class Critic:
    """A paid verifier."""

    id, version = "critic", "1"

    def bound(self, source: str, language: str, task: TaskSpec) -> Cost:
        return Cost(usd=0.2, output_tokens=500)

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        rng = Rng(5, source)
        if rng.random() < 0.1:
            raise ConnectionResetError("in mid-stream")
        return VerifierOpinion("accept" if rng.random() < 0.7 else "reject", cost=Cost(usd=0.2 * rng.random()))


class Uneven(Judge):
    """Takes its time, and fails now and then."""

    async def wait(self, ticket: str, live: Quiet) -> JudgeResult:
        rng = Rng(6, ticket + self.sources[ticket.removeprefix("ticket ")])
        if rng.random() < 0.05:
            raise TimeoutError("lost")
        self.seconds = 20 * rng.random()
        return await super().wait(ticket, live)


class Unsure:
    """A free verifier that never knows."""

    id, version = "unsure", "1"

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        return VerifierOpinion("abstain")


def random_caps(rng: Rng) -> Caps:
    """One to three currencies, often so small that hardly anything fits."""
    limits = {"usd": 15.0, "input_tokens": 25_000, "output_tokens": 25_000, "judgings": 20, "judging_s": 400.0}
    chosen = rng.sample([*limits], 1 + rng.integers(3))
    return Caps(**{name: type(limits[name])(limits[name] * rng.random()) for name in {*chosen, "judgings"}})


def passed(events: list[LogEvent], caps: Caps) -> list[tuple[int, str]]:
    """Every moment at which more was spent and reserved than allowed, in any currency."""
    budget, found = Budget(caps), []
    for event in events:
        budget.apply(event)
        if event.type.startswith("budget."):
            committed = budget.spent + budget.reserved
            found += [
                (event.seq, name) for name in CURRENCIES if Caps(**{name: getattr(caps, name)}).exceeded_by(committed)
            ]
    return found


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


def simulate(seed: int) -> tuple[RunState, list[LogEvent]]:
    """One run; every third has finals, every fourth is stopped on the way, every fifth crashes and goes on."""
    rng, log = Rng(seed, "simulation"), Recorded()
    config = RunConfig(
        TASK.name,
        caps=random_caps(rng),
        generation_size=1 + rng.integers(6),
        concurrency=1 + rng.integers(8),
        judgings_at_once=1 + rng.integers(8),
        islands=1 + rng.integers(3),
        judging_bound_s=20.0,
        seed=seed,
        plateau=6,
        options={"finalists": 1} if seed % 3 == 0 else {},
    )
    stop_at = rng.integers(60) if seed % 4 == 0 else 10**9

    finish(log, config, stop_at)
    crashed = log.until(log.ends[rng.integers(len(log.ends) - 1)]) if seed % 5 == 0 else log
    finish(crashed, config, stop_at)
    return RunState.fold(crashed.read(), crashed.get_source), crashed.read()


def finish(log: MemoryLog, config: RunConfig, stop_at: int) -> None:
    """Drives the run again as often as it pauses."""

    async def wishes() -> str:
        return "stop" if len(log.read()) >= stop_at else "go"

    plug_ins = {"proposer": Erratic(), "judge": Uneven(), "verifiers": (Unsure(), Critic())}
    while run(log, config, **plug_ins, wishes=wishes, sleep=at_once).state != "finished":  # type: ignore[arg-type]
        continue


def test_no_cap_is_passed_and_no_lease_is_left_open() -> None:
    reasons: Counter[str] = Counter()
    denied: Counter[str] = Counter()
    judgings = 0
    for seed in range(RUNS):
        state, events = simulate(seed)
        assert passed(events, state.config.caps) == [], seed
        assert state.budget.leases == {}, seed
        assert len(of_type(events, "budget.reserved")) == len(of_type(events, "budget.settled")), seed
        reasons[state.reason or ""] += 1
        denied.update(event.payload["currency"] for event in of_type(events, "budget.denied"))
        judgings += state.budget.spent.judgings
    assert set(denied) == {"usd", "input_tokens", "output_tokens", "judgings", "judging_s"}
    assert {"budget", "stopped"} <= set(reasons)
    assert judgings > RUNS
