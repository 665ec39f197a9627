"""The order in which tests are handed to processes, and where those stand that are handed to none."""

import os
import re
from pathlib import Path

from tests.scheduling import in_order, several_times, used_now


def test_scopes_that_wait_come_evenly_between_those_that_compute_and_long_ones_first():
    waits = ["tests/site/test_a.py::test_1", "tests/browser/test_b.py::test_1", "tests/browser/test_b.py::test_2"]
    case = "tests/harness/test_corpus.py::test_verdict[{}]"
    computes = [
        "tests/web/test_c.py::test_1",
        case.format("one"),
        case.format("two"),
        "tests/evolve/test_crash.py::test",
    ]
    assert list(in_order([*waits, *computes])) == [
        "tests/browser/test_b.py",
        "tests/evolve/test_crash.py",
        "tests/harness/test_corpus.py[one]",
        "tests/site/test_a.py",
        "tests/harness/test_corpus.py[two]",
        "tests/web/test_c.py",
    ]


def test_files_on_one_site_and_the_tests_of_one_case_stay_together():
    case = "tests/harness/test_examples.py::{}[gelu/forward]"
    site = ["tests/browser/test_accessibility.py::test_1", "tests/browser/test_site_journey.py::test_2"]
    assert list(in_order([*site, case.format("test_1"), case.format("test_2")])) == [
        "tests/browser/test_accessibility.py",
        "tests/harness/test_examples.py[gelu/forward]",
    ]


def test_a_name_that_two_tests_have_is_found():
    assert several_times(["a.py::test[1]", "a.py::test", "a.py::test[2]", "a.py::test"]) == ["a.py::test"]


def test_a_folder_of_the_cache_that_nobody_has_used_for_long_is_removed(tmp_path):
    for name in ("mine", "others", "old"):
        (tmp_path / name / "static").mkdir(parents=True)
    for name in ("mine", "old"):
        os.utime(tmp_path / name, (0, 0))
    used_now(tmp_path / "mine")
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "others"}


def test_the_makefile_finds_the_files_of_tests_that_run_alone():
    """It looks for these marks in files of tests; one that is given elsewhere would never run."""
    marked = (
        path for path in Path(__file__).parent.rglob("*.py") if re.search(r"mark\.(alone|gpu)\b", path.read_text())
    )
    assert {path.name for path in marked if not path.name.startswith("test_")} == set()
