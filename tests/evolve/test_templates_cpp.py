"""C++ templates: every task is served, spaces are sound, and what is rendered is right.

Numbers are checked against the float64 references with the stand-in header of the sweeps, where a kernel compiles in a
second; one kernel goes through the judge itself. `lab/sweeps/judge_templates.py` judges all of them.
"""

import re
import subprocess

import pytest

from agents.evolve.templates import Gene, Space, Template, difference, find_template
from agents.evolve.templates.cpp import TEMPLATES
from benchmarks.harness import (
    Paths,
    Source,
    TaskSpec,
    Verdict,
    check_source,
    default_rules,
    default_suites,
    find_task,
    judge,
    load_suite,
)
from lab.sweeps.sweeping import HEADERS, compile_kernel, draw, fault
from tests.scheduling import libraries_folder

SUITE = load_suite(default_suites() / "robust_kbench")
SERVED = [(template, task) for template in TEMPLATES for task in template.tasks]
NAMES = [template.name for template in TEMPLATES]


def template_for(task: TaskSpec) -> Template:
    template = find_template(task.name, "cpp")
    assert template is not None, task.name
    return template


def wrong(task: TaskSpec, source: str) -> list[str]:
    """What is wrong with the results on all configurations, hidden ones included."""
    try:
        kernel = compile_kernel(source, libraries_folder(default_rules().compile.flags, HEADERS))
    except subprocess.CalledProcessError as error:
        return [error.stderr]
    cases = [draw(task, config, seed) for seed, config in enumerate(task.configs_for("cpu"))]
    return [words for case in cases if (words := fault(kernel.call(case)[1], case))]


def test_every_task_has_a_template() -> None:
    assert {task.name for task in SUITE} == {name for _, name in SERVED}


def test_most_spaces_are_worth_a_search() -> None:
    sizes = [template_for(task).space.size for task in SUITE]
    assert min(sizes) >= 50
    assert sum(size >= 200 for size in sizes) >= 3


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_the_plain_and_the_default_setting_are_valid_and_differ(template: Template) -> None:
    assert template.space.faults(template.naive) == []
    assert template.space.faults(template.default) == []
    assert difference(template.naive, template.default)


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_every_gene_is_read_by_the_code(template: Template) -> None:
    source = template.render(template.default, find_task(default_suites(), next(iter(template.tasks))))
    code = "\n".join(line for line in source.splitlines() if not line.startswith(("//", "#define")))
    assert [gene.name for gene in template.space.genes if not re.search(rf"\b{gene.name}\b", code)] == []


@pytest.mark.parametrize(("template", "task"), SERVED, ids=[name for _, name in SERVED])
def test_a_rendered_source_stands_alone_and_keeps_the_rules(template: Template, task: str) -> None:
    for genome in (template.naive, template.default, template.space.genomes[-1]):
        spec = find_task(default_suites(), task)
        source = template.render(genome, spec)
        assert "@" not in source
        assert check_source(Source(source, "cpp"), spec, default_rules()).problem is None


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_the_default_setting_is_right(template: Template) -> None:
    task = find_task(default_suites(), next(iter(template.tasks)))
    assert wrong(task, template.render(template.default, task)) == []


def test_a_wrong_kernel_is_noticed() -> None:
    task = find_task(default_suites(), "llama_rmsnorm/forward")
    template = template_for(task)
    source = template.render(template.default, task).replace("+ eps", "+ 0.01")
    assert wrong(task, source)


def test_a_library_call_is_named() -> None:
    template = template_for(find_task(default_suites(), "unet_conv2d/forward"))
    calls = {str(genome["PATH"]): template.library(genome) for genome in template.space.genomes}
    assert calls == {"naive": None, "lanes": None, "library": "the convolutions"}


def test_idle_genes_rest() -> None:
    shape = Gene("SHAPE", ("flat", "deep"), structural=True)
    depth = Gene("DEPTH", (1, 2, 3), only=("SHAPE", ("deep",)))
    space = Space((shape, depth))
    assert [dict(genome) for genome in space.genomes] == [
        {"SHAPE": "flat", "DEPTH": 1},
        {"SHAPE": "deep", "DEPTH": 1},
        {"SHAPE": "deep", "DEPTH": 2},
        {"SHAPE": "deep", "DEPTH": 3},
    ]
    assert space.settled({"SHAPE": "flat", "DEPTH": 3}) == {"SHAPE": "flat", "DEPTH": 1}
    assert space.faults({"SHAPE": "flat", "DEPTH": 3}) == ["DEPTH is idle here and rests at 1"]


@pytest.mark.sandbox
def test_the_judge_accepts_a_rendered_kernel(paths: Paths) -> None:
    task = find_task(default_suites(), "mnist_pool/forward")
    template = template_for(task)
    source = Source(template.render(template.default, task), "cpp")
    assert judge(source, task, default_rules(), paths, quick=True).verdict in (Verdict.PASS, Verdict.NOISY)
