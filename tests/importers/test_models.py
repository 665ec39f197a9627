"""State of a module as arguments: filled in by name or order, copied where a call changes it. In this process."""

import math

import pytest
import torch
from torch import nn

from benchmarks.harness.child.foreign import varied
from benchmarks.harness.child.python.models import model_function
from benchmarks.harness.child.python.slots import StatefulCall, slots_of

SEED = bytes(32)


class Scaled(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(size)), nn.Parameter(torch.ones(size))
        self.own = torch.full((size,), 10.0)

    def forward(self, x):
        return x * self.first + self.second + self.own


class Renamed(Scaled):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.a, self.b = self.first, self.second
        del self.first, self.second

    def forward(self, x):
        return x * self.a + self.b + self.own


def config(*names: str, changed: bool = False, size: int = 2) -> dict:
    options = [{"state": name, **({"changed": True} if changed else {})} for name in names]
    arguments = [{"name": name, "shape": [size], "options": item} for name, item in zip(names, options, strict=True)]
    return {"values": {"init": "[2]"}, "arguments": [{"name": "x", "shape": [size], "options": {}}, *arguments]}


def arguments() -> list[torch.Tensor]:
    return [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])]


@torch.no_grad()
@pytest.mark.parametrize("model", [Scaled, Renamed])
def test_state_is_filled_in_by_name_or_by_order_and_a_constant_stays(model) -> None:
    call = model_function(model, config("first", "second"))
    assert call(*arguments()).tolist() == [18.0, 24.0]
    assert call(*[2 * item for item in arguments()]).tolist() == [32.0, 54.0]


def test_state_that_the_module_lacks_is_left_over() -> None:
    call = model_function(Scaled, config("first", "second", "third"))
    with torch.no_grad():
        assert call(*arguments(), torch.zeros(2)).tolist() == [18.0, 24.0]


def test_state_that_fits_nowhere_is_named() -> None:
    with pytest.raises(TypeError, match=r"its state \(own, a, b\)|its state \(a, b, own\)"):
        model_function(Renamed, config("first"))
    with pytest.raises(TypeError, match=r"first has shape \[2\], that of Model has \[3\]"):
        model_function(Scaled, config("first", "second", size=3))


def test_what_a_call_changes_it_changes_in_a_copy() -> None:
    norm = nn.BatchNorm1d(3)
    slots = slots_of(norm)
    assert [slot.name for slot in slots] == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    call = StatefulCall(norm, slots, [slot.name.startswith(("running", "num")) for slot in slots])
    state = [slot.tensor.clone() for slot in slots]
    before = [item.clone() for item in state]
    with torch.no_grad():
        call(torch.randn(8, 3), *state)
    assert all(map(torch.equal, state, before))


def test_tied_parameters_are_one_argument() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    [slot] = slots_of(model)
    assert len(slot.places) == 2


def test_a_recurrent_layer_sees_its_state() -> None:
    layer = nn.LSTM(3, 4)
    call = StatefulCall(layer, slots_of(layer), [False] * 4)
    state = [torch.zeros_like(slot.tensor) for slot in slots_of(layer)]
    with torch.no_grad():
        out, *_ = call(torch.randn(2, 1, 3), *state)
    assert out.abs().max() == 0


def test_variants_keep_structure_and_types() -> None:
    lower = torch.tril(torch.rand(4, 4) + 1.0)
    assert torch.equal(varied(lower, "shifted", SEED, 0, is_input=True) != 0, lower != 0)
    assert torch.equal(varied(lower, "scaled", SEED, 0, is_input=True), 0.5 * lower)
    assert varied(lower, "scaled", SEED, 0, is_input=False) is lower
    assert varied(torch.arange(3), "shifted", SEED, 0, is_input=True).tolist() == [0, 1, 2]


@pytest.mark.parametrize("drawn", [torch.rand, torch.randn])
def test_values_that_are_spread_reach_both_sides_of_the_usual_clamps(drawn) -> None:
    values = drawn(64, 64)
    spread = varied(values, "spread", SEED, 0, is_input=True)
    for clamp in (nn.functional.hardsigmoid, nn.functional.hardtanh, nn.functional.relu6):
        assert all((clamp(spread) == end).any() for end in clamp(torch.tensor([-1e3, 1e3])))
    assert (float(spread.min()), float(spread.max())) == pytest.approx((-8.0, 8.0))
    in_order = spread.flatten()[values.flatten().argsort()]  # neighbours may become equal by rounding
    assert (in_order.diff() >= 0).all()


def test_values_are_spread_where_that_is_possible() -> None:
    lower = torch.tril(torch.rand(4, 4) + 1.0)
    assert torch.equal(varied(lower, "spread", SEED, 0, is_input=True) != 0, lower != 0)
    for alike in (torch.ones(4), torch.tensor([0.0, -math.inf]), torch.tensor([1.0, math.nan]), torch.arange(3)):
        assert varied(alike, "spread", SEED, 0, is_input=True) is alike
    small = torch.tensor([0.5, 1.0]).to(torch.float8_e4m3fn)
    assert varied(small, "spread", SEED, 0, is_input=True).tolist() == [-8.0, 8.0]


def test_stirred_state_is_not_what_it_began_with() -> None:
    variance, bias = torch.ones(64), torch.zeros(64)
    moved = [varied(item, "stirred", SEED, n, is_input=False) for n, item in enumerate((variance, bias))]
    assert (moved[0] > 0).all()
    assert moved[0].std() > 0.01
    assert moved[1].std() > 0.01
    assert torch.equal(moved[1], varied(bias, "stirred", SEED, 1, is_input=False))
