"""What is left of a command that somebody ends while an author's file runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.harness import ended_in_order
from tests.harness.test_crowd import running

from .conftest import EVALUATED

ROOT = Path(__file__).parents[2]
SLEEPS = """
import os, time
os.fork()
open("/tmp/there", "w")
print("it runs", flush=True)
time.sleep(300)
class Model: pass
def get_inputs(): pass
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["judge", "eval"])
def test_nothing_is_left_of_it(tmp_path: Path, command: str, number: signal.Signals) -> None:
    problem, data = tmp_path / "suite/level1/1_Sleeps.py", tmp_path / "data"
    problem.parent.mkdir(parents=True)
    problem.write_text(SLEEPS)
    (tmp_path / "solutions").mkdir()
    solution = tmp_path / "solutions/level_1_problem_1_sample_0_kernel.py"
    solution.write_text((EVALUATED / "solutions/level_1_problem_1_sample_0_kernel.py").read_text())
    arguments = [problem, solution] if command == "judge" else [tmp_path / "suite", tmp_path / "solutions"]
    started = start(command, arguments, data)
    try:
        log = awaited(started, data)
        assert len(running(str(log.parent))) > 0
        started.send_signal(number)
        assert started.wait(60) == 128 + number
        assert list((data / "scratch").iterdir()) == []
        assert running(str(log.parent)) == []
    finally:
        started.kill()
        started.wait()


def start(command: str, arguments: Sequence[Path], data: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kbench_site.cli", command, *map(str, arguments)],
        env={**os.environ, "KBENCH_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )


def awaited(started: subprocess.Popen[bytes], data: Path) -> Path:
    """The log of the sandbox, once the author's file runs there."""
    until = time.monotonic() + 300
    while time.monotonic() < until and started.poll() is None:
        for log in data.glob("scratch/import-*/examiner.log"):
            if "it runs" in log.read_text():
                return log
        time.sleep(0.05)
    raise AssertionError(f"the author's file did not run: {started.poll()}")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_does_not_stop_the_tidying_up() -> None:
    tidied = []

    def work() -> None:
        with ended_in_order():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                tidied.append("all")

    with pytest.raises(SystemExit):
        work()
    assert tidied == ["all"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
