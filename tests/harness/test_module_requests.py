"""What a Python module asks to have compiled: its answer is that of a hostile process, and its texts become sources."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.compilers import python_module
from benchmarks.harness.compilers.python_module import extension_source, requests_of
from benchmarks.harness.sandbox.outbox import NotTaken

REQUEST: dict[str, Any] = {
    "name": "scaled",
    "cpp": ["torch::Tensor twice(torch::Tensor x);"],
    "cuda": [],
    "functions": {"twice": "doubles"},
    "flags": [],
}


def sent(*requests: Any) -> bytes:
    return json.dumps(list(requests)).encode()


def test_the_same_extension_is_built_once_however_often_it_is_asked_for() -> None:
    other = {**REQUEST, "flags": ["-DN=2"]}
    assert requests_of(sent(REQUEST, other, REQUEST)) == [REQUEST, other]


def test_the_order_of_names_makes_no_other_extension() -> None:
    """The candidate's stand-in finds a build by the same key."""
    turned = dict(reversed(REQUEST.items()))
    assert requests_of(sent(REQUEST, turned)) == [REQUEST]


def test_a_module_asks_for_a_few_extensions() -> None:
    many = [{**REQUEST, "name": str(number)} for number in range(9)]
    assert len(requests_of(sent(*many[:8]))) == 8
    with pytest.raises(NotTaken, match="9 extensions, of which 8 are allowed"):
        requests_of(sent(*many))


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7},
        {"name": "a\nb"},
        {"name": "n" * 101},
        {"cpp": "int x;"},
        {"cpp": [7]},
        {"cuda": None},
        {"flags": [None]},
        {"flags": ["\ud800"]},
        {"functions": ["twice"]},
        {"functions": {"twice": 7}},
        {"functions": {"twice": "\udfff"}},
        {"functions": {"2fast": "x"}},
        {"functions": {"a;b": "x"}},
        {"functions": {"ſ": "x"}},  # a letter of Python's, and none of C++'s
        {"functions": {"f" * 201: "x"}},
        {"more": []},
    ],
)
def test_an_extension_of_another_form_is_not_taken(change: dict[str, Any]) -> None:
    with pytest.raises(NotTaken, match="not a list of requests"):
        requests_of(sent({**REQUEST, **change}))


@pytest.mark.parametrize("lost", REQUEST)
def test_an_extension_that_lacks_a_part_is_not_taken(lost: str) -> None:
    with pytest.raises(NotTaken, match="not a list of requests"):
        requests_of(sent({name: value for name, value in REQUEST.items() if name != lost}))


@pytest.mark.parametrize("answer", [b"", b"{", b"[" * 100_000, b"\xff", b"{}", b"7", b"null", b'"[]"', b"[7]", b"[[]]"])
def test_what_is_no_list_is_not_taken(answer: bytes) -> None:
    with pytest.raises(NotTaken):
        requests_of(answer)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda item: st.lists(item) | st.dictionaries(
    st.sampled_from([*REQUEST, "other"]), item
)))  # fmt: skip
def test_whatever_json_comes_it_is_taken_or_refused(value: Any) -> None:
    try:
        found = requests_of(json.dumps(value).encode())
    except NotTaken:
        return
    assert all(set(item) == set(REQUEST) for item in found)


def test_a_source_counts_lines_of_each_string_from_one() -> None:
    text = extension_source({**REQUEST, "cpp": ["int a;", "int b;"], "cuda": ["__global__ void k() {}"]})
    assert text.count('#line 1 "cpp_sources"') == 2
    assert text.index("int b;") < text.index('#line 1 "cuda_sources"') < text.index("__global__")
    assert "#include <cuda_runtime.h>" in text


def test_words_of_a_function_cannot_leave_their_literal() -> None:
    text = extension_source({**REQUEST, "functions": {"twice": '"); system("true'}})
    assert r'm.def("twice", &twice, "\"); system(\"true");' in text


def test_only_definitions_are_taken_from_flags_and_the_rest_is_listed() -> None:
    request = {**REQUEST, "flags": ["-DN=3", "-DFAST", "-O0", "-I/etc", "-DN", ""]}
    text = extension_source(request)
    assert [line for line in text.split("\n") if line.startswith("#define")] == [
        "#define N 3",
        "#define FAST 1",
        "#define N 1",
    ]
    assert "-O0" not in text
    assert python_module._remarks(request) == ("scaled: compiled with the flags of the rules; left out: -O0 -I/etc\n")
    assert python_module._remarks(REQUEST) == ""


def test_an_extension_without_functions_brings_a_binding_of_its_own() -> None:
    assert "PYBIND11_MODULE" not in extension_source({**REQUEST, "functions": {}})
