"""The GPU cases of tests/corpus say what they must: without a GPU this is all that can be checked of them.

Not covered: what becomes of them (`test_corpus.py`, `lab/gpu/corpus.py`).
"""

import ast
from collections import Counter

import pytest

from benchmarks.harness import LANGUAGES, Verdict, check_source, default_rules, default_suites, find_task
from scripts.corpus import CLASSES, KINDS, Case, read_cases

CASES = read_cases("cuda")
BY_NAME = {case.name: case for case in CASES}
COMMENTS = {"cuda": "// ", "triton": "# "}

NAMED_BY_DESIGN = {
    *("E01", "E07", "E08", "E09", "E10", "E11", "E12", "E13", "E14", "E17", "E18", "E20", "E21", "E24", "E28", "E29"),
    *("E30", "E32", "E33", "E35", "E36", "E39", "E46", "E49"),
}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(case.kind for case in CASES)
    assert kinds["attack"] >= 100
    assert kinds["failure"] >= 30
    assert kinds["honest"] >= 30
    assert len({case.task for case in CASES}) >= 4
    assert {case.exploit for case in CASES} >= NAMED_BY_DESIGN


def test_says_what_it_is(case: Case) -> None:
    assert case.kind in KINDS
    assert (case.exploit in CLASSES) == (case.kind == "attack")
    assert case.about.endswith(".")
    assert (case.expect == ("PASS",)) == (case.kind == "honest") or case.exploit
    assert set(case.expect) <= set(Verdict)
    # what slows the baselines may be the machine as well
    assert not {"INTERNAL_ERROR", *(() if case.exploit == "E41" else ("NOISY",))} & set(case.expect)


def test_an_attack_that_may_pass_may_not_gain(case: Case) -> None:
    """Unless it searches for what it must not find, and is wrong if it does."""
    if case.kind == "attack" and "PASS" in case.expect:
        assert case.max_speedup < float("inf") or "lies if" in case.kernel.read_text()


def test_an_attack_stands_beside_an_honest_control_of_its_task(case: Case) -> None:
    if case.kind != "attack":
        assert not case.control
        return
    control = BY_NAME[f"{case.folder.parent.name}/{case.control}"]
    assert (control.kind, control.task, control.language) == ("honest", case.task, case.language)


def test_what_must_be_replayed_is_honest(case: Case) -> None:
    assert case.timing in {"", "replayed"}
    assert not case.timing or case.kind == "honest"


def test_its_file_fits_its_language_and_opens_with_two_lines_on_why(case: Case) -> None:
    assert case.kernel.suffix == LANGUAGES[case.language].suffix
    lines = case.kernel.read_text().splitlines()
    assert all(line.startswith(COMMENTS[case.language]) and len(line) <= 120 for line in lines[:2])
    assert not lines[2].startswith(COMMENTS[case.language])


def test_nothing_is_left_to_include(case: Case) -> None:
    assert "parts/" not in case.source().text
    assert "from parts" not in case.source().text


def test_it_gets_past_the_static_check(case: Case) -> None:
    """What is refused for its text alone proves nothing of the judge."""
    task = find_task(default_suites(), case.task)
    assert task.configs_for("cuda")
    assert check_source(case.source(), task, default_rules()).problem is None
    if case.language == "triton":
        ast.parse(case.source().text)
