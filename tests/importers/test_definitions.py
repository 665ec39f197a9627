"""FlashInfer Trace and SOL-ExecBench: what is read, what is refused by name and line, one of each judged for real."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import Source, TaskError, Verdict, arithmetic, examine, judge, starter_code
from benchmarks.harness.tasks.spec_json import write_folder
from benchmarks.importers import READERS, SUITES, problem_at, problems_in
from benchmarks.offline.problems import language_for, source_for

from .conftest import FIXTURES

TRACE, SOL = FIXTURES / "flashinfer", FIXTURES / "sol"
NORM = TRACE / "definitions/norm/row_norm_h96.json"


def read(name: str, folder: Path):
    [found] = READERS[name](folder, SUITES[name])
    return found


def test_a_definition_of_flashinfer_trace_becomes_a_task() -> None:
    found = read("flashinfer-trace", TRACE)
    assert (found.name, found.task.suite, found.task.family) == ("row_norm_h96/forward", "flashinfer-trace", "rmsnorm")
    assert [(item.group, dict(item.values)) for item in found.task.configs] == [
        ("single", {"rows": 64, "eps": 1e-6}),
        ("multi", {"rows": 160, "eps": 1e-6}),
        ("hidden", {"rows": 128, "eps": 1e-6}),
    ]
    assert found.task.summary.endswith(
        "1 workloads are left out; the first: row_norm_h96.jsonl:3: its inputs are generated differently from those "
        "of the first workload."
    )


def test_a_definition_of_sol_execbench_becomes_a_task() -> None:
    found = read("sol-execbench", SOL)
    assert (found.name, found.task.suite) == ("scaled_backward/backward", "sol-execbench")
    assert [dict(item.values) for item in found.task.configs] == [
        {"batch": 16, "rows": 64},
        {"batch": 48, "rows": 192},
        {"batch": 32, "rows": 128},
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (NORM, "row_norm_h96/forward"),
        (SOL / "scaled_backward", "scaled_backward/backward"),
        (SOL / "scaled_backward/definition.json", "scaled_backward/backward"),
    ],
)
def test_a_path_is_a_problem(path: Path, name: str) -> None:
    found = problem_at(path)
    assert (found.name, found.problem) == (name, "")


def test_each_is_read_by_one_reader() -> None:
    assert [item.name for item in problems_in(TRACE)] == ["row_norm_h96/forward"]
    assert [item.name for item in problems_in(SOL)] == ["scaled_backward/backward"]


def broken(tmp_path: Path, definition: dict | str | None = None, workloads: str | None = None) -> str:
    """Why a copy of the norm with these changes is refused."""
    data = json.loads(NORM.read_text())
    text = definition if isinstance(definition, str) else json.dumps({**data, **(definition or {})})
    lines = (TRACE / "workloads/norm/row_norm_h96.jsonl").read_text() if workloads is None else workloads
    (tmp_path / "definition.json").write_text(text)
    (tmp_path / "workload.jsonl").write_text(lines)
    found = read("sol-execbench", tmp_path)
    assert found.task is None
    return found.problem


AXES = {"rows": {"type": "var"}, "width": {"type": "const", "value": 96}}
FLOAT4 = {"x": {"shape": ["rows"], "dtype": "float4_e2m1"}}
LINE = '{"axes": {"rows": 8}, "inputs": {"x": {"type": "random"}, "gain": {"type": "random"}, "eps": %s}}'


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ('{"name": "a",\n "axes": }', "definition.json:2: it is not JSON"),
        ("version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        ("[" * 100_000, "it is not JSON that can be read"),
        ("[]", "it is not a JSON object"),
        ({"axes": {}}, "lacks axes"),
        ({"axes": {"rows": {"type": "var"}}}, "inputs: x: the axis width is not defined"),
        ({"axes": {**AXES, "idle": {"type": "var"}}}, "no input has the axis idle"),
        ({"axes": {**AXES, "width": {"type": "const", "value": "96"}}}, "the axis width is neither"),
        ({"axes": {**AXES, "a b": {"type": "var"}}}, "'a b' cannot be a name"),
        ({"inputs": FLOAT4}, "inputs: x: the dtype float4_e2m1 is not judged here: two of its values share one byte"),
        ({"outputs": {"x": {"shape": ["rows"], "dtype": "float32"}}}, "x is both an input and an output"),
        ({"outputs": {"y": {"shape": None, "dtype": "float32"}}}, "an output has to be a tensor"),
        ({"reference": "def runs(x):\n    pass"}, "definition.json: reference lacks run"),
        ({"reference": "import torch\ndef run(:\n"}, "definition.json: reference:2: "),
        ({"constraints": ["rows > 1000"]}, "workload.jsonl:1: it breaks the constraint rows > 1000"),
        ({"constraints": ["rows.__class__"]}, "Attribute is not allowed"),
        ({"custom_inputs_entrypoint": "make"}, "reference lacks make"),
        ('{\n "axes": {},\n "inputs": {\n  "a b": 1}}', "definition.json lacks axes"),
        (
            '{"axes": {"n": {"type": "var"}},\n "inputs": {\n  "x": {"shape": ["k"], "dtype": "int8"}}}',
            "definition.json:3: ",
        ),
    ],
)
def test_a_broken_definition_is_refused_by_name(tmp_path: Path, definition: dict | str, words: str) -> None:
    assert words in broken(tmp_path, definition)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "no workload"),
        ("{}", "workload.jsonl:1: it has no axes"),
        ("\n{", "workload.jsonl:2: it is not JSON"),
        (LINE.replace('"rows": 8', '"rows": -1') % 1, "workload.jsonl:1: input eps cannot be None"),
        (LINE.replace("8", "-1") % '{"type": "scalar", "value": 1}', "workload.jsonl:1: the axis rows has no size"),
        (LINE % '{"type": "scalar", "value": NaN}', "input eps has no number"),
        (LINE % '{"type": "random"}', "input eps cannot be 'random'"),
        (LINE.replace('"random"', '"custom"', 1) % '{"type": "scalar", "value": 1}', "no custom_inputs_entrypoint"),
        (
            LINE.replace('"random"', '"safetensors"') % '{"type": "scalar", "value": 1}',
            "all 1 workloads are left out; workload.jsonl:1: all of its inputs are fixed",
        ),
    ],
)
def test_a_broken_workload_is_refused_by_line(tmp_path: Path, line: str, words: str) -> None:
    assert words in broken(tmp_path, workloads=line)


def test_a_broken_workload_is_left_out_and_the_others_come_in(tmp_path: Path) -> None:
    good = LINE % '{"type": "scalar", "value": 1}'
    (tmp_path / "definition.json").write_text(NORM.read_text())
    (tmp_path / "workload.jsonl").write_text(f"{{\n{good}\n{good.replace('8', '-1')}\n")
    found = read("sol-execbench", tmp_path)
    assert dict(found.task.configs[0].values) == {"rows": 8, "eps": 1}
    assert "2 workloads are left out; the first: workload.jsonl:1: it is not JSON" in found.task.summary


def test_a_constraint_on_values_is_no_constraint_on_sizes(tmp_path: Path) -> None:
    data = {**json.loads(NORM.read_text()), "constraints": ["rows == x[-1].item()", "rows > 0"]}
    (tmp_path / "definition.json").write_text(json.dumps(data))
    (tmp_path / "workload.jsonl").write_text(LINE % '{"type": "scalar", "value": 1}')
    assert read("sol-execbench", tmp_path).problem == ""


def test_a_definition_without_workloads_says_so(tmp_path: Path) -> None:
    (tmp_path / "definition.json").write_text(NORM.read_text())
    assert read("sol-execbench", tmp_path).problem == "there is no workload.jsonl"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9**9**9", "one power"),
        ("9**99", "one power"),
        ("'a' * 9", "only numbers"),
        ("a / 0", "has no value"),
        ("(" * 150, "cannot read"),
        ("1 +" * 200, "at most 200 characters"),
    ],
)
def test_an_expression_is_arithmetic_of_limited_size(text: str, words: str) -> None:
    with pytest.raises(TaskError, match=words.replace("**", "..")):
        arithmetic(text, {"a": 1})
    assert arithmetic("+a ** 2 // 2", {"a": 7}) == 24


PARTS_H = "#pragma once\n#include <torch/extension.h>\ntorch::Tensor tripled(const torch::Tensor &x);\n"
PARTS_CPP = '#include "parts.h"\ntorch::Tensor tripled(const torch::Tensor &x) { return x * 3.0; }\n'
MAIN_CPP = """
#include "parts.h"

void run(torch::Tensor grad_output, torch::Tensor x, torch::Tensor grad_x, torch::Tensor grad_scale) {
    const auto product = grad_output * x;
    grad_x.copy_(tripled(product));
    grad_scale.copy_(product.sum(0));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
TVM_CPP = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

void run(tvm::ffi::TensorView grad_output, tvm::ffi::TensorView x, tvm::ffi::TensorView grad_x,
         tvm::ffi::TensorView grad_scale) {
    TVM_FFI_ICHECK(x.ndim() == 2 && x.IsContiguous());
    const auto *g = static_cast<const float *>(grad_output.data_ptr()), *v = static_cast<const float *>(x.data_ptr());
    auto *gx = static_cast<float *>(grad_x.data_ptr()), *gs = static_cast<float *>(grad_scale.data_ptr());
    const int64_t rows = x.size(0), size = x.size(1);
    for (int64_t i = 0; i < size; ++i) gs[i] = 0;
    for (int64_t i = 0; i < rows * size; ++i) {
        gx[i] = 3.0f * g[i] * v[i];
        gs[i % size] += g[i] * v[i];
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
TVM_SOLUTION = {
    "definition": "scaled_backward",
    "spec": {"language": "cpp", "entry_point": "main.cpp::run"},
    "sources": [{"path": "main.cpp", "content": TVM_CPP}],
}
SOLUTION = {
    "definition": "scaled_backward",
    "spec": {"language": "cpp", "binding": "torch", "entry_point": "main.cpp::run"},
    "sources": [
        {"path": "parts.h", "content": PARTS_H},
        {"path": "main.cpp", "content": MAIN_CPP},
        {"path": "parts.cpp", "content": PARTS_CPP},
    ],
}


@pytest.mark.sandbox
class TestForReal:
    """Each fixture examined and judged in sandboxes."""

    @pytest.fixture
    def task(self, paths, tmp_path_factory):
        def made(path: Path):
            found = examine(problem_at(path).task, paths, compare_compiled=False)
            assert found.task is not None, found.problem
            task = replace(found.task, folder=tmp_path_factory.mktemp("task"))
            write_folder(task, task.folder)
            return found, task

        return made

    def test_a_norm_in_bfloat16_is_judged_by_its_own_function(self, task, rules, paths, crews) -> None:
        found, norm = task(NORM)
        assert (found.labels, norm.precision.name, norm.entry) == ((), "bfloat16", "run")
        assert norm.argument_names == ("x", "gain", "eps")
        groups = [(item.group, item.key) for item in norm.configs_for("cpu")]
        assert groups[0] == ("single", "rows=64,eps=1e-06,variant=published")
        assert [group for group, _ in groups] == ["single", "multi", "hidden", "hidden"]
        starter = starter_code(norm, "python")
        assert language_for("a.py", starter, norm) == "python"
        wrong = starter.replace("+ eps", "+ 0.1 + eps")
        with crews.at_work():
            reports = [judge(Source(text, "python"), norm, rules, paths, quick=True) for text in (starter, wrong)]
        assert [report.verdict for report in reports] == [Verdict.PASS, Verdict.INCORRECT_VALUE], reports[0].reason

    def test_gradients_with_inputs_of_the_author_are_judged_by_solutions_in_json(
        self, task, rules, paths, crews
    ) -> None:
        _, backward = task(SOL / "scaled_backward")
        assert backward.result_names == ("grad_x", "grad_scale")
        sources = [source_for("solution.json", json.dumps(item), backward) for item in (SOLUTION, TVM_SOLUTION)]
        with crews.at_work():
            reports = [judge(source, backward, rules, paths, quick=True) for source in sources]
        assert [report.verdict for report in reports] == [Verdict.PASS] * 2, [report.reason for report in reports]
