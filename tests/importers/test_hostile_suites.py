"""Whatever an author writes into JSON, YAML and file names: each file is read or refused in time, none stops others."""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.importers import READERS, Found, definitions, files_below, problems_in, slug
from benchmarks.offline import paired

from .conftest import FIXTURES

STRANGE: list[Any] = [
    *(None, True, -1, 10**400, float("nan"), float("inf"), "", "x" * 9000, "\ud800\0", [], {}, [[]], [{}], {"a": []}),
    *([1] * 5000, {"type": []}, {"type": "var", "value": {}}, {"dtype": ["float32"]}, {"shape": [[]]}, [10**400] * 3),
]
PLACES = {
    "sol-execbench": (FIXTURES / "sol", "definition.json"),
    "flashinfer-trace": (FIXTURES / "flashinfer", "row_norm_h96.json"),
    "gpu-mode": (FIXTURES / "gpu_mode", "task.yml"),
    "robust-kbench": (FIXTURES / "robust_kbench", "gated_linear/config_forward.json"),
}


def _changed(data: Any) -> Iterator[Any]:
    """The same with each part replaced by each strange value, one at a time."""
    yield from STRANGE
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, part in parts:
        for other in _changed(part):
            made = copy.copy(data)
            made[key] = other
            yield made


@pytest.fixture
def suite(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, Path, Path]:
    """A copy of the fixtures of a format, and its file that is written anew."""
    name = request.param
    folder, file = PLACES[name]
    shutil.copytree(folder, tmp_path / "suite")
    return name, tmp_path / "suite", next((tmp_path / "suite").rglob(file))


@pytest.mark.parametrize("suite", PLACES, indirect=True)
def test_whatever_stands_in_a_file_is_read_or_refused(suite: tuple[str, Path, Path]) -> None:
    name, folder, path = suite
    is_yaml = path.suffix == ".yml"
    data = yaml.safe_load(path.read_text()) if is_yaml else json.loads(path.read_text())
    seen = 0
    for changed in _changed(data):
        path.write_text(json.dumps(changed))  # which is YAML, too
        for found in READERS[name](folder, name):
            assert (found.task is None) is bool(found.problem)
            assert _is_storable(found)
            seen += 1
    assert seen > 100


def _is_storable(found: Found) -> bool:
    assert found.sha256 is not None
    if found.task is None:
        return True
    values = [dict(item.values) for item in found.task.configs]
    text = json.dumps(values, allow_nan=False, ensure_ascii=False)
    return len(text.encode()) < 100_000 and "\\u0000" not in text


BOMBS = {
    "texts": "&{this} [{many}]",
    "mappings": "&{this} {{<<: [{many}], k{this}: 1}}",
}


@pytest.mark.parametrize("suite", ["gpu-mode"], indirect=True)
@pytest.mark.parametrize("kind", BOMBS)
def test_yaml_that_unfolds_without_end_is_refused(suite: tuple[str, Path, Path], kind: str) -> None:
    name, folder, path = suite
    lines = ["a0: &a0 {k: 1}"]
    for level in range(1, 12):
        many = ", ".join([f"*a{level - 1}"] * 12)
        lines.append(f"a{level}: " + BOMBS[kind].format(this=f"a{level}", many=many))
    path.write_text("\n".join([*lines, "description: *a11", ""]))
    [found] = READERS[name](folder, name)
    assert "task.yml:2: it repeats parts by name (*a0)" in found.problem


NUMBERS = {
    "in hexadecimal": "0x" + "f" * 5000,
    "to the base 60": "1" + ":59" * 3000,
    "to the base 60, with a fraction": "1" + ":0" * 300 + ".5",
    "by its tag": '!!int "' + "9" * 5000 + '"',
}


@pytest.mark.parametrize("suite", ["gpu-mode"], indirect=True)
@pytest.mark.parametrize("kind", NUMBERS)
def test_yaml_with_a_number_without_end_is_refused(suite: tuple[str, Path, Path], kind: str) -> None:
    name, folder, path = suite
    data = yaml.safe_load(path.read_text())
    for field in ("lang", "description", "tests"):
        path.write_text(f"{field}: {NUMBERS[kind]}\n" + yaml.safe_dump({k: v for k, v in data.items() if k != field}))
        [found] = READERS[name](folder, name)
        assert found.problem == "task.yml:1: it has a number of more than 300 characters"


@pytest.mark.parametrize("suite", ["robust-kbench"], indirect=True)
def test_products_of_long_lists_are_refused(suite: tuple[str, Path, Path]) -> None:
    name, folder, path = suite
    path.write_text(json.dumps({f"multi_{part}_configs": [{}] * 20_000 for part in ("init", "input", "shared")}))
    assert any("configurations" in found.problem for found in READERS[name](folder, name))


@pytest.mark.parametrize("suite", ["sol-execbench"], indirect=True)
def test_many_workloads_and_constraints_are_refused(suite: tuple[str, Path, Path]) -> None:
    name, folder, path = suite
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "constraints": ["1 > 0"] * 1000}))
    [found] = READERS[name](folder, name)
    assert "1000 constraints" in found.problem
    path.write_text(json.dumps(data))
    workloads = path.with_name("workload.jsonl")
    workloads.write_text(workloads.read_text().splitlines()[0] + "\n" + "{}\n" * 200_000)
    [found] = READERS[name](folder, name)
    assert "lines" in found.problem


@pytest.mark.parametrize("suite", ["robust-kbench"], indirect=True)
def test_products_of_wide_objects_and_equal_ones_end(suite: tuple[str, Path, Path]) -> None:
    """5,000 combinations of 300 values each were compared with each other: two minutes and a gigabyte."""
    name, folder, path = suite
    wide = {f"k{number}": 1 for number in range(300)}
    steps = [{"z": number} for number in range(5000)]
    path.write_text(json.dumps({"multi_init_configs": [wide], "multi_input_configs": steps}))
    assert any("more than 64 values" in found.problem for found in READERS[name](folder, name))
    path.write_text(json.dumps({"single_input_configs": steps, "multi_input_configs": steps}))
    [found] = [item for item in READERS[name](folder, name) if item.name == "gated_linear/forward"]
    assert found.task is not None
    groups = [item.group for item in found.task.configs]
    assert (groups.count("single"), groups.count("multi")) == (40, 40)


@pytest.mark.parametrize("suite", ["sol-execbench"], indirect=True)
def test_expressions_are_computed_so_many_times(suite: tuple[str, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, folder, path = suite
    monkeypatch.setattr(definitions, "_COMPUTED_MAX", 5)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "constraints": ["0 > 1"]}))
    workloads = path.with_name("workload.jsonl")
    workloads.write_text(workloads.read_text().splitlines()[0] + "\n" + workloads.read_text() * 9)
    [found] = READERS[name](folder, name)
    assert "breaks the constraint" in found.problem
    path.write_text(json.dumps({**data, "axes": {**data["axes"], **{f"e{n}": {"type": "var"} for n in range(64)}}}))
    [found] = READERS[name](folder, name)
    assert "at most 64" in found.problem


EXPRESSIONS = {
    "tuples": ("(1,) * 99999999", "only numbers are allowed"),
    "compared tuples": ("(1,) * 99999999 == (1,) * 99999999", "only numbers are allowed"),
    "more digits than Python writes": (f"({'*'.join(['9' * 20] * 9)}) ** 8", "is larger than"),
}


@pytest.mark.parametrize("suite", ["sol-execbench"], indirect=True)
@pytest.mark.parametrize("kind", EXPRESSIONS)
@pytest.mark.parametrize("where", ["axes", "constraints"])
def test_no_expression_fills_the_memory_or_ends_an_import(suite: tuple[str, Path, Path], kind: str, where: str) -> None:
    name, folder, path = suite
    text, reason = EXPRESSIONS[kind]
    data = json.loads(path.read_text())
    axes = {**data["axes"], "large": {"type": "expr", "expression": text}}
    path.write_text(json.dumps({**data, **({"axes": axes} if where == "axes" else {"constraints": [text]})}))
    [found] = READERS[name](folder, name)
    assert reason in found.problem


@pytest.mark.parametrize("suite", ["sol-execbench"], indirect=True)
def test_a_reason_is_short_whatever_it_quotes(suite: tuple[str, Path, Path]) -> None:
    name, folder, path = suite
    data = json.loads(path.read_text())
    for changed in ({"inputs": {"x" * 90_000: {"shape": [], "dtype": "float32"}}}, {"constraints": ["1 > q" * 30_000]}):
        path.write_text(json.dumps({**data, **changed}))
        [found] = READERS[name](folder, name)
        assert 0 < len(found.problem) <= 1000


DEEP = {
    "attributes": "a" + ".b" * 1500 + " = 1",
    "sums": "check_implementation = make_match_reference(x=" + "+".join(["1"] * 2500) + ")",
    "branches": "if a: pass\n" + "elif a: pass\n" * 900,
}


@pytest.mark.parametrize("suite", ["gpu-mode"], indirect=True)
@pytest.mark.parametrize("kind", DEEP)
def test_python_that_is_nested_without_end_is_refused(suite: tuple[str, Path, Path], kind: str) -> None:
    name, folder, path = suite
    reference = path.with_name("reference.py")
    reference.write_text(f"{DEEP[kind]}\n{reference.read_text()}")
    [found] = READERS[name](folder, name)
    assert "it is nested more than 150 deep" in found.problem
    reference.write_text(f"check_implementation = make_match_reference(ref_kernel, rtol=0x{'f' * 5000})")
    [found] = READERS[name](folder, name)
    assert "a whole number of more than 4,096 bits" in found.problem


def test_folders_in_folders_without_end_are_walked_as_far_as_names_go(tmp_path: Path) -> None:
    """1,500 levels are deeper than Python's stack, and 30 long names are longer than a path may be."""
    for name, levels in (("a", 1500), ("b" * 200, 30)):
        place = os.open(tmp_path, os.O_DIRECTORY)
        for _ in range(levels):
            os.mkdir(name, dir_fd=place)
            below = os.open(name, os.O_DIRECTORY, dir_fd=place)
            os.close(place)
            place = below
        os.close(os.open("task.yml", os.O_CREAT | os.O_WRONLY, dir_fd=place))
        os.close(place)
    (tmp_path / "level1").mkdir()
    shutil.copy(FIXTURES / "evaluated/suite/level1/4_Softmax.py", tmp_path / "level1")
    found = problems_in(tmp_path)
    assert "level1_4_softmax" in [item.op for item in found]
    assert all(item.task is None for item in found if item.op != "level1_4_softmax")
    assert len(paired(tmp_path, found).solutions) == 1
    subprocess.run(["rm", "-rf", "--", *tmp_path.iterdir()], check=True)  # Python's own way is too shallow


@pytest.mark.parametrize("suite", ["flashinfer-trace"], indirect=True)
def test_a_linked_folder_of_workloads_is_not_walked(suite: tuple[str, Path, Path], tmp_path: Path) -> None:
    name, folder, _ = suite
    [workloads] = folder.rglob("workloads")
    moved = workloads.rename(tmp_path / "elsewhere")
    workloads.symlink_to(moved)
    assert workloads in files_below(workloads.parent)
    assert not [path for path in files_below(workloads.parent) if path.suffix == ".jsonl"]
    assert all(item.task is None for item in READERS[name](folder, name))


@pytest.mark.parametrize("suite", ["flashinfer-trace"], indirect=True)
@pytest.mark.parametrize("name", ["a**b.json", "[.json", "日本語.json"])
def test_names_of_files_are_no_patterns_and_become_addresses(suite: tuple[str, Path, Path], name: str) -> None:
    reader, folder, path = suite
    path.with_name(name).write_text(json.dumps({**json.loads(path.read_text()), "name": "！"}))
    found = [item for item in READERS[reader](folder, reader) if item.file.endswith(name)]
    assert [item.op for item in found] == [slug(Path(name).stem)]
    assert all(item.op for item in found)


def test_a_name_without_letters_is_a_name_all_the_same() -> None:
    assert slug("日本語") == "unnamed"
