"""Own kernels, right and wrong, in the emulator: compiled together, each run in a process of its own.

The labels are those of their author: no GPU has confirmed them.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.emulator.build import emulated_build, prepare
from benchmarks.emulator.checking import Transcript
from benchmarks.emulator.running import CheckPlan, ReferenceProcess, memories, reference_process, run_submission
from benchmarks.emulator.verdicts import EmulatorReport, EmulatorVerdict
from benchmarks.harness import Paths, Rules, Source, TaskSpec, default_rules, default_suites, find_task, resized

from .batch import all_kernels, names

pytestmark = pytest.mark.sandbox
SIZES = ((12, 32, 64), (5, 37, 61))  # rows, outputs, depth
KINDS = {
    "barrier_in_a_branch": "divergent barrier",
    "copies_not_awaited": "wrong result",
    "dynamic_shared_too_small": "out of bounds",
    "first_block_finishes": "race",
    "half_sum": "wrong result",
    "linear_relu_bfloat162_terms": "wrong result",
    "linear_relu_bulk_not_awaited": "race",
    "linear_relu_cas_once": "wrong result",
    "linear_relu_chain_not_awaited": "wrong result",
    "linear_relu_count_in_a_branch": "divergent barrier",
    "linear_relu_cp_async_tail": "wrong result",
    "linear_relu_event_recorded_early": "race",
    "linear_relu_first_warp": "race",
    "linear_relu_freed_before_use": "use after free",
    "linear_relu_large_shared_unasked": "refused launch",
    "linear_relu_launch_bounds_exceeded": "refused launch",
    "linear_relu_lop3_table": "wrong result",
    "linear_relu_mbarrier_no_release": "divergent barrier",
    "linear_relu_stale_read": "stale read",
    "linear_relu_streams_not_joined": "race",
    "linear_relu_tiles_of_sixteen": "wrong result",
    "linear_relu_transposed_origin": "race",
    "linear_relu_warp_synchronous": "race",
    "misaligned_vectors": "misaligned address",
    "missing_barrier_after": "race",
    "missing_barrier_before": "race",
    "missing_syncwarp": "race",
    "no_bounds_check": "out of bounds",
    "parts_without_atomics": "race",
    "raises": "raised",
    "shared_index_race": "race",
    "skipped_tail": "wrong result",
    "sums_start_anywhere": "wrong result",
    "swapped_stride": "wrong result",
    "tile_off_by_one": "out of bounds",
    "tree_without_barriers": "race",
    "uninitialised_shared": "wrong result",
    "use_after_free": "use after free",
    "wrong_mask": "wrong mask",
    "wrong_reduction": "wrong result",
}


@dataclass(frozen=True)
class Prepared:
    plan: CheckPlan
    reference: ReferenceProcess
    fds: tuple[int, int, int]
    files: tuple[Path, Path]
    rules: Rules
    paths: Paths

    def report(self, name: str) -> EmulatorReport:
        self.plan.function = name
        os.ftruncate(self.fds[2], 0)
        os.lseek(self.fds[2], 0, os.SEEK_SET)
        talk = run_submission(
            self.files, self.plan, self.fds, self.rules, self.paths, budget_s=60, cancelled=lambda: False
        )
        talk.problems = self.reference.problems(talk.done)
        return Transcript(self.plan, self.files[0], talk, self.rules, self.paths).report()


@pytest.fixture(scope="module")
def task() -> TaskSpec:
    return find_task(default_suites(), "mnist_linear_relu/forward")


@pytest.fixture(scope="module")
def prepared(task: TaskSpec, paths: Paths) -> Iterator[Prepared]:
    rules, config = default_rules(), task.configs_for("cuda")[0]
    keys = ("batch_size", "num_output_features", "num_input_features")
    configs = [resized(task, config, {**config.values, **dict(zip(keys, sizes, strict=True))}) for sizes in SIZES]
    plan = CheckPlan(task, configs, (0, 1, 2))
    with memories(plan) as fds, reference_process(plan, fds, paths) as reference:
        build = emulated_build(Source(all_kernels(), "cuda"), rules, paths)
        assert build.binary is not None, build.log
        reference.drawn()
        yield Prepared(plan, reference, fds, (build.binary, prepare(rules, paths) / "launcher"), rules, paths)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("right_")])
def test_a_right_kernel_is_correct_here(prepared: Prepared, name: str) -> None:
    report = prepared.report(name)
    assert report.verdict is EmulatorVerdict.CORRECT_HERE, (report.reason, report.findings)
    assert report.runs == 3 * len(SIZES)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("wrong_")])
def test_a_wrong_kernel_is_wrong_for_the_right_reason(prepared: Prepared, name: str) -> None:
    report = prepared.report(name)
    assert report.verdict is EmulatorVerdict.WRONG, report.reason
    kind = KINDS[name.removeprefix("wrong_")]
    assert kind in {finding.kind for finding in report.findings}, report.findings
    found = next(finding for finding in report.findings if finding.kind == kind)
    if kind not in ("wrong result", "raised", "refused launch"):
        assert found.line, found
        assert found.thread is not None
        assert found.kernel


def test_there_are_ten_of_each_kind() -> None:
    assert sum(name.startswith("right_") for name in names()) >= 10
    assert {name.removeprefix("wrong_") for name in names() if name.startswith("wrong_")} == set(KINDS)
