"""Which figure of a bounded candidate counts: everywhere the lower end of its interval, as on a board.

A kernel that could be replayed at 1.75× scores 1.92× when it avoids that; its interval reaches down to 1.55×.
"""

import json
import math
from dataclasses import replace

import pytest

from agents.evolve.archive import speedups
from agents.evolve.config import RunConfig
from agents.evolve.events import LogEvent
from agents.evolve.llm.arms import Arm
from agents.evolve.llm.prompting import proposal_request
from agents.evolve.logs import MemoryLog
from agents.evolve.memory import PastSetting, RunMemory, warm_start
from agents.evolve.model import JudgeResult
from agents.evolve.notes import note_of
from agents.evolve.rng import Rng
from agents.evolve.selection import select, weigh
from agents.evolve.state import RunState
from agents.evolve.stops import stop_reason
from agents.evolve.templates import find_template
from benchmarks.harness import what_counts
from benchmarks.recorded.bundles import SHIPPED

from .llm_requests import candidate, request_of
from .test_archive import Story
from .world import TASK, Judge, Steady, run, truth

REPLAYED = JudgeResult("PASS", "fine", 1.75, (1.73, 1.77), timing_trust="replayed")
BOUNDED = JudgeResult("PASS", "fine", 1.92, (1.55, 1.94), timing_trust="bounded")


@pytest.mark.parametrize(
    ("trust", "counts"), [("replayed", 1.92), ("supervisor", 1.92), ("", 1.92), ("bounded", 1.55), ("audited", 1.55)]
)
def test_the_lower_end_of_a_bound_counts_and_the_score_of_everything_else(trust: str, counts: float) -> None:
    assert what_counts(1.92, 1.55, trust) == counts
    assert replace(BOUNDED, timing_trust=trust).counts == counts


def test_without_an_interval_or_without_a_word_on_its_time_the_score_counts() -> None:
    assert replace(BOUNDED, ci95=None).counts == replace(BOUNDED, timing_trust=None).counts == 1.92
    assert JudgeResult("TIMEOUT", "").counts is None


@pytest.mark.parametrize("order", [(BOUNDED, REPLAYED), (REPLAYED, BOUNDED)])
def test_the_replayed_one_is_the_best_the_elite_and_the_likelier_parent(order: tuple[JudgeResult, ...]) -> None:
    story = Story(islands=1)
    for slot, result in enumerate(order):
        story.judged(f"1-{slot}", result)
    view = story.archive.view(story.seq)
    assert view.best is not None
    assert view.best.id == story.archive.best == f"1-{order.index(REPLAYED)}"
    assert view.islands == ((story.archive.best,),)
    story.judged("2-0", BOUNDED, cell="other")
    view = story.archive.view(story.seq)
    assert view.islands == ((story.archive.best, "2-0"),)
    assert [item.id for item in select(view, 0, Rng(1, "select")).parents] == ["2-0", story.archive.best]
    assert sorted(weigh(view.members(0), view)) == weigh(view.members(0)[::-1], view)


def test_on_each_configuration_the_lower_end_counts_too() -> None:
    configs = ({"key": "a", "speedup": 2.0, "ci95": [1.5, 2.1]}, {"key": "b", "speedup": 1.8, "ci95": [1.3, 1.9]})
    story = Story(islands=1)
    story.judged("1-0", replace(BOUNDED, configs=configs))
    story.judged("1-1", replace(REPLAYED, configs=({"key": "a", "speedup": 1.6}, {"key": "b", "speedup": 1.2})))
    assert speedups(story.archive.candidates["1-0"]) == {"a": 1.5, "b": 1.3}
    assert story.archive.champions == {"a": "1-1", "b": "1-0"}


class Gaps(Judge):
    """Of every kernel no more than a bound is known, and its interval reaches down to 70 % of the score."""

    async def wait(self, ticket: str, live: object) -> JudgeResult:
        found = truth(self.sources[ticket.removeprefix("ticket ")])
        assert found.score is not None
        return replace(found, ci95=(0.7 * found.score, found.score), timing_trust="bounded")


def test_a_target_is_reached_by_what_counts() -> None:
    ended = {}
    for target in (0.6, 0.8):
        log = MemoryLog()
        ended[target] = run(log, RunConfig(TASK.name, target=target), proposer=Steady(), judge=Gaps())
        best = RunState.fold(log.read(), log.get_source).best
        assert best is not None
        assert best.score is not None
        assert 0.7 * best.score == pytest.approx(best.counts)
        assert 0.6 <= best.counts < 0.8 < best.score  # type: ignore[operator]
    assert [ended[target].reason for target in (0.6, 0.8)] == ["target", "budget"]
    assert "× at the lower end of its interval, the target was 0.6×" in ended[0.6].text


def test_the_plateau_and_the_note_go_by_what_counts() -> None:
    log = MemoryLog()
    run(log, RunConfig(TASK.name), proposer=Steady(), judge=Gaps())
    state = RunState.fold(log.read(), log.get_source)
    assert state.best is not None
    assert state.generations[-1].best == state.best.counts
    assert f"reached {state.best.counts:.3f} times the stronger baseline at the lower end of its interval." in note_of(
        state
    )
    assert stop_reason(state) is None


def test_a_model_is_told_what_counts() -> None:
    bound = replace(candidate("1-0", 1.92), result=BOUNDED)
    asked = [proposal_request(request_of(parents=[item]), Arm("claude-haiku-5-5", "high", "memory")) for item in (
        bound, replace(bound, result=REPLAYED)
    )]  # fmt: skip
    told = "score 1.920 (what counts is 1.550 at the lower end of its interval)"
    assert [told in item.request.prompt for item in asked] == [True, False]
    assert "score 1.750, named" in asked[1].request.prompt


def test_settings_of_earlier_runs_are_tried_in_the_order_of_what_counts() -> None:
    template = find_template("mnist_linear_relu/forward", "cpp")
    assert template is not None
    rng = Rng(3, "genes")
    drawn = [template.space.settled({gene.name: rng.choice(gene.values) for gene in template.space.genes})
             for _ in range(2)]  # fmt: skip
    bound = PastSetting("task", template.name, drawn[0], 1.92, "", 1.55)
    replayed = PastSetting("task", template.name, drawn[1], 1.75, "", 1.75)
    assert [item for _, item in warm_start(template, [bound, replayed])] == [replayed, bound]
    memory = RunMemory((bound, replayed)).to_json()
    assert RunMemory.of_options({"memory": memory}).settings == (bound, replayed)
    for item in memory["settings"]:
        del item["counts"]  # as in a log of before
    assert [item.score for _, item in warm_start(template, RunMemory.of_options({"memory": memory}).settings)] == [
        1.92,
        1.75,
    ]


def test_a_log_of_before_folds_to_the_same_decisions() -> None:
    """A run whose times are not bounded: the best, elites and champions that its log announced are found again."""
    lines = [json.loads(line) for line in (SHIPPED / "run-mnist-linear-relu.jsonl").read_text().splitlines()]
    events = [LogEvent(**line) for line in lines if "seq" in line]
    state, announced, stands = RunState(lambda sha256: sha256), 0, -math.inf
    for event in events:
        state.apply(event)
        if event.type == "archive.inserted":
            announced += 1
            assert state.archive.holds(str(event.candidate)) == event.payload["places"]
            assert ("best" in event.payload["places"]) == (event.payload["score"] > stands)
            stands = max(stands, event.payload["score"])
    assert announced > 3
    assert state.best is not None
    assert state.best.score == state.best.counts == stands
