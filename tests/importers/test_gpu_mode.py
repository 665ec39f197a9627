"""GPU MODE folders: what is read, what is refused by name and line, nested inputs, and a problem judged for real."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from benchmarks.harness import Source, Verdict, examine, judge, starter_code
from benchmarks.harness.child import cases
from benchmarks.harness.tasks.spec_json import write_folder
from benchmarks.importers import READERS, problem_at, problems_in

from .conftest import FIXTURES

SUITE = FIXTURES / "gpu_mode"
PROBLEM = SUITE / "problems/course/halve_copy"
REFERENCE = (PROBLEM / "reference.py").read_text()


def test_a_folder_becomes_a_task() -> None:
    [found] = READERS["gpu-mode"](SUITE, "gpu-mode")
    assert (found.name, found.problem) == ("course_halve_copy/forward", "")
    assert (found.task.family, found.task.title) == ("course", "halve copy")
    assert "rtol=0.001, atol=0.001" in found.task.summary
    assert [(item.group, dict(item.values)) for item in found.task.configs] == [
        ("single", {"rows": 64, "width": 96}),
        ("multi", {"rows": 128, "width": 96}),
        ("hidden", {"rows": 24, "width": 40}),
    ]


def test_its_files_are_there_for_readers_line_by_line() -> None:
    [found] = problems_in(SUITE)
    assert "        'from task import input_t, output_t\\n'\n" in found.task.source
    files = ast.literal_eval(ast.parse(found.task.source).body[0].value)
    assert set(files) == {"task.py", "utils.py", "reference.py", "submission.py"}
    assert files["reference.py"] == REFERENCE


def test_one_problem_may_use_files_beside_it_and_none_further_up(tmp_path: Path) -> None:
    assert "lies outside" in problem_at(PROBLEM).problem  # ../../utils.py
    assert problem_at(copied(tmp_path)).problem == ""


def copied(folder: Path, reference: str = REFERENCE, **changes: object) -> Path:
    """The problem with its files beside it."""
    data = {**yaml.safe_load((PROBLEM / "task.yml").read_text()), **changes}
    place = folder / "set" / "halve_copy"
    place.mkdir(parents=True)
    for item in data["files"] if isinstance(data["files"], list) else ():
        if item.get("source", "").startswith("../../") and item["name"] != "reference.py":
            item["source"] = item["source"].removeprefix("../")
    (place / "task.yml").write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}))
    for name in ("task.py", "submission.py"):
        (place / name).write_text((PROBLEM / name).read_text())
    (place / "reference.py").write_text(reference)
    (folder / "set/utils.py").write_text((SUITE / "problems/utils.py").read_text())
    return place


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"multi_gpu": True}, "for several GPUs"),
        ({"lang": "cu"}, "'cu', py is read"),
        ({"files": None}, "lacks files"),
        ({"files": [{"name": "a.py"}]}, "each has a name and a source"),
        ({"files": [{"name": "a.py", "source": "task.py"}]}, "there is no reference.py"),
        ({"files": [{"name": "reference.py", "source": "../../../secret.py"}]}, "lies outside of the folder"),
        ({"files": [{"name": "reference.py", "source": "missing.py"}]}, "missing.py cannot be read"),
        ({"benchmarks": None}, "lacks benchmarks"),
        ({"tests": [{"a b": 1}]}, "tests: number 1"),
        ({"tests": [{"rows": {"deep": 1}}]}, "tests: number 1"),
        ({"tests": [{"data": 1}]}, "tests: number 1"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path, changes: dict, words: str) -> None:
    found = problem_at(copied(tmp_path, **changes))
    assert found.task is None
    assert words in found.problem


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (REFERENCE.replace("def ref_kernel", "def other"), "reference.py lacks ref_kernel"),
        (REFERENCE + ")", "reference.py:23: "),
    ],
)
def test_a_reference_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, reference: str, words: str) -> None:
    assert words in problem_at(copied(tmp_path, reference)).problem


HEAD = "def check_implementation(data, output):\n    expected = ref_kernel(data)\n"


@pytest.mark.parametrize(
    ("check", "tolerance"),
    [
        (HEAD + "    return not utils.verbose_allclose(output, expected, rtol=1e-4)", "rtol=0.0001"),
        (
            HEAD + "    if output.shape != (3,):\n        return False\n    return torch.equal(expected, output)",
            "",
        ),
        (HEAD + "    return all(map(len, []))\n", None),
        (
            "def check_implementation(data, output):\n"
            "    return match_reference(data, output, reference=ref_kernel, atol=1e-1)",
            "atol=0.1",
        ),
        (
            HEAD + "    for got, wanted in zip(output, expected):\n        assert_close(got, wanted, rtol=0.5)\n"
            "    return True",
            "rtol=0.5",
        ),
        (HEAD + "    return torch.allclose(output.sort().values, expected)", None),
        (HEAD + "    return torch.allclose(output, expected) or output.sum() > 0", None),
        (HEAD + "    output = expected\n    return torch.allclose(output, expected)", None),
        (HEAD + "    return torch.allclose(output[0], expected[0])", None),
        (HEAD.replace("ref_kernel(data)", "data[0]") + "    return torch.allclose(output, expected)", None),
        ("def check_implementation(*given):\n    return True", None),
        ("check_implementation = other", None),
    ],
)
def test_a_check_that_only_compares_is_replaced_by_ours_and_any_other_is_asked(
    tmp_path: Path, check: str, tolerance: str | None
) -> None:
    found = problem_at(copied(tmp_path, REFERENCE[: REFERENCE.index("check_")] + check))
    if tolerance is None:
        assert "author's check_implementation decides" in found.task.summary
        assert found.task.labels == ("author-checker",)
        assert found.task.source.endswith('\nCHECKER = "author-property"\n')
    else:
        assert not found.task.labels
        assert f"The author's tolerance is {tolerance or 'that of its utils'};" in found.task.summary


TAGS = ("a: !!bool x", 'a: !!int ""', 'a: !!float ""', "a: !!timestamp x")


@pytest.mark.parametrize("text", ["a: [", "- 1", "[" * 5000, "a: &x [*x]", *TAGS])
def test_hostile_yaml_is_refused(tmp_path: Path, text: str) -> None:
    place = copied(tmp_path)
    (place / "task.yml").write_text(text)
    found = problem_at(place)
    assert found.task is None
    assert "task.yml" in found.problem


NESTED = (torch.ones(2, 3), {"w": [torch.zeros(4), None], "n": 3}, "mode", torch.zeros(5, dtype=torch.int32))


def test_a_nested_value_is_taken_apart_and_put_together() -> None:
    leaves = cases.leaves_of(NESTED)
    assert [name for name, _ in leaves] == ["data_0", "data_1_w_0", "data_1_w_1", "data_1_n", "data_2", "data_3"]
    structure = ast.literal_eval(repr(cases.structure_of(NESTED, [5])))
    arguments = cases.arguments_in(structure, [leaf for _, leaf in leaves])
    assert [type(item).__name__ for item in arguments] == ["Tensor", "Tensor", "int"]
    again = cases.rebuilt(structure, arguments)
    assert again[0] is NESTED[0]
    assert again[1] == {"w": [NESTED[1]["w"][0], None], "n": 3}
    assert (again[2], again[3].shape, again[3].dtype) == ("mode", (5,), torch.int32)


def test_other_objects_are_refused_by_name() -> None:
    with pytest.raises(cases.Opaque, match="data_1 is a range"):
        cases.leaves_of((1, range(3)))


def test_where_there_is_no_gpu_cuda_is_the_processor() -> None:
    names = cases.loaded({"reference.py": "import torch\nx = torch.ones(2, device='cuda:0').cuda()\nword = 'cudas'\n"})
    assert (names["x"].device.type, names["word"]) == ("cpu", "cudas")


KERNEL = """
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double factor) {
    return (x.to(torch::kFloat32) * weight.to(torch::kFloat32).unsqueeze(1) * factor).to(torch::kFloat16);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.mark.sandbox
def test_a_problem_is_judged_by_its_own_function_and_in_cpp(tmp_path: Path, rules, paths, crews) -> None:
    [found] = problems_in(SUITE)
    examined = examine(found.task, paths, compare_compiled=False)
    assert examined.task is not None, examined.problem
    task = replace(examined.task, folder=tmp_path)
    write_folder(task, tmp_path)
    assert task.argument_names == ("data_0", "data_1_weight", "data_1_factor")
    assert (task.entry, task.precision.name) == ("custom_kernel", "float16")
    assert task.configs_for("cpu")[0].key == "rows=64,width=96,variant=published"
    starter = starter_code(task, "python")
    wrong = starter.replace('extra["factor"]', "0.51")
    sources = [(starter, "python"), (wrong, "python"), (KERNEL, "cpp")]
    with crews.at_work():
        reports = [judge(Source(text, language), task, rules, paths, quick=True) for text, language in sources]
    verdicts = [report.verdict for report in reports]
    assert verdicts == [Verdict.PASS, Verdict.INCORRECT_VALUE, Verdict.PASS], [report.reason for report in reports]


IN_PLACE = REFERENCE.replace("out[...] =", "out +=")
WRITES = REFERENCE.replace("    assert", "    x.mul_(2)\n    assert")


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("reference", "words"), [(IN_PLACE, "changes its input in place"), (WRITES, "writes into its input data_0")]
)
def test_a_reference_that_changes_its_input_is_refused(tmp_path: Path, paths, reference: str, words: str) -> None:
    found = problem_at(copied(tmp_path, reference))
    assert words in examine(found.task, paths, compare_compiled=False).problem


def test_cases_are_told_as_json() -> None:
    """They go through the database and the messages of children."""
    [found] = problems_in(SUITE)
    assert json.loads(json.dumps([dict(item.values) for item in found.task.configs]))
