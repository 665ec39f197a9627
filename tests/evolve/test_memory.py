"""What a run is told of earlier ones: settings that are carried over, kernels in prompts, and the note at the end."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agents.evolve.begin import fork
from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.llm.arms import Arm
from agents.evolve.llm.prompting import MEMORY_BYTES_MAX, proposal_request
from agents.evolve.logs import MemoryLog
from agents.evolve.memory import PastKernel, PastSetting, RunMemory, bottleneck, carried_over, likeness, warm_start
from agents.evolve.model import Proposal
from agents.evolve.notes import NOTE_CHARS_MAX, note_of
from agents.evolve.proposers.template_evo import TemplateEvo
from agents.evolve.state import RunState
from agents.evolve.templates import find_template
from benchmarks.harness import default_suites, find_task
from tests.evolve import world
from tests.evolve.llm_requests import candidate, keep, request_of

ARM = Arm("claude-haiku-5-5", "high", "memory")
BACKWARD = find_template("mnist_linear/backward", "cpp")
FORWARD = find_template("mnist_linear/forward", "cpp")
assert BACKWARD is not None
assert FORWARD is not None
WON = {**BACKWARD.default, "ROWS": 4, "UNROLL": 2}


def task(name: str) -> Any:
    return find_task(default_suites(), name)


def won(params: Any = WON, template: str = "cpp-linear-backward", score: float = 2.0) -> PastSetting:
    return PastSetting("unet_linear/backward", template, params, score)


def kernel(text: str = "int related;\n", **changes: Any) -> PastKernel:
    values = {"task": "unet_linear/forward", "device_kind": "cpu", "score": 1.7, "technique": ("1 launches", "own")}
    return PastKernel(**{**values, "source_sha256": keep(text), **changes})


def test_a_setting_of_the_same_template_is_taken_as_it_is() -> None:
    assert warm_start(BACKWARD, [won()]) == [(WON, won())]


def test_of_another_template_the_genes_that_both_have_are_carried_over() -> None:
    params = {"ROWS": 8, "VECTORS": 1, "UNROLL": 4, "LANES": 8, "PATH": "packed", "GRAIN": 16384, "ROW_BLOCK": 24}
    ((genome, item),) = warm_start(BACKWARD, [won(params, "another")])
    assert item.template == "another"
    assert (genome["ROWS"], genome["VECTORS"], genome["UNROLL"], genome["LANES"]) == (8, 1, 4, 8)
    assert (genome["PATH"], genome["COPY"]) == (BACKWARD.default["PATH"], BACKWARD.default["COPY"])
    assert BACKWARD.space.valid(genome)


def test_what_is_not_related_or_not_valid_is_left_out() -> None:
    assert warm_start(BACKWARD, [won({"THREADS": 64, "ROWS": 2}, "another")]) == []
    assert carried_over(BACKWARD, {"ROWS": 8, "VECTORS": 4}) is None  # 32 sums do not fit the registers
    assert carried_over(BACKWARD, {"ROWS": "many", "LANES": None}) == BACKWARD.space.settled(BACKWARD.default)  # type: ignore[dict-item]


def test_the_same_template_and_the_higher_score_come_first_and_nothing_twice() -> None:
    others = [won({**WON, "ROWS": rows}, score=score) for rows, score in ((1, 1.1), (2, 1.2), (1, 1.3), (6, 1.0))]
    related = won({**WON, "LANES": 4}, "another", 9.0)
    assert [item.score for _, item in warm_start(BACKWARD, [related, *others])] == [1.3, 1.2, 1.0]


def test_a_run_tries_them_after_its_own_guess_and_says_so() -> None:
    request = replace(request_of(), task=task("mnist_linear/backward"), memory=RunMemory((won(),)))
    answers = [asyncio.run(TemplateEvo().propose(replace(request, slot=slot), None, None)) for slot in range(4)]  # type: ignore[arg-type]
    proposals = [item for item in answers if isinstance(item, Proposal)]
    assert [item.operator for item in proposals] == ["guess", "translate", "warm", "random"]
    assert proposals[2].params == WON
    assert proposals[2].thought.startswith("A setting that won on a related task")
    without = asyncio.run(TemplateEvo().propose(replace(request, slot=2, memory=None), None, None))  # type: ignore[arg-type]
    assert isinstance(without, Proposal)
    assert without.operator == "random"


def test_likeness_is_by_words_of_the_operation_and_by_the_bottleneck() -> None:
    own = task("mnist_linear_relu/forward")
    others = ("mnist_linear_relu/backward", "unet_linear/forward", "mnist_pool/forward", "layernorm/forward")
    same, alike, pool, norm = (likeness(own, task(name), "cpu") for name in others)
    assert same > alike > 0
    assert pool == norm == 0  # a word of the network is no word of the operation
    assert bottleneck(task("layernorm/forward"), "cpu") == "memory"
    assert bottleneck(task("unet_conv2d/forward"), "cpu") == "arithmetic"


def test_it_survives_the_log_and_refuses_what_is_malformed() -> None:
    memory = RunMemory((won(),), (kernel(),), "a note", "a run")
    assert RunMemory.of_options({"memory": memory.to_json()}) == memory
    assert RunMemory().to_json() == {}
    assert RunMemory.of_options({}) == RunMemory()
    assert len(RunMemory.of_options({"memory": {"kernels": [kernel().__dict__] * 9}}).kernels) == 3
    for wrong in ({"settings": [{"task": "a"}]}, {"kernels": [{"technique": None}]}, ["a"]):
        with pytest.raises(ConfigError, match="memory is malformed"):
            RunMemory.of_options({"memory": wrong})


def test_a_model_is_shown_related_kernels_and_the_note_as_data() -> None:
    memory = RunMemory(kernels=(kernel(),), note="Worked: ROWS 1 → 4 (1.50 times)", note_of="x")
    request = request_of(parents=[candidate("1-0", 1.2)])
    prompt = proposal_request(replace(request, memory=memory), ARM).request.prompt
    assert "## Kernel of a related task, unet_linear/forward, score 1.700 on cpu: 1 launches, own" in prompt
    assert "int related;" in prompt
    assert "Worked: ROWS 1 → 4" in prompt
    assert prompt.index("int related;") < prompt.index("Hint:")
    assert "related task" not in proposal_request(request, ARM).request.prompt


def test_related_kernels_are_shown_whole_or_not_at_all() -> None:
    large = kernel("x" * (MEMORY_BYTES_MAX - 5))
    prompt = proposal_request(replace(request_of(), memory=RunMemory(kernels=(large, kernel()))), ARM).request.prompt
    assert "x" * (MEMORY_BYTES_MAX - 5) in prompt
    assert "int related;" not in prompt


def test_a_fork_keeps_the_kernels_that_were_shown() -> None:
    log, new = MemoryLog(), MemoryLog()
    shown = kernel(source_sha256=log.put_source("int shown;\n"))
    options = {"memory": RunMemory(kernels=(shown,)).to_json()}
    world.run(log, RunConfig(world.TASK.name, caps=Caps(judgings=4), options=options))
    fork(log, len(log.read()), new, seed=2)
    assert new.get_source(shown.source_sha256) == "int shown;\n"


def test_a_run_ends_with_a_note_from_its_log() -> None:
    log = MemoryLog()
    world.run(log, RunConfig(world.TASK.name, caps=Caps(judgings=12)))
    note, ended = log.read()[-2:]
    assert (note.type, ended.type) == ("task.note", "run.finished")
    state = RunState.fold(log.read(), log.get_source)
    assert note.payload["text"] == note_of(state)
    assert state.best is not None
    assert f"the best reached {state.best.score:.3f} times" in note.payload["text"]
    assert "g0" not in note.payload["text"]  # genes of a template that is not ours


def test_the_note_names_what_worked_and_what_did_not() -> None:
    parent = candidate("1-0", 1.0, params=WON, template=BACKWARD.name)
    better = candidate("2-0", 1.5, params={**WON, "ROWS": 8}, template=BACKWARD.name, parents=("1-0",))
    worse = candidate("2-1", 0.5, params={**WON, "UNROLL": 1}, template=BACKWARD.name, parents=("1-0",))
    known = {item.id: item for item in (parent, better, worse)}
    text = note_of(SimpleNamespace(best=better, archive=SimpleNamespace(candidates=known)))  # type: ignore[arg-type]
    assert "Best setting of cpp-linear-backward: PATH tiles, LANES 16, ROWS 8" in text
    assert "Worked: ROWS 4 → 8 (1.50 times)" in text
    assert "Did not work: UNROLL 2 → 1 (0.50 times)" in text
    assert len(text) <= NOTE_CHARS_MAX
    nothing = SimpleNamespace(best=None, archive=SimpleNamespace(candidates={}))
    assert note_of(nothing) == ""  # type: ignore[arg-type]
