"""Modules on the GPU track with its stand-in: all but the device is real (see `tests/harness/test_gpu_track.py`)."""

from dataclasses import replace

import pytest

from benchmarks.harness import Source, Verdict, judge
from benchmarks.harness.tasks.spec_json import write_folder
from tests.fixtures.kernelbench_kernels import CHEATS, INLINE
from tests.harness.test_gpu_track import rules, stand_in  # noqa: F401 - fixtures

pytestmark = pytest.mark.sandbox


@pytest.fixture
def task(examined, tmp_path):
    task = replace(examined("level1/2_Affine_tanh.py").task, folder=tmp_path)
    write_folder(task, tmp_path)
    return task


@pytest.mark.parametrize(
    ("text", "verdict"), [(INLINE, Verdict.PASS), (CHEATS["keeps its first result"], Verdict.INCORRECT_VALUE)]
)
def test_a_module_is_judged(task, rules, paths, text: str, verdict: Verdict) -> None:  # noqa: F811
    report = judge(Source(text, "python"), task, rules, paths, device="host:0", quick=verdict is not Verdict.PASS)
    assert report.verdict is verdict, report.reason
