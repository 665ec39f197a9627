"""Which configurations are emulated."""

import pytest

from benchmarks.emulator.sizes import MOST_CONFIGS, bearable, emulated_configs, halved
from benchmarks.harness import TaskSpec, default_suites, load_suite

TASKS = load_suite(default_suites() / "robust_kbench")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_has_configurations_that_an_emulator_can_bear(task: TaskSpec) -> None:
    configs = emulated_configs(task)
    assert 2 <= len(configs) <= MOST_CONFIGS
    assert all(map(bearable, configs))
    assert not any(config.hidden for config in configs)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_one_configuration_has_odd_sizes(task: TaskSpec) -> None:
    def sizes(values: object) -> list[int]:
        return [value for value in values if isinstance(value, int) and value > 16]  # type: ignore[attr-defined]

    assert any(all(size % 2 for size in sizes(config.values.values())) for config in emulated_configs(task))


def test_a_size_keeps_its_remainder() -> None:
    for size in (64, 4096, 1601, 1023, 97):
        assert halved(size) % 32 == size % 32
        assert size / 4 < halved(size) < size
    assert halved(30) == 15
    assert halved(1) == 1
