"""Searches: pure, never asking twice, never outside the space; and the proposer around them."""

import asyncio
import re
from collections.abc import Sequence

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.events import Live, Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.model import ArchiveView, CandidateView, JudgeResult, NoProposal, Proposal, ProposalRequest
from agents.evolve.proposers.template_evo import TemplateEvo, TemplateRandom, next_move
from agents.evolve.rng import Rng
from agents.evolve.search import Search, Trial, anneal, forecasting, genetic, random_search
from agents.evolve.search.moves import crossover, flip, resample, step
from agents.evolve.state import RunState
from agents.evolve.templates import Constraint, Gene, Genome, Space, find_template
from benchmarks.harness import default_suites, find_task

from .world import TASK as LINEAR
from .world import Judge, of_type, run

SPACE = Space(
    (
        Gene("PATH", ("plain", "tiled"), ordinal=False, structural=True),
        Gene("TILE", (1, 2, 4, 8), only=("PATH", ("tiled",))),
        Gene("WIDE", (1, 2, 3, 4), only=("PATH", ("tiled",))),
        Gene("GRAIN", (10, 20, 30)),
    ),
    (Constraint("TILE x WIDE is too much", lambda genome: int(genome["TILE"]) * int(genome["WIDE"]) <= 16),),
)
SEARCHES = [forecasting, genetic, anneal, random_search]
TASK = find_task(default_suites(), "mnist_pool/forward")
TEMPLATE = find_template(TASK.name, "cpp")
assert TEMPLATE is not None


def fitness(genome: Genome) -> float | None:
    if genome["GRAIN"] == 10:
        return None
    return float(int(genome["TILE"]) + int(genome["WIDE"]) * 2 + int(genome["GRAIN"]) / 10)


def searched(search: Search, count: int, seed: int = 7) -> list[Trial]:
    trials: list[Trial] = []
    for place in range(count):
        move = search(SPACE, trials, Rng(seed, "test", place))
        if move is None:
            break
        trials.append(Trial(move.genome, fitness(move.genome)))
    return trials


@pytest.mark.parametrize("search", [search for search in SEARCHES if search is not forecasting])
def test_a_search_visits_every_genome_once_and_then_says_so(search: Search) -> None:
    trials = searched(search, SPACE.size + 5)
    assert len(trials) == SPACE.size
    assert {SPACE.key(trial.genome) for trial in trials} == {SPACE.key(genome) for genome in SPACE.genomes}


def test_a_search_with_a_forecast_ends_once_nothing_promises_to_be_faster() -> None:
    for seed in range(5):
        trials = searched(forecasting, SPACE.size + 5, seed)
        keys = [SPACE.key(trial.genome) for trial in trials]
        assert len(keys) == len(set(keys)) < SPACE.size
        assert max(trial.fitness or 0.0 for trial in trials) == max(fitness(genome) or 0.0 for genome in SPACE.genomes)


def test_a_search_with_a_forecast_goes_on_while_all_trials_are_alike() -> None:
    trials: list[Trial] = []
    while move := forecasting(SPACE, trials, Rng(1, "test", len(trials))):
        trials.append(Trial(move.genome, 2.0))
    assert len(trials) == SPACE.size


@pytest.mark.parametrize("search", SEARCHES)
def test_the_same_trials_and_key_give_the_same_move(search: Search) -> None:
    assert searched(search, 20) == searched(search, 20)
    assert searched(search, 20) != searched(search, 20, seed=8)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_space_where_nothing_works_is_searched_to_its_end(search: Search) -> None:
    trials: list[Trial] = []
    while move := search(SPACE, trials, Rng(1, "test", len(trials))):
        trials.append(Trial(move.genome, None))
    assert len(trials) == SPACE.size


def test_moves_stay_in_the_space_and_say_what_they_are() -> None:
    start: Genome = {"PATH": "tiled", "TILE": 4, "WIDE": 4, "GRAIN": 20}
    for seed in range(40):
        rng = Rng(seed, "moves")
        moved = step(SPACE, start, rng)
        assert moved is None or SPACE.valid(moved)
        fresh = resample(SPACE, start, rng)
        assert fresh is None or (SPACE.valid(fresh) and fresh["PATH"] == "tiled")
        flat = flip(SPACE, start, rng)
        assert flat is not None
        assert flat == {"PATH": "plain", "TILE": 1, "WIDE": 1, "GRAIN": 20}


def test_a_flip_wakes_genes_with_random_values() -> None:
    start: Genome = {"PATH": "plain", "TILE": 1, "WIDE": 1, "GRAIN": 20}
    woken = {SPACE.key(made) for seed in range(40) if (made := flip(SPACE, start, Rng(seed, "wake")))}
    assert len(woken) > 5


def test_crossover_takes_a_gene_that_sleeps_from_the_parent_where_it_is_awake() -> None:
    plain: Genome = {"PATH": "plain", "TILE": 1, "WIDE": 1, "GRAIN": 30}
    tiled: Genome = {"PATH": "tiled", "TILE": 8, "WIDE": 2, "GRAIN": 10}
    children = [crossover(SPACE, plain, tiled, Rng(seed, "cross")) for seed in range(30)]
    assert {(child["TILE"], child["WIDE"]) for child in children if child and child["PATH"] == "tiled"} == {(8, 2)}


# The proposer in the loop -----------------------------------------------------------------------------------------


class Reader(Judge):
    """Judges a rendered source by its macros: wide vectors and tall tiles are fast, unrolling by four is wrong."""

    async def wait(self, ticket: str, live: Live) -> JudgeResult:
        genes = dict(re.findall(r"#define (\w+) (\d+)", self.sources[ticket.removeprefix("ticket ")]))
        if genes["UNROLL"] == "4":
            return JudgeResult("INCORRECT_VALUE", "too fast to be true")
        return JudgeResult("PASS", "", int(genes["LANES"]) + int(genes["ROWS"]))


def test_a_run_finds_faster_settings_of_a_template_and_repeats_itself() -> None:
    logs = [MemoryLog(), MemoryLog()]
    for log in logs:
        config = RunConfig(LINEAR.name, proposer="template-evo", seed=5, caps=Caps(judgings=40))
        run(log, config, proposer=TemplateEvo(), judge=Reader(), verifiers=())  # type: ignore[arg-type]
    first, second = (of_type(log.read(), "proposal.received") for log in logs)
    assert [event.payload["params"] for event in first] == [event.payload["params"] for event in second]
    best = RunState.fold(logs[0].read(), logs[0].get_source).archive.view(0).best
    assert best is not None
    assert best.params is not None
    assert (best.params["LANES"], best.score) == (16, 16 + int(best.params["ROWS"]))
    assert best.score > 16 + 6


# The proposer -------------------------------------------------------------------------------------------------------


def view(candidates: Sequence[CandidateView]) -> ArchiveView:
    return ArchiveView(0, {item.id: item for item in candidates}, ((),), {}, {}, lambda _sha: "")


def request(candidates: Sequence[CandidateView], generation: int, slot: int, language: str = "cpp") -> ProposalRequest:
    stage = "translate" if not candidates else "optimise"
    rng = Rng(3, "proposal", generation, slot)
    return ProposalRequest(TASK, language, "cpu", stage, generation, slot, 0, (), view(candidates), rng, None, Caps())


def asked(request: ProposalRequest, proposer: TemplateEvo | None = None) -> Proposal | NoProposal:
    return asyncio.run((proposer or TemplateEvo()).propose(request, None, Quiet()))  # type: ignore[arg-type]


def generation(candidates: list[CandidateView], number: int, slots: int = 4) -> list[CandidateView]:
    """What a generation of slots adds, judged by a made-up score."""
    made = []
    for slot in range(slots):
        proposal = asked(request(candidates, number, slot))
        assert isinstance(proposal, Proposal)
        assert proposal.params is not None
        score = 1.0 + int(proposal.params["LANES"]) / 16
        result = JudgeResult("PASS", "", score)
        words = {"params": proposal.params, "template": proposal.template, "operator": proposal.operator}
        item = CandidateView(f"{number}-{slot}", number, slot, 0, "optimise", "judged", result=result, **words)  # type: ignore[arg-type]
        made.append(item)
    return made


def test_the_best_guess_comes_first_and_the_plain_kernel_if_it_fails() -> None:
    first = asked(request([], 0, 0))
    assert isinstance(first, Proposal)
    assert (first.operator, first.params) == ("guess", dict(TEMPLATE.default))
    words = {"params": first.params, "template": first.template, "operator": first.operator}
    failed = CandidateView("0-0", 0, 0, 0, "translate", "judged", result=JudgeResult("INCORRECT_VALUE", ""), **words)  # type: ignore[arg-type]
    second = asked(request([failed], 1, 0))
    assert isinstance(second, Proposal)
    assert (second.operator, second.params) == ("translate", dict(TEMPLATE.naive))
    assert second.source == TEMPLATE.render(TEMPLATE.naive, TASK)


def test_a_run_does_without_the_plain_kernel_where_the_guess_is_correct() -> None:
    candidates = generation([], 0, slots=1)
    asked_for = [asked(request(candidates, 1, slot)) for slot in range(4)]
    assert [item.operator for item in asked_for if isinstance(item, Proposal)] == ["random"] * 4


def test_slots_of_a_generation_differ_though_they_see_the_same_archive() -> None:
    candidates: list[CandidateView] = []
    for number in range(6):
        candidates += generation(candidates, number)
    keys = [TEMPLATE.space.key(item.params or {}) for item in candidates]
    assert len(set(keys)) == len(keys) == 24


def test_the_order_in_which_slots_are_asked_changes_nothing() -> None:
    candidates = generation([], 0)
    forwards = [asked(request(candidates, 1, slot)) for slot in range(4)]
    backwards = [asked(request(candidates, 1, slot)) for slot in reversed(range(4))]
    assert forwards == backwards[::-1]


def test_a_child_names_its_parents_and_says_what_changed() -> None:
    candidates = [item for number in range(3) for item in generation([], number)][:4]
    for number in range(1, 5):
        candidates += generation(candidates, number)
    children = [asked(request(candidates, 6, slot)) for slot in range(4)]
    parented = [child for child in children if isinstance(child, Proposal) and child.parents]
    assert parented
    for child in parented:
        assert set(child.parents) <= {item.id for item in candidates}
        assert "→" in child.thought or "as its first parent" in child.thought


def test_a_space_that_is_exhausted_ends_the_run() -> None:
    every = [
        CandidateView(f"0-{place}", 0, place, 0, "optimise", "judged", params=genome, template=TEMPLATE.name)
        for place, genome in enumerate(TEMPLATE.space.genomes)
    ]
    refusal = asked(request(every, 1, 0))
    assert isinstance(refusal, NoProposal)
    assert refusal.exhausted


def test_a_language_without_a_template_is_refused_in_words() -> None:
    refusal = asked(request([], 0, 0, language="triton"))
    assert isinstance(refusal, NoProposal)
    assert refusal.text == "no template serves mnist_pool/forward in triton"


def test_random_is_a_search_of_its_own() -> None:
    trials = [Trial(TEMPLATE.naive, 1.0), Trial(TEMPLATE.default, 2.0)]
    move = next_move(TEMPLATE, trials, Rng(1, "x"), TemplateRandom.search)
    assert move is not None
    assert move.operator == "random"


def test_proposers_are_found_by_their_names() -> None:
    from agents.evolve.proposers import find_proposer

    names = [find_proposer(RunConfig(TASK.name, proposer=name)).name for name in ("template-evo", "random", "anneal")]
    assert names == ["template-evo", "random", "anneal"]
