"""Bursts compared as one batch and call after call: both come to the same answer, and one of them rarely waits."""

import json
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from benchmarks.harness import Config, Result, TensorArgument
from benchmarks.harness.child import check
from benchmarks.harness.child.gpu import batch
from benchmarks.harness.child.gpu.accelerator import tensors_of
from benchmarks.harness.child.gpu.host_accelerator import HostAccelerator
from benchmarks.harness.child.gpu.referee import GpuReferee
from benchmarks.harness.child.shell import TORCH_DTYPES
from benchmarks.harness.dtypes import DTYPES
from benchmarks.harness.measuring.memory import ControlPage, describe, overlay

CALLS = 6
WHO = "candidate0"
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "bfloat16": 0.02, "float16": 3e-3}
COARSE = 0.3
TWO = """
    def forward(x, w):
        return x * 2 + w, (x * w).sum(-1)
"""
ONE = """
    def forward(x, w):
        return x + w
"""
Answers = list[list[Tensor]]  # of each call, of each result


class Burst:
    """A referee on the host stand-in with fresh values in it, and results where a burst would have left them."""

    def __init__(self, folder: Path, text: str, results: Sequence[Result], dtype: str = "float32") -> None:
        (folder / "reference.py").write_text(textwrap.dedent(text))
        tensors = tuple(TensorArgument(name, (3, 5), dtype, "input", {}) for name in ("x", "w"))
        config = Config("a", "single", {}, tensors, tuple(results), 1, 1)
        layout = overlay([config], [CALLS])
        (self.config,) = json.loads(json.dumps(describe([config], layout)))
        self.page, self.room = ControlPage(), max(512, -(-sum(item.nbytes for item in results) // 8) * 8)
        message = {
            "configs": [self.config],
            "task": str(folder),
            "direction": "forward",
            "input_bytes": layout.input_bytes,
            "output_bytes": CALLS * len(results) * self.room,
            "controls": {WHO: self.page.fd},
            "pages": {},
            "reserve_bytes": 0,
            "flush_bytes": 64,
        }
        self.referee: Any = GpuReferee(message, None, HostAccelerator())  # type: ignore[arg-type]
        seeds = [bytes([number] * 32).hex() for number in range(CALLS)]
        self.referee.fill(0, seeds, "published")
        self.places = [
            [(call * len(results) + number) * self.room for number in range(len(results))] for call in range(CALLS)
        ]
        self.referee.stage(WHO, 0, self.places)
        self.arena = self.referee._desks[WHO].arena

    def values(self, call: int) -> list[Tensor]:
        return list(self.referee._values[call])

    def truths(self) -> Answers:
        return [list(self.referee._checker.truth(self.values(call))) for call in range(CALLS)]

    def write(self, answers: Answers) -> None:
        for places, answer in zip(self.places, answers, strict=True):
            for place, item, value in zip(places, self.config["results"], answer, strict=True):
                self.arena.view(item, place).copy_(value)

    def change_input(self, call: int, byte: int = 0) -> None:
        place = tensors_of(self.config, self.referee._inputs, self.config["input_offsets"][call])[-1]
        batch.bits(place)[byte] ^= 1

    def together(self) -> Any:
        return outcome(lambda: self.referee.compare_all(WHO, 0, self.places, list(range(len(self.places)))))

    def one_by_one(self) -> Any:
        """As every burst was compared before there were batches."""

        def compare_all() -> dict[str, Any]:
            for number, places in enumerate(self.places):
                self.referee.collect(WHO, 0, 0, [places], kept=True)
                found = self.referee.compare(WHO, 0, number)
                self.referee._references.pop(number, None)
                if not found["ok"] or not found["intact"]:
                    return {"ok": False, "late": False, "reason": found["reason"] or "the inputs were changed"}
            return {"ok": True, "late": False, "reason": ""}

        return outcome(compare_all)

    def same(self) -> Any:
        """What both ways say."""
        found = self.together()
        assert found == self.one_by_one()
        return found


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the other way has to raise it as well
        return type(error), str(error)


def limits(dtype: str) -> tuple[float, float]:
    tolerance = TOLERANCES.get(dtype, COARSE)
    return tolerance, tolerance


Make = Callable[..., Burst]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Burst] = []

    def burst(
        dtypes: str | Sequence[str] = "float32",
        text: str = ONE,
        shapes: Sequence[tuple[int, ...]] = ((3, 5),),
        inputs: str = "float32",
    ) -> Burst:
        each = [dtypes] * len(shapes) if isinstance(dtypes, str) else dtypes
        pairs = zip(shapes, each, strict=True)
        results = [Result(f"r{number}", shape, dtype, *limits(dtype)) for number, (shape, dtype) in enumerate(pairs)]
        made.append(Burst(tmp_path, text, results, inputs))
        if isinstance(dtypes, str):
            made[-1].write(made[-1].truths())
        return made[-1]

    yield burst
    for item in made:
        item.page.close()


FLOATS = [name for name, item in DTYPES.items() if item.is_float]


def asked_one_by_one(burst: Burst, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the calls that are compared alone from here on."""
    asked: list[int] = []
    compare = burst.referee.compare
    monkeypatch.setattr(burst.referee, "compare", lambda *told: (asked.append(told[2]), compare(*told))[1])
    return asked


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (ONE, [(3, 5)]),
        (TWO, [(3, 5), (3,)]),
        ("def forward(x, w):\n    return (x * w).sum()", [()]),
        ("def forward(x, w):\n    return (x * w).sum(), x[:, :0]", [(), (3, 0)]),
    ],
    ids=["one", "two", "scalar", "an empty one"],
)
def test_right_results_are_right_in_both_ways(
    make: Make, monkeypatch: pytest.MonkeyPatch, dtype: str, text: str, shapes: list[tuple[int, ...]]
) -> None:
    burst = make(dtype, text, shapes)
    expected = burst.same()
    asked = asked_one_by_one(burst, monkeypatch)
    assert burst.together() == expected
    if (3, 0) in shapes:
        assert expected[0] is ZeroDivisionError  # a task's fault, as ever
        assert asked == [0]
    else:
        assert expected == {"ok": True, "late": False, "reason": ""}
        assert asked == []


BAD = [math.nan, math.inf, -math.inf, 3e38, -100.0, 1e-40]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", BAD, ids=str)
@pytest.mark.parametrize("where", [(0, 0, 0), (CALLS - 1, 0, 14), (3, 1, 1)], ids=str)
def test_one_wrong_element_of_one_call_is_found_and_told_alike(
    make: Make, dtype: str, value: float, where: tuple[int, int, int]
) -> None:
    call, result, element = where
    burst = make(dtype, TWO, [(3, 5), (3,)])
    item, place = burst.config["results"][result], burst.places[call][result]
    there = burst.arena.view(item, place).reshape(-1)
    there[element] = value
    found = burst.same()
    if not math.isfinite(value) or abs(value) > 50:
        assert not found["ok"]
        assert "1 of" in found["reason"]


def test_results_that_were_never_written_are_found(make: Make) -> None:
    for call in range(CALLS):
        burst = make()
        burst.arena.view(burst.config["results"][0], burst.places[call][0]).view(torch.uint8).fill_(0xFF)
        assert "15 of 15" in burst.same()["reason"]


def test_results_of_two_calls_that_were_swapped_are_found(make: Make) -> None:
    burst = make()
    answers = burst.truths()
    answers[1], answers[4] = answers[4], answers[1]
    burst.write(answers)
    assert not burst.same()["ok"]


@pytest.mark.parametrize("call", [0, 2, CALLS - 1])
def test_an_input_that_was_changed_in_one_bit_is_found(make: Make, call: int) -> None:
    burst = make()
    burst.change_input(call)
    assert burst.same() == {"ok": False, "late": False, "reason": "the inputs were changed"}


def test_a_sign_of_zero_in_the_inputs_is_a_change_and_in_a_result_is_none(make: Make) -> None:
    burst = make(text="def forward(x, w):\n    return (x + w) * (w > 0)")
    there = burst.arena.view(burst.config["results"][0], burst.places[2][0])
    assert bool((there == 0).any())
    there[there == 0] = -0.0
    assert burst.same()["ok"]
    burst.referee._values[1][0][0, 0] = 0.0
    tensors_of(burst.config, burst.referee._inputs, burst.config["input_offsets"][1])[0][0, 0] = -0.0
    burst.write(burst.truths())
    assert burst.same() == {"ok": False, "late": False, "reason": "the inputs were changed"}


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-160, 1e-200, 5e-324, 1e160, math.inf, math.nan])
def test_references_of_any_size_are_treated_alike(make: Make, scale: float) -> None:
    """Squares of small values are zero, and those of large ones infinite; what is no number is the task's fault."""
    text = f"def forward(x, w):\n    return (x + w) * float('{scale}')"
    burst = make("float64", text, inputs="float64")
    found = burst.same()
    if math.isfinite(scale) and scale < 1e100:
        assert found["ok"]
        burst.arena.view(burst.config["results"][0], burst.places[3][0])[0, 0] += 1.0
        assert not burst.same()["ok"]
    else:
        assert found == (ValueError, "the reference is not finite")


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "bool"])
def test_integers_are_compared_call_after_call(make: Make, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    burst = make(dtype, "def forward(x, w):\n    return x > w")
    assert burst.same()["ok"]
    asked = asked_one_by_one(burst, monkeypatch)
    assert burst.together()["ok"]
    assert asked == list(range(CALLS))
    item, place = burst.config["results"][0], burst.places[4][0]
    there = burst.arena.view(item, place)
    there[1, 1] = ~there[1, 1] if dtype == "bool" else there[1, 1] + 1
    assert not burst.same()["ok"]


NAMED = {
    "ties": (["float32", "int64"], "def forward(x, w):\n    return tuple(x.topk(2))"),
    "set": (["float32", "int64"], "def forward(x, w):\n    return tuple(x.topk(2))"),
    "sampling": (
        ["int64"],
        "def probabilities(x, w):\n    return x.softmax(-1)\n"
        "def forward(x, w):\n    return x.softmax(-1).multinomial(1)[:, 0]",
    ),
    "property": (
        ["float32"],
        "def residuals(given, got):\n    return [(got[0] - sum(given)).abs().max()]\n"
        "def forward(x, w):\n    return x + w",
    ),
    "author-property": (
        ["float32"],
        "def kbench_check(given, got):\n    return bool((got[0] - sum(given)).abs().max() < 1e-3), 'far away'\n"
        "def forward(x, w):\n    return x + w",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_checker_looks_at_each_call_itself(make: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    torch.manual_seed(1)  # what is drawn is compared several times, which looks like luck if some of it is rare
    dtypes, text = NAMED[name]
    shapes = {"ties": [(3, 2)] * 2, "set": [(3, 2)] * 2, "sampling": [(3,)]}.get(name, [(3, 5)])
    burst = make(dtypes, f"CHECKER = {name!r}\n{text}", shapes)
    burst.write(
        [
            list(burst.referee._module.forward(*burst.values(call)))
            if len(shapes) > 1
            else [burst.referee._module.forward(*burst.values(call))]
            for call in range(CALLS)
        ]
    )
    assert burst.same()["ok"]
    asked = asked_one_by_one(burst, monkeypatch)
    assert burst.together()["ok"]
    assert asked == list(range(CALLS))
    assert not batch.is_possible(burst.referee._checker, [{"dtype": "float32", "shape": [3]}])
    burst.arena.view(burst.config["results"][-1], burst.places[2][-1]).fill_(99)
    assert not burst.same()["ok"]


def test_a_reference_of_another_shape_is_told_as_it_was(make: Make) -> None:
    burst = make()
    burst.referee._module.forward = lambda x, w: (x + w)[:1]
    assert burst.same() == (ValueError, "cannot compare (3, 5) with a torch.float64 reference (1, 5)")


def test_a_reference_that_writes_into_its_arguments_is_seen(make: Make) -> None:
    """In float64 it is given the values themselves."""
    burst = make("float64", "def forward(x, w):\n    return x + w", inputs="float64")
    burst.referee._module.forward = lambda x, w: x.add_(w)
    found = burst.together()
    assert not found["ok"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_whatever_is_called_clear_is_right(dtype: str) -> None:
    """Errors around the tolerance in random places, large and small values, and sometimes what is no number."""
    generator = torch.Generator().manual_seed(7)
    item = {"tolerance": 0.125, "rms_tolerance": 0.1}
    clear_ones, right_ones = 0, 0
    for _ in range(60):
        ref = torch.randn(8, 40, dtype=torch.float64, generator=generator)
        ref[3] *= 0 if torch.rand((), generator=generator) < 0.5 else 1
        limit = 0.125 * (ref.abs() + ref.square().mean(1, keepdim=True).sqrt())
        rows = (ref + limit * (torch.rand(ref.shape, generator=generator) * 2 - 1) * 1.002).to(TORCH_DTYPES[dtype])
        near = torch.rand(8, generator=generator) < 0.5
        rows[near] = ref[near].to(rows.dtype)
        rows[0, 5] = (math.nan, math.inf, 0.0)[int(torch.randint(3, (), generator=generator))]
        clear = batch.clearly_right([rows], [[one] for one in ref], [item], torch.tensor(0.0))
        right = [check.compare(*pair, 0.125, 0.1).ok for pair in zip(rows, ref, strict=True)]
        assert all(fine for fine, is_clear in zip(right, clear, strict=True) if is_clear)
        clear_ones, right_ones = clear_ones + sum(clear), right_ones + sum(right)
    assert 0.8 * right_ones < clear_ones < 60 * 8


def test_what_lies_on_its_tolerance_is_not_clear() -> None:
    ref = torch.ones(2, 4, dtype=torch.float64)
    rows = ref.clone()
    rows[1, 2] += 0.25
    for tolerance, clear in ((0.125, False), (0.126, True)):
        item = {"tolerance": tolerance, "rms_tolerance": 1.0}
        assert check.compare(rows[1], ref[1], tolerance, 1.0).ok
        assert batch.clearly_right([rows], [[one] for one in ref], [item], torch.tensor(0.0)) == [True, clear]
        assert batch.clearly_right([rows], [[one] for one in ref], [item], torch.tensor(1.0)) == [False, False]


def test_groups_are_as_large_as_memory_allows() -> None:
    results, value = [{"shape": [1 << 20]}], torch.empty(1 << 20, dtype=torch.float32)
    found = list(batch.groups(64, results, [value]))
    assert [number for group in found for number in group] == list(range(64))
    assert {len(group) for group in found} <= {5, 4}
    assert list(batch.groups(3, [{"shape": [1 << 30]}], [])) == [range(1), range(1, 2), range(2, 3)]
    assert list(batch.groups(64, [{"shape": []}], [])) == [range(64)]
    assert list(batch.groups(0, results, [value])) == []


class Waits(TorchFunctionMode):
    """Counts what a GPU has to be waited for: whatever brings a value to the host."""

    names = frozenset({"item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "numpy", "equal"})
    names |= {"nonzero", "masked_select", "unique", "is_nonzero", "allclose"}

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in self.names:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def test_a_burst_that_is_right_is_waited_for_once(make: Make) -> None:
    burst = make(text=TWO, shapes=[(3, 5), (3,)])
    with Waits() as before:
        assert burst.one_by_one()["ok"]
    assert len(before.seen) >= 4 * CALLS  # or these are not counted at all
    with Waits() as now:
        assert burst.together()["ok"]
    assert now.seen == ["tolist"]


def test_one_doubtful_call_costs_only_its_own_waits(make: Make) -> None:
    burst = make(text=ONE)
    item, place = burst.config["results"][0], burst.places[CALLS - 1][0]
    burst.arena.view(item, place)[0, 0] = math.nan
    with Waits() as seen:
        assert not burst.together()["ok"]
    assert len(seen.seen) < 12


def test_groups_of_one_call_come_to_the_same_answers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_GROUP_BYTES", 1)
    burst = make(text=TWO, shapes=[(3, 5), (3,)])
    with Waits() as seen:
        assert burst.same()["ok"]
    assert seen.seen.count("tolist") >= CALLS
    burst.change_input(5)
    assert not burst.same()["ok"]


def test_a_group_of_one_call_is_no_batch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be as large as a GPU allows, and a batch copies inputs and references."""
    burst = make()
    monkeypatch.setattr(batch, "_GROUP_BYTES", 1)
    monkeypatch.setattr(batch, "differ", None)
    assert burst.together() == {"ok": True, "late": False, "reason": ""}
