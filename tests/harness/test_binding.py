"""The small binding that stands in for pybind11: the same answers, and the real one for what it does not know."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.child.shell import load_file
from benchmarks.harness.compilers import builds
from benchmarks.harness.compilers.gxx import TIERS, Gxx
from tests.built import Kept

pytestmark = pytest.mark.sandbox
REAL = b"__pybind11_internals"  # stands in every file that was compiled with the real pybind11

KNOWN = """#include <torch/extension.h>
#include <pybind11/stl.h>
using torch::Tensor;
Tensor doubled(const Tensor &x) { return x * 2; }
Tensor scaled(Tensor x, double factor, bool negative) { return negative ? -x * factor : x * factor; }
int64_t count(Tensor &x, int8_t more) { return x.numel() + more; }
std::vector<Tensor> parts(std::vector<Tensor> of) { return of; }
std::tuple<Tensor, double> pair(Tensor &&x) { return {x, 0.5}; }
std::optional<Tensor> maybe(std::optional<Tensor> x) { return x; }
Tensor shaped(at::IntArrayRef sizes) { return torch::zeros(sizes); }
unsigned char small(unsigned char x) { return x; }
std::string text(const std::string &x) { return x + "!"; }
void nothing() {}
Tensor empty() { return {}; }
Tensor fails(Tensor x) { TORCH_CHECK(false, "too bad"); return x; }
void fails_otherwise() { throw std::out_of_range("far away"); }
int one(bool) { return 0; }
int one(int) { return 1; }
int one(Tensor) { return 2; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "what crosses over";
  m.def("doubled", &doubled, "twice");
  m.def("scaled", scaled).def("count", &count).def("parts", &parts).def("pair", &pair).def("maybe", &maybe);
  m.def("shaped", &shaped).def("small", &small).def("text", &text).def("nothing", &nothing).def("empty", &empty);
  m.def("fails", &fails).def("fails_otherwise", &fails_otherwise);
  m.def("one", static_cast<int (*)(bool)>(&one));
  m.def("one", static_cast<int (*)(int)>(&one)).def("one", static_cast<int (*)(Tensor)>(&one));
  m.def("added", [](Tensor x, Tensor y) { return x + y; });
}
"""
CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("scaled", (torch.ones(2), 3, False), torch.full((2,), 3.0)),
    ("scaled", (torch.ones(2), 0.5, True), torch.full((2,), -0.5)),
    ("scaled", (torch.ones(2), "3", False), TypeError),
    ("scaled", (torch.ones(2), 3), TypeError),
    ("count", (torch.ones(2, 3), 4), 10),
    ("count", (torch.ones(2, 3), 400), TypeError),
    ("count", (torch.ones(2, 3), 0.5), TypeError),
    ("count", (None, 4), TypeError),
    ("parts", ([torch.ones(1), torch.zeros(1)],), [torch.ones(1), torch.zeros(1)]),
    ("parts", ((torch.ones(1),),), [torch.ones(1)]),
    ("parts", ([1],), TypeError),
    ("pair", (torch.ones(1),), (torch.ones(1), 0.5)),
    ("maybe", (None,), None),
    ("maybe", (torch.ones(1),), torch.ones(1)),
    ("shaped", ([2, 3],), torch.zeros(2, 3)),
    ("small", (255,), 255),
    ("small", (-1,), TypeError),
    ("small", (256,), TypeError),
    ("text", ("é",), "é!"),
    ("text", (b"e",), "e!"),
    ("text", ("\ud800",), TypeError),
    ("text", (3,), TypeError),
    ("scaled", (torch.ones(2), 1, 1), torch.full((2,), -1.0)),
    ("scaled", (torch.ones(2), True, True), torch.full((2,), -1.0)),
    ("count", (torch.ones(1), True), 2),
    ("parts", (torch.ones(2),), TypeError),
    ("shaped", ((2, 3),), torch.zeros(2, 3)),
    ("shaped", (2,), TypeError),
    ("doubled", (torch.nn.Parameter(torch.ones(1), requires_grad=False),), torch.full((1,), 2.0)),
    ("nothing", (), None),
    ("empty", (), None),
    ("fails", (torch.ones(1),), RuntimeError),
    ("fails_otherwise", (), IndexError),
    ("one", (3,), 1),
    ("one", (torch.ones(1),), 2),
    ("one", (True,), 0),
    ("one", (None,), 0),
    ("one", ("3",), TypeError),
    ("scaled", (torch.ones(2), 1.0, None), torch.ones(2)),
    ("scaled", (torch.ones(2), 1.0, "yes"), TypeError),
    ("added", (torch.ones(1), torch.ones(1)), torch.full((1,), 2.0)),
]
PLAIN = "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x.clone(); }\n"
MORE = {
    "a named argument": "namespace py = pybind11;\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
    ' m.def("forward", &forward, py::arg("x")); }',
    "an object of Python": "namespace p = pybind11;\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
    ' m.def("forward", [](p::object x) { return x; }); }',
    "another header": "#include <pybind11/numpy.h>\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }',
    "another type": "c10::Scalar s(c10::Scalar x) { return x; }\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("s", &s); m.def("forward", &forward); }',
}


@pytest.fixture
def load(paths: Paths) -> Callable[..., ModuleType]:
    """Builds a text with the first headers that suffice and loads it here."""

    def loaded(text: str, *, real: bool, tiers: tuple[str, ...] = TIERS) -> ModuleType:
        build = builds.build_with(Kept(Gxx(tiers=tiers), tiers), Source(text, "cpp"), default_rules(), paths)
        assert build.binary is not None, build.log
        assert (REAL in build.binary.read_bytes()) is real
        return load_file(str(build.binary))

    return loaded


def answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call returns, or the type of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared
        return type(error)


def test_what_the_small_binding_knows_crosses_over_as_with_pybind11(load: Callable[..., ModuleType]) -> None:
    small, real = load(KNOWN, real=False), load(KNOWN, real=True, tiers=("thin",))
    assert (small.__doc__, small.doubled.__doc__) == ("what crosses over", "twice")
    wrong = {}
    for name, arguments, wanted in CASES:
        answers = [answer(getattr(module, name), arguments) for module in (small, real)]
        if repr(answers) != repr([wanted, wanted]):
            wrong[f"{name}{arguments!r}"] = answers
    assert not wrong
    with pytest.raises(RuntimeError, match="too bad"):
        small.fails(torch.ones(1))
    with pytest.raises(TypeError, match=r"one\(\): incompatible function arguments\. Invoked with types: str, Tensor"):
        small.one("3", torch.ones(1))


@pytest.mark.parametrize("used", MORE)
def test_what_it_does_not_know_is_built_with_pybind11(used: str, load: Callable[..., ModuleType]) -> None:
    module = load(PLAIN + MORE[used], real=True)
    torch.testing.assert_close(module.forward(torch.ones(2)), torch.ones(2))
