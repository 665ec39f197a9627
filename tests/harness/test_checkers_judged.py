"""A task with several right answers, judged: whoever takes the other one of equal values is right."""

from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, Verdict, default_rules, judge
from benchmarks.harness.tasks.spec import TaskSpec, find_task

pytestmark = pytest.mark.sandbox
TOML = """
op = "top"
title = "Largest values"
formula = "the three largest values of each row and their places"
summary = "For the tests."
family = "test"
[forward]
version = 1
arguments = [{ name = "x", shape = ["rows", "columns"], draw = "input" }]
results = [
    { name = "values", shape = ["rows", 3], tolerance = 1e-6, rms_tolerance = 1e-6 },
    { name = "places", shape = ["rows", 3], dtype = "int64", tolerance = 1e-6, rms_tolerance = 1e-6 },
]
flops = "rows * columns"
[forward.cpu.single]
input = [{ rows = 8, columns = 64 }]
"""
REFERENCE = """
CHECKER = "ties"


def forward(x):
    return tuple(x.topk(3))
"""
# drawn as whole numbers, rows are full of equal values; `ORDER` says which of them comes first
KERNEL = """
#include <torch/extension.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto values = torch::empty({rows, 3}, x.options());
    auto places = torch::empty({rows, 3}, x.options().dtype(torch::kLong));
    const float* p = x.data_ptr<float>();
    std::vector<int64_t> order(columns);
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = p + r * columns;
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [row](int64_t a, int64_t b) {
            return row[a] != row[b] ? row[a] > row[b] : a > b;
        });
        for (int64_t k = 0; k < 3; ++k) {
            values.data_ptr<float>()[r * 3 + k] = row[order[k]];
            places.data_ptr<int64_t>()[r * 3 + k] = PLACE;
        }
    }
    return {values, places};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.fixture
def task(tmp_path: Path) -> TaskSpec:
    folder = tmp_path / "suite" / "top"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE)
    return find_task(tmp_path, "suite/top/forward")


@pytest.mark.parametrize(("place", "verdict"), [("order[k]", Verdict.PASS), ("order[0] + k", Verdict.INCORRECT_VALUE)])
def test_ties_are_judged_by_what_lies_there(task: TaskSpec, paths: Paths, place: str, verdict: Verdict) -> None:
    report = judge(Source(KERNEL.replace("PLACE", place), "cpp"), task, default_rules(), paths, quick=True)
    assert report.verdict is verdict, report.reason
    if verdict is not Verdict.PASS:
        assert "places" in report.reason or "elements" in report.reason
