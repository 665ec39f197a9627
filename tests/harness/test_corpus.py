"""Every kernel in tests/corpus gets the verdict that its case.toml says the rules demand.

A case is a folder with kernel.cpp and case.toml: `task`, `about`, `expect` (a verdict or a list of acceptable ones)
and, where wanted, `reason_contains`, `max_speedup`, `flags`, `judgings` (how often in a row) and `[rules.SECTION]` with
numbers that replace those of the rule set. Adding a case needs no Python. Not covered: what stands in a ranked score,
which needs a full judging.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import Paths, Report, RuleSet, Source, Verdict, default_suites, find_task, judge

CORPUS = Path(__file__).parents[1] / "corpus"
FOLDERS = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("sandbox")]


@pytest.fixture(scope="session")
def reports() -> dict[Path, Report]:
    """The reports so far: each case is judged once, whatever the number of tests that look at it."""
    return {}


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def case(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "case.toml").read_text())


@pytest.fixture
def report(folder: Path, case: dict[str, Any], reports: dict[Path, Report], rules: RuleSet, paths: Paths) -> Report:
    if folder not in reports:
        source = Source((folder / "kernel.cpp").read_bytes().decode(errors="replace"), "cpp")
        task = find_task(default_suites(), case["task"])
        for _ in range(case.get("judgings", 1)):
            reports[folder] = judge(source, task, changed(rules, case.get("rules", {})), paths, quick=True)
    return reports[folder]


def changed(rules: RuleSet, sections: dict[str, dict[str, float]]) -> RuleSet:
    return replace(rules, **{name: replace(getattr(rules, name), **values) for name, values in sections.items()})


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
