"""Modules as submissions: judged for real on the processor, honest and not; CUDA is compiled where there is nvcc."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import Source, Verdict, check_source, judge, starter_code
from benchmarks.harness.compilers.builds import build
from benchmarks.harness.compilers.nvcc import Nvcc
from benchmarks.harness.compilers.python_module import extension_source
from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.tasks.spec_json import write_folder
from tests.fixtures.kernelbench_kernels import CHEATS, CPP, HARMLESS, INLINE, INLINE_HEAD, MODULE

pytestmark = pytest.mark.sandbox

AFFINE = "level1/2_Affine_tanh.py"


@pytest.fixture(scope="module")
def task(examined, tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    task = replace(examined(AFFINE).task, folder=folder)
    write_folder(task, folder)
    return task


@pytest.fixture
def judged(task, rules, paths, sandbox, crews):
    def run(text: str, language: str = "python"):
        return judge(Source(text, language), task, rules, paths, quick=True)

    with crews.at_work():
        yield run


@pytest.mark.forkable
@pytest.mark.parametrize(("text", "language"), [(INLINE, "python"), (HARMLESS, "python"), (CPP, "cpp")])
def test_an_honest_submission_passes(judged, text: str, language: str) -> None:
    report = judged(text, language)
    assert report.verdict is Verdict.PASS, report.reason
    assert report.score.speedup > 0


@pytest.mark.forkable
def test_the_starter_passes(judged, task) -> None:
    assert judged(starter_code(task, "python")).verdict is Verdict.PASS


@pytest.mark.parametrize("name", CHEATS)
def test_a_module_that_cheats_is_wrong(judged, name: str) -> None:
    report = judged(CHEATS[name])
    assert report.verdict is Verdict.INCORRECT_VALUE, report.reason


def test_state_of_another_shape_is_refused_with_both_named(judged) -> None:
    report = judged(INLINE.replace("nn.Linear(in_features", "nn.Linear(1 + in_features"))
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "linear.weight has shape [48, 65], that of Model has [48, 64]" in report.reason


def test_an_error_in_inline_code_is_told_with_its_line(judged) -> None:
    report = judged(INLINE.replace("torch::addmm", "torch::admm"))
    assert report.verdict is Verdict.COMPILE_ERROR
    assert "cpp_sources:3" in report.reason


def test_an_extension_that_is_asked_for_late_is_not_built(judged) -> None:
    late = INLINE_HEAD.replace("fused = load_inline", "make = lambda: load_inline")
    report = judged(MODULE.format(head=late, init="self.fused = make()", body="return self.fused.affine_tanh(x)"))
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "call it at the top level" in report.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\n", "there is no class 'ModelNew'"),
        ("#include <torch/extension.h>\nint f() {}\n", "this looks like C++ or CUDA"),
    ],
)
def test_what_is_no_module_is_refused_before_it_compiles(task, rules, text: str, words: str) -> None:
    assert words in str(check_source(Source(text, "python"), task, rules).problem)


def test_a_module_is_no_answer_to_a_task_of_functions(rules) -> None:
    from benchmarks.harness import default_suites, find_task

    task = find_task(default_suites(), "mnist_pool/forward")
    assert "has no module to replace" in str(check_source(Source(INLINE, "python"), task, rules).problem)


CUDA_HEAD = '''
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void add_kernel(const float* x, const float* y, float* out, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
torch::Tensor add(torch::Tensor x, torch::Tensor y) {
    auto out = torch::empty_like(x);
    add_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                 out.data_ptr<float>(), x.numel());
    return out;
}
"""
added = load_inline(
    name="added", cpp_sources="torch::Tensor add(torch::Tensor x, torch::Tensor y);", cuda_sources=cuda,
    functions=["add"], verbose=True, extra_cuda_cflags=["--use_fast_math"],
)
'''
CUDA = MODULE.format(head=CUDA_HEAD, init="pass", body="return added.add(x, x)")


def test_inline_cuda_is_compiled_for_the_gpu(rules, paths) -> None:
    try:
        Nvcc("sm_90").fingerprint(rules)
    except SupervisorError as error:
        pytest.skip(str(error))
    made = build(Source(CUDA, "python"), rules, paths, target="sm_90")
    assert made.binary is not None, made.log
    assert (Path(made.binary) / "extension0.so").is_file()
    assert [item.kernel.partition("(")[0] for item in made.resources] == ["add_kernel"]
    assert "left out: --use_fast_math" in made.log


def test_inline_cuda_is_not_for_the_processor(rules, paths) -> None:
    made = build(Source(CUDA, "python"), rules, paths)
    assert made.binary is None
    assert "CUDA sources, which the CPU does not run" in made.log


def test_sources_are_put_together_as_torch_does() -> None:
    text = extension_source({"name": "a", "cpp": ["int f();"], "cuda": [], "functions": {"f": "f"}, "flags": ["-DN=3"]})
    assert text.index("#include <torch/extension.h>") < text.index("#define N 3") < text.index("int f();")
    assert 'm.def("f", &f, "f");' in text
