"""Every kernel in tests/corpus gets the verdict that its case.toml says the rules demand.

A case is a folder with kernel.cpp and case.toml: `task`, `about`, `expect` (a verdict or a list of acceptable ones)
and, where wanted, `reason_contains`, `max_speedup`, `flags`, `judgings` (how often in a row) and `[rules.SECTION]` with
numbers that replace those of the rule set. Adding a case needs no Python. Not covered: what stands in a ranked score,
which needs a full judging.
"""

import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import Paths, Report, RuleSet, Source, Verdict, check_source, default_suites, find_task, judge
from benchmarks.harness.builds import build
from benchmarks.harness.judge import host_lock
from benchmarks.harness.source import ignore_steps, never_cancelled

CORPUS = Path(__file__).parents[1] / "corpus"
FOLDERS = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("sandbox")]


@pytest.fixture(scope="session")
def reports(request: pytest.FixtureRequest, sandbox: None, rules: RuleSet, paths: Paths) -> dict[Path, Report]:
    """The reports so far: each case is judged once, whatever the number of tests that look at it.

    Everything that will be judged is compiled first, on all cores: one after the other it would take most of the time.
    """
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    folders = {item.params["folder"] for item in parameters if item is not None and "folder" in item.params}
    with host_lock(ignore_steps, "compile", never_cancelled), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda folder: prebuild(folder, rules, paths), sorted(folders)))
    return {}


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def case(folder: Path) -> dict[str, Any]:
    return read_case(folder)


@pytest.fixture
def report(folder: Path, case: dict[str, Any], reports: dict[Path, Report], rules: RuleSet, paths: Paths) -> Report:
    if folder not in reports:
        task = find_task(default_suites(), case["task"])
        for _ in range(case.get("judgings", 1)):
            reports[folder] = judge(read_source(folder), task, changed(rules, case), paths, quick=True)
    return reports[folder]


def read_case(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "case.toml").read_text())


def read_source(folder: Path) -> Source:
    return Source((folder / "kernel.cpp").read_bytes().decode(errors="replace"), "cpp")


def changed(rules: RuleSet, case: dict[str, Any]) -> RuleSet:
    sections = case.get("rules", {})
    return replace(rules, **{name: replace(getattr(rules, name), **values) for name, values in sections.items()})


def prebuild(folder: Path, rules: RuleSet, paths: Paths) -> None:
    case = read_case(folder)
    if check_source(read_source(folder), find_task(default_suites(), case["task"]), rules).problem is None:
        build(read_source(folder), changed(rules, case), paths)


def accepted(case: dict[str, Any]) -> list[str]:
    return [case["expect"]] if isinstance(case["expect"], str) else case["expect"]


def test_gets_the_verdict_that_the_rules_demand(case: dict[str, Any], report: Report) -> None:
    assert report.verdict in accepted(case), report.reason
    assert case.get("reason_contains", "") in report.reason


def test_gets_a_score_with_a_pass_only_and_gains_nothing(case: dict[str, Any], report: Report) -> None:
    assert (report.score is not None) == (report.verdict is Verdict.PASS)
    if report.score is not None:
        assert report.score.speedup <= case.get("max_speedup", float("inf"))


def test_carries_the_flags_that_readers_should_see(case: dict[str, Any], report: Report) -> None:
    assert set(case.get("flags", [])) <= {flag.code for flag in report.flags}


def test_says_nothing_about_this_machine(report: Report) -> None:
    text = str(report.to_json())
    assert str(Path(__file__).parents[2]) not in text
    assert str(Path.home()) + "/" not in text
