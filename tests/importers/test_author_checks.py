"""Checks of GPU MODE's authors that decide themselves: what they accept, and hostile ones."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

from benchmarks.boards.labels import is_ranked
from benchmarks.harness import Examined, Source, Verdict, examine, judge, starter_code
from benchmarks.harness.child.check import load_reference
from benchmarks.harness.child.checkers import Checker, CheckFault, checker_of
from benchmarks.harness.tasks.spec_json import write_folder
from benchmarks.importers import problem_at

UTILS = """
def first_difference(one, other):
    wrong = (one != other).nonzero()
    return "" if not len(wrong) else f"counts differ at {wrong[0].tolist()}"
"""
COUNTS = """
import torch
from utils import first_difference

def generate_input(size, seed):
    return torch.randint(0, 16, (size,), device="cuda", dtype=torch.int32)

def ref_kernel(data):
    return torch.bincount(data, minlength=16)

def check_implementation(data, output):
    if output.dtype != torch.int64 or output.sum() != len(data):
        return "these are no counts"
    return first_difference(torch.sort(output).values, torch.sort(ref_kernel(data)).values) or first_difference(
        output, ref_kernel(data)
    )
"""
SUMS = """
import torch

def generate_input(size, seed):
    return torch.randn(size, device="cuda"), torch.empty(size, device="cuda")

def ref_kernel(data):
    x, out = data
    out[...] = x.double().cumsum(0).float()
    return out

def check_implementation(data, output):
    x, _ = data
    off = (output.double() - x.double().cumsum(0)).abs().max()
    limit = 1e-6 * len(x) ** 0.5
    return bool(off <= limit), f"off by {off:.3g}, over {limit:.3g}"
"""
FACTORS = """
import torch

def generate_input(size, seed):
    return torch.randn(size, size, device="cuda")

def ref_kernel(data):
    q, r = torch.linalg.qr(data)
    return q, r

def check_implementation(data, output):
    q, r = output
    one = torch.eye(len(data), dtype=torch.float64, device=data.device)
    assert bool((r.tril(-1) == 0).all()), "r is no triangle"
    far = max(
        float((q.double().T @ q.double() - one).abs().max()),
        float((q.double() @ r.double() - data.double()).abs().max()),
    )
    return far <= 2e-5, f"off by {far:.3g}"
"""


def problem(folder: Path, reference: str) -> Path:
    """A folder of GPU MODE, whose submission is `ref_kernel` itself."""
    place = folder / "set" / "own_check"
    place.mkdir(parents=True)
    files = [{"name": name, "source": name} for name in ("reference.py", "utils.py")]
    cases = {"benchmarks": [{"size": 48, "seed": 1}], "tests": [{"size": 32, "seed": 2}]}
    (place / "task.yml").write_text(yaml.safe_dump({"files": files, "lang": "py", **cases}))
    (place / "reference.py").write_text(textwrap.dedent(reference))
    (place / "utils.py").write_text(UTILS)
    return place


@pytest.fixture
def outcome(tmp_path: Path, paths) -> Callable[..., Examined]:
    def of(reference: str, **how: float) -> Examined:
        found = problem_at(problem(tmp_path, reference))
        assert found.task is not None, found.problem
        return examine(found.task, paths, compare_compiled=False, **how)

    return of


RIGHT = {
    COUNTS: "import torch\ndef custom_kernel(data):\n    return torch.bincount(data, minlength=16)\n",
    SUMS: "def custom_kernel(data):\n    x, out = data\n    out.copy_(x.double().cumsum(0))\n    return out\n",
    FACTORS: "import torch\ndef custom_kernel(data):\n    q, r = torch.linalg.qr(data)\n    return -q, -r\n",
}
WRONG = {
    COUNTS: ("minlength=16)", "minlength=16).flip(0)", "counts differ at ["),
    SUMS: ("x.double()", "(1.001 * x.double())", "off by "),
    FACTORS: ("-r", "-r + 1e-3", "AssertionError: r is no triangle"),
}


@pytest.mark.sandbox
@pytest.mark.parametrize("reference", RIGHT, ids=["counts", "sums", "factors"])
def test_a_problem_with_a_check_of_its_own_is_judged_by_it(
    reference: str, outcome: Callable[..., Examined], tmp_path: Path, *, rules, paths, crews
) -> None:
    examined = outcome(reference)
    assert examined.task is not None, examined.problem
    assert examined.labels == ("author-checker",), examined.notes
    task = replace(examined.task, folder=tmp_path / "task")
    task.folder.mkdir()
    write_folder(task, task.folder)
    before, after, words = WRONG[reference]
    sources = [RIGHT[reference], RIGHT[reference].replace(before, after)]
    assert "def custom_kernel" in starter_code(task, "python")
    with crews.at_work():
        right, wrong = (judge(Source(text, "python"), task, rules, paths, quick=True) for text in sources)
    assert right.verdict is Verdict.PASS, right.reason
    assert wrong.verdict is Verdict.INCORRECT_VALUE
    assert f"the author's check refuses the result: {words}" in wrong.reason


def checked(body: str) -> str:
    """SUMS with another check."""
    return (
        SUMS[: SUMS.index("def check_")] + "def check_implementation(data, output):\n" + textwrap.indent(body, "    ")
    )


ASKS = "x, _ = data\nok = torch.allclose(output, x.double().cumsum(0).float(), atol=1e-5)\n"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("body", "labels"),
    [
        ("return True, ''", {"author-checker", "cheap-answers", "low-precision"}),
        ("return output.dtype == torch.float32, 'wrong dtype'", {"author-checker", "cheap-answers", "low-precision"}),
        (
            "x, _ = data\nreturn torch.allclose(output, x.cumsum(0), atol=2.0), ''",
            {"author-checker", "cheap-answers", "low-precision"},
        ),
        (ASKS + "data[0].zero_()\noutput.zero_()\nreturn ok, ''", {"author-checker"}),
        (ASKS + "print('x' * (100 << 20))\nreturn ok, 'y' * (100 << 20)", {"author-checker"}),
    ],
    ids=["always yes", "looks at the dtype", "lax", "writes into its arguments", "prints megabytes"],
)
def test_what_a_check_accepts_becomes_labels(body: str, labels: set[str], outcome: Callable[..., Examined]) -> None:
    found = outcome(checked(body))
    assert found.task is not None, found.problem
    assert set(found.labels) == labels, found.notes
    assert is_ranked(found.labels) is (labels == {"author-checker"})


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "trying the checker on it took more than 8 s on this machine (line "),
        ("return False, 'never'", "refuses the result: never"),
        ("raise KeyError('lost')", "check_implementation fails on the reference's own result: KeyError: 'lost'"),
        ("return 1", "check_implementation returns neither (bool, message) nor a text, but a int"),
        ("return True", "neither (bool, message) nor a text, but a bool"),
        (
            "calls = globals().setdefault('calls', [])\ncalls.append(0)\nreturn len(calls) % 2 == 1, 'this time'",
            "check_implementation gives two answers to one result",
        ),
        ("import os\nos._exit(0)", "its process ended while trying the checker on it"),
    ],
    ids=["never ends", "never yes", "raises", "a number", "a bool alone", "two answers", "ends the process"],
)
def test_a_check_that_cannot_judge_is_refused_by_name(body: str, words: str, outcome: Callable[..., Examined]) -> None:
    found = outcome(checked(body), timeout_s=8 if "more than 8 s" in words else 20)
    assert found.task is None
    assert words in found.problem


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Checker]:
    def make(body: str) -> Checker:
        head = 'import random, torch\nCHECKER = "author-property"\ndef forward(x): return 2 * x\n'
        text = head + "def kbench_check(arguments, results):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        (tmp_path / "reference.py").write_text(text)
        return checker_of(load_reference(tmp_path), "forward")

    return make


X = torch.arange(4.0)


def said(checker: Checker, outputs: Sequence[Tensor] = (2 * X,), x: Tensor = X) -> tuple[bool, str]:
    [found] = checker.compare("candidate0 0", [x], outputs, checker.truth([x]), [{"name": "y", "dtype": "float32"}])
    return found.ok, found.reason


@pytest.mark.parametrize(
    ("body", "ok"),
    [
        ("return True, 'fine'", True),
        ("return ''", True),
        ("return None", True),
        ("return torch.tensor(True), ''", True),
        ("return (results[0] == 2 * arguments[0]).all().numpy()[()], ''", True),
        ("return False, None", False),
        ("return 'wrong'", False),
    ],
)
def test_it_may_answer_in_several_forms(made: Callable[[str], Checker], body: str, ok: bool) -> None:
    assert said(made(body))[0] is ok


@pytest.mark.parametrize("body", ["return 0", "return ()", "return 1, ''", "return True, '', ''", "return results"])
def test_odd_answers_are_faults_of_the_task(made: Callable[[str], Checker], body: str) -> None:
    with pytest.raises(CheckFault, match="returns neither"):
        said(made(body))


def test_its_words_are_short_and_harmless(made: Callable[[str], Checker]) -> None:
    _, reason = said(made(r"return False, '\x1b[31m\0\ud800\n' + 'x' * (1 << 24)"))
    assert reason.isprintable()
    assert len(reason) < 400


def test_it_gets_copies(made: Callable[[str], Checker]) -> None:
    x, out = X.clone(), 2 * X
    assert said(made("arguments[0].zero_()\nresults[0].zero_()\nreturn ''"), [out], x)[0]
    assert torch.equal(x, X)
    assert torch.equal(out, 2 * X)


def test_what_is_not_finite_is_refused_before_it_is_asked(made: Callable[[str], Checker]) -> None:
    assert said(made("return ''"), [X / 0]) == (False, "a result is not finite")


def test_what_it_draws_nobody_foresees(made: Callable[[str], Checker]) -> None:
    """A check may multiply by random vectors; a kernel that knew them could be right for these alone."""
    checker = made("torch.manual_seed\nreturn str((torch.rand(1).item(), random.random()))")
    state = torch.random.get_rng_state()
    assert said(checker) != said(checker)
    assert torch.equal(state, torch.random.get_rng_state())


def test_an_answer_that_it_cannot_take_is_wrong(made: Callable[[str], Checker]) -> None:
    """Whose fault it is the reference's own answer tells."""
    checker = made("assert results[0][1] == 2, 'the second is 2'\nreturn ''")
    assert said(checker, [X]) == (
        False,
        "the author's check refuses the result: AssertionError: the second is 2",
    )
    with pytest.raises(CheckFault, match="fails on the reference's own result: ZeroDivisionError"):
        said(made("return 1 / 0"))
