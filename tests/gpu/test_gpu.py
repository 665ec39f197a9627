"""On a real GPU: an honest kernel passes, a cheat does not, and what one submission breaks the next one does not see.

The whole corpus takes longer than a test may: `python -m lab.gpu.corpus` judges it. Not covered: any time.
"""

from pathlib import Path

import pytest

from benchmarks.harness import Paths, default_rules
from lab.gpu.corpus import judge_case
from scripts.corpus import Case, read_cases

CASES = {case.name: case for case in read_cases("cuda")}
LINEAR = "mnist_linear_relu-forward-cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="this machine has no NVIDIA GPU"),
]


def objection(case: Case, paths: Paths) -> str:
    return judge_case(case, rules=default_rules(), paths=paths, device="cuda:0", quick=True).objection


@pytest.mark.parametrize("name", ["honest_loop", "honest_triton", "uninitialised_memory", "cache_by_pointer"])
def test_gets_the_verdict_that_the_rules_demand(name: str, paths: Paths) -> None:
    assert not objection(CASES[f"{LINEAR}/{name}"], paths)


@pytest.mark.parametrize("name", ["illegal_address", "infinite_kernel", "takes_all_memory"])
def test_a_failure_leaves_the_gpu_fit_for_the_next_kernel(name: str, paths: Paths) -> None:
    assert not objection(CASES[f"{LINEAR}/{name}"], paths)
    assert not objection(CASES[f"{LINEAR}/honest_loop"], paths)
