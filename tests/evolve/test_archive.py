"""The archive as a fold, and what is chosen from it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.evolve.archive import Archive, cell_of
from agents.evolve.book import Book
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.events import Draft, LogEvent
from agents.evolve.logs import MemoryLog
from agents.evolve.model import JudgeResult, Proposal
from agents.evolve.rng import Rng
from agents.evolve.selection import Migration, migrations, select, weigh
from agents.evolve.slots import result_to_json
from agents.evolve.state import BrokenLog, RunState

from .world import TASK, Scripted, kernel, of_type, run, truth

RECORDED = MemoryLog()
run(RECORDED, RunConfig(TASK.name, caps=Caps(judgings=60), stagnation=1), proposer=Scripted())
EVENTS = RECORDED.read()
WORDS = {"language": "cpp", "name": "", "thought": "", "operator": "", "template": None, "params": None, "arm": None}


class Story:
    """Writes events by hand."""

    def __init__(self, islands: int = 2) -> None:
        self.archive, self.seq = Archive(lambda sha256: sha256), 0
        self.say("run.created", None, config={"task": "t", "islands": islands})

    def say(self, type: str, candidate: str | None, /, **payload: object) -> None:
        self.seq += 1
        self.archive.apply(LogEvent(self.seq, 0.0, type, candidate, payload))

    def judged(
        self, name: str, result: JudgeResult, island: int = 0, cell: str = "plain", parents: tuple[str, ...] = ()
    ) -> None:
        generation, slot = map(int, name.split("-"))
        place = {"generation": generation, "slot": slot, "island": island}
        self.say("proposal.requested", name, **place, stage="optimise", parents=[])
        self.say("proposal.received", name, **place, **WORDS, source_sha256=name, parents=list(parents), cell=[cell])
        self.say("evaluation.finished", name, result=result_to_json(result), reused_from=None)


def speeds(*values: float) -> JudgeResult:
    configs = tuple({"key": key, "speedup": value} for key, value in zip("abc", values, strict=True))
    return JudgeResult("PASS", "fine", score=sum(values) / len(values), configs=configs)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, len(EVENTS)))
def test_any_prefix_folds_the_same_at_once_and_in_two_parts(cut: int) -> None:
    once = RunState.fold(EVENTS[:cut], RECORDED.get_source)
    twice = RunState.fold(EVENTS[: cut // 2], RECORDED.get_source)
    for event in EVENTS[cut // 2 : cut]:
        twice.apply(event)
    assert once.archive.sha256() == twice.archive.sha256()
    assert once.archive.view(cut) == twice.archive.view(cut)
    assert (once.budget, once.status, once.generations) == (twice.budget, twice.status, twice.generations)


def test_a_view_does_not_change_when_the_run_goes_on() -> None:
    state = RunState.fold(EVENTS[:40], RECORDED.get_source)
    view, same = state.archive.view(40), RunState.fold(EVENTS[:40], RECORDED.get_source).archive.view(40)
    for event in EVENTS[40:]:
        state.apply(event)
    assert view == same
    assert view != state.archive.view(40)


def test_the_order_within_a_generation_does_not_count() -> None:
    results = {
        "1-0": speeds(1, 1, 3),
        "1-1": speeds(2, 2, 2),
        "1-2": speeds(2, 2, 2),
        "1-3": JudgeResult("TIMEOUT", "slow"),
    }
    hashes = set()
    for order in itertools.permutations(results):
        story = Story()
        for name in results:
            place = {"generation": 1, "slot": int(name[2]), "island": 0}
            story.say("proposal.requested", name, **place, stage="optimise", parents=[])
        for name in order:
            story.say("proposal.received", name, **WORDS, source_sha256=name, parents=[], cell=["plain"])
            story.say("evaluation.finished", name, result=result_to_json(results[name]), reused_from=None)
        assert story.archive.best == "1-1"
        hashes.add(story.archive.sha256())
    assert len(hashes) == 1


def test_a_specialist_for_one_shape_survives() -> None:
    story = Story()
    story.judged("1-0", speeds(3, 3, 3))
    story.judged("1-1", speeds(1, 1, 5))
    story.judged("1-2", speeds(2, 2, 4))
    view = story.archive.view(9)
    assert view.islands == (("1-0",), ())
    assert view.champions == {"a": "1-0", "b": "1-0", "c": "1-1"}
    assert {item.id for item in view.members(0)} == {"1-0", "1-1"}


def test_each_cell_of_an_island_keeps_its_best() -> None:
    story = Story()
    story.judged("1-0", speeds(3, 3, 3), cell="plain")
    story.judged("1-1", speeds(2, 2, 2), cell="vectors")
    story.judged("1-2", speeds(1, 1, 1), cell="vectors")
    story.judged("1-3", speeds(9, 9, 9), cell="plain", island=1)
    assert story.archive.view(0).islands == (("1-0", "1-1"), ("1-3",))


def test_an_empty_island_draws_from_the_others() -> None:
    story = Story()
    story.judged("1-0", speeds(1, 1, 1))
    assert [item.id for item in select(story.archive.view(0), 1, Rng(1, "s")).parents] == ["1-0"]
    assert select(Story().archive.view(0), 0, Rng(1, "s")).parents == ()


def test_cells_come_from_the_text() -> None:
    plain, rich = "float f();", "__shared__ float4 t[8]; k<<<1, 2>>>(); at::linear(x);"
    assert cell_of(Proposal(plain, "cuda")) == ("text", "0 launches", "no shared", "scalars", "own")
    assert cell_of(Proposal(rich, "cuda", template="t")) == ("t", "1 launches", "shared", "vectors", "library")


def test_parents_are_shown_slow_to_fast_and_the_better_are_drawn_more() -> None:
    story = Story()
    for slot, value in enumerate((1.0, 1.1, 1.2, 1.3, 2.0, 3.0)):
        story.judged(f"1-{slot}", speeds(value, value, value), cell=str(slot))
    view = story.archive.view(0)
    chosen = select(view, 0, Rng(1, "s"))
    scores = [item.score for item in chosen.parents]
    assert len(scores) == 5
    assert scores == sorted(scores)
    assert chosen.probabilities["1-5"] > chosen.probabilities["1-0"]
    assert abs(sum(chosen.probabilities.values()) - 1) < 0.001


def test_who_had_its_turn_is_drawn_less() -> None:
    story = Story()
    story.judged("1-0", speeds(2, 2, 2), cell="a")
    story.judged("1-1", speeds(2, 2, 2), cell="b")
    story.judged("2-0", speeds(1, 1, 1), cell="a", parents=("1-0",))
    view = story.archive.view(0)
    weights = dict(zip(("1-0", "1-1"), weigh([view.candidates["1-0"], view.candidates["1-1"]], view), strict=True))
    assert weights["1-1"] == 2 * weights["1-0"]


def test_an_island_that_stands_still_is_sent_its_neighbours_best() -> None:
    story = Story()
    story.judged("1-0", speeds(2, 2, 2))
    story.judged("1-1", speeds(1, 1, 1), island=1)
    story.judged("4-0", speeds(3, 3, 3))
    assert migrations(story.archive, 4, stagnation=3) == []
    assert migrations(story.archive, 5, stagnation=3) == [Migration("4-0", 0, 1)]
    story.say("migration", "4-0", from_island=0, to_island=1, generation=5)
    assert story.archive.view(0).islands[1] == ("4-0",)
    assert migrations(story.archive, 6, stagnation=3) == []


def test_islands_of_a_run_are_all_used() -> None:
    islands = {event.payload["island"] for event in of_type(EVENTS, "proposal.received")}
    assert islands == {0, 1}
    assert of_type(EVENTS, "migration")


def test_the_view_finds_the_best_and_its_text() -> None:
    state = RunState.fold(EVENTS, RECORDED.get_source)
    best = state.archive.view(state.seq).best
    assert best is not None
    assert best.id == state.archive.best
    assert best.score == max(item.score or 0 for item in state.archive.candidates.values())
    assert truth(state.archive.view(state.seq).source(best)).score == best.score
    assert kernel(1, 2, 3) != kernel(1, 2, 3, broken=True)


def test_what_cannot_be_folded_is_not_written() -> None:
    log = MemoryLog()
    log.append([Draft("run.created", None, {"config": RunConfig(TASK.name).to_json()})])
    book = Book(log)
    nonsense = Draft("budget.settled", None, {"lease": "of nobody", "cost": {}})
    with pytest.raises(BrokenLog, match=r"Event 3 of the log, budget\.settled"):
        book.commit(Draft("run.started", None, {}), nonsense)
    assert (len(log.read()), book.state.seq, book.state.status) == (1, 1, "created")
    log.append([nonsense])
    with pytest.raises(BrokenLog):
        Book(log)
