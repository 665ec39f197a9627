"""Folders of other suites, read without running a line: names, configurations, and what is wrong with broken ones."""

import json
import os
from pathlib import Path
from textwrap import indent

import pytest

from benchmarks.importers import kernelbench, robust_kbench
from benchmarks.importers.records import slug, words

from .conftest import FIXTURES

MODEL = "class Model: 'A thing.'\ndef get_inputs(): return []\n"
FUNCTIONS = "forward_fn = None\nModel = None\ndef get_inputs(): return []\n"


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_problems_come_level_by_level_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ("level2/1_a.py", "level1/10_b.py", "level1/9_c.py", "KernelBench/level3/1_d.py", "tests/1_e.py")
    found = kernelbench.read(put(tmp_path, dict.fromkeys(names, MODEL)), "s")
    assert [item.op for item in found] == ["level1_9_c", "level1_10_b", "level2_1_a", "level3_1_d"]


def test_a_problem_is_described_by_its_file(tmp_path: Path) -> None:
    [found] = kernelbench.read(put(tmp_path, {"level1/1_Square_matrix_multiplication_.py": MODEL}), "s")
    assert found.name == "level1_1_square_matrix_multiplication/forward"
    assert (found.task.title, found.task.summary) == ("Square matrix multiplication", "A thing.")
    assert (found.task.form, found.task.family) == ("model", "level 1")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Model(:", "1_a.py:1: "),
        ("class Model: pass", "1_a.py lacks get_inputs"),
        ("\0", "null bytes"),
        ("#" * 300_000, "more than 256 KiB"),
    ],
)
def test_a_broken_problem_says_what_is_wrong(tmp_path: Path, source: str, words: str) -> None:
    [found] = kernelbench.read(put(tmp_path, {"level1/1_a.py": source}), "s")
    assert found.task is None
    assert words in found.problem


def test_names_may_be_defined_on_a_condition(tmp_path: Path) -> None:
    head = "try:\n    import faster\nexcept ImportError:\n    faster = None\nif faster is None:\n"
    text = head + indent(MODEL, "    ")
    put(tmp_path, {"level1/1_a.py": text, "level1/__init__.py": ""})
    assert [(item.op, item.problem) for item in kernelbench.read(tmp_path, "s")] == [("level1_1_a", "")]


def test_what_is_no_text_is_reported(tmp_path: Path) -> None:
    put(tmp_path, {"level1/1_a.py": ""})
    (tmp_path / "level1/1_a.py").write_bytes(b"\xff\xfe\x00")
    [found] = kernelbench.read(tmp_path, "s")
    assert "cannot be read" in found.problem


def test_links_and_pipes_in_a_foreign_folder_are_not_read(tmp_path: Path) -> None:
    """Else whoever fills the folder would have files of this machine shown as tasks."""
    put(tmp_path, {"host/1_a.py": MODEL, "host/config.json": "{}", "suite/op/func_forward.py": FUNCTIONS})
    suite = tmp_path / "suite"
    (suite / "level1").mkdir()
    (suite / "level1/1_a.py").symlink_to(tmp_path / "host/1_a.py")
    (suite / "level2").symlink_to(tmp_path / "host")
    (suite / "op/config_forward.json").symlink_to(tmp_path / "host/config.json")
    [linked] = kernelbench.read(suite, "s")
    assert (linked.task, linked.problem) == (None, "1_a.py cannot be read: '1_a.py' is a link")
    [linked] = robust_kbench.read(suite, "s")
    assert (linked.task, "is a link" in linked.problem) == (None, True)
    (suite / "op/config_forward.json").unlink()
    os.mkfifo(suite / "op/config_forward.json")
    [found] = robust_kbench.read(suite, "s")  # and does not wait for somebody to write
    assert found.task is not None


def test_configurations_are_a_product_in_which_shared_wins(tmp_path: Path) -> None:
    config = {
        "single_input_configs": [{"n": 1}],
        "multi_input_configs": [{"n": 1, "m": 3}, {"n": 2}],
        "multi_init_configs": [{"how": "a"}],
        "multi_shared_configs": [{"m": 5}],
    }
    put(tmp_path, {"tasks/op/func_forward.py": FUNCTIONS, "tasks/op/config_forward.json": json.dumps(config)})
    [found] = robust_kbench.read(tmp_path, "s")
    assert found.name == "op/forward"
    shown = [(item.group, dict(item.values)) for item in found.task.configs]
    assert shown == [
        ("single", {"n": 1}),
        ("multi", {"how": "a", "n": 1, "m": 5}),
        ("multi", {"how": "a", "n": 2, "m": 5}),
    ]


def test_without_json_the_defaults_count(tmp_path: Path) -> None:
    [found] = robust_kbench.read(put(tmp_path, {"op/func_forward.py": FUNCTIONS}), "s")
    assert [(item.group, dict(item.values)) for item in found.task.configs] == [("single", {})]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"op/config_forward.json": "{}"}, "there is no func_forward.py"),
        ({"op/func_forward.py": "x = 1"}, "lacks forward_fn, Model, get_inputs"),
        ({"op/func_backward.py": FUNCTIONS}, "lacks AutogradFunction"),
        ({"op/func_forward.py": FUNCTIONS, "op/config_forward.json": "{"}, "is not JSON"),
        ({"op/func_forward.py": FUNCTIONS, "op/config_forward.json": "[]"}, "is not a JSON object"),
        (
            {"op/func_forward.py": FUNCTIONS, "op/config_forward.json": '{"single_init_configs": 3}'},
            "single_init_configs in config_forward.json is not a list of objects",
        ),
    ],
)
def test_a_broken_operation_says_what_is_wrong(tmp_path: Path, files: dict[str, str], words: str) -> None:
    [found] = robust_kbench.read(put(tmp_path, files), "s")
    assert found.task is None
    assert words in found.problem


def test_the_hash_follows_source_and_configurations(tmp_path: Path) -> None:
    def hashes() -> list[str]:
        return [item.sha256 for item in robust_kbench.read(tmp_path, "s")]

    put(tmp_path, {"op/func_forward.py": FUNCTIONS})
    first = hashes()
    assert hashes() == first
    put(tmp_path, {"op/config_forward.json": '{"single_input_configs": [{"n": 2}]}'})
    assert hashes() != first


def test_the_fixtures_hold_good_and_broken_tasks() -> None:
    found = {item.name: item.problem for item in robust_kbench.read(FIXTURES / "robust_kbench", "s")}
    assert [name for name, problem in found.items() if not problem] == [
        "gated_linear/forward",
        "gated_linear/backward",
        "scaled_add/forward",
    ]
    assert set(found) - {name for name, problem in found.items() if not problem} == {
        "torn_config/forward",
        "untold_loss/forward",
    }


def test_names() -> None:
    assert slug("level1_1_Square (x)_") == "level1_1_square_x"
    assert words("23_Softmax_over__rows") == "Softmax over rows"
