"""What a submission's process shares with the trusted one."""

import os

import pytest

from benchmarks.emulator.running import CheckPlan, memories
from benchmarks.emulator.sizes import emulated_configs
from benchmarks.harness import default_suites, find_task


@pytest.mark.parametrize("shared", [0, 1])
def test_nobody_can_change_the_size_of_what_a_trusted_process_maps(shared: int) -> None:
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    plan = CheckPlan(task, emulated_configs(task)[:1], (0,))
    with memories(plan) as fds:
        size_bytes = os.fstat(fds[shared]).st_size
        assert size_bytes == (plan.inputs_bytes, plan.results_bytes)[shared]
        for wanted_bytes in (0, size_bytes - 1, size_bytes + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(fds[shared], wanted_bytes)
