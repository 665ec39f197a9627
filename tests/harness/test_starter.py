"""Starter code agrees with every task."""

import ast
import re

import pytest

from benchmarks.harness import (
    LANGUAGES,
    Source,
    TaskSpec,
    UsageError,
    check_source,
    default_rules,
    default_suites,
    load_suite,
    starter_code,
)

TASKS = load_suite(default_suites() / "robust_kbench")


@pytest.mark.parametrize("language", [item.name for item in LANGUAGES.values() if not item.is_module])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_starter_names_every_argument_in_order_and_passes_the_static_check(task: TaskSpec, language: str) -> None:
    text = starter_code(task, language)
    signature = next(line for line in text.splitlines() if f" {task.direction}(" in line)
    found = [re.search(rf"\b{name}\b", signature.partition("(")[2]) for name in task.argument_names]
    places = [match.start() for match in found if match]
    assert len(places) == len(task.argument_names)
    assert places == sorted(places)
    assert check_source(Source(text, language), task, default_rules()).problem is None


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_starter_in_triton_is_python(task: TaskSpec) -> None:
    module = ast.parse(starter_code(task, "triton"))
    names = [item.name for item in module.body if isinstance(item, ast.FunctionDef)]
    assert names == [f"{task.direction}_kernel", task.direction]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("language", ["cute_dsl", "tilelang", "helion", "numba_cuda"])
def test_starter_of_a_package_is_python_that_passes_the_static_check(task: TaskSpec, language: str) -> None:
    text = starter_code(task, language)
    (function,) = (item for item in ast.parse(text).body if getattr(item, "name", "") == task.direction)
    assert [item.arg for item in function.args.args] == list(task.argument_names)  # type: ignore[attr-defined]
    found = check_source(Source(text, language), task, default_rules())
    assert (found.problem, found.flags) == (None, ())


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_starter_defines_a_kernel_and_deserves_no_remark(language: str) -> None:
    assert check_source(Source(starter_code(TASKS[0], language), language), TASKS[0], default_rules()).flags == ()


def test_optional_arguments_are_optional() -> None:
    task = next(item for item in TASKS if item.name == "resnet_block/forward")
    assert "std::optional<torch::Tensor> downsample_weight" in starter_code(task)


def test_another_language_has_no_starter() -> None:
    with pytest.raises(UsageError, match="fortran"):
        starter_code(TASKS[0], "fortran")
