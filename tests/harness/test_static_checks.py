"""What is said of a source before it is compiled."""

import encodings
import re
import time
from collections import deque

import pytest
from hypothesis import given, settings, strategies

from benchmarks.harness import Source, check_source, default_rules, default_suites, find_task, starter_code
from benchmarks.harness.compilers.lexing import blanked
from benchmarks.harness.compilers.remarks import blank, remarks

RULES = default_rules()
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
GOOD = starter_code(TASK)


def problem(text: str, language: str = "cpp") -> str:
    return check_source(Source(text, language), TASK, RULES).problem or ""


def test_starter_code_passes() -> None:
    assert problem(GOOD) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("  \n\t", "empty"),
        ("\x7fELF\x00\x01", "not text"),
        ("// caf\ufffd\n" + GOOD, "not text"),
        (GOOD + "\n// one\r", "carriage return"),
        (GOOD + "\v", "vertical tab"),
        ("\n\f" + GOOD, "line 2 contains a form feed"),
        (GOOD + "// \u2028 int x;\n", "U+2028"),
        (GOOD + "// \u2029\n", "U+2029"),
        (GOOD + "// \x85\n", "U+0085"),
        (GOOD + "// \ud800\n", "not text"),
        ("x" * (RULES.source.max_bytes + 1), "bytes"),
        ("__global__ void k() {}\n" + GOOD, "CUDA"),
        ("import torch\ndef forward(x):\n    return x\n", "Python"),
        ("int main() { return 0; }", "PYBIND11_MODULE"),
        ("// PYBIND11_MODULE(a, m)\nint forward;", "PYBIND11_MODULE"),
        (GOOD.replace("forward", "foreword"), "'forward'"),
    ],
)
def test_a_bad_source_is_named(text: str, words: str) -> None:
    assert words in problem(text)


def test_an_unknown_language_is_named() -> None:
    assert "fortran" in problem(GOOD, "fortran")


def test_words_in_comments_and_strings_do_not_count() -> None:
    text = GOOD + '\n// __global__ fork( at::linear(\nconst char* s = "__global__ <<< system(";\n'
    found = check_source(Source(text, "cpp"), TASK, RULES)
    assert (found.problem, found.flags) == (None, ())


def test_a_library_call_is_flagged_with_its_line() -> None:
    text = GOOD.replace("// Your computation goes here.", "y = at::linear(x, weights, biases);")
    (flag,) = check_source(Source(text, "cpp"), TASK, RULES).flags
    assert flag.code == "library-call"
    assert "at::linear" in text.splitlines()[(flag.line or 0) - 1]


def test_blanking_keeps_lines_and_columns() -> None:
    text = 'a /* b\nc */ d "e\\"f" R"x(g\n)x" h // i\nj'
    assert [len(line) for line in blank(text).splitlines()] == [len(line) for line in text.splitlines()]
    assert blank(text).split() == ["a", "d", "h", "j"]


CUDA = "__global__ void k() {}\n" + GOOD
TRITON = "import torch\n@triton.jit\ndef k(x):\n    pass\ndef forward(x):\n    return x\n"


def flags(text: str, language: str) -> dict[str, int | None]:
    found = check_source(Source(text, language), TASK, RULES)
    assert found.problem is None
    return {flag.code: flag.line for flag in found.flags}


def test_good_sources_of_each_language_have_no_remarks() -> None:
    assert (flags(GOOD, "cpp"), flags(CUDA, "cuda"), flags(TRITON, "triton")) == ({}, {}, {})


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        (TRITON, "cuda", "looks like Python; the language here is CUDA"),
        (CUDA, "triton", "looks like C++ or CUDA; the language here is Triton"),
        ("__global__ void k() {}", "cuda", "PYBIND11_MODULE"),
        (CUDA.replace("forward", "foreword"), "cuda", "'forward'"),
        (TRITON.replace("forward", "foreword"), "triton", "no function 'forward'"),
        ("def outer():\n    def forward(x):\n        return x\n", "triton", "no function 'forward'"),
    ],
)
def test_what_is_wrong_is_said_in_every_language(text: str, language: str, words: str) -> None:
    assert words in problem(text, language)


def test_python_that_does_not_parse_is_left_to_the_compile_stage() -> None:
    assert problem("def forward(x:\n    return x\n", "triton") == ""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("auto y = at::linear(x, w);", "library-call"),
        ("auto y = x.matmul(w.t());", "library-call"),
        ("y->addmm_(x, w);", "library-call"),
        ("cublasSgemm(h);", "library-call"),
        ('asm volatile("add.u32 r, r, 1;");', "inline-assembly"),
        ("void* p = dlopen(name, 2);", "system-call"),
        ("__half2 h;", "low-precision"),
        ('asm("mma.sync.f32.tf32.tf32.f32");', "low-precision"),
        ("wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, L> a;", "low-precision"),
        ("cudaStreamCreateWithFlags(&s, 0);", "own-stream"),
        ("cudaGraphLaunch(g, s);", "cuda-graph"),
        ("cudaLaunchHostFunc(s, f, p);", "host-callback"),
    ],
)
def test_remarks_on_cuda_carry_their_line(line: str, code: str) -> None:
    assert flags(f"{CUDA}// one more\n{line}\n", "cuda")[code] == CUDA.count("\n") + 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.matmul(a, b)", "library-call"),
        ("torch.nn.functional.linear(a, b)", "library-call"),
        ("torch.ops.aten.mm(a, b)", "library-call"),
        ("a.matmul(b)", "library-call"),
        ("tl.inline_asm_elementwise(a)", "inline-assembly"),
        ("import ctypes", "system-call"),
        ("from subprocess import run", "system-call"),
        ("exec(a)", "system-call"),
        ("torch.utils.cpp_extension.load_inline(a)", "compiles-code"),
        ("a.to(tl.float16)", "low-precision"),
        ("tl.dot(a, b)", "low-precision"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "low-precision"),
        ("s = torch.cuda.Stream()", "own-stream"),
        ("g = torch.cuda.CUDAGraph()", "cuda-graph"),
    ],
)
def test_remarks_on_triton_carry_their_line(line: str, code: str) -> None:
    assert flags(f"{TRITON}# one more\n{line}\n", "triton")[code] == TRITON.count("\n") + 2


@pytest.mark.parametrize(
    ("line", "language", "code"),
    [
        ("a.to(cutlass.BFloat16)", "cute_dsl", "low-precision"),
        ("a = T.alloc_shared((4, 4), T.float16)", "tilelang", "low-precision"),
        ("T.call_extern('f', a)", "tilelang", "inline-assembly"),
        ("import ctypes", "numba_cuda", "system-call"),
        ("import cupy", "helion", "compiles-code"),
        ("torch.matmul(a, b)", "helion", "library-call"),
    ],
)
def test_remarks_on_other_packages_carry_their_line(line: str, language: str, code: str) -> None:
    assert flags(f"{TRITON}# one more\n{line}\n", language)[code] == TRITON.count("\n") + 2


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("import cuda.bindings.driver as cuda", "cute_dsl"),
        ("from numba import cuda", "numba_cuda"),
        ("k = cute.compile(launch, x)", "cute_dsl"),
        ("s = cuda.external_stream(7)", "numba_cuda"),
    ],
)
def test_what_a_package_needs_is_no_remark(line: str, language: str) -> None:
    assert flags(f"{TRITON}{line}\n", language) == {}


def test_a_dot_product_in_full_precision_is_no_remark() -> None:
    assert flags(TRITON + 'tl.dot(a, b, input_precision="ieee")\n', "triton") == {}


def test_no_kernel_of_its_own_is_said() -> None:
    assert flags(GOOD, "cuda") == {"no-kernel": None}
    assert flags("def forward(x):\n    return x\n", "triton") == {"no-kernel": None}


@pytest.mark.parametrize(("line", "found"), [("self.f = nn.Linear(4, 4)", True), ("class M(nn.Module): ...", False)])
def test_a_module_of_foreign_suites_that_is_made_of_layers_calls_a_library(line: str, found: bool) -> None:
    assert any(flag.code == "library-call" for flag in remarks(f"{line}\n", "python")) is found


def test_words_in_comments_and_strings_of_python_do_not_count() -> None:
    assert flags(TRITON + '# import ctypes\ns = """\nimport ctypes\ntorch.matmul(a)"""\n', "triton") == {}
    assert blank('a = """x\ny"""  # é\nb = 1\n', "triton") == "a =     \n         \nb = 1\n"


PARTS = [
    *('"', '\\"', '"\\a', '""a', "'", "'a", '"""', "'''", '"""\\', "/*", "*/", "//", "# ", 'R"x(', ')x"', 'u8R"'),
    *("\\", "\\\n", "\n", " ", "\t\n", "a", "a ", "é", "\U0001f600", "{", "((", "[", "a+", "@ ", "\x0b", "\x0c"),
    *("at::", "at::mm ", "torch::nn::", "torch.", "fork ", "execv", "cusolverA", "TF3", "__attribute__ ", "conv2d"),
    *(
        "def ",
        "import ",
        "from a ",
        "PYBIND11_MODULE ",
        "#include ",
        "<<",
        "__global_",
        "half1 asm1 tf32a .f1 nn.A cuda. ",
    ),
]
HEADS = {
    "cpp": "PYBIND11_MODULE(a, m) forward\n",
    "cuda": "PYBIND11_MODULE(a, m) forward __global__\n",
    "triton": "def forward(x):\n",
}
LIMIT_S = 0.05
SCAN_S = 0.035  # what `scanning_s` takes on a quiet core of a Xeon with AVX-512


def scanning_s() -> float:
    """The processor time of a plain scan, which other work on the same core makes longer by as much as a check."""
    started = time.process_time()
    deque(re.finditer(r"\w+|\W", "at::" * (1 << 16)), maxlen=0)
    return time.process_time() - started


def checking_s(text: str, language: str) -> float:
    """Of several runs the fastest, in processor time as it would be on the core that `SCAN_S` stands for."""
    found = []
    for _ in range(12):
        blanked.cache_clear()
        started = time.process_time()
        check_source(Source(text, language), TASK, RULES)
        found.append(time.process_time() - started)
        if found[-1] < LIMIT_S:
            break
        found[-1] /= max(1.0, scanning_s() / SCAN_S)
    return min(found)


@pytest.mark.alone
@pytest.mark.parametrize("language", HEADS)
def test_no_text_holds_the_check_up(language: str) -> None:
    """Up to the size that the rules allow, and of a megabyte."""
    sizes = (RULES.source.max_bytes - 100, 1 << 20)
    texts = [HEADS[language] + part * (size // len(part.encode())) for part in PARTS for size in sizes]
    slow = {
        text[len(HEADS[language]) :][:20]: found for text in texts if (found := checking_s(text, language)) > LIMIT_S
    }
    assert slow == {}


@pytest.mark.alone
@settings(max_examples=40, deadline=None)
@given(
    parts=strategies.lists(strategies.sampled_from(PARTS), min_size=1, max_size=6),
    language=strategies.sampled_from(list(HEADS)),
)
def test_no_mixture_holds_the_check_up(parts: list[str], language: str) -> None:
    text = "".join(parts)
    text = HEADS[language] + text * ((RULES.source.max_bytes - 100) // len(text.encode()))
    assert checking_s(text, language) < LIMIT_S


@pytest.mark.parametrize("language", HEADS)
def test_null_bytes_are_no_text(language: str) -> None:
    assert "not text" in problem("\0" * 1000 + HEADS[language], language)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('a "open\nb', "a b"),
        ("1'000'000 + a", "1'000'000 + a"),
        ("x = '\\'' + b", "x = + b"),
        ('R"(a"\n)" b', "b"),
        ("/* open\nc", ""),
        ('"a\\', "\\"),
    ],
)
def test_what_is_not_closed_ends_with_its_line_or_the_text(text: str, rest: str) -> None:
    assert blank(text).split() == rest.split()


def test_a_definition_in_a_string_is_none() -> None:
    assert "no function 'forward'" in problem('"""\ndef forward(x):\n"""\n', "triton")


def test_a_check_keeps_nothing_of_a_text() -> None:
    """Python's codecs keep each name that they do not know, in each process of the site and for ever."""
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    before = sum(map(len, encodings._cache))
    for number in range(5):
        text = f"# coding: x{number}{200_000 * 'y'}\ndef forward(x, w, b):\n    return x\n"
        assert check_source(Source(text, "triton"), task, RULES).problem is not None
    assert sum(map(len, encodings._cache)) - before < 10_000
