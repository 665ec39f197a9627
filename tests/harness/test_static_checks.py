"""What is said of a source before it is compiled."""

import pytest

from benchmarks.harness import Source, check_source, default_rules, default_suites, find_task, starter_code
from benchmarks.harness.static_checks import blank

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
