"""The naive harness believes what a script in one process can believe, and the judge's world stays out of it.

Not covered: its numbers, which mean nothing by design.
"""

import pytest

from benchmarks.harness import Paths, Rules, compile_source, default_suites, find_task
from benchmarks.naive import NaiveResult, opinion
from benchmarks.naive.measure import MARK, read_opinion
from scripts.corpus import CORPUS, read_case

FOLDER = CORPUS / "mnist_linear_relu-forward"


@pytest.mark.parametrize(
    ("log", "exit_code", "expected"),
    [
        (f'{MARK}{{"agrees": true, "speedup": 2.5}}\n', 0, NaiveResult("agrees", 2.5)),
        (f'{MARK}{{"agrees": false, "speedup": 2.5}}\n', 0, NaiveResult("differs")),
        (
            f'{MARK}{{"agrees": true, "speedup": 2}}\n{MARK}{{"agrees": true, "speedup": 900}}\n',
            0,
            NaiveResult("agrees", 900),
        ),
        (f'{MARK}{{"agrees": true, "speedup": NaN}}\n', 0, NaiveResult("nonsense")),
        (f'{MARK}{{"agrees": true, "speedup": "-Infinity"}}\n', 0, NaiveResult("nonsense")),
        (f"{MARK}[1]\n", 0, NaiveResult("nonsense")),
        (f"{MARK}{'[' * 20000}\n", 0, NaiveResult("nonsense")),
        (f"  {MARK}indented\n", 0, NaiveResult("failed")),
        ("", 139, NaiveResult("failed")),
        ("", None, NaiveResult("no answer")),
    ],
)
def test_reads_the_last_line_with_its_mark(log: str, exit_code: int | None, expected: NaiveResult) -> None:
    assert read_opinion(log, exit_code) == expected


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("name", "said", "at_least"),
    [("honest_library", "agrees", 0.2), ("cache_by_pointer", "agrees", 5.0), ("zeros", "differs", None)],
)
def test_believes_a_cache_and_sees_what_is_plainly_wrong(
    name: str, said: str, at_least: float | None, rules: Rules, paths: Paths
) -> None:
    case = read_case(FOLDER / name)
    task = find_task(default_suites(), case.task)
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    found = opinion(task, binary, rules, paths)
    assert found.said == said
    assert (found.speedup is None) == (at_least is None)
    assert found.speedup is None or at_least is None or found.speedup > at_least


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_file_that_never_returns_costs_its_time_alone(
    rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.naive.measure._TIMEOUT_S", 6.0)
    case = read_case(FOLDER / "infinite_loop")
    task = find_task(default_suites(), case.task)
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    assert opinion(task, binary, rules, paths) == NaiveResult("no answer")
