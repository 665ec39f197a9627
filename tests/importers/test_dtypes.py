"""A task in bfloat16: examined and judged for real on the processor, honest kernels and lower precision."""

from dataclasses import replace

import pytest

from benchmarks.harness import Source, Verdict, examine, judge
from benchmarks.harness.tasks.spec_json import write_folder

from .conftest import foreign

pytestmark = pytest.mark.sandbox

NORM = """
import torch
class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(256)).to(torch.bfloat16))
    def forward(self, x):
        y = {operand}.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
        return (y * self.weight.float()).to(x.dtype)
"""
INPUTS = """
def get_inputs():
    return [torch.randn(64, 256).to(torch.bfloat16)]
"""
CPP = """
#include <torch/extension.h>
#include <cmath>

torch::Tensor forward(torch::Tensor x, torch::Tensor weight) {
    auto out = torch::empty({x.size(0), x.size(1)}, x.options().dtype(torch::kBFloat16));
    const at::BFloat16* in = x.data_ptr<at::BFloat16>();
    const at::BFloat16* w = weight.data_ptr<at::BFloat16>();
    at::BFloat16* to = out.data_ptr<at::BFloat16>();
    const int64_t n = x.size(1);
    for (int64_t row = 0; row < x.size(0); ++row) {
        float sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += float(in[row * n + i]) * float(in[row * n + i]);
        const float scale = 1 / std::sqrt(sum / n + 1e-6f);
        for (int64_t i = 0; i < n; ++i) to[row * n + i] = at::BFloat16(float(in[row * n + i]) * scale * float(w[i]));
    }
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.fixture(scope="module")
def task(paths, tmp_path_factory):
    source = (NORM + INPUTS).format(name="Model", operand="x")
    found = examine(foreign(source), paths, compare_compiled=False)
    assert found.task is not None, found.problem
    assert found.labels == ("one-shape",)
    task = replace(found.task, folder=tmp_path_factory.mktemp("task"))
    write_folder(task, task.folder)
    return task


@pytest.fixture
def judged(task, rules, paths, crews):
    def run(text: str, language: str):
        return judge(Source(text, language), task, rules, paths, quick=True)

    with crews.at_work():
        yield run


WIDE = NORM.replace(".to(x.dtype)", "")


@pytest.mark.parametrize(
    ("text", "language", "verdict"),
    [
        (NORM.format(name="ModelNew", operand="x"), "python", Verdict.PASS),
        (CPP, "cpp", Verdict.PASS),
        (NORM.format(name="ModelNew", operand="x.to(torch.float8_e4m3fn)"), "python", Verdict.INCORRECT_VALUE),
        (WIDE.format(name="ModelNew", operand="x"), "python", Verdict.INCORRECT_DTYPE),
    ],
    ids=["honest", "honest in C++", "float8 inside", "another dtype"],
)
def test_a_kernel_gets_its_verdict(judged, text: str, language: str, verdict: Verdict) -> None:
    report = judged(text, language)
    assert report.verdict is verdict, report.reason
