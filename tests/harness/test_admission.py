"""The admission of tasks: the ones that ship pass, and each kind of bad task is caught."""

import math
from pathlib import Path

import pytest
import torch

from benchmarks.harness import default_suites
from benchmarks.harness.child.admitting.admission import _rounded, admission
from benchmarks.harness.child.admitting.naive import NaiveSums
from benchmarks.harness.tasks.spec import find_task, load_suite

TASKS = [task for suite in sorted(default_suites().iterdir()) for task in load_suite(suite)]

REFERENCE = """
def forward(x, w):
    return (x * w).sum(1)

def backward(grad_output, x, w):
    return grad_output.unsqueeze(1) * w, (grad_output.unsqueeze(1) * x).sum(0)
"""
TOML = """
op = "dot"
title = "Dot products"
formula = "y = x·w"
summary = "For the tests."
family = "test"
[forward]
version = 1
arguments = [
    { name = "x", shape = ["rows", "columns"], draw = "input" },
    { name = "w", shape = ["columns"], draw = "input" },
]
results = [{ name = "y", shape = ["rows"], tolerance = 1e-4, rms_tolerance = 2e-5 }]
flops = "2 * rows * columns"
[forward.cpu.single]
input = [{ rows = 30, columns = 50 }]
[backward]
version = 1
arguments = [
    { name = "grad_output", shape = ["rows"], draw = "grad" },
    { name = "x", shape = ["rows", "columns"], draw = "input" },
    { name = "w", shape = ["columns"], draw = "input" },
]
results = [
    { name = "grad_x", shape = ["rows", "columns"], tolerance = 1e-4, rms_tolerance = 2e-5 },
    { name = "grad_w", shape = ["columns"], tolerance = 1e-4, rms_tolerance = 2e-5 },
]
flops = "2 * rows * columns"
[backward.cpu.single]
input = [{ rows = 30, columns = 50 }]
"""


def _admission(folder: Path, direction: str = "forward", toml: str = TOML, reference: str = REFERENCE):
    operation = folder / "suite" / "dot"
    operation.mkdir(parents=True)
    (operation / "task.toml").write_text(toml)
    (operation / "reference.py").write_text(reference)
    return admission(find_task(folder, f"suite/dot/{direction}"))


@pytest.fixture(autouse=True)
def one_thread():
    """As the admission runs: thousands of tiny operations, which more threads only slow down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_that_ships_is_admissible(task):
    found = admission(task)
    assert found["problems"] == []
    assert {"zeros", "constant mean", "another seed", task.precision.lower[0]} <= found["refused"].keys()
    assert all(count > 0 for count, _ in found["refused"].values())
    assert any(name.startswith("copy of") for name in found["refused"])


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_sound_task_is_admissible(tmp_path, direction):
    assert _admission(tmp_path, direction)["problems"] == []


def test_a_tolerance_that_lets_lower_precision_pass_is_a_problem(tmp_path):
    found = _admission(tmp_path, toml=TOML.replace("1e-4", "1e-1").replace("2e-5", "1e-1"))
    assert any(problem.startswith("bfloat16") for problem in found["problems"])
    assert not any(problem.startswith("zeros") for problem in found["problems"])


def test_a_tolerance_that_lets_zeros_pass_is_a_problem(tmp_path):
    found = _admission(tmp_path, toml=TOML.replace("1e-4", "1e3").replace("2e-5", "1e3"))
    assert any(problem.startswith("zeros") for problem in found["problems"])


def test_a_tolerance_that_float32_cannot_meet_is_a_problem(tmp_path):
    found = _admission(tmp_path, toml=TOML.replace("1e-4", "1e-9"))
    assert any("too little room" in problem for problem in found["problems"])


def test_a_gradient_that_is_not_that_of_forward_is_a_problem(tmp_path):
    found = _admission(tmp_path, "backward", reference=REFERENCE.replace("x).sum(0)", "x).sum(0) * 1.001"))
    assert any("autograd" in problem for problem in found["problems"])


def test_an_operand_without_effect_must_be_labelled(tmp_path):
    found = _admission(tmp_path, reference=REFERENCE.replace("(x * w)", "(x + 0 * w)"))
    assert found["labels"] == ["no-effect:w"]
    assert any("labels" in problem for problem in found["problems"])


def test_a_small_output_must_be_labelled_and_the_label_makes_it_admissible(tmp_path):
    small = REFERENCE.replace("(x * w).sum(1)", "(x * w).sum(1) * 1e-5")
    labelled = TOML.replace("version = 1", 'version = 1\nlabels = ["small-output"]', 1)
    assert _admission(tmp_path / "without", reference=small)["labels"] == ["small-output"]
    assert _admission(tmp_path / "with", toml=labelled, reference=small)["admissible"]


def test_a_label_that_no_filter_gives_is_a_problem(tmp_path):
    found = _admission(tmp_path, toml=TOML.replace("version = 1", 'version = 1\nlabels = ["flat-axis"]', 1))
    assert any("labels" in problem for problem in found["problems"])


def test_a_result_that_is_flat_along_an_axis_is_labelled(tmp_path):
    found = _admission(tmp_path, reference=REFERENCE.replace("(x * w).sum(1)", "(x * w).sum().expand(len(x)).clone()"))
    assert "flat-axis" in found["labels"]


def test_naive_sums_lose_what_a_loop_in_float32_loses():
    tiny = torch.full((2**14,), 2.0**-25)
    tiny[0] = 1.0
    with NaiveSums():
        naive = tiny.sum()
    assert float(naive) == 1.0
    assert float(tiny.sum()) > 1.0


@pytest.mark.parametrize("size", [(5, 7), (1, 300)])
def test_naive_products_agree_with_torch_up_to_rounding(size):
    draws = torch.Generator().manual_seed(1)
    a, b = torch.randn(*size, generator=draws), torch.randn(size[1], 4, generator=draws)
    with NaiveSums():
        naive = a @ b
    assert torch.allclose(naive, a @ b, atol=1e-4)


@pytest.mark.parametrize("size", [(5, 70), (1, 300)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_naive_products_add_term_after_term(size: tuple[int, int], dtype: torch.dtype) -> None:
    """Also of operands that autograd looks at."""
    draws = torch.Generator().manual_seed(1)
    a, b = torch.randn(*size, generator=draws).to(dtype), torch.randn(size[1], 4, generator=draws).to(dtype)
    total = torch.zeros(size[0], 4, dtype=dtype)
    for k in range(size[1]):
        total += a[:, k, None] * b[k]
    with NaiveSums():
        assert torch.equal(a @ b, total)
        assert torch.equal(a.requires_grad_() @ b.requires_grad_(), total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_value_in_lower_precision_is_the_nearest_with_so_many_bits(dtype: torch.dtype) -> None:
    x = torch.cat([torch.arange(-300, 300).double(), torch.tensor([0.1, 1e-30, math.inf, -math.inf])]).to(dtype)
    part, exponent = torch.frexp(x.double())
    nearest = torch.where(x.isfinite(), torch.round(part * 2**5) * 2.0 ** (exponent - 5), x.double())  # ties to even
    assert torch.equal(_rounded(x, 5), nearest.to(dtype))
    assert bool(_rounded(torch.tensor([math.nan], dtype=dtype), 5).isnan())


# --- several right answers ------------------------------------------------------------------------------------------

TOP = """
CHECKER = "{checker}"

def forward(x):
    values, places = x.topk(3, dim=-1)
    return values, places
"""
TOP_TOML = """
op = "dot"
title = "Top three"
formula = "y = top 3 of x"
summary = "For the tests."
family = "test"
[forward]
version = 1
arguments = [{ name = "x", shape = ["rows", "columns"], draw = "input" }]
results = [
    { name = "values", shape = ["rows", "3"], tolerance = 2e-5, rms_tolerance = 5e-6 },
    { name = "places", shape = ["rows", "3"], dtype = "int64", tolerance = 2e-5, rms_tolerance = 5e-6 },
]
flops = "rows * columns"
[forward.cpu.single]
input = [{ rows = 300, columns = 50 }]
"""
DRAWN = """
CHECKER = "sampling"

def probabilities(x):
    return (8 * x).softmax(-1)

def forward(x):
    return probabilities(x).multinomial(1).squeeze(1)
"""
DRAWN_TOML = TOP_TOML.replace("Top three", "Draws").replace(
    TOP_TOML[TOP_TOML.index("results") : TOP_TOML.index("flops")],
    'results = [{ name = "y", shape = ["rows"], dtype = "int64", tolerance = 0, rms_tolerance = 0 }]\n',
)
ROOT = """
CHECKER = "property"

def forward(x):
    return (x * x + 1).sqrt()

def residuals(arguments, results):
    return [{residual}]
"""
ROOT_TOML = TOP_TOML.replace("Top three", "Roots").replace(
    TOP_TOML[TOP_TOML.index("results") : TOP_TOML.index("flops")],
    'results = [{ name = "y", shape = ["rows", "columns"], tolerance = 1e-4, rms_tolerance = 1e-4 }]\n',
)


@pytest.mark.parametrize("checker", ["ties", "set"])
def test_places_are_admitted_by_their_checker(tmp_path: Path, checker: str) -> None:
    """With equal values honest places differ."""
    found = _admission(tmp_path, toml=TOP_TOML, reference=TOP.format(checker=checker))
    assert found["admissible"], found["problems"]
    assert found["refused"]["bfloat16"] == [1, 1]


def test_draws_are_admitted_by_their_distributions(tmp_path: Path) -> None:
    found = _admission(tmp_path, toml=DRAWN_TOML, reference=DRAWN)
    assert found["admissible"], found["problems"]
    assert found["refused"]["another seed"] == [1, 1]
    assert "bfloat16" not in found["refused"]


def test_a_property_that_tells_right_from_wrong_is_admitted(tmp_path: Path) -> None:
    residual = "(results[0] ** 2 / (arguments[0] ** 2 + 1) - 1).abs().max()"
    found = _admission(tmp_path, toml=ROOT_TOML, reference=ROOT.format(residual=residual))
    assert found["admissible"], found["problems"]


def test_a_property_of_everything_is_caught(tmp_path: Path) -> None:
    """An author's own check decides in the judge, so it is the one that is tried."""
    found = _admission(tmp_path, toml=ROOT_TOML, reference=ROOT.format(residual="0.0"))
    assert any(problem.startswith("zeros: accepted") for problem in found["problems"])
    assert any(problem.startswith("bfloat16: accepted") for problem in found["problems"])


@pytest.mark.parametrize(
    ("residual", "answer"),
    [
        ("(results[0] ** 2 / (arguments[0] ** 2 + 1) - 1)[0].abs().max()", "first half"),
        ("(results[0] - (arguments[0] ** 2 + 1).sqrt()).mean().abs()", "errors that cancel"),
    ],
)
def test_a_property_of_some_elements_or_of_their_mean_is_caught(tmp_path: Path, residual: str, answer: str) -> None:
    found = _admission(tmp_path, toml=ROOT_TOML, reference=ROOT.format(residual=residual))
    assert any(problem.startswith(f"{answer}: accepted") for problem in found["problems"]), found["problems"]
