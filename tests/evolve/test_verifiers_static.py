"""V0: what it rejects, with which line; what it only doubts; and that it leaves correct kernels alone."""

import re
from collections import Counter
from pathlib import Path

import pytest

from agents.evolve.templates import TEMPLATES, Template
from agents.evolve.verifiers.static import StaticVerifier
from benchmarks.harness import LANGUAGE_OF_SUFFIX, TaskSpec, default_suites, find_task
from scripts.corpus import Case, read_cases

VERIFIER = StaticVerifier()
DOCS = " ".join((Path(__file__).parents[2] / "docs" / "agents.md").read_text().split())
TASK = find_task(default_suites(), "mnist_linear_relu/forward")

KERNEL = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    const float *px = x.data_ptr<float>(), *pw = weights.data_ptr<float>(), *pb = biases.data_ptr<float>();
    float* py = y.data_ptr<float>();
    for (int64_t i = 0; i < x.size(0); ++i)
        for (int64_t o = 0; o < weights.size(0); ++o) {
            float sum = pb[o];
            for (int64_t k = 0; k < x.size(1); ++k) sum += px[i * x.size(1) + k] * pw[o * x.size(1) + k];
            py[i * weights.size(0) + o] = std::max(0.0f, sum);
        }
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
CUDA = """#include <torch/extension.h>
constexpr int kThreads = 256;
__global__ void __launch_bounds__(256) scale(const float* x, float* y, int n) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[255 - threadIdx.x];
}
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases).relu_();
    scale<<<1, kThreads, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), 256);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


def changed(old: str, new: str, text: str = KERNEL) -> str:
    assert old in text
    return text.replace(old, new)


def test_it_accepts_what_it_understands() -> None:
    assert VERIFIER.look(KERNEL, "cpp", TASK).decision == "accept"


@pytest.mark.parametrize(
    ("old", "new", "fault", "line"),
    [
        ("\n        }\n    return y", "\n    return y", "compile", None),
        ("&forward", "&launch", "compile", 14),
        ('m.def("forward"', 'm.def("forwards"', "interface", 14),
        (", torch::Tensor biases)", ")", "interface", 2),
        ("torch::Tensor biases)", "double biases)", "interface", 2),
        ("torch::Tensor weights, torch::Tensor biases", "torch::Tensor biases, torch::Tensor weights", "interface", 2),
        ("return y;", "return {y, x};", "interface", None),
        ("return y;", "return y.to(torch::kFloat64);", "interface", 12),
        ("return y;", "return y.unsqueeze(0);", "interface", 12),
        ("{x.size(0), weights.size(0)}", "{x.size(0)}", "interface", 12),
        ("return y;", "return torch::zeros_like(y);", "cheating", 12),
        ("return y;", "return torch::full({x.size(0), 8}, 0.5f, x.options());", "cheating", 12),
        ("py[i * weights.size(0) + o] = std::max(0.0f, sum);", "", "memory", 3),
        ("    return y;", "    x.zero_();\n    return y;", "memory", 12),
        ("return y;", 'system("true"); return y;', "cheating", 12),
    ],
)
def test_it_rejects_what_is_certain_and_cites_the_line(old: str, new: str, fault: str, line: int | None) -> None:
    source = changed(old, new)
    if "{y, x}" in new:
        source = changed("torch::Tensor forward", "std::vector<torch::Tensor> forward", source)
    opinion = VERIFIER.look(source, "cpp", TASK)
    assert (opinion.decision, opinion.fault) == ("reject", fault)
    assert opinion.reasons[0].line == (line or opinion.reasons[0].line)
    assert opinion.reasons[0].line is not None


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("float sum = pb[o]", "static float sum; sum = pb[o]", "cheating"),
        ("float sum = pb[o]", "int sum = pb[o]", "numerics"),
        ("k < x.size(1); ++k", "k < 1600; ++k", "shape"),
        ("float sum = pb[o]", "float sum = 0", "memory"),
        ("py[i * weights.size(0) + o] = ", "py[i * weights.size(0) + o] += ", "memory"),
        ("std::max(0.0f, sum)", "sum", "numerics"),
        ("torch::Tensor weights, torch::Tensor biases", "torch::Tensor biases, torch::Tensor w", "interface"),
    ],
)
def test_it_only_doubts_what_may_be_right(old: str, new: str, fault: str) -> None:
    opinion = VERIFIER.look(changed(old, new), "cpp", TASK)
    assert (opinion.decision, opinion.fault) == ("abstain", fault)


def test_comments_and_strings_say_nothing() -> None:
    talk = '// system("rm"); } return torch::zeros({1});\n/* x.zero_(); */ const char* note = "fork( } {";\n'
    assert (
        VERIFIER.look(changed("torch::Tensor forward", talk + "torch::Tensor forward"), "cpp", TASK).decision
        == "accept"
    )


@pytest.mark.parametrize("source", ["Sure! Here is a kernel that is very fast.", "", "import torch\n", "}" * 10_000])
def test_prose_and_rubbish_are_rejected(source: str) -> None:
    assert VERIFIER.look(source, "cpp", TASK).decision == "reject"


@pytest.mark.parametrize(
    ("old", "new", "fault", "decision"),
    [
        ("kThreads = 256", "kThreads = 2048", "memory", "reject"),
        ("kThreads = 256", "kThreads = 512", "memory", "reject"),
        ("kThreads, 1024", "kThreads, 65536", "memory", "reject"),
        ("tile[256]", "tile[256][64]", "compile", "reject"),
        ("    __syncthreads();\n", "", "race", "abstain"),
    ],
)
def test_limits_and_barriers_of_cuda_kernels(old: str, new: str, fault: str, decision: str) -> None:
    assert VERIFIER.look(CUDA, "cuda", TASK).decision == "accept"
    opinion = VERIFIER.look(changed(old, new, CUDA), "cuda", TASK)
    assert (opinion.decision, opinion.fault) == (decision, fault)


def test_triton_is_parsed_and_never_accepted() -> None:
    source = "import torch\n\ndef forward(x, weights, biases):\n    return torch.relu(x)\n"
    assert VERIFIER.look(source, "triton", TASK).decision == "abstain"
    assert VERIFIER.look(source.replace(", biases", ""), "triton", TASK).decision == "reject"
    assert VERIFIER.look(source + "def (", "triton", TASK).fault == "compile"


def kernels() -> list[Path]:
    return sorted((default_suites() / "robust_kbench").glob("*/kernels/*"))


@pytest.mark.parametrize("path", kernels(), ids=lambda path: f"{path.parts[-3]}/{path.name}")
def test_no_kernel_that_comes_with_kbench_is_rejected(path: Path) -> None:
    task = find_task(default_suites(), f"{path.parts[-3]}/{path.stem.split('_')[0]}")
    assert VERIFIER.look(path.read_text(), LANGUAGE_OF_SUFFIX[path.suffix], task).decision != "reject"


def honest() -> list[Case]:
    return [case for case in (*read_cases("cpu"), *read_cases("cuda")) if case.expect == ("PASS",)]


@pytest.mark.parametrize("case", honest(), ids=lambda case: case.name)
def test_nothing_that_the_rules_let_pass_is_rejected(case: Case) -> None:
    task: TaskSpec = find_task(default_suites(), case.task)
    assert VERIFIER.look(case.source().text, case.language, task).decision != "reject"


def test_the_docs_tell_what_becomes_of_the_attacks() -> None:
    attacks = [case for case in read_cases("cpu") if case.kind == "attack" and "PASS" not in case.expect]
    tasks = {case.task: find_task(default_suites(), case.task) for case in attacks}
    found = Counter(VERIFIER.look(case.source().text, case.language, tasks[case.task]).decision for case in attacks)
    told = re.search(r"Of the (\d+) attacks that .*, it rejects (\d+), abstains on (\d+) and accepts (\d+)\.", DOCS)
    assert told is not None
    counts = [len(attacks), found["reject"], found["abstain"], found["accept"]]
    assert [int(count) for count in told.groups()] == counts


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda item: item.name)
def test_no_template_is_rejected(template: Template) -> None:
    for name in template.tasks:
        task = find_task(default_suites(), name)
        for genome in (template.naive, template.default):
            assert VERIFIER.look(template.render(genome, task), template.language, task).decision != "reject"
