"""Which file solves which problem. Nothing is run."""

from pathlib import Path

import pytest

from benchmarks.harness import TaskError
from benchmarks.importers import problems_in
from benchmarks.importers import records as records_module
from benchmarks.offline import paired
from benchmarks.offline.solutions import names_said, text_of_solution

from .conftest import EVALUATED

ROBUST = EVALUATED.parent / "robust_kbench"


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    return folder


def pairs(folder: Path, suite: Path = EVALUATED / "suite") -> dict[str, str]:
    return {item.file: item.problem.name for item in paired(folder, problems_in(suite)).solutions}


def test_the_names_of_a_run_of_kernelbench(tmp_path: Path) -> None:
    put(tmp_path, "level_1_problem_4_sample_0_kernel.py", "run/level_1_problem_1_sample_12_kernel.py")
    assert pairs(tmp_path) == {
        "run/level_1_problem_1_sample_12_kernel.py": "level1_1_scale_and_clamp/forward",
        "level_1_problem_4_sample_0_kernel.py": "level1_4_softmax/forward",
    }


@pytest.mark.parametrize(
    "file",
    ["level1/4_Softmax.py", "level1_4_Softmax.cpp", "run 7/level1/4_Softmax.cu", "level1/4_softmax_sample_3.py"],
)
def test_the_names_of_the_problems_themselves(tmp_path: Path, file: str) -> None:
    assert pairs(put(tmp_path, file)) == {file: "level1_4_softmax/forward"}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("gated_linear.cpp", "gated_linear/forward"),
        ("gated_linear/forward.cpp", "gated_linear/forward"),
        ("gated_linear/backward.cpp", "gated_linear/backward"),
        ("gated_linear_backward.cpp", "gated_linear/backward"),
    ],
)
def test_the_directions_of_robust_kbench(tmp_path: Path, file: str, name: str) -> None:
    assert pairs(put(tmp_path, file), ROBUST) == {file: name}


def test_a_number_means_one_problem_and_not_those_that_begin_with_it() -> None:
    assert "level1_1" in list(names_said("level_1_problem_1_sample_0_kernel.py"))
    assert "level1_10" not in list(names_said("level_1_problem_1_sample_0_kernel.py"))


def test_files_that_say_no_problem_are_told_and_others_are_no_solutions(tmp_path: Path) -> None:
    put(tmp_path, "helper.py", "level_1_problem_99_sample_0_kernel.py", "notes.md", "level1/4_Softmax.json")
    found = paired(tmp_path, problems_in(EVALUATED / "suite"))
    assert found.solutions == ()
    assert found.unmatched == ("helper.py", "level_1_problem_99_sample_0_kernel.py")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = put(tmp_path, "secret/text.py") / "secret/text.py"
    (tmp_path / "level1_4_softmax.py").symlink_to(secret)
    with pytest.raises(TaskError, match="is a link"):
        text_of_solution(tmp_path, "level1_4_softmax.py")


def test_a_folder_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "_ENTRIES_MAX", 2)
    with pytest.raises(TaskError, match="more than 2 entries"):
        paired(put(tmp_path, "a.py", "b.py", "c.py"), ())
