"""Solutions in JSON: what is joined to one source, and what is refused by name. Nothing is compiled."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.harness import Config, Result, Source, TaskSpec, TensorArgument, UsageError, tvm_ffi_version
from benchmarks.importers import definition_named, joined_solution, problems_in, slug, solution_json
from benchmarks.offline import paired

from .conftest import FIXTURES

SOL = FIXTURES / "sol"
DEFINITION = {
    "op_type": "norm",
    "custom": None,
    "axes": {"width": 3},
    "expressions": {"double": "rows * 2 % 7 // 1"},
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32", "kind": "random"},
        "eps": {"shape": None, "dtype": "float32", "kind": "scalar"},
        "on": {"shape": None, "dtype": "bool", "kind": "scalar"},
    },
    "outputs": {
        "y": {"shape": ["rows", "width"], "dtype": "bfloat16"},
        "z": {"shape": ["double"], "dtype": "float32"},
    },
}


def task_of(definition: dict = DEFINITION) -> TaskSpec:
    tensor, result = TensorArgument("x", (2, 3), "float32", ""), Result("y", (2, 3), "bfloat16", 0.1, 0.1)
    config = Config("rows=2", "single", {"entry": "run", "variant": "published"}, (tensor,), (result,), 1, 1)
    words = {"title": "T", "formula": "", "summary": "", "family": "", "labels": (), "exact": False}
    return TaskSpec(
        suite="sol-execbench",
        op="my_norm",
        direction="forward",
        version=1,
        **words,
        argument_names=("x",),
        result_names=("y",),
        configs={"cpu": (config,)},
        reference_source=f"def run(x): ...\nKBENCH_DEFINITION = 1\n\nKBENCH_DEFINITION = {definition!r}\n"
        "\n# The author's file ends above. What follows is how kbench calls it.\n",
        folder=Path(),
    )


def solution(files: dict[str, str], entry: str, **spec: object) -> str:
    sources = [{"path": path, "content": text} for path, text in files.items()]
    found = {"languages": ["cuda_cpp"], "entry_point": entry, "destination_passing_style": False, **spec}
    return json.dumps({"name": "s", "definition": "My Norm", "author": "a", "spec": found, "sources": sources})


def joined(*arguments: object, **spec: object) -> Source:
    return joined_solution(solution(*arguments, **spec), task_of())


FILES = {
    "src/kernel.h": "#pragma once\nint helper();",
    "src/kernel.cu": '#include "kernel.h"\nint helper() { return 1; }',
    "main.cpp": '#include "src/kernel.h"\n#include <vector>\n#include "other.h"\n'
    "torch::Tensor run(torch::Tensor x, double);\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }',
}


def test_cuda_files_are_joined_with_the_entry_last_and_each_header_once() -> None:
    source = joined(FILES, "main.cpp::run", compile_options={"cuda_cflags": ["-O3", "--use_fast_math\n#error"]})
    assert source.language == "cuda"
    lines = source.text.splitlines()
    assert lines[1] == "// Compiled with the flags of the rules; left out: -O3 --use_fast_math #error"
    assert source.text.count("int helper();") == 1
    assert lines.index('#line 1 "src/kernel.cu"') < lines.index('#line 1 "main.cpp"')
    assert lines[lines.index("int helper();") + 1] == '#line 2 "src/kernel.cu"'
    assert '#include "other.h"' in lines  # not of the solution, so the compiler will name it
    assert source.text.count("PYBIND11_MODULE(") == 1
    assert '    m.def("forward", &run);' in lines


def test_outputs_are_made_for_a_solution_that_takes_them() -> None:
    text = joined(FILES, "main.cpp::run", destination_passing_style=True).text
    assert "kbench_with_outputs(torch::Tensor kbench_x, double kbench_eps, bool kbench_on)" in text
    assert "kbench_y = torch::empty({kbench_x.size(0), 3}, kbench_x.options().dtype(torch::kBFloat16));" in text
    assert "kbench_z = torch::empty({((((kbench_x.size(0) * 2) % 7) / 1))}" in text.replace("(((((", "((((")
    assert "run(kbench_x, kbench_eps, kbench_on, kbench_y, kbench_z);" in text
    assert 'm.def("forward", &kbench_with_outputs);' in text


PYTHON = {
    "kernel.py": "import torch\nfrom .parts import scaled\nfrom . import deep\n\n\ndef norm(x, eps, on, y, z):\n"
    "    y.copy_(scaled(x, deep.TWO))\n    z.fill_(eps)\n",
    "parts.py": "def scaled(x, by):\n    return x * by\n",
    "deep.py": "import parts\n\nTWO = 2\n",
    "unused.py": "raise RuntimeError\n",
}


def test_python_files_become_modules_of_one_text() -> None:
    source = joined(PYTHON, "kernel.py::norm", languages=["pytorch"], destination_passing_style=True)
    assert source.language == "python"
    names: dict = {}
    exec(source.text, names)  # noqa: S102 - the test's own text
    y, z = names["run"](torch.ones(2, 3), 0.5, True)
    assert (y.dtype, y.shape, z.tolist()) == (torch.bfloat16, (2, 3), [0.5] * 4)
    assert bool((y == 2).all())


def test_a_file_that_is_already_right_stays_as_it_is() -> None:
    text = "def run(x):\n    return x\n"
    assert joined({"kernel.py": text}, "kernel.py::run", languages=["pytorch"]) == Source(text, "python")
    triton = joined({"kernel.py": text}, "kernel.py::run", languages=["triton"])
    assert triton.language == "triton"
    assert "\ndef forward(kbench_x, kbench_eps, kbench_on):\n" in triton.text


@pytest.mark.parametrize("language", ["triton", "cute_dsl", "tilelang", "helion", "numba_cuda"])
def test_a_language_that_launches_from_python_gets_the_tasks_function(language: str) -> None:
    text = "def run(x):\n    return x\n"
    for named in ([language], ["python", language]):
        source = joined({"kernel.py": text}, "kernel.py::run", languages=named)
        assert source.language == language
        assert "\ndef forward(kbench_x, kbench_eps, kbench_on):\n" in source.text


@pytest.mark.parametrize(
    ("files", "entry", "spec", "words"),
    [
        ({"../a.cu": ""}, "../a.cu::run", {}, "is not a relative path"),
        ({"/a.cu": ""}, "/a.cu::run", {}, "is not a relative path"),
        ({"a/../b.cu": ""}, "a/../b.cu::run", {}, "is not a relative path"),
        ({'a"\n#include "b.cu': ""}, "x::run", {}, "is not a relative path"),
        ({"a.cu": ""}, "b.cu::run", {}, "is not FILE::FUNCTION"),
        ({"a.cu": ""}, "a.cu::run();", {}, "is not FILE::FUNCTION"),
        ({"a.cu": ""}, "a.cu::run", {"binding": "other"}, "its binding is 'other'"),
        ({"a.cu": ""}, "a.cu::run", {"binding": "tvm-ffi"}, "has to take its outputs as arguments"),
        ({"a.cu": ""}, "a.cu::run", {"languages": ["cutile"]}, "its language cutile is not judged here"),
        ({"a.cu": ""}, "a.cu::run", {"languages": ["cuda_cpp", "pytorch"]}, "cannot be combined"),
        ({"a.py": ""}, "a.py::run", {"languages": ["cute_dsl", "tilelang"]}, "cannot be combined"),
        ({"a.cu": ""}, "a.cu::run", {"languages": ["pytorch"]}, "its entry point is in a.cu"),
        ({"a.cu": "x" * (1 << 20), "b": "x"}, "a.cu::run", {}, "more than 1024 KiB"),
        ({"a.py": "import b", "b.py": "import a"}, "a.py::run", {"languages": ["pytorch"]}, "in a circle"),
        ({"a.py": "def"}, "a.py::run", {"languages": ["pytorch"]}, "a.py:1:"),
        ({"a/b.py": ""}, "a/b.py::run", {"languages": ["pytorch"]}, "in one folder"),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(files: dict, entry: str, spec: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        joined(files, entry, **spec)


GROWING = {
    "doubled by each": "({before} + {before}) // 2",
    "as deep as Python goes": "{before}" + " + 1 - 1" * 40,
}


@pytest.mark.parametrize("kind", GROWING)
@pytest.mark.parametrize("language", ["cuda_cpp", "python"])
def test_a_size_that_names_others_is_written_out_as_far_as_it_is_short(kind: str, language: str) -> None:
    names = ["rows", *(f"e{number}" for number in range(60))]
    pairs = itertools.pairwise(names)
    expressions = {"double": names[-1], **{name: GROWING[kind].format(before=before) for before, name in pairs}}
    task = task_of({**DEFINITION, "expressions": expressions})
    file = "main.cpp" if language == "cuda_cpp" else "main.py"
    files = {file: "void run() {}" if language == "cuda_cpp" else "def run(): ...\n"}
    text = solution(files, f"{file}::run", languages=[language], destination_passing_style=True)
    with pytest.raises(UsageError, match="the expression for the size of an output is too long"):
        joined_solution(text, task)


STRANGE: tuple = (None, True, 0, -1, 10**400, 1.5, "", "x", "\ud800", "\x00", "a\nb", "../x", "é", [], [[]], [{}])
STRANGE += ([None], ["\ud800"], {}, {"a": 5}, {"a": [[]]}, {"a": "x"})


def places_in(data: object, above: tuple = ()) -> Iterator[tuple]:
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    yield above
    for key, part in parts:
        yield from places_in(part, (*above, key))


def changed(data: Any, place: tuple, value: object) -> Any:
    if not place:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[place[0]] = changed(data[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize("files", [FILES, PYTHON])
def test_whatever_stands_in_a_solution_it_becomes_a_text_or_is_refused(files: dict[str, str]) -> None:
    entry, language = ("kernel.py::norm", "pytorch") if files is PYTHON else ("main.cpp::run", "cuda_cpp")
    spec = {"language": "cuda", "binding": "torch", "compile_options": {"cflags": ["-O3"]}}
    whole = json.loads(solution(files, entry, languages=[language], **spec))
    for place in places_in(whole):
        for value in STRANGE:
            text = json.dumps(changed(whole, place, value))
            assert definition_named(text) in (None, "my_norm", *map(slug, map(str, STRANGE)))
            try:
                joined_solution(text, task_of()).text.encode()
            except UsageError as error:
                str(error).encode()


FLASHINFER = {
    "definition": "my_norm",
    "spec": {"language": "cuda", "entry_point": "a.cu::norm"},
    "sources": [{"path": "a.cu", "content": "#include <tvm/ffi/function.h>\n"}],
}


def test_a_solution_of_flashinfer_is_of_tvm_ffi_unless_it_says_otherwise() -> None:
    source = joined_solution(json.dumps(FLASHINFER), task_of())
    lines = source.text.splitlines()
    assert lines[1] == f"// TVM FFI {tvm_ffi_version()}"
    assert "#include <c10/cuda/CUDAStream.h>" in lines
    passed = "KbenchView(kbench_x, DLDataType{kDLFloat, 32, 1}), kbench_eps, kbench_on, "
    assert f"norm({passed}KbenchView(kbench_y, DLDataType{{kDLBfloat, 16, 1}})" in source.text


def test_where_tvm_ffi_is_not_installed_its_solutions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solution_json, "tvm_ffi_version", lambda: None)
    with pytest.raises(UsageError, match="not installed here"):
        joined_solution(json.dumps(FLASHINFER), task_of())


def test_a_solution_of_another_definition_or_task_is_refused() -> None:
    text = solution(FILES, "main.cpp::run").replace("My Norm", "Other")
    with pytest.raises(UsageError, match="for the definition 'Other', not for my_norm"):
        joined_solution(text, task_of())
    with pytest.raises(UsageError, match="not a JSON object"):
        joined_solution("[" * 100_000, task_of())


def test_a_folder_is_searched_for_solutions_by_what_they_say(tmp_path: Path) -> None:
    data = json.loads(solution(FILES, "main.cpp::run")) | {"definition": "scaled_backward"}
    (tmp_path / "x").mkdir()
    (tmp_path / "x/anything.json").write_text(json.dumps(data))
    (tmp_path / "definition.json").write_text((SOL / "scaled_backward/definition.json").read_text())
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "link.json").symlink_to(tmp_path / "x/anything.json")
    pairs = paired(tmp_path, problems_in(SOL))
    assert [(item.file, item.problem.name) for item in pairs.solutions] == [
        ("x/anything.json", "scaled_backward/backward")
    ]
    assert pairs.unmatched == ()
    assert definition_named('{"definition": "a"}') is None
