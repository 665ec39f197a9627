"""Tasks with other sizes, tasks kept as JSON, and the starting points of modules."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import Source, TaskError, UsageError, check_source, default_rules, default_suites, find_task
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.tally import hidden_words
from benchmarks.harness.report import Verdict
from benchmarks.harness.tasks.spec import TaskSpec, resized
from benchmarks.harness.tasks.spec_json import read_folder, spec_from_json, spec_to_json, write_folder
from benchmarks.harness.tasks.starter import starter_code
from benchmarks.submissions.languages import language_of_upload, module_start

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
CONFIG = TASK.configs_for("cpu")[0]
MODEL = '''import torch


class Model(torch.nn.Module):
    """A Model that doubles."""

    def __init__(self, size):
        super(Model, self).__init__()

    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.rand(4)]


def get_init_inputs():
    return [4]
'''


def module() -> TaskSpec:
    """The same task with a module as its reference."""
    configs = {
        device: tuple(replace(item, values={**item.values, "init": "[4]"}) for item in items)
        for device, items in TASK.configs.items()
    }
    return replace(TASK, configs=configs, reference_source=MODEL)


def test_a_configuration_gets_other_sizes_by_the_formulas_of_its_task() -> None:
    name, size = next((key, value) for key, value in CONFIG.values.items() if isinstance(value, int) and value > 8)
    found = resized(TASK, CONFIG, {name: size + 1})
    assert found.key == f"{name}={size + 1}"
    assert found.values[name] == size + 1
    assert found.bytes_moved > CONFIG.bytes_moved
    assert [item.name for item in found.arguments] == [item.name for item in CONFIG.arguments]


def test_a_task_without_formulas_has_fixed_sizes(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"the sizes of .* are fixed"):
        resized(replace(TASK, folder=tmp_path), CONFIG, {"batch_size": 3})
    (tmp_path / "task.toml").write_text("[other]\n")
    with pytest.raises(TaskError, match="are fixed"):
        resized(replace(TASK, folder=tmp_path), CONFIG, {"batch_size": 3})


def test_a_task_comes_back_from_its_folder_as_it_was(tmp_path: Path) -> None:
    write_folder(TASK, tmp_path / "kept")
    assert read_folder(tmp_path / "kept") == replace(TASK, folder=tmp_path / "kept")


@pytest.mark.parametrize(
    "place",
    [("title",), ("configs",), ("configs", "cpu", 0, "arguments"), ("configs", "cpu", 0, "results", 0, "shape")],
)
def test_a_stored_task_that_lacks_something_is_an_error_of_the_task(place: tuple[Any, ...]) -> None:
    data = copy.deepcopy(spec_to_json(TASK))
    *way, last = place
    at: Any = data
    for step in way:
        at = at[step]
    del at[last]
    with pytest.raises(TaskError, match="unknown form"):
        spec_from_json(data, "", Path())


@pytest.mark.parametrize("change", [{"configs": []}, {"configs": {"cpu": [7]}}, {"labels": 7}, {"configs": {"cpu": 7}}])
def test_a_stored_task_of_another_form_is_an_error_of_the_task(change: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="unknown form"):
        spec_from_json({**json.loads(json.dumps(spec_to_json(TASK))), **change}, "", Path())


def test_the_starting_point_of_a_module_is_the_authors_file_with_the_class_renamed() -> None:
    text = starter_code(module(), "python")
    assert "class ModelNew(torch.nn.Module):" in text
    assert "super(ModelNew, self)" in text
    assert '"""A Model that doubles."""' in text  # words of the author stay
    assert "get_inputs" not in text
    assert "get_init_inputs" not in text
    assert check_source(Source(text, "python"), module(), default_rules()).problem is None


def test_a_task_that_is_no_module_has_no_such_starting_point() -> None:
    with pytest.raises(UsageError, match="only tasks that are modules"):
        starter_code(TASK, "python")


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        (TASK, "class ModelNew: ...", "no module to replace; export 'forward'"),
        (module(), "class Model: ...", "no class 'ModelNew'"),
        (module(), "def f():\n    class ModelNew: ...", "no class 'ModelNew'"),
        (module(), "# class ModelNew:\nimport torch\n", "no class 'ModelNew'"),
        (module(), "#include <torch/extension.h>\nint main() { return 0; }", "looks like C++ or CUDA"),
    ],
)
def test_a_source_in_python_defines_the_class_at_its_top_level(task: TaskSpec, text: str, words: str) -> None:
    assert words in (check_source(Source(text, "python"), task, default_rules()).problem or "")


def test_a_module_in_the_wrong_language_is_told_the_right_one() -> None:
    text = "import triton\n\n\nclass ModelNew(torch.nn.Module): ...\n"
    told = check_source(Source(text, "triton"), module(), default_rules()).problem or ""
    assert told == "this defines ModelNew; the language of such a file is PyTorch module"
    assert "no function 'forward'" in (check_source(Source(text, "triton"), TASK, default_rules()).problem or "")


@pytest.mark.parametrize(
    ("name", "chosen", "language"),
    [
        ("kernel.py", "cpp", "python"),
        ("kernel.PY", "triton", "python"),
        ("kernel.txt", "cpp", "cpp"),
        ("kernel.cu", "cpp", "cuda"),
    ],
)
def test_an_uploaded_module_is_one_whatever_was_chosen(name: str, chosen: str, language: str) -> None:
    text = "import triton\n\n\nclass ModelNew(torch.nn.Module): ...\n"
    assert language_of_upload(name, text, chosen, module()) == language
    assert language_of_upload("kernel.py", text, "cpp", TASK) == "triton"
    assert (module_start(module()), module_start(TASK)) == ("class ModelNew", "")
    assert language_of_upload("kernel.py", "def forward(x): ...\n", "tilelang", module()) == "tilelang"


# --- what a hidden configuration says of itself ---

REASON = "3 of 960 elements are off, the worst one at [5, 959]"


@pytest.mark.parametrize("verdict", [item for item in Verdict if item is not Verdict.PASS])
def test_a_fault_on_a_hidden_configuration_does_not_tell_its_sizes(verdict: Verdict) -> None:
    """A wrong value, a wrong shape or what a kernel prints when it fails would give sizes away."""
    hidden = next(item for item in TASK.configs_for("cpu") if item.hidden)
    told = hidden_words(hidden, Fault(verdict, REASON))
    own_words = {Verdict.COMPILE_ERROR, Verdict.REJECTED, Verdict.TAMPERING, Verdict.NOISY, Verdict.INTERNAL_ERROR}
    assert ("959" in told) is (verdict in own_words)  # the judge's, without sizes
    assert told


def test_a_fault_on_a_shown_configuration_is_told_in_full() -> None:
    assert hidden_words(CONFIG, Fault(Verdict.INCORRECT_VALUE, REASON)) == REASON
