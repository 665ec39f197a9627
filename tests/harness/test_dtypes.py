"""Dtypes of arguments and results: sizes, precision of a task, the truth in float64, tolerances, starter code. Pure."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.harness import Config, Result, TaskSpec, TensorArgument, starter_code
from benchmarks.harness.child.admitting.admission import DrawnCase, Findings, lower, lower_ways, tolerances_of
from benchmarks.harness.child.check import compare, reference
from benchmarks.harness.child.checkers import checker_of
from benchmarks.harness.child.inputs import draw
from benchmarks.harness.child.shell import TORCH_DTYPES
from benchmarks.harness.child.widening import Widened
from benchmarks.harness.dtypes import DTYPES, arithmetic_factor, precision_of
from benchmarks.harness.tasks.spec_json import spec_from_json, spec_to_json

FLOATS = [name for name, item in DTYPES.items() if item.is_float]


def task_of(dtype: str, result: str, shape: tuple[int, ...] = (32, 64)) -> TaskSpec:
    """One tensor in, one out."""
    options = {"low": 0, "high": 1}
    tensor = TensorArgument("x", shape, dtype, "foreign", options)
    config = Config("a", "single", {"variant": "published"}, (tensor,), (Result("out", shape, result, 0.1, 0.1),), 1, 1)
    words = dict.fromkeys(("suite", "op", "title", "formula", "summary", "family"), "a")
    return TaskSpec(
        **words,
        direction="forward",
        version=1,
        labels=(),
        argument_names=("x",),
        result_names=("out",),
        exact=False,
        configs={"cpu": (config,), "cuda": (config,)},
        reference_source="",
        folder=Path(),
    )


@pytest.mark.parametrize("name", DTYPES)
def test_sizes_and_precision_are_those_of_torch(name: str) -> None:
    dtype = TORCH_DTYPES[name]
    assert dtype.itemsize == DTYPES[name].nbytes
    assert dtype.is_floating_point is DTYPES[name].is_float
    if dtype.is_floating_point:
        assert torch.finfo(dtype).eps == 2 * DTYPES[name].rounding


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_drawn_and_compared(name: str) -> None:
    config = task_of(name, name).configs["cpu"][0]
    out = torch.zeros((32, 64), dtype=TORCH_DTYPES[name])
    draw(config, bytes(32), [out])
    assert out.double().abs().max() > 0
    assert compare(out, out.double(), 0.0, 0.0).ok
    assert not compare(torch.zeros_like(out), out.double(), 0.0, 0.0).ok


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_result_that_is_no_number_is_wrong_in_every_dtype(name: str) -> None:
    out = torch.full((4,), torch.nan).to(TORCH_DTYPES[name])
    assert not compare(out, torch.ones(4, dtype=torch.float64), 1e9, 1e9).ok


def test_the_precision_of_a_task_is_that_of_its_coarsest_tensor() -> None:
    assert precision_of(["float32", "bfloat16", "int8"]).name == "bfloat16"
    assert precision_of(["float64"]).name == "float64"
    assert precision_of(["int32", "bool"]).name == "float32"
    assert task_of("float8_e4m3fn", "bfloat16").precision.name == "float8_e4m3fn"


def test_the_truth_casts_nothing_to_a_smaller_dtype() -> None:
    def forward(x):
        half = torch.empty(x.shape, dtype=torch.float16)
        half.copy_(x.to(torch.float32).half() / 3)
        return torch.softmax(half, 0, dtype=torch.float32).to(torch.bfloat16)

    x = torch.linspace(-1, 1, 50).bfloat16()
    (truth,) = reference(SimpleNamespace(forward=forward), "forward", [x])
    assert torch.allclose(truth, torch.softmax(x.double() / 3, 0), rtol=1e-14, atol=0)


def test_widening_leaves_integers_and_bits_alone() -> None:
    with Widened(torch.float64):
        assert torch.ones(3).to(torch.int32).dtype is torch.int32
        assert torch.ones(3, dtype=torch.bfloat16).dtype is torch.float64
        assert torch.ones(3, dtype=torch.uint8).view(torch.float8_e5m2).dtype is torch.float8_e5m2
    assert torch.ones(3).half().dtype is torch.float16


def test_widening_does_not_load_torch_compile() -> None:
    """It takes as long as torch itself, and every referee would wait for it."""
    code = """
import sys, torch
from benchmarks.harness.child.widening import Widened
with Widened(torch.float64):
    assert torch.ones(3).half().dtype is torch.float64
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "float8_e5m2"])  # three bits, two are too near
def test_the_next_lower_precision_inside_is_refused(name: str) -> None:
    """And one rounding to the task's own dtype is not."""
    task = task_of(name, name)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(TORCH_DTYPES[name])
    call = {"forward": lambda x: torch.exp(0.5 * x.float()).to(x.dtype) if x.element_size() < 4 else torch.exp(0.5 * x)}
    module = SimpleNamespace(**call)
    expected = reference(module, "forward", [x])
    honest = compare(module.forward(x), expected[0], 1.0, 1.0)
    item = task.configs["cpu"][0].results[0]
    tolerance, rms_tolerance = tolerances_of(item, task.precision, honest.max_rel_error, honest.rms_error)
    assert compare(module.forward(x), expected[0], tolerance, rms_tolerance).ok
    config = task.configs["cpu"][0]
    config = replace(config, results=(replace(item, tolerance=tolerance, rms_tolerance=rms_tolerance),))
    findings = Findings()
    case = DrawnCase(task, module, config, "published", [x], expected, lambda: expected, checker_of(module, "forward"))
    for way in lower_ways(case):
        lower(case, way, findings)
    assert findings.tried
    assert findings.tried == findings.refused


def test_nothing_is_lower_than_integers() -> None:
    x = torch.ones(32, 64, dtype=torch.int32)
    module = SimpleNamespace(forward=lambda x: x + 1)
    task = task_of("int32", "int32")
    config, checker = task.configs["cpu"][0], checker_of(module, "forward")
    case = DrawnCase(task, module, config, "published", [x], (x.double() + 1,), lambda: (x.double(),), checker)
    assert not lower_ways(case)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", (2e-5, 5e-6)),
        ("float16", (2**-10, 2**-12)),
        ("bfloat16", (2**-7, 2**-9)),
        ("float64", (1e-10, 1e-10)),
    ],
)
def test_no_tolerance_is_below_what_its_dtype_rounds(dtype: str, expected: tuple[float, float]) -> None:
    found = tolerances_of(Result("out", (32, 64), dtype, 1, 1), DTYPES[dtype], 1e-12, 1e-12)
    assert found == pytest.approx(expected, rel=0.1)


def test_what_is_not_rounded_has_to_be_exact() -> None:
    assert tolerances_of(Result("out", (8,), "bfloat16", 1, 1), DTYPES["bfloat16"], 0.0, 0.0) == (0.0, 0.0)
    assert tolerances_of(Result("out", (8,), "int32", 1, 1), DTYPES["float32"], 0.0, 0.0) == (0.0, 0.0)


def test_matrix_units_make_a_lower_bound_of_time_lower() -> None:
    assert arithmetic_factor([("float32", 64), ("int64", 64)], "cpu") == 1
    assert arithmetic_factor([("float32", 64), ("bool", 64)], "cuda") == 1
    assert arithmetic_factor([("bfloat16", 64), ("bfloat16", 64), ("float32", 1)], "cuda") == 2
    assert arithmetic_factor([("bfloat16", 64)], "cpu") > arithmetic_factor([("float32", 64)], "cpu")
    assert arithmetic_factor([], "cpu") == 1


@pytest.mark.parametrize(
    ("tensors", "factor"),
    [
        ([*[("float32", 4096)] * 3, ("uint8", 65536)], 1),  # attention with a mask
        ([("float32", 4096), ("float32", 4096), ("int8", 8)], 1),
        ([("float32", 4096), ("int8", 4096)], 1),  # the product of both is one of float32
        ([("float16", 4096), ("int8", 4096), ("int8", 256)], 16),
        ([("int8", 4096), ("int8", 4096), ("float32", 64)], 32),  # with scales
        ([("int8", 4096), ("int8", 4096), ("float32", 4096)], 32),  # with something to add
        ([("int8", 4096)], 32),
        ([("bfloat16", 4096), ("int32", 4096), ("int64", 4096)], 16),  # with indices
        ([("float8_e4m3fn", 4096), ("float32", 4096)], 1),
    ],
)
def test_a_product_is_as_fast_as_its_wider_operand_allows(tensors: list[tuple[str, int]], factor: int) -> None:
    assert arithmetic_factor(tensors, "cpu") == factor


@pytest.mark.parametrize(
    ("dtype", "c_type"), [("bfloat16", "at::BFloat16"), ("float16", "at::Half"), ("int8", "int8_t")]
)
def test_starter_code_has_the_dtypes_of_the_task(dtype: str, c_type: str) -> None:
    task = task_of(dtype, "float32")
    cuda = starter_code(task, "cuda")
    assert f"const {c_type}* __restrict__ x, float* __restrict__ out" in cuda
    assert f"x.data_ptr<{c_type}>()" in cuda
    assert "torch::empty({32, 64}, x.options().dtype(torch::kFloat32))" in starter_code(task, "cpp")
    assert f"device=x.device, dtype=torch.{dtype})" in starter_code(task_of("float32", dtype), "triton")


def test_a_task_with_other_dtypes_survives_being_stored() -> None:
    task = task_of("bfloat16", "float8_e5m2")
    assert spec_from_json(spec_to_json(task), "", Path()) == task
    config = task.configs["cpu"][0]
    assert (config.tensors[0].nbytes, config.results[0].nbytes) == (2 * 32 * 64, 32 * 64)
