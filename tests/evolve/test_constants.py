"""Tuning the constants that a finished kernel names: what counts as one, what is rendered, and the run that does it."""

import asyncio
import re
from itertools import islice

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.events import Live, Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.model import UNPROMISING, JudgeResult, Proposal
from agents.evolve.proposers import find_proposer
from agents.evolve.proposers.constants import KERNEL_BYTES_MAX, Constants
from agents.evolve.rng import Rng
from agents.evolve.search import Move, Trial, anneal, around
from agents.evolve.search.around import neighbours
from agents.evolve.state import RunState
from agents.evolve.templates import Constraint, Gene, Space, constants_of, template_of_constants
from agents.evolve.templates.by_shape import ShapeRule, render_by_shape
from agents.evolve.templates.constants import GENOMES_MAX
from benchmarks.harness import default_suites, find_task, shipped_kernel
from tests.evolve.test_templates_cpp import wrong

from .test_search import request
from .world import TASK as LINEAR
from .world import Judge, of_type, run

TEXT = """\
#include <torch/extension.h>
#define LANES 16
#define NAME(x) x
#define FLAG
constexpr int kTile = 64, kStages = 3, kBytes = kTile * 4;  // of a tile
static constexpr size_t kChunk = 12;
const int kZero = 0;
const float kScale = 2;
constexpr int kHalf = kTile / 2;
namespace again {
constexpr int kTile = 8;
}
int count = 5;
void f() {
    constexpr int kInside = 7;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &f); }
"""
ONE_TILE = TEXT.replace("namespace again {\nconstexpr int kTile = 8;\n}\n", "")
POOL = find_task(default_suites(), "mnist_pool/forward")


def test_named_whole_numbers_at_the_start_of_a_line_are_constants() -> None:
    found = [(item.name, item.value) for item in constants_of(TEXT)]
    assert found == [("LANES", 16), ("kTile", 64), ("kStages", 3), ("kChunk", 12), ("kTile_2", 8)]
    assert [item.values(1) for item in constants_of(TEXT)] == [
        (8, 16, 32),
        (32, 64, 128),
        (2, 3, 4),
        (6, 12, 24),
        (4, 8, 16),
    ]
    assert [item.values(2) for item in constants_of("#define A 1\n#define B 2\n#define C 5\n")] == [
        (1, 2, 3),
        (1, 2, 3, 4),
        (1, 2, 5, 10, 20),
    ]


def test_names_are_told_apart_and_octal_numbers_are_left_alone() -> None:
    text = "#define A 8\n#define A 16\n#define A_2 64\n#define MASK 010\n#define A 5\n"
    assert [(item.name, item.value) for item in constants_of(text)] == [("A", 8), ("A_3", 16), ("A_2", 64), ("A_4", 5)]
    template = template_of_constants(text, "cpp", POOL.name)
    assert template is not None
    assert template.render(template.default, POOL) == text


def test_a_setting_changes_its_constants_and_nothing_else() -> None:
    template = template_of_constants(TEXT, "cpp", POOL.name)
    assert template is not None
    assert template.render(template.default, POOL) == TEXT
    text = template.render({**template.default, "kTile_2": 16, "LANES": 8, "kStages": 4}, POOL)
    changes = [pair for pair in zip(TEXT.splitlines(), text.splitlines(), strict=True) if pair[0] != pair[1]]
    assert [new for _, new in changes] == [
        "#define LANES 8",
        "constexpr int kTile = 64, kStages = 4, kBytes = kTile * 4;  // of a tile",
        "constexpr int kTile = 16;",
    ]
    assert template.space.size == 5**5


def test_only_the_constants_asked_for_are_tuned() -> None:
    template = template_of_constants(TEXT, "cpp", POOL.name, ["kStages"])
    assert template is not None
    assert [genome["kStages"] for genome in template.space.genomes] == [1, 2, 3, 4, 5]
    assert template_of_constants("int main() {}", "cpp", POOL.name) is None


def test_a_space_that_would_be_too_large_leaves_out_what_comes_last() -> None:
    text = "".join(f"#define A{number} 4\n" for number in range(400))
    template = template_of_constants(text, "cpp", POOL.name)
    assert template is not None
    assert template.space.size == 3**10 <= GENOMES_MAX < 3**11
    assert template.space.names[-1] == "A9"
    fewer = template_of_constants(text, "cpp", POOL.name, [f"A{number}" for number in range(8)])
    assert fewer is not None
    assert fewer.space.size == 5**4 * 3**4 <= GENOMES_MAX < 5**5 * 3**3
    assert [len(gene.values) for gene in fewer.space.genes] == [5] * 4 + [3] * 4


def test_long_lines_are_read_in_linear_time() -> None:
    assert constants_of("constexpr int " + "a = 1, " * 50_000) == []
    assert constants_of("#define " + "A" * 200_000 + " 5") == []


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_shipped_kernels_are_found_again_as_they_are(language: str) -> None:
    tasks = [
        find_task(default_suites(), f"{op}/{way}")
        for op in ("mnist_linear", "unet_linear")
        for way in ("forward", "backward")
    ]
    for task in tasks:
        text = shipped_kernel(task, language)
        template = template_of_constants(text or "", language, task.name)
        assert template is not None, task.name
        assert template.render(template.default, task) == text


def test_a_task_without_a_kernel_in_a_language_has_none() -> None:
    assert shipped_kernel(POOL, "cute_dsl") is None
    assert shipped_kernel(find_task(default_suites(), "real_inputs/gated_scan/forward"), "cuda") is None


def test_two_settings_of_a_kernel_go_into_one_source() -> None:
    task = find_task(default_suites(), "layernorm/forward")
    template = template_of_constants(shipped_kernel(task, "cpp") or "", "cpp", task.name, ["kBlock"])
    assert template is not None
    source = render_by_shape(template, task, ShapeRule("x", 0, 4), template.default, {"kBlock": 2048})
    assert (source.count("kBlock = 4096"), source.count("kBlock = 2048")) == (1, 1)
    assert wrong(task, source) == []


def test_the_search_begins_around_the_kernel_as_it_is() -> None:
    genes = (Gene("A", (1, 2, 3)), Gene("B", (1, 2, 3)), Gene("C", (5,)))
    space = Space(genes, (Constraint("A is not 3 here", lambda genome: genome["A"] != 3),))
    trials = [Trial({"A": 2, "B": 2, "C": 5}, 1.0)]
    found = []
    for place in range(3):
        move = around(space, trials, Rng(1, "x", place))
        assert move is not None
        assert (move.operator, move.parents) == ("step", (trials[0].genome,))
        found.append((move.genome["A"], move.genome["B"]))
        trials.append(Trial(move.genome, 1.0))
    assert found == [(1, 2), (2, 1), (2, 3)]
    assert [dict(item) for item in neighbours(space, {"A": 1, "B": 1, "C": 5})] == [
        {"A": 2, "B": 1, "C": 5},
        {"A": 1, "B": 2, "C": 5},
    ]
    for place in range(3, 10):
        move = around(space, trials, Rng(1, "x", place), then=anneal)
        if move is None:
            break
        trials.append(Trial(move.genome, 1.0))
    assert len(trials) == space.size == 6
    assert len({space.key(trial.genome) for trial in trials}) == 6


def test_after_the_neighbours_another_search_may_go_on() -> None:
    space = Space((Gene("A", (1, 2, 3)), Gene("B", (1, 2, 3))))
    first = Trial({"A": 2, "B": 2}, 1.0)
    trials = [first, *(Trial(genome, 0.5) for genome in neighbours(space, first.genome))]
    move = around(space, trials, Rng(1, "x", 0), then=lambda space, trials, rng: Move(space.genomes[0], "by another"))
    assert move is not None
    assert move.operator == "by another"


def test_a_run_may_do_without_the_forecast() -> None:
    asked = {}
    for search in ("forecast", "anneal"):
        options = {"kernel": TEXT, "search": search}
        config = RunConfig(LINEAR.name, proposer="constants", seed=5, caps=Caps(judgings=25), options=options)
        log = MemoryLog()
        run(log, config, proposer=find_proposer(config), judge=Reader(), verifiers=())  # type: ignore[arg-type]
        asked[search] = [event.payload["params"] for event in of_type(log.read(), "proposal.received")]
    changes = sum(len(item.values(1)) - 1 for item in constants_of(TEXT))
    assert asked["forecast"][: 1 + changes] == asked["anneal"][: 1 + changes]
    assert asked["forecast"][1 + changes :] != asked["anneal"][1 + changes :]


def test_a_run_ends_once_no_setting_is_expected_to_be_faster() -> None:
    options = {"kernel": ONE_TILE}
    caps = Caps(judgings=2000)
    config = RunConfig(LINEAR.name, proposer="constants", seed=5, caps=caps, options=options, audit_fraction=0)
    log = MemoryLog()
    run(log, config, proposer=find_proposer(config), judge=Reader(), verifiers=())  # type: ignore[arg-type]
    (ended,) = of_type(log.read(), "run.finished")
    assert (ended.payload["reason"], ended.payload["text"]) == ("exhausted", UNPROMISING)
    state = RunState.fold(log.read(), log.get_source)
    assert state.best is not None
    assert state.best.params is not None
    assert (state.best.params["kTile"], state.best.params["kStages"]) == (16, 5)
    assert len(of_type(log.read(), "proposal.received")) < 0.2 * 5**4
    refusals = {event.payload["reason"] for event in of_type(log.read(), "proposal.rejected")}
    assert refusals == {"unpromising"}


class Reader(Judge):
    """Small tiles are fast, but three stages are wrong."""

    async def wait(self, ticket: str, live: Live) -> JudgeResult:
        found = dict(re.findall(r"(kTile|kStages) = (\d+)", self.sources[ticket.removeprefix("ticket ")]))
        if found["kStages"] == "2":
            return JudgeResult("INCORRECT_VALUE", "too fast to be true")
        return JudgeResult("PASS", "", 200 / int(found["kTile"]) + int(found["kStages"]))


def test_a_run_tunes_a_kernel_and_repeats_itself() -> None:
    config = RunConfig(
        LINEAR.name,
        proposer="constants",
        seed=5,
        caps=Caps(judgings=25),
        options={"kernel": ONE_TILE},
        audit_fraction=0,
    )
    logs = [MemoryLog(), MemoryLog()]
    for log in logs:
        run(log, config, proposer=find_proposer(config), judge=Reader(), verifiers=())  # type: ignore[arg-type]
    first, second = (of_type(log.read(), "proposal.received") for log in logs)
    assert [event.payload["params"] for event in first] == [event.payload["params"] for event in second]
    thoughts = [event.payload["thought"] for event in islice(first, 3)]
    assert thoughts[0] == "The kernel as it is: LANES 16, kTile 64, kStages 3, kChunk 12."
    assert thoughts[1] == "One gene moved by one step: LANES 16 → 8."
    best = RunState.fold(logs[0].read(), logs[0].get_source).archive.view(0).best
    assert best is not None
    assert best.params is not None
    assert (best.params["kTile"], best.params["kStages"]) == (16, 5)
    assert best.score == pytest.approx(200 / 16 + 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "must be the text of a kernel"),
        ({"kernel": 5}, "must be the text of a kernel"),
        ({"kernel": "x" * (KERNEL_BYTES_MAX + 1)}, "must be the text of a kernel"),
        ({"kernel": "int main() {}"}, "names no constants, such as"),
        ({"kernel": TEXT, "constants": "kTile"}, "must be a list of names"),
        ({"kernel": TEXT, "constants": ["kTile", "kOther"]}, "names no constant kOther; known: LANES, kTile, "),
        ({"kernel": TEXT, "search": "guess"}, "the option search must be one of forecast, anneal"),
        ({"kernel": TEXT, "search": ["anneal"]}, "the option search must be one of forecast, anneal"),
    ],
)
def test_a_run_that_has_nothing_to_tune_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        find_proposer(RunConfig(POOL.name, proposer="constants", options=options))


def test_a_language_without_constants_is_refused() -> None:
    with pytest.raises(ConfigError, match="not in triton"):
        find_proposer(RunConfig(POOL.name, language="triton", proposer="constants", options={"kernel": TEXT}))


def test_proposals_name_their_template_by_the_kernel() -> None:
    answer = asyncio.run(Constants(TEXT).propose(request([], 0, 0), None, Quiet()))  # type: ignore[arg-type]
    assert isinstance(answer, Proposal)
    assert re.fullmatch(r"constants-[0-9a-f]{8}", answer.template or "")
    assert (answer.source, answer.operator) == (TEXT, "start")
