"""`kbench judge`: exit codes and the JSON line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Paths

pytestmark = pytest.mark.sandbox
SELFCHECK = Path(__file__).parents[2] / "benchmarks/harness/selfcheck/kernels"


def kbench(paths: Paths, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kbench_site.cli import main; main()", "judge", *arguments]
    environment = {**os.environ, "KBENCH_DATA_DIR": str(paths.data)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_an_accepted_kernel_exits_0_and_prints_one_json_document_last(paths: Paths) -> None:
    done = kbench(paths, "mnist_linear_relu/forward", str(SELFCHECK / "right.cpp"), "--quick", "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["verdict"]) == (0, "PASS")
    assert report["score"]["timing_trust"] == "supervisor"
    assert "verify" in done.stderr


def test_a_wrong_kernel_exits_1_and_says_why(paths: Paths) -> None:
    done = kbench(paths, "mnist_linear_relu/forward", str(SELFCHECK / "wrong.cpp"), "--quick")
    assert done.returncode == 1
    assert "INCORRECT_VALUE" in done.stdout


def test_an_unknown_task_exits_2(paths: Paths) -> None:
    done = kbench(paths, "no_such_task/forward", str(SELFCHECK / "right.cpp"))
    assert done.returncode == 2
    assert "no_such_task" in done.stderr
