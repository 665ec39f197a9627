"""The loop against a scripted world: what proposers, verifiers and people do to a run."""

import asyncio
from collections import Counter

import pytest

from agents.evolve.budget import Caps, Cost
from agents.evolve.config import RunConfig
from agents.evolve.events import Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import create, drive, fork
from agents.evolve.model import JudgeResult, Meter, NoProposal, Proposal, ProposalRequest, Verifier, VerifierOpinion
from agents.evolve.state import RunState
from benchmarks.harness import TaskSpec

from .world import TASK, Judge, Scripted, Suspicious, always_go, kernel, of_type, run, truth, values_of


def config(judgings: int | None = 30, **choices: object) -> RunConfig:
    return RunConfig(TASK.name, caps=Caps(judgings=judgings), **choices)  # type: ignore[arg-type]


def folded(log: MemoryLog) -> RunState:
    return RunState.fold(log.read(), log.get_source)


class Answers(Scripted):
    """Says what the test wants from generation 1 on, then goes on as usual."""

    def __init__(self, *answers: object) -> None:
        super().__init__()
        self.answers = answers

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        place = (request.generation - 2) * 4 + request.slot
        if request.stage == "optimise" and 0 <= place < len(self.answers):
            answer = self.answers[place]
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[return-value]
        return super().answer(request)


def test_a_run_translates_then_improves_until_its_judgings_are_spent() -> None:
    log = MemoryLog()
    outcome = run(log, config(40))
    state = folded(log)
    first = min((item for item in state.archive.candidates.values() if item.correct), key=lambda item: item.id)
    assert (outcome.state, outcome.reason) == ("finished", "budget")
    assert [item.stage for item in state.generations[:3]] == ["translate", "translate", "optimise"]
    assert state.budget.spent.judgings == 40
    assert state.budget.leases == {}
    assert state.best is not None
    assert (state.best.score or 0) > 1.5 * (first.score or 0)


def test_the_first_generation_sees_what_was_wrong_with_its_forerunner() -> None:
    seen = []

    class Curious(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            seen.append((request.candidate, request.last_failure and request.last_failure.id))
            return super().answer(request)

    run(MemoryLog(), config(3), proposer=Curious(), verifiers=())
    assert seen[:2] == [("0-0", None), ("1-0", "0-0")]


def test_a_task_that_nobody_can_translate_ends_the_run() -> None:
    class Hopeless(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            return self._proposal(kernel(request.generation, 0, 0, broken=True), "translate")

    log = MemoryLog()
    assert run(log, config(translate_attempts=3), proposer=Hopeless(), verifiers=()).reason == "untranslated"
    assert folded(log).budget.spent.judgings == 3


@pytest.mark.parametrize("concurrency", [2, 8])
def test_the_number_of_workers_changes_nothing_but_the_time(concurrency: int) -> None:
    logs = {}
    for workers in (1, concurrency):
        logs[workers] = MemoryLog()
        choices = config(60, concurrency=workers, generation_size=8, stagnation=1)
        run(logs[workers], choices, proposer=Scripted(pause_s=0.002), judge=Judge(pause_s=0.002))
    one, many = (folded(log) for log in logs.values())
    assert one.archive.sha256() == many.archive.sha256()
    assert one.archive.best == many.archive.best
    assert [event.type for event in logs[1].read()] != [event.type for event in logs[concurrency].read()]


def test_with_one_judging_at_once_no_candidate_is_submitted_before_the_last_one_is_judged() -> None:
    logs = {}
    for at_once in (1, 8):
        logs[at_once] = MemoryLog()
        choices = config(30, concurrency=8, generation_size=8, judgings_at_once=at_once)
        run(logs[at_once], choices, proposer=Scripted(), judge=Judge(pause_s=0.002))
    one, many = (folded(log) for log in logs.values())
    assert one.archive.sha256() == many.archive.sha256()
    assert max(running(logs[1])) == 1 < max(running(logs[8]))


def running(log: MemoryLog) -> list[int]:
    """How many are with the judge after each move; what took over another's result was never there."""
    count, found = 0, [0]
    for event in log.read():
        if event.type == "evaluation.submitted":
            count += 1
        elif event.type == "evaluation.finished" and not event.payload["reused_from"]:
            count -= 1
        else:
            continue
        found.append(count)
    return found


def test_another_seed_is_another_run() -> None:
    logs = MemoryLog(), MemoryLog()
    for seed, log in enumerate(logs):
        run(log, config(20, seed=seed))
    assert folded(logs[0]).archive.sha256() != folded(logs[1]).archive.sha256()


BAD = {
    "empty": Proposal("  \n", "cpp"),
    "too_long": Proposal("x" * 10_000_000, "cpp"),
    "unparsable": Proposal(kernel(1, 2, 3) + "\x00\ud800", "cpp"),
    "wrong_task": Proposal('PYBIND11_MODULE(k, m) { m.def("backward", f); }', "cpp"),
    "wrong_task ": Proposal(kernel(1, 2, 3), "cuda"),
    "wrong_task  ": Proposal("I would rather write about tiles.", "cpp"),
    "template_error": NoProposal("template_error", "it does not render"),
    "template_error ": ZeroDivisionError("a bug of the proposer \ud800"),
    "empty ": Proposal(None, "cpp"),  # type: ignore[arg-type]
}


def test_nothing_in_a_proposal_ends_a_run() -> None:
    log = MemoryLog()
    words = Proposal(kernel(9, 9, 9), "cpp", name="\ud800\x00", thought="x" * 10**6, parents=("nobody", "1-0"))
    outcome = run(log, config(20), proposer=Answers(*BAD.values(), words), verifiers=())
    rejected = of_type(log.read(), "proposal.rejected")[: len(BAD)]
    assert outcome.reason == "budget"
    assert Counter(event.payload["reason"] for event in rejected) == Counter(name.strip() for name in BAD)
    assert all(event.payload["text"] for event in rejected)
    kept = next(item for item in folded(log).archive.candidates.values() if item.thought.startswith("xxx"))
    assert kept.parents == ("1-0",)
    assert (kept.name, len(kept.thought)) == ("", 4000)


def test_a_template_that_does_not_compile_is_judged_as_such() -> None:
    class Strict(Judge):
        async def wait(self, ticket: str, live: Quiet) -> JudgeResult:
            found = await super().wait(ticket, live)
            return found if found.correct else JudgeResult("COMPILE_ERROR", "expected ;", log_tail="k.cpp:1: error")

    log = MemoryLog()
    run(log, config(12), judge=Strict(), verifiers=())
    failed = [item for item in folded(log).archive.candidates.values() if item.failed]
    assert failed[0].result is not None
    assert failed[0].result.log_tail == "k.cpp:1: error"


def test_the_same_code_twice_is_judged_once() -> None:
    same = Proposal(kernel(70, 70, 70), "cpp")
    log, judge = MemoryLog(), Judge()
    run(log, config(20), proposer=Answers(same, same, same), judge=judge, verifiers=())
    refusals = [event.payload for event in of_type(log.read(), "proposal.rejected")]
    assert [item["text"] for item in refusals if item["reason"] == "duplicate"][:2] == ["the same text as 2-0"] * 2
    assert list(judge.sources.values()).count(same.source) == 1


def test_an_identical_binary_reuses_the_result() -> None:
    class Builds:
        id, version = "builds", "1"

        async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
            return VerifierOpinion(
                "abstain", resources={"binary_sha256": f"{sum(values_of(source))} {'broken' in source}"}
            )

    log, judge = MemoryLog(), Judge()
    same = [Proposal(kernel(60, 60, 60), "cpp"), Proposal(kernel(50, 60, 70), "cpp")]
    run(log, config(12), proposer=Answers(*same), judge=judge, verifiers=(Builds(),))
    twin = folded(log).archive.candidates["2-1"]
    assert twin.reused_from == "2-0"
    assert twin.score == folded(log).archive.candidates["2-0"].score
    assert twin.cost == Cost()
    assert "2-1" not in judge.sources


def test_rejects_are_dropped_but_a_keyed_part_is_judged_all_the_same() -> None:
    log, judge = MemoryLog(), Judge()
    run(log, config(60, audit_fraction=0.4, seed=3), judge=judge)
    rejects = [event for event in of_type(log.read(), "verdict") if event.payload["decision"] == "reject"]
    audited = {event.candidate for event in rejects if event.payload["audit"]}
    dropped = {event.candidate for event in rejects} - audited
    assert audited
    assert dropped
    assert audited <= set(judge.judged)
    assert not dropped & set(judge.sources)


def test_faults_of_plug_ins_cost_one_candidate() -> None:
    class Moody(Judge):
        async def submit(self, candidate_key: str, source: str, language: str) -> str:
            if candidate_key == "2-1":
                raise ConnectionError("the queue is away")
            return await super().submit(candidate_key, source, language)

    class Broken:
        id, version = "broken", "1"

        async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
            raise RuntimeError("no compiler")

    log = MemoryLog()
    assert run(log, config(12), judge=Moody(), verifiers=(Broken(),)).reason == "budget"
    result = folded(log).archive.candidates["2-1"].result
    assert result is not None
    assert (result.verdict, result.reason) == ("INTERNAL_ERROR", "ConnectionError: the queue is away")
    assert of_type(log.read(), "error")[0].payload["text"] == "broken failed: RuntimeError: no compiler"


class Paid:
    """A verifier with a price."""

    id, version = "paid", "1"

    def __init__(self) -> None:
        self.asked = 0

    def bound(self, source: str, language: str, task: TaskSpec) -> Cost:
        return Cost(usd=1.0)

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        self.asked += 1
        return VerifierOpinion("accept", cost=Cost(usd=0.5))


def test_a_paid_verifier_is_asked_where_a_free_one_abstains_and_while_it_can_be_paid() -> None:
    class Sure(Suspicious):
        async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
            return VerifierOpinion("accept")

    unsure, sure, log = Paid(), Paid(), MemoryLog()
    choices = RunConfig(TASK.name, caps=Caps(judgings=20, usd=4.2))
    run(log, choices, verifiers=(Suspicious(), unsure))
    run(MemoryLog(), choices, verifiers=(Sure(), sure))
    assert (unsure.asked, sure.asked) == (7, 0)
    assert folded(log).budget.spent.usd == 3.5
    assert {event.payload["currency"] for event in of_type(log.read(), "budget.denied")} == {"usd", "judgings"}


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"target": 1.2}, "target"),
        ({"roofline_fraction": 0.4}, "roofline"),
        ({"plateau": 2}, "plateau"),
    ],
)
def test_stop_rules(choices: dict[str, float], reason: str) -> None:
    log = MemoryLog()
    outcome = run(log, config(400, **choices))
    assert (outcome.reason, folded(log).budget.spent.judgings < 400) == (reason, True)


def test_a_proposer_with_nothing_left_ends_the_run() -> None:
    class Done(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            if request.stage == "optimise":
                return NoProposal("duplicate", "the space is exhausted", exhausted=request.generation > 3)
            return super().answer(request)

    assert run(MemoryLog(), config(), proposer=Done()).reason == "exhausted"


def test_a_verifier_that_rejects_everything_does_not_keep_a_run_going_for_ever() -> None:
    class Grim(Suspicious):
        async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
            return VerifierOpinion("accept" if values_of(source) == [5, 5, 5] else "reject")

    class Right(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            place = request.generation * 4 + request.slot
            return self._proposal(kernel(5, 5, 5 + (place if request.stage == "optimise" else 0)), "step")

    log = MemoryLog()
    outcome = run(log, config(40, audit_fraction=0.0), proposer=Right(), verifiers=(Grim(),))
    assert (outcome.reason, outcome.text) == ("exhausted", "nothing was judged in 8 generations")
    assert folded(log).budget.spent.judgings == 1


class Away(Scripted):
    """Fails for the first eight generations after the translation."""

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        if 2 <= request.generation < 10:
            return NoProposal("provider_error", "529, overloaded")
        return super().answer(request)


def test_a_provider_that_is_away_is_waited_for() -> None:
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    log = MemoryLog()
    assert run(log, config(12), proposer=Away(), sleep=sleep).reason == "budget"
    notes = [event.payload["text"] for event in of_type(log.read(), "note")]
    assert [text.split()[-2] for text in notes] == ["5", "10", "20", "40", "80", "160", "300", "300"]
    assert sum(waited) == pytest.approx(915)


def test_a_provider_that_stays_away_ends_the_run() -> None:
    class Gone(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            return NoProposal("provider_error", "connection refused")

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    assert run(MemoryLog(), config(), proposer=Gone(), sleep=sleep).reason == "provider"


def test_what_only_a_person_can_mend_pauses_the_run_until_it_is_driven_again() -> None:
    class Broke(Scripted):
        paid = False

        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            if request.generation == 3 and not self.paid:
                return NoProposal("provider_error", "no credit left", pause=True)
            return super().answer(request)

    log, proposer = MemoryLog(), Broke()
    outcome = run(log, config(16), proposer=proposer)
    assert (outcome.state, outcome.text) == ("paused", "no credit left")
    assert folded(log).budget.leases == {}
    proposer.paid = True
    assert run(log, proposer=proposer).reason == "budget"
    assert folded(log).budget.spent.judgings == 16


def test_an_unknown_task_ends_the_run_with_a_reason() -> None:
    log = MemoryLog()
    create(log, RunConfig("no_such/forward"))
    outcome = asyncio.run(drive(log, Scripted(), (), Judge(), Quiet(), always_go))  # type: ignore[arg-type]
    assert (outcome.reason, outcome.text) == ("invalid", "there is no task 'no_such/forward'")


def test_a_finished_run_is_left_alone() -> None:
    log = MemoryLog()
    run(log, config(8))
    events = log.read()
    assert run(log).reason == "budget"
    assert log.read() == events


def test_a_fork_starts_from_what_was_found_and_has_spent_nothing() -> None:
    old, new = MemoryLog(), MemoryLog()
    run(old, config(30))
    middle = of_type(old.read(), "evaluation.submitted")[15].seq
    fork(old, middle, new, seed=9)
    before, begun = RunState.fold(old.read()[:middle], old.get_source), folded(new)
    judged = {item.id for item in before.archive.candidates.values() if item.state == "judged"}
    assert {item.id for item in begun.archive.candidates.values() if item.state == "judged"} == judged
    assert (begun.archive.best, begun.archive.islands) == (before.archive.best, before.archive.islands)
    assert begun.budget.spent == Cost()
    assert run(new).reason == "budget"
    after = folded(new)
    assert after.budget.spent.judgings == 30
    assert after.generations[before.generations[-1].number + 1].stage == "optimise"
    assert new.read()[0].payload["forked_from"] == {"seq": middle}


def test_calls_of_a_proposer_are_metered() -> None:
    class Priced(Scripted):
        async def propose(self, request: ProposalRequest, meter: Meter, live: Quiet) -> Proposal | NoProposal:
            meter.open(Cost(usd=0.75))
            with pytest.raises(ValueError, match="exceeds what is left"):
                meter.open(Cost(usd=0.5))
            meter.attempt("propose", "m", 529, "overloaded", retry_after_s=2.0)
            meter.free()
            meter.open(Cost(usd=1.0))
            meter.usage("propose", "m", {"output_tokens": 7}, Cost(usd=0.25))
            return self.answer(request)

    log = MemoryLog()
    run(log, RunConfig(TASK.name, caps=Caps(usd=4.0)), proposer=Priced(Cost(usd=1.0)), verifiers=())
    events, state = log.read(), folded(log)
    calls = len(of_type(events, "llm.usage"))
    assert state.budget.spent.usd == 0.25 * calls
    assert 3.0 < state.budget.spent.usd <= 4.0
    assert len(of_type(events, "llm.attempt")) == calls
    assert {item.cost.usd for item in state.archive.candidates.values()} == {0.25}


def test_arms_are_told_what_they_gained() -> None:
    class Armed(Scripted):
        def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
            answer = super().answer(request)
            return (
                answer
                if isinstance(answer, NoProposal)
                else Proposal(answer.source, "cpp", arm="a", parents=answer.parents)
            )

    log = MemoryLog()
    run(log, config(12), proposer=Armed(), verifiers=())
    updates = {event.candidate: event.payload for event in of_type(log.read(), "arm.updated")}
    state = folded(log)
    child = next(item for item in state.archive.candidates.values() if item.parents and item.correct)
    parent = state.archive.candidates[child.parents[0]]
    assert updates[child.id]["gain"] == pytest.approx((child.score or 0) / (parent.score or 1))


def test_the_world_is_worth_searching() -> None:
    assert truth(kernel(50, 50, 50)).score == pytest.approx(2.0)
    verifier: Verifier = Suspicious()
    assert verifier.id == "suspicious"
