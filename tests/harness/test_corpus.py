"""Every kernel in tests/corpus gets the verdict that its case.toml says the rules demand.

A case is a folder with kernel.* and case.toml: `task`, `about`, `expect` (a verdict or a list of acceptable ones)
and, where wanted, `reason_contains`, `max_speedup`, `flags`, `judgings` (how often in a row) and `[rules.SECTION]` with
numbers that replace those of the rule set. Cases for a GPU say so (`device = "cuda"`) and are skipped where there is
none. Adding a case needs no Python. A case with a `max_speedup` is about time: it is judged alone, by all steps of a
quick check. Any other is judged by few calls of one configuration of each group, and by all calls of all of
them only if those do not give the verdict that is demanded; it shares referee and baseline with the other cases of its
task. Not covered: what stands in a ranked score, which needs a full judging; the form of the cases
(`test_corpus_form.py`).
"""

import math
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Report, Rules, TaskSpec, Verdict, default_suites, find_task, judge
from scripts.corpus import Case, read_cases
from tests.warm import Crews, few_calls, one_of_each_group

CASES = [*(case for case in read_cases("cpu") if case.in_tests), *read_cases("cuda")]
DEVICES = {"cpu": "cpu", "cuda": "cuda:0"}
pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("sandbox")]


def parameter(case: Case):  # type: ignore[no-untyped-def]
    marks = [pytest.mark.gpu] if case.device == "cuda" else [pytest.mark.alone] if is_about_time(case) else []
    return pytest.param(case, id=case.name, marks=[*marks, pytest.mark.forkable])


def is_about_time(case: Case) -> bool:
    return math.isfinite(case.max_speedup)


@pytest.fixture(scope="session")
def reports() -> dict[str, Report]:
    """The reports so far: each case is judged once, whatever the number of tests that look at it."""
    return {}


@pytest.fixture(params=[parameter(case) for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    problem = missing(request.param.device)
    if problem:
        pytest.skip(problem)
    return request.param


@pytest.fixture
def report(case: Case, reports: dict[str, Report], rules: Rules, paths: Paths, crews: Crews) -> Report:
    if case.name not in reports:
        whole = is_about_time(case) or case.device == "cuda"
        with nullcontext() if whole else crews.at_work():
            reports[case.name] = judged(case, rules, paths, whole=whole)
    return reports[case.name]


def judged(case: Case, rules: Rules, paths: Paths, *, whole: bool) -> Report:
    """By the fewest calls that can decide, unless `whole`."""
    task = task_named(case.task)
    few = [] if whole else [(one_of_each_group(task, case.device), few_calls(rules))]
    for spec, way in [*few, (task, rules)]:
        for _ in range(case.judgings):
            report = judge(case.source(), spec, case.changed(way), paths, device=DEVICES[case.device], quick=True)
        if case.objection(report) == "":
            break
    return report


@cache
def task_named(name: str) -> TaskSpec:
    return find_task(default_suites(), name)


def missing(device: str) -> str:
    """Why cases for this class of devices cannot be judged here; empty if they can."""
    if device == "cuda" and not Path("/dev/nvidiactl").exists():
        return "this machine has no NVIDIA GPU"
    return ""


def test_gets_the_verdict_that_the_rules_demand(case: Case, report: Report) -> None:
    assert report.verdict in case.expect, report.reason
    assert case.reason_contains in report.reason


def test_gets_a_score_with_a_pass_only_and_gains_nothing(case: Case, report: Report) -> None:
    assert (report.score is not None) == (report.verdict is Verdict.PASS)
    if report.score is not None:
        assert report.score.speedup <= case.max_speedup


def test_carries_the_flags_that_readers_should_see(case: Case, report: Report) -> None:
    assert set(case.flags) <= {flag.code for flag in report.flags}


def test_says_nothing_about_this_machine(report: Report) -> None:
    text = str(report.to_json())
    assert str(Path(__file__).parents[2]) not in text
    assert str(Path.home()) + "/" not in text
