"""Tensors and products below float32 in the emulator, on kernels that come with the tasks in bfloat16 and float8."""

import pytest

from benchmarks.emulator import EmulatorReport, EmulatorVerdict, check
from benchmarks.harness import Paths, Rules, Source, default_suites, find_task

pytestmark = pytest.mark.sandbox
SUITE = default_suites() / "low_precision"


def checked(op: str, rules: Rules, paths: Paths, old: str = "", new: str = "") -> EmulatorReport:
    text = (SUITE / op / "kernels/forward_cuda.cu").read_text()
    assert old in text
    task = find_task(default_suites(), f"low-precision/{op}/forward")
    return check(Source(text.replace(old, new) if old else text, "cuda"), task, rules, paths, budget_s=120)


@pytest.mark.parametrize("op", ["fp8_gemm", "fp8_softmax"])
def test_a_shipped_kernel_is_correct_here(op: str, rules: Rules, paths: Paths) -> None:
    """wgmma and mma.sync of e4m3, and rounding to it."""
    report = checked(op, rules, paths)
    assert report.verdict is EmulatorVerdict.CORRECT_HERE, report


@pytest.mark.parametrize(
    ("op", "old", "new"),
    [
        ("fp8_gemm", "m = group * P::kTall * 64", "m = group * 64"),
        ("fp8_gemm", "k + i % 2 * 16);", "k);"),
        ("fp8_softmax", '"f"(high), "f"(low)', '"f"(low), "f"(high)'),
    ],
    ids=["rows of another warpgroup", "half of the terms twice", "pairs the wrong way round"],
)
def test_a_wrong_one_is_rejected(op: str, old: str, new: str, rules: Rules, paths: Paths) -> None:
    report = checked(op, rules, paths, old, new)
    assert report.verdict is EmulatorVerdict.WRONG, report
    assert "wrong result" in {finding.kind for finding in report.findings}
