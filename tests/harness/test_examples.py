"""Every example kernel that comes with a task is right on all its configurations, hidden ones included.

Not covered: how fast they are, which a quick judging on a busy machine cannot say.
"""

import re
from pathlib import Path

import pytest

from benchmarks.harness import (
    Paths,
    Rules,
    Source,
    Verdict,
    check_source,
    default_suites,
    find_task,
    judge,
    load_suite,
    starter_code,
)
from tests.warm import few_calls

SUITES = sorted(default_suites().iterdir())
EXAMPLES = sorted(default_suites().glob("*/*/kernels/*_cpu.cpp"))
CUDA_EXAMPLES = sorted(default_suites().glob("*/*/kernels/*_cuda.cu"))


def task_name(path: Path) -> str:
    suite = path.parents[2].name.replace("_", "-")
    return f"{suite}/{path.parents[1].name}/{path.stem.removesuffix('_cpu')}"


@pytest.mark.sandbox
@pytest.mark.parametrize("path", EXAMPLES, ids=task_name)
def test_example_is_right_on_every_configuration(path: Path, rules: Rules, paths: Paths) -> None:
    task = find_task(default_suites(), task_name(path))
    report = judge(Source(path.read_text(), "cpp"), task, few_calls(rules), paths, quick=True)
    assert report.verdict is Verdict.PASS, report.reason
    assert all(config.correct for config in report.configs)


def test_at_least_five_operations_have_an_example_in_both_directions() -> None:
    names = {task_name(path) for path in EXAMPLES}
    assert sum({f"{op}/forward", f"{op}/backward"} <= names for op in {name.rpartition("/")[0] for name in names}) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=task_name)
def test_example_opens_with_what_it_computes_and_what_bounds_it(path: Path) -> None:
    opening = path.read_text().split("#include")[0]
    assert opening.startswith("// ")
    assert "Bound by" in opening


@pytest.mark.parametrize("path", EXAMPLES, ids=task_name)
def test_wide_vectors_are_kept_from_processors_that_have_none(path: Path) -> None:
    """g++ keeps vectors of sixteen floats in memory where there is no AVX-512: tiles took 30 times as long as eager."""
    text = path.read_text()
    for wide in re.finditer(r"^constexpr int kLanes = 16|^ .*Vector<16>", text, re.MULTILINE):
        assert text[: wide.start()].endswith("#ifdef __AVX512F__\n")


@pytest.mark.parametrize("path", CUDA_EXAMPLES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_instructions_of_one_architecture_are_kept_from_others(path: Path) -> None:
    text = path.read_text()
    if "wgmma" not in text.split("#include", 1)[1]:
        return
    assert "#ifdef __CUDA_ARCH_FEAT_SM90_ALL" in text, "other targets would not compile"
    assert "cudaDevAttrComputeCapabilityMajor" in text, "other devices would get empty kernels"


@pytest.mark.parametrize("task", [task for suite in SUITES for task in load_suite(suite)], ids=lambda task: task.name)
def test_starter_code_passes_the_static_check(task, rules: Rules) -> None:
    assert check_source(Source(starter_code(task), "cpp"), task, rules).problem is None
