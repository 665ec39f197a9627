"""`kbench check` as a newcomer runs it: a word, an exit code, one JSON document."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Paths

from .batch import KERNELS

pytestmark = pytest.mark.sandbox
TASK = "mnist_pool/forward"
RIGHT = Path(__file__).parents[2] / "benchmarks/suites/robust_kbench/mnist_pool/kernels/forward_cuda.cu"


def kbench(paths: Paths, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kbench_site.cli", "check", *arguments]
    environment = {**os.environ, "KBENCH_DATA_DIR": str(paths.data)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_a_shipped_kernel_is_correct_here(paths: Paths) -> None:
    done = kbench(paths, TASK, str(RIGHT), "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["verdict"]) == (0, "CORRECT_HERE"), report
    assert report["findings"] == []
    assert report["runs"] == 3 * len(report["configs"]) - 2  # the largest one runs once


def test_a_wrong_kernel_exits_1_and_names_line_and_thread(paths: Paths) -> None:
    done = kbench(paths, "mnist_linear_relu/forward", str(KERNELS / "wrong/misaligned_vectors.cu"))
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith("WRONG  misaligned address")
    assert "thread (" in done.stdout
    assert "never ranked" in done.stdout


def test_what_is_not_modelled_exits_4_with_its_line(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text(RIGHT.read_text().replace("#include <torch", "#include <cub/cub.cuh>\n#include <torch", 1))
    done = kbench(paths, TASK, str(file), "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["verdict"]) == (4, "ABSTAINED")
    assert file.read_text().splitlines()[report["line"] - 1] == "#include <cub/cub.cuh>"


def test_memory_that_is_not_there_says_nothing_against_a_kernel(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    first_line = "torch::Tensor forward(torch::Tensor x) {"
    text = RIGHT.read_text()
    assert first_line in text
    file.write_text(text.replace(first_line, f"{first_line} throw std::bad_alloc();"))
    done = kbench(paths, TASK, str(file), "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["verdict"], "memory" in report["reason"]) == ("ABSTAINED", True), report


def test_another_language_is_wrong_usage(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text("int main() {}")
    done = kbench(paths, TASK, str(file))
    assert done.returncode == 2
    assert "CUDA" in done.stderr
