"""Replayed times beside a profiler's: the report of the tool is divided among kernels, and a failure is told."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.profiles.ncu_tables import Launch
from lab.gpu import beside_profiler
from lab.gpu.beside_profiler import accepted, between_marks, line, measured, plan_of, told

MARK = Launch("spin_kernel(long)", {})
REPORT = """"ID","Kernel Name","gpu__time_duration.sum"
"","","ns"
"0","scale(float *)","1,500"
"1","spin_kernel(long)","900"
"2","scale(float *)","1,700"
"3","sum<int>(float *)","300"
"4","spin_kernel(long)","900"
"""
PLANS = [{"name": "one"}, {"name": "two"}]


def launch(us: float, name: str = "f(int)") -> Launch:
    return Launch(name, {beside_profiler.DURATION: us})


def test_the_mark_behind_a_call_divides_the_report() -> None:
    assert between_marks([launch(1), launch(2), MARK, MARK, launch(3), MARK]) == [
        [launch(1), launch(2)],
        [],
        [launch(3)],
    ]


def test_calls_belong_to_kernels_in_the_order_of_the_answers() -> None:
    answers = [{"name": "one", "problem": "no"}, {"name": "two", "called": 2}]
    found = told(PLANS, answers, [[launch(1), launch(2)], [launch(4)]], "", 2)
    assert found == {"one": {"problem": "no"}, "two": {"us": [3, 4], "kernels": ["f", "f"]}}


def test_a_report_with_other_calls_tells_nothing() -> None:
    answers = [{"name": "one", "called": 2}]
    found = told(PLANS, answers, [[launch(1)]], "exit code 1", 2)
    assert found["one"]["problem"].startswith("1 calls in the tool's report instead of 2 of each of 1 kernels")
    assert found["two"] == {"problem": "exit code 1"}


def test_the_tool_and_the_process_behind_it_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool and its child are replaced by a program that writes what both would."""
    answers = [{"name": "one", "called": 1}, {"name": "two", "called": 1}]
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    program = tmp_path / "tool.py"
    program.write_text(
        "import pathlib, sys\n"
        f"pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1]).write_text({REPORT!r})\n"
        f"pathlib.Path(sys.argv[-1]).write_text({text!r})\n"
    )
    real = beside_profiler.profiler
    monkeypatch.setattr(beside_profiler, "profiler", lambda file: [sys.executable, str(program), *real(file)[1:]])
    monkeypatch.setattr(beside_profiler, "REPEATS_PROFILED", 1)
    found = measured(PLANS, time.monotonic() + 60, "cuda:0", profiled=True)
    assert found["one"] == {"us": [1.5], "kernels": ["scale"]}
    assert found["two"]["us"] == pytest.approx([2.0])
    assert found["two"]["kernels"] == ["scale", "sum<int>"]


def test_a_process_that_does_not_end_or_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, timeout: float, **__: Any) -> None:
        raise subprocess.TimeoutExpired("it", timeout)

    monkeypatch.setattr(subprocess, "run", never)
    assert measured(PLANS[:1], 0.0, "cuda:0", profiled=False) == {"one": {"problem": "it took too long"}}


def test_headlines_are_taken_from_accepted_cuda_kernels_and_can_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Path("docs/results/h200/kernels-rk2.jsonl").read_text().splitlines()
    kernels = list(accepted(map(json.loads, raw)))
    assert len(kernels) == 19
    assert all(kernel.replayed_us > 1 for kernel in kernels)
    build = type("Build", (), {"binary": Path("kbench.so"), "log": ""})()
    monkeypatch.setattr(beside_profiler, "compile_source", lambda *_, **__: build)
    plans = [plan_of(kernel, None, "cuda:0") for kernel in kernels]  # type: ignore[arg-type]
    assert {len(plan["configs"]) for plan in plans} == {1}
    assert json.loads(json.dumps(plans))[0]["direction"] in ("forward", "backward")


def test_a_row_says_absent_where_nothing_was_measured() -> None:
    row = {"name": "a b", "key": "n=1", "replayed_us": 2.0, "events": {"us": [4.0, 4.0]}, "profiled": {"problem": "no"}}
    assert line(row) == "| a b | n=1 | – | 2.00 | – | 4.00 | –, 0.500 | no"
