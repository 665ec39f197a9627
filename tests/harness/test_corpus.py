"""Every kernel in tests/corpus gets the verdict that its case.toml says the rules demand.

A case is a folder with kernel.* and case.toml: `task`, `about`, `expect` (a verdict or a list of acceptable ones)
and, where wanted, `reason_contains`, `max_speedup`, `flags`, `judgings` (how often in a row) and `[rules.SECTION]` with
numbers that replace those of the rule set. Cases for a GPU say so (`device = "cuda"`) and are skipped where there is
none. Adding a case needs no Python. Not covered: what stands in a ranked score, which needs a full judging; the form of
the cases (`test_corpus_form.py`).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Report, RuleSet, Verdict, check_source, default_suites, find_task, judge
from benchmarks.harness.builds import build
from benchmarks.harness.source import ignore_steps, never_cancelled
from benchmarks.harness.tracks import host_lock
from scripts.corpus import Case, read_cases

CASES = [
    *(pytest.param(case, id=case.name) for case in read_cases("cpu")),
    *(pytest.param(case, id=case.name, marks=pytest.mark.gpu) for case in read_cases("cuda")),
]
DEVICES = {"cpu": "cpu", "cuda": "cuda:0"}
pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("sandbox")]


@pytest.fixture(scope="session")
def reports(request: pytest.FixtureRequest, sandbox: None, rules: RuleSet, paths: Paths) -> dict[str, Report]:
    """The reports so far: each case is judged once, whatever the number of tests that look at it.

    Everything that will be judged is compiled first, on all cores: one after the other it would take most of the time.
    """
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    cases = {item.params["case"].name: item.params["case"] for item in parameters if item and "case" in item.params}
    here = [case for case in cases.values() if not missing(case.device)]
    with host_lock(ignore_steps, "compile", never_cancelled), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: prebuild(case, rules, paths), here))
    return {}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    problem = missing(request.param.device)
    if problem:
        pytest.skip(problem)
    return request.param


@pytest.fixture
def report(case: Case, reports: dict[str, Report], rules: RuleSet, paths: Paths) -> Report:
    if case.name not in reports:
        task = find_task(default_suites(), case.task)
        for _ in range(case.judgings):
            reports[case.name] = judge(
                case.source(), task, case.changed(rules), paths, device=DEVICES[case.device], quick=True
            )
    return reports[case.name]


def missing(device: str) -> str:
    """Why cases for this class of devices cannot be judged here; empty if they can."""
    if device == "cuda" and not Path("/dev/nvidiactl").exists():
        return "this machine has no NVIDIA GPU"
    return ""


def prebuild(case: Case, rules: RuleSet, paths: Paths) -> None:
    source, task = case.source(), find_task(default_suites(), case.task)
    if check_source(source, task, rules).problem is None:
        build(source, case.changed(rules), paths)


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
