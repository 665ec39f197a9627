"""Starter code agrees with every task."""

import pytest

from benchmarks.harness import Source, UsageError, check_source, default_rules, default_suites, load_suite, starter_code

TASKS = load_suite(default_suites() / "robust_kbench")


def test_there_are_nineteen_tasks() -> None:
    assert len(TASKS) == 19


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_starter_names_every_argument_in_order_and_passes_the_static_check(task) -> None:  # type: ignore[no-untyped-def]
    text = starter_code(task)
    signature = next(line for line in text.splitlines() if f" {task.direction}(" in line)
    places = [signature.index(f" {name}") for name in task.argument_names]
    assert places == sorted(places)
    assert check_source(Source(text, "cpp"), task, default_rules()).problem is None


def test_optional_arguments_are_optional() -> None:
    task = next(item for item in TASKS if item.name == "resnet_block/forward")
    assert "std::optional<torch::Tensor> downsample_weight" in starter_code(task)


def test_another_language_has_no_starter() -> None:
    with pytest.raises(UsageError, match="fortran"):
        starter_code(TASKS[0], "fortran")
