"""Task files: what they mean, and what is said about a bad one."""

from pathlib import Path

import pytest

from benchmarks.harness import default_suites
from benchmarks.harness.errors import TaskError
from benchmarks.harness.tasks.spec import (
    TaskSpec,
    TensorArgument,
    ValueArgument,
    find_task,
    load_operation,
    load_suite,
)

TOML = """
op = "scale"
title = "Scale"
formula = "y = a·x"
summary = "Multiplies."
family = "test"
[constants]
factor = 2
[forward]
version = 3
arguments = [
    { name = "x", shape = ["rows", "2 * columns"], draw = "input", options = { std = "0.1 * factor" }, packed = true },
    { name = "bias", when = "with_bias", shape = ["rows"], draw = "bias" },
    { name = "factor", value = "factor" },
    { name = "shape", value = "(rows, columns)" },
]
results = [{ name = "y", shape = [], tolerance = 1e-5, rms_tolerance = 1e-6 }]
flops = "rows * columns"
[forward.cpu.single]
input = [{ rows = 4 }]
shared = [{ columns = 3, with_bias = false }]
[forward.cpu.multi]
input = [{ rows = 4 }, { rows = 5 }]
init = [{ columns = 9 }, { columns = 10 }]
shared = [{ columns = 3, with_bias = false }]
[forward.cpu.hidden]
input = [{ rows = 1, factor = 7 }]
shared = [{ columns = 1, with_bias = true }]
"""


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    return _written(tmp_path, TOML)


def _written(suites: Path, text: str) -> Path:
    folder = suites / "my_suite" / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(text)
    (folder / "reference.py").write_text("def forward(x, bias, factor, shape): ...\n")
    return suites


def _task(suites: Path) -> TaskSpec:
    return find_task(suites, "my-suite/scale/forward")


def test_shapes_and_values_are_computed_per_configuration(suites):
    config = _task(suites).configs_for("cpu")[0]
    x, bias, factor, shape = config.arguments
    assert x == TensorArgument("x", (4, 6), "float32", "input", {"std": 0.2}, packed=True)
    assert bias == ValueArgument("bias", None)
    assert factor == ValueArgument("factor", 2)
    assert shape == ValueArgument("shape", (4, 3))
    assert config.flops == 12


def test_the_roofline_counts_a_quarter_of_a_convolution_and_all_of_anything_else():
    shipped = default_suites()
    for name, part in (("unet_conv2d/forward", 4), ("unet_linear/forward", 1)):
        task = find_task(shipped, name)
        config = task.configs_for("cpu")[0]
        assert task.least_flops(config, "cpu") == config.flops // part > 0


def test_configurations_are_the_product_with_later_parts_overriding_and_duplicates_dropped(suites):
    keys = [(config.group, config.key) for config in _task(suites).configs_for("cpu")]
    assert keys == [
        ("single", "rows=4,columns=3,with_bias=false"),
        ("multi", "rows=5,columns=3,with_bias=false"),
        ("hidden", "rows=1,factor=7,columns=1,with_bias=true"),
    ]


def test_a_configuration_overrides_a_constant_and_switches_an_argument_on(suites):
    hidden = _task(suites).configs_for("cpu")[-1]
    assert hidden.hidden
    assert hidden.arguments[1] == TensorArgument("bias", (1,), "float32", "bias")
    assert hidden.arguments[2] == ValueArgument("factor", 7)


def test_a_group_that_is_not_there_has_no_configurations(tmp_path):
    _written(tmp_path, TOML[: TOML.index("[forward.cpu.multi]")])
    assert [config.group for config in _task(tmp_path).configs_for("cpu")] == ["single"]


def test_every_tensor_is_moved_once_unless_the_file_says_otherwise(suites, tmp_path):
    assert _task(suites).configs_for("cpu")[0].bytes_moved == 4 * (24 + 1)
    _written(tmp_path, TOML.replace("flops =", 'bytes = "rows"\nflops ='))
    assert _task(tmp_path).configs_for("cpu")[0].bytes_moved == 4


def test_the_content_hash_follows_what_matters_and_nothing_else(suites):
    before = _task(suites).content_sha256
    assert _task(_written(suites, TOML.replace('"Multiplies."', '"Makes larger."'))).content_sha256 == before
    assert _task(_written(suites, TOML.replace("rows = 5", "rows = 6"))).content_sha256 != before
    assert _task(_written(suites, TOML.replace("tolerance = 1e-5", "tolerance = 1e-4"))).content_sha256 != before


def test_a_suite_holds_its_operations(suites):
    assert [task.name for task in load_suite(suites / "my_suite")] == ["scale/forward"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('family = "test"', "", "family"),
        ("version = 3", "", "version"),
        ("op =", "op", "cannot read"),
        ('"2 * columns"', '"2 * colums"', "colums"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, old, new, message):
    _written(tmp_path, TOML.replace(old, new))
    with pytest.raises(TaskError, match=message):
        load_operation(tmp_path / "my_suite" / "scale")


@pytest.mark.parametrize(
    "name", ["scale", "scale/forward", "my-suite/scale/backward", "my-suite/scal/forward", "a/b/c/d", "../x/forward"]
)
def test_a_task_that_does_not_exist_is_a_usage_error(suites, name):
    with pytest.raises(TaskError):
        find_task(suites, name)


def test_a_device_class_without_configurations_is_said(suites):
    with pytest.raises(TaskError, match="no configurations for cuda"):
        _task(suites).configs_for("cuda")
