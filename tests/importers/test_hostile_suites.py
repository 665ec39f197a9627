"""Whatever an author writes into JSON, YAML and file names: each file is read or refused in time, none stops others."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.importers import READERS, Found, slug

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
