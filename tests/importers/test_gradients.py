"""Backward tasks of others: which argument is what, gradients in both precisions, and one judged for real."""

from dataclasses import replace

import pytest
import torch

from benchmarks.harness import ForeignConfig, Source, Verdict, examine, judge
from benchmarks.harness.child.gradients import backward_task, drawn_backward, form_of, plan_of
from benchmarks.harness.tasks.spec_json import write_folder

from .conftest import FIXTURES, foreign

SOURCE = (FIXTURES / "robust_kbench/tasks/gated_linear/func_backward.py").read_text()
SEED = bytes(range(32))
KERNEL = """
#include <torch/extension.h>
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor w, torch::Tensor b, double slope) {
    auto h = torch::addmm(b, x, w.t());
    auto gh = torch::where(h > 0, g, g * slope);
    return {torch::mm(gh, w), torch::mm(gh.t(), x), gh.sum(0)};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward, "backward"); }
"""


def names_of(source: str) -> dict:
    names: dict = {}
    exec(compile(source, "task.py", "exec"), names)  # noqa: S102 - our own fixture
    return names


@pytest.fixture
def names() -> dict:
    return names_of(SOURCE)


@pytest.fixture
def drawn(names: dict):
    return drawn_backward(names, SEED, {"batch_size": 5})


def test_arguments_are_those_that_the_author_hands_over(drawn) -> None:
    plan = plan_of(drawn)
    assert plan["gradient"] == 0
    assert plan["operands"] == [{"argument": 1}, {"argument": 2}, {"argument": 3}, {"value": 0.1}]


def test_the_same_seed_draws_the_same_and_another_one_something_else(names: dict, drawn) -> None:
    again, other = (drawn_backward(names, seed, {"batch_size": 5}) for seed in (SEED, bytes(32)))
    assert all(map(torch.equal, drawn.arguments[:4], again.arguments[:4]))
    assert not any(map(torch.equal, drawn.arguments[:4], other.arguments[:4]))


def test_both_precisions_give_the_gradients(names: dict, drawn) -> None:
    backward, _ = backward_task(names, {form_of(drawn.arguments): plan_of(drawn)})
    single = [item.detach() if isinstance(item, torch.Tensor) else item for item in drawn.arguments]
    double = [item.double() if isinstance(item, torch.Tensor) else item for item in single]
    with torch.no_grad():
        found, exact = backward(*single), backward(*double)
    grad, x, weights, biases, slope = double
    hidden = x @ weights.t() + biases
    through = torch.where(hidden > 0, grad, grad * slope)
    for one, other, right in zip(found, exact, (through @ weights, through.t() @ x, through.sum(0)), strict=True):
        assert torch.allclose(other, right)
        assert torch.allclose(one.double(), right, atol=1e-5)


def test_a_backward_kernel_that_gets_saved_results_is_refused() -> None:
    text = SOURCE.replace("ctx.save_for_backward(x, weights, biases)", "ctx.save_for_backward(x, weights, x * 2)")
    with pytest.raises(TypeError, match="argument 3 of the backward kernel is neither an operand nor the gradient"):
        plan_of(drawn_backward(names_of(text), SEED, {}))


@pytest.mark.forkable
@pytest.mark.sandbox
def test_an_imported_gradient_is_judged(rules, paths, sandbox, crews, tmp_path) -> None:
    configs = (ForeignConfig("single", {"batch_size": 16}), ForeignConfig("multi", {"batch_size": 5}))
    found = examine(foreign(SOURCE, "gradients", configs), paths, compare_compiled=False)
    assert found.problem == ""
    task = replace(found.task, folder=tmp_path)
    write_folder(task, tmp_path)
    with crews.at_work():
        right = judge(Source(KERNEL, "cpp"), task, rules, paths, quick=True)
        wrong = judge(Source(KERNEL.replace("g * slope", "g"), "cpp"), task, rules, paths, quick=True)
    assert right.verdict is Verdict.PASS
    assert wrong.verdict is Verdict.INCORRECT_VALUE
