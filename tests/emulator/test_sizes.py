"""Which configurations are emulated."""

import pytest

from benchmarks.emulator.running import CheckPlan
from benchmarks.emulator.sizes import (
    MOST_CONFIGS,
    bearable,
    emulated_configs,
    halved,
    runs_once,
    runs_twice,
    sampled_config,
)
from benchmarks.harness import TaskSpec, default_suites, load_suite

TASKS = load_suite(default_suites() / "robust_kbench")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_has_configurations_that_an_emulator_can_bear(task: TaskSpec) -> None:
    configs = emulated_configs(task)
    assert 2 <= len(configs) <= MOST_CONFIGS
    assert all(map(bearable, configs[:-1]))
    assert not any(config.hidden for config in configs)
    plan = CheckPlan(task, configs, (0, 1, 2))
    turns = [[run.seed for run in plan.runs if run.config == place] for place in range(len(configs))]
    for config, orders in zip(configs, turns, strict=True):
        assert orders[-1] == 2
        assert len(orders) == (1 if runs_once(config) else 2 if runs_twice(config) else 3)


def test_the_largest_configuration_that_can_be_borne_is_run_once() -> None:
    task = next(task for task in TASKS if task.name == "mnist_linear/forward")
    assert emulated_configs(task)[-1].values["num_output_features"] == 4096
    assert runs_once(emulated_configs(task)[-1])


def test_a_configuration_of_full_size_has_neither_inputs_nor_results() -> None:
    task = next(task for task in TASKS if task.name == "mnist_linear/forward")
    sampled = sampled_config(task)
    assert sampled is not None
    assert (sampled.values["num_output_features"], sampled.values["num_input_features"]) == (4096, 4096)
    plan = CheckPlan(task, emulated_configs(task)[:1], (0,), sampled)
    assert plan.numbers == [0, 1]
    assert plan.key_of(1).startswith(sampled.key)
    assert plan.inputs_bytes < 1 << 20
    assert plan.words(3, 4, 5).splitlines()[-2].startswith("run 1 3 0 3 tensor x float32 -1 2 64 4096")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_one_configuration_has_odd_sizes(task: TaskSpec) -> None:
    def sizes(values: object) -> list[int]:
        return [value for value in values if isinstance(value, int) and value > 16]  # type: ignore[attr-defined]

    assert any(all(size % 2 for size in sizes(config.values.values())) for config in emulated_configs(task))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_one_configuration_has_a_batch_of_one(task: TaskSpec) -> None:
    sizes = [config.values.get("batch_size", 1) for config in emulated_configs(task)]
    assert min(sizes, key=str) == 1


def test_a_size_keeps_its_remainder() -> None:
    for size in (64, 4096, 1601, 1023, 97):
        assert halved(size) % 32 == size % 32
        assert size / 4 < halved(size) < size
    assert halved(30) == 15
    assert halved(1) == 1
