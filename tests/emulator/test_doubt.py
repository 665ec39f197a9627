"""What makes a wrong result doubtful: a local variable without a value, and an error near the tolerance."""

import mmap

import pytest
import torch

from benchmarks.emulator.build import emulated_build, unset_variable
from benchmarks.emulator.children import reference
from benchmarks.harness import Paths, Source, default_rules

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
    text, found = reference._problem({"config": 0, "offsets": [0]}, [{"results": [described]}], [(right,)], results)
    assert (bool(text), found) == (error > 0, near)
