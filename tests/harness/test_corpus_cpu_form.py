"""The CPU cases of tests/corpus say what they must, each beside an honest control, and reach enough classes.

Not covered: what becomes of them (`test_corpus.py` for most, `scripts/redteam.py` for all).
"""

from collections import Counter

import pytest

from benchmarks.harness import Verdict, default_suites, find_task
from scripts.corpus import CLASSES, KINDS, Case, read_cases

CASES = read_cases("cpu")
BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(case.kind for case in CASES)
    assert kinds["attack"] >= 100
    assert kinds["honest"] >= 8
    assert len({case.exploit for case in CASES}) >= 25
    assert len({case.task for case in CASES}) >= 3


def test_says_what_it_is(case: Case) -> None:
    assert case.kind in KINDS
    assert (case.exploit in CLASSES) == (case.kind == "attack")
    assert case.about.endswith(".")
    assert set(case.expect) <= set(Verdict)
    assert not {"INTERNAL_ERROR", "NOISY"} & set(case.expect)
    assert find_task(default_suites(), case.task).configs_for("cpu")


def test_an_attack_stands_beside_an_honest_control_of_its_task(case: Case) -> None:
    if case.kind != "attack":
        assert not case.control
        return
    control = BY_NAME[f"{case.folder.parent.name}/{case.control}"]
    assert control.kind == "honest"
    assert control.task == case.task
    assert control.expect == ("PASS",)


def test_nothing_is_left_to_include(case: Case) -> None:
    assert "parts/" not in case.source().text
