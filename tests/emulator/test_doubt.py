"""What makes a wrong result doubtful: a local variable without a value, and an error near the tolerance."""

import mmap
from types import ModuleType

import pytest
import torch

from benchmarks.emulator.build import emulated_build, unset_variable
from benchmarks.emulator.children import reference
from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.child.checkers import checker_of

KERNEL = """#include <torch/extension.h>
__global__ void sums(const float* x, float* y, int count) {
    float sum;
    for (int i = threadIdx.x; i < count; i += 32) sum += x[i];
    y[threadIdx.x] = sum;
}
torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty({32}, x.options());
    sums<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.mark.sandbox
@pytest.mark.parametrize(("text", "line"), [(KERNEL, 5), (KERNEL.replace("float sum;", "float sum = 0;"), None)])
def test_the_compiler_names_a_variable_without_a_value(text: str, line: int | None, paths: Paths) -> None:
    build = emulated_build(Source(text, "cuda"), default_rules(), paths)
    assert build.binary is not None, build.log
    found = unset_variable(build.log)
    assert (found and found[1]) == line
    assert found is None or "sum" in found[0]


@pytest.mark.parametrize(("error", "near"), [(0.0, False), (1.5e-3, True), (2.5e-3, False)])
def test_twice_the_tolerance_is_near(error: float, near: bool) -> None:
    right = torch.ones(4, dtype=torch.float64)
    results = mmap.mmap(-1, 16)
    results.write((right + error * 2).float().numpy().tobytes())  # relative to |reference| + rms
    described = {"name": "y", "shape": [4], "dtype": "float32", "tolerance": 1e-3, "rms_tolerance": 1.0}
    checker, run = checker_of(ModuleType("reference"), "forward"), {"config": 0, "offsets": [0]}
    text, found = reference._problem(run, [{"results": [described]}], [([], (right,))], checker, results)
    assert (bool(text), found) == (error > 0, near)


@pytest.mark.parametrize(
    ("places", "problem"), [([0, 2], ""), ([2, 0], ""), ([0, 1], "places: "), ([0, 0], "places: ")]
)
def test_right_is_what_the_checker_of_the_task_takes(places: list[int], problem: str) -> None:
    x, results = torch.tensor([[5.0, 1.0, 5.0]]), mmap.mmap(-1, 24)
    results.write(torch.tensor([5.0, 5.0]).numpy().tobytes() + torch.tensor(places).numpy().tobytes())
    limits = {"shape": [1, 2], "tolerance": 1e-3, "rms_tolerance": 1e-3}
    described = [{"name": "values", "dtype": "float32", **limits}, {"name": "places", "dtype": "int64", **limits}]
    module = ModuleType("reference")
    module.CHECKER, module.forward = "ties", lambda x: x.topk(2)  # type: ignore[attr-defined]
    checker = checker_of(module, "forward")
    run, cases = {"config": 0, "offsets": [0, 8]}, [([x], checker.truth([x]))]
    text, near = reference._problem(run, [{"results": described}], cases, checker, results)
    assert text.startswith(problem)
    assert (bool(text), near) == (bool(problem), False)
