"""Named checkers: what they accept although it is not the reference's answer, and what they refuse."""

import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from benchmarks.harness.child.check import ResultComparison, load_reference
from benchmarks.harness.child.checkers import Checker, checker_of, looked_at_on

VALUE = {"name": "values", "tolerance": 1e-5, "rms_tolerance": 1e-5}
PLACE = {"name": "places", "tolerance": 1e-5, "rms_tolerance": 1e-5}
TOP = """
    CHECKER = "{name}"
    def forward(x):
        return tuple(x.topk(3))
"""
SAMPLING = """
    CHECKER = "sampling"
    def probabilities(logits):
        return logits.softmax(-1) * (logits > -1)
    def forward(logits):
        return probabilities(logits).multinomial(1).squeeze(1)
"""
FACTORS = """
    import torch
    CHECKER = "property"
    def forward(a):
        return tuple(torch.linalg.qr(a))
    def residuals(arguments, results):
        (a,), (q, r) = arguments, results
        one = torch.eye(q.shape[1], dtype=a.dtype)
        away = torch.maximum((q.T @ q - one).abs().max(), (q @ r - a).abs().max() / a.abs().max())
        return away, r.tril(-1).abs().max()
"""


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], tuple[Checker, ModuleType]]:
    def make(text: str) -> tuple[Checker, ModuleType]:
        (tmp_path / "reference.py").write_text(textwrap.dedent(text))
        module = load_reference(tmp_path)
        return checker_of(module, "forward"), module

    return make


def compared(checker: Checker, x: Tensor, outputs: Sequence[Tensor], results: Sequence[dict[str, object]]) -> bool:
    found = checker.compare("candidate0 0", [x], outputs, checker.truth([x]), results)
    assert all(item.ok or item.reason for item in found)
    return all(item.ok for item in found)


ROW = torch.tensor([[5.0, 1.0, 5.0, 3.0, 3.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "values", "places", "right"),
    [
        ("ties", [5, 5, 3], [0, 2, 3], True),
        ("ties", [5, 5, 3], [2, 0, 4], True),  # the other ones of equal values
        ("ties", [5, 5, 3], [0, 0, 3], False),  # one place twice
        ("ties", [5, 5, 3], [0, 2, 5], False),  # another value lies there
        ("ties", [5, 5, 3], [0, 2, 6], False),  # outside of the row
        ("ties", [5, 5, 3], [0, 2, -2], False),
        ("ties", [5, 5, 1], [0, 2, 1], False),  # not the largest
        ("ties", [3, 5, 5], [3, 0, 2], False),  # in another order
        ("set", [3, 5, 5], [3, 0, 2], True),
        ("set", [3, 5, 5], [0, 3, 2], False),  # places and values do not belong together
        ("set", [5, 5, 5], [0, 2, 0], False),
    ],
)
def test_places_of_equal_values_are_alike(
    made: Callable[[str], tuple[Checker, ModuleType]], name: str, values: list[float], places: list[int], right: bool
) -> None:
    checker, _ = made(TOP.format(name=name))
    outputs = [torch.tensor([values], dtype=torch.float32), torch.tensor([places])]
    assert compared(checker, ROW, outputs, [VALUE, PLACE]) is right


def sampled(checker: Checker, draw: Callable[[Tensor], Tensor], calls: int = 60) -> list[ResultComparison]:
    """What is said of each call until one is refused."""
    found = []
    torch.manual_seed(7)
    for _ in range(calls):
        logits = torch.randn(64, 12)
        found += checker.compare("candidate0 0", [logits], [draw(logits)], checker.truth([logits]), [VALUE])
        if not found[-1].ok:
            break
    return found


def test_whoever_draws_by_the_distribution_is_accepted(made: Callable[[str], tuple[Checker, ModuleType]]) -> None:
    checker, module = made(SAMPLING)
    assert all(item.ok for item in sampled(checker, module.forward, calls=200))

    def by_noise(logits: Tensor) -> Tensor:
        masked = logits.masked_fill(logits <= -1, -math.inf)
        return (masked - torch.empty_like(masked).exponential_().log()).argmax(1)

    checker, _ = made(SAMPLING)
    assert all(item.ok for item in sampled(checker, by_noise))


@pytest.mark.parametrize(
    "draw",
    [
        lambda logits: logits.argmax(1),
        lambda logits: (0.7 * logits).masked_fill(logits <= -1, -math.inf).softmax(1).multinomial(1).squeeze(1),
        lambda logits: (logits > -1).double().multinomial(1).squeeze(1),
        lambda logits: torch.full((64,), -1),
        lambda logits: torch.full((64,), 12),
        lambda logits: logits.softmax(1).multinomial(1).squeeze(1),  # forgets that some classes cannot be drawn
    ],
    ids=["the most likely", "a bit too flat", "all alike", "below", "above", "the impossible"],
)
def test_whoever_draws_otherwise_is_refused(
    made: Callable[[str], tuple[Checker, ModuleType]], draw: Callable[[Tensor], Tensor]
) -> None:
    checker, _ = made(SAMPLING)
    assert not sampled(checker, draw, calls=200)[-1].ok


@pytest.mark.parametrize(
    "classes",
    [lambda number: number % 2 == 0, lambda number: number < 500, lambda number: (number * 2654435761 >> 7) % 4 > 0],
    ids=["every second", "the first half", "three of four, scattered"],
)
def test_whoever_never_looks_at_some_classes_is_refused(
    made: Callable[[str], tuple[Checker, ModuleType]], classes: Callable[[Tensor], Tensor]
) -> None:
    """Likely and unlikely ones alike, so that the ranks of what is drawn are those of the whole distribution."""
    checker, _ = made(SAMPLING.replace(" * (logits > -1)", ""))
    seen = classes(torch.arange(1000))
    torch.manual_seed(3)
    for _ in range(100):
        logits = torch.randn(64, 1000)
        drawn = logits.masked_fill(~seen, -math.inf).softmax(1).multinomial(1).squeeze(1)
        [found] = checker.compare("candidate0 0", [logits], [drawn], checker.truth([logits]), [VALUE])
        if not found.ok:
            break
    assert found.reason.startswith("some classes are drawn too often")


@pytest.mark.parametrize("width", [2, 1000, 30_000])
def test_whoever_draws_each_class_as_often_as_it_should_be_is_accepted(
    made: Callable[[str], tuple[Checker, ModuleType]], width: int
) -> None:
    checker, module = made(SAMPLING.replace(" * (logits > -1)", ""))
    torch.manual_seed(5)
    for scale in (0.001, 1.0, 3.0, 1000.0) * 8:
        logits = scale * torch.randn(32, width)
        [found] = checker.compare("candidate0 0", [logits], [module.forward(logits)], checker.truth([logits]), [VALUE])
        assert found.ok, found.reason


def test_distributions_that_are_none_are_no_fault_of_who_draws(
    made: Callable[[str], tuple[Checker, ModuleType]],
) -> None:
    checker, _ = made(SAMPLING)
    with pytest.raises(ValueError, match="is not a distribution"):
        checker.truth([torch.full((4, 3), -2.0)])


def test_calls_of_different_processes_are_not_taken_together(
    made: Callable[[str], tuple[Checker, ModuleType]],
) -> None:
    checker, module = made(SAMPLING)
    assert not sampled(checker, lambda logits: logits.argmax(1))[-1].ok
    logits = torch.randn(64, 12)
    again = checker.compare("baseline0 0", [logits], [module.forward(logits)], checker.truth([logits]), [VALUE])
    assert again[0].ok


def test_any_answer_with_the_property_is_accepted(made: Callable[[str], tuple[Checker, ModuleType]]) -> None:
    checker, module = made(FACTORS)
    a = torch.randn(8, 8)
    q, r = module.forward(a)
    signs = torch.tensor([1.0, -1.0] * 4)
    assert compared(checker, a, [q, r], [VALUE, PLACE])
    assert compared(checker, a, [q * signs, signs.unsqueeze(1) * r], [VALUE, PLACE])
    assert not compared(checker, a, [torch.eye(8), a], [VALUE, PLACE])  # no triangle
    assert not compared(checker, a, [q, r + 1e-3], [VALUE, PLACE])
    assert not compared(checker, a, [q, torch.full_like(r, math.nan)], [VALUE, PLACE])


def test_the_authors_check_gets_copies(made: Callable[[str], tuple[Checker, ModuleType]]) -> None:
    checker, _ = made(
        """
        CHECKER = "property"
        def residuals(arguments, results):
            arguments[0].zero_()
            results[0].zero_()
            return (0.0,)
        """
    )
    x, out = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    assert compared(checker, x, [out], [VALUE])
    assert bool((x == 1).all())
    assert bool((out == 1).all())


def solved(a: Tensor) -> str:
    return f"""
        import torch
        CHECKER = "property"
        def forward(a):
            return torch.linalg.inv(a)
        def residuals(arguments, results):
            return ((torch.linalg.inv(results[0]) - arguments[0]).abs().max() / {float(a.abs().max())},)
        """


def test_an_answer_that_the_authors_check_cannot_take_is_wrong(
    made: Callable[[str], tuple[Checker, ModuleType]],
) -> None:
    """Whose fault it is the reference's own answer tells."""
    a = torch.eye(4) + 0.1 * torch.ones(4, 4)
    checker, module = made(solved(a))
    assert compared(checker, a, [module.forward(a)], [VALUE])
    [found] = checker.compare("candidate0 0", [a], [torch.zeros(4, 4)], checker.truth([a]), [VALUE])
    assert not found.ok
    assert found.reason == "the property of a result cannot be checked"
    checker, _ = made('CHECKER = "property"\ndef forward(a): return a\ndef residuals(arguments, results): return 1 / 0')
    with pytest.raises(ZeroDivisionError):
        checker.compare("candidate0 0", [a], [a], checker.truth([a]), [VALUE])


def test_an_unknown_checker_is_named(made: Callable[[str], tuple[Checker, ModuleType]]) -> None:
    with pytest.raises(ValueError, match="there is no checker 'nearly'; known: elementwise, ties, set, sampling"):
        made('CHECKER = "nearly"')


MATCHING = """
    CHECKER = "property"
    def forward(x):
        return x.argsort(-1)
    def residuals(arguments, results):
        (x,), (order,) = arguments, results
        return [(-x.gather(-1, order).diff()).clamp(min=0).max()]
"""
ORDER = [{"name": "order", "tolerance": 0.0, "rms_tolerance": 0.0}]


def test_places_out_of_range_are_wrong_and_looked_up_on_the_processor(
    made: Callable[[str], tuple[Checker, ModuleType]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU an index out of range ends every later call of the process, which is the referee."""
    checker, _ = made(MATCHING)
    assert compared(checker, ROW, [ROW.argsort(-1)], ORDER)
    for wrong in (6, -7, 2**62):
        assert not compared(checker, ROW, [torch.full((1, 6), wrong)], ORDER)
    assert looked_at_on([torch.empty(2, device="meta")]) == torch.device("meta")
    assert looked_at_on([torch.empty(2, device="meta"), torch.empty(2, dtype=torch.int32)]) == torch.device("cpu")


@pytest.mark.parametrize("said", ["[0.0] * int(results[0].abs().max() > 1)", "[0.0, 0.0]", "0.0", "None"])
def test_residuals_of_another_number_than_the_results_are_no_crash(
    made: Callable[[str], tuple[Checker, ModuleType]], said: str
) -> None:
    """An author's code may return what it likes, and less for one answer than for another."""
    checker, _ = made(
        f"""
        CHECKER = "property"
        def forward(x):
            return 2 * x.abs() + 1
        def residuals(arguments, results):
            return {said}
        """
    )
    if "max" in said:
        assert compared(checker, ROW, [2 * ROW + 1], ORDER)
        assert not compared(checker, ROW, [0 * ROW], ORDER)
    else:
        with pytest.raises((TypeError, ValueError)):
            compared(checker, ROW, [0 * ROW], ORDER)
