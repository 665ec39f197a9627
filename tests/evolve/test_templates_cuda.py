"""CUDA templates: every task has one, genomes keep the limits of a device, and plain cores compute what they should.

Cores run on a CPU against an emulation of CUDA's runtime (`templates_cuda_emulation`), so results are checked here and
races, limits and times are not. Templates that leave work to a library cannot run that way.
"""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.evolve.templates import Genome, Template, find_template
from agents.evolve.templates.cuda import CALLS, TEMPLATES, plain_core
from agents.evolve.templates.cuda.calls import MARK
from agents.evolve.templates.cuda.genes import tile_shared_bytes, tile_threads
from benchmarks.harness import Config, Source, TaskSpec, check_source, default_rules, default_suites, load_suite
from lab.gpu.plain_cuda import compile_core
from tests.evolve.templates_cuda_emulation import build, worst_errors

TASKS = {task.name: task for task in load_suite(default_suites() / "robust_kbench")}
LIBRARY = {"llama_ffw/forward": "cuBLAS", "resnet_block/forward": "cuDNN"}


def template_for(task: TaskSpec) -> Template:
    found = find_template(task.name, "cuda")
    assert found is not None
    return found


def smallest(task: TaskSpec) -> list[Config]:
    """The two cheapest configurations: usually one of odd sizes is among them."""
    return sorted(task.configs_for("cpu"), key=lambda config: config.flops)[:2]


@st.composite
def genomes(draw: st.DrawFn, template: Template) -> Genome:
    return template.space.genomes[draw(st.integers(0, template.space.size - 1))]


def test_every_task_has_a_template() -> None:
    assert [name for name in TASKS if find_template(name, "cuda") is None] == []


def test_all_but_library_templates_can_be_called_alone() -> None:
    assert set(CALLS) == set(TASKS) - set(LIBRARY)


@pytest.mark.parametrize("name", TASKS)
def test_naive_and_default_are_valid_and_pass_the_static_checks(name: str) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    for genome in (template.naive, template.default):
        assert template.space.faults(genome) == []
        assert check_source(Source(template.render(genome, task), "cuda"), task, default_rules()).problem is None


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_spaces_are_worth_a_search_and_can_be_listed(template: Template) -> None:
    assert 200 <= template.space.size <= 60_000


@pytest.mark.parametrize("name", TASKS)
def test_work_that_is_left_to_a_library_is_said_and_no_other_is(name: str) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    flags = check_source(Source(template.render(template.default, task), "cuda"), task, default_rules()).flags
    said = template.library(template.default)
    assert LIBRARY.get(name, "") in (said or "")
    assert any(flag.code == "library-call" for flag in flags) == (said is not None) == (name in LIBRARY)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_rendered_source_names_its_genes_and_its_core_knows_no_torch(template: Template, data: st.DataObject) -> None:
    genome = data.draw(genomes(template))
    task = TASKS[next(iter(template.tasks))]
    text = template.render(genome, task)
    assert "@" not in text.split(MARK)[0].replace("@date", "")
    assert all(f"#define {gene} " in text for gene in genome)
    assert "torch" not in plain_core(template, genome, task).replace("PyTorch", "")
    assert text.count("PYBIND11_MODULE") == 1


@pytest.mark.parametrize("name", ["mnist_linear/forward", "mnist_linear_relu/backward"])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_tiles_fit_a_block(name: str, data: st.DataObject) -> None:
    genome = data.draw(genomes(template_for(TASKS[name])))
    assert 32 <= tile_threads(genome) <= 512
    assert tile_shared_bytes(genome) <= 48 * 1024


@pytest.mark.parametrize("name", CALLS)
def test_plain_cores_compute_what_the_reference_does(name: str, tmp_path: Path) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    library = build(template, template.default, task, tmp_path)
    for config in smallest(task):
        for error, allowed in worst_errors(library, task, config):
            assert error <= allowed, config.key


@pytest.mark.parametrize("name", ["mnist_linear/forward", "unet_conv2d/forward", "llama_rmsnorm/backward"])
def test_naive_cores_compute_what_the_reference_does(name: str, tmp_path: Path) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    library = build(template, template.naive, task, tmp_path)
    config = smallest(task)[0]
    assert all(error <= allowed for error, allowed in worst_errors(library, task, config))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("mnist_pool/forward", "b > a || b != b", "b < a"),
        ("llama_rmsnorm/forward", "__syncthreads();", ""),
        ("mnist_linear/forward", "sum += p.bias[column];", ""),
    ],
)
def test_a_broken_core_is_noticed(
    name: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    text = template.render(template.default, task)
    assert right in text
    monkeypatch.setattr(Template, "render", lambda *_: text.replace(right, wrong))
    library = build(template, template.default, task, tmp_path)
    errors = [error for config in smallest(task) for error, _ in worst_errors(library, task, config)]
    assert max(errors) > 1e-3


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", ["mnist_pool/backward", "mnist_cross_entropy/forward"])
def test_plain_cores_compile_for_a_gpu(name: str, tmp_path: Path) -> None:
    task, template = TASKS[name], template_for(TASKS[name])
    built = compile_core(plain_core(template, template.default, task), tmp_path)
    assert built.library is not None, built.log


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_what_does_not_compile_says_why(tmp_path: Path) -> None:
    built = compile_core("int launch() { return nothing; }", tmp_path)
    assert built.library is None
    assert "nothing" in built.log
