"""The settings of a stack under test, on a machine that has a GPU by the word of its judge."""

from tests.stack_settings import *  # noqa: F403

KBENCH_JUDGE = "tests.fakes.GpuJudge"
