"""Two settings in one source: where they are divided, that the source is right, and when a run proposes one."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from agents.evolve.model import UNPROMISING, CandidateView, JudgeResult, NoProposal, Proposal
from agents.evolve.proposers.template_evo import BY_SHAPE, TemplateEvo
from agents.evolve.templates import TEMPLATES, find_template
from agents.evolve.templates.by_shape import ShapeRule, best_split, render_by_shape
from benchmarks.harness import Source, check_source, default_rules, default_suites, device_class, find_task
from tests.evolve.test_search import request
from tests.evolve.test_templates_cpp import wrong

TASK = find_task(default_suites(), "mnist_linear/backward")
CONFIGS = [item for item in TASK.configs_for("cpu") if not item.hidden]
SERVED = [(template, task) for template in TEMPLATES for task in template.tasks]


def rows(config: str) -> int:
    return next(item.tensors[0].shape[0] for item in CONFIGS if item.key == config)


def speedups(few_rows: float, many_rows: float) -> dict[str, float]:
    return {item.key: few_rows if rows(item.key) < 20 else many_rows for item in CONFIGS}


def test_settings_are_divided_where_each_is_fast() -> None:
    split = best_split(CONFIGS, [speedups(1.6, 1.6), speedups(1.0, 2.0), speedups(2.0, 1.0)])
    assert split is not None
    assert (split.small, split.large, split.rule.axis) == (2, 1, 0)
    assert 5 < split.rule.below <= 64
    assert split.gain == pytest.approx(2.0 / 1.6)


def test_one_setting_alone_gains_nothing_by_a_division() -> None:
    split = best_split(CONFIGS, [speedups(1.5, 1.2)])
    assert split is not None
    assert split.gain == pytest.approx(1.0)
    assert best_split(CONFIGS, []) is None
    assert best_split(CONFIGS[:1], [speedups(1.0, 1.0)]) is None


@pytest.mark.parametrize("name", ["mnist_linear/backward", "llama_rmsnorm/forward"])
def test_the_source_is_right_on_both_sides(name: str) -> None:
    task, template = find_task(default_suites(), name), find_template(name, "cpp")
    assert template is not None
    sizes = sorted({item.tensors[0].shape[0] for item in task.configs_for("cpu")})
    rule = ShapeRule(task.argument_names[0], 0, sizes[-1])
    assert wrong(task, render_by_shape(template, task, rule, template.naive, template.default)) == []


def test_the_rule_decides_which_setting_runs() -> None:
    template = find_template(TASK.name, "cpp")
    assert template is not None
    source = render_by_shape(template, TASK, ShapeRule("x", 0, 64), template.naive, template.default)
    broken = source.replace("grad_x[r * s.depth + k] = float(sum)", "grad_x[r * s.depth + k] = 7", 1)
    assert source != broken
    failures = wrong(TASK, broken)
    assert 0 < len(failures) < len(TASK.configs_for("cpu"))


@pytest.mark.parametrize(("template", "name"), SERVED, ids=[f"{item.language} {name}" for item, name in SERVED])
def test_every_template_can_be_divided_and_keeps_the_rules(template, name) -> None:
    task = find_task(default_suites(), name)
    configs = task.configs_for(device_class(template.language))
    split = best_split(configs, [{item.key: 1.0 for item in configs}])
    assert split is not None
    source = render_by_shape(template, task, split.rule, template.naive, template.default)
    assert check_source(Source(source, template.language), task, default_rules()).problem is None
    assert source.count("PYBIND11_MODULE") == 1
    assert 'extern "C"' not in source


# In a run -------------------------------------------------------------------------------------------------------------


def judged(name: str, params: dict[str, int | str], few_rows: float, many_rows: float) -> CandidateView:
    configs = tuple({"key": key, "speedup": value} for key, value in speedups(few_rows, many_rows).items())
    result = JudgeResult("PASS", "", 1.0, configs=configs)
    return CandidateView(
        name, 0, 0, 0, "optimise", "judged", params=params, template="cpp-linear-backward", result=result
    )


def asked(candidates: list[CandidateView], generation: int = 3, slot: int = 0) -> Proposal:
    wanted = replace(request(candidates, generation, slot), task=TASK)
    found = asyncio.run(TemplateEvo().propose(wanted, None, None))  # type: ignore[arg-type]
    assert isinstance(found, Proposal)
    return found


def test_a_run_puts_two_settings_together_and_does_so_once() -> None:
    template = find_template(TASK.name, "cpp")
    assert template is not None
    known = [judged("0-0", dict(template.naive), 2.0, 1.0), judged("0-1", dict(template.default), 1.0, 2.0)]
    found = asked(known)
    assert (found.operator, found.parents, found.params) == (BY_SHAPE, ("0-0", "0-1"), None)
    assert "0-0" in found.thought
    assert "grad_output.size(0) <" in found.thought
    assert asked(known, generation=2).operator != BY_SHAPE
    assert asked(known, slot=1).operator != BY_SHAPE
    before = replace(
        known[0],
        id="3-0",
        generation=3,
        params=None,
        source_sha256=hashlib.sha256(found.source.encode()).hexdigest(),
        result=None,
    )
    assert asked([*known, before], generation=7).operator != BY_SHAPE


def test_a_run_tries_it_before_it_ends_for_want_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TemplateEvo, "search", staticmethod(lambda _space, _trials, _rng: None))
    template = find_template(TASK.name, "cpp")
    assert template is not None
    known = [judged("0-0", dict(template.naive), 2.0, 1.0), judged("0-1", dict(template.default), 1.0, 2.0)]
    assert asked(known, generation=1).operator == BY_SHAPE
    wanted = replace(request(known, 1, 1), task=TASK)
    refused = asyncio.run(TemplateEvo().propose(wanted, None, None))  # type: ignore[arg-type]
    assert refused == NoProposal("unpromising", UNPROMISING, exhausted=True)


def test_a_run_does_not_try_it_for_a_gain_within_the_noise() -> None:
    template = find_template(TASK.name, "cpp")
    assert template is not None
    known = [judged("0-0", dict(template.naive), 1.01, 1.0), judged("0-1", dict(template.default), 1.0, 1.01)]
    assert asked(known).operator != BY_SHAPE
