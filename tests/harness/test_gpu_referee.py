"""What the referee of a GPU judging looks at beside the results of a call."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.harness.child.gpu import referee
from benchmarks.harness.child.gpu.referee import GpuReferee

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.bool)


def intact(monkeypatch: pytest.MonkeyPatch, place: torch.Tensor, value: torch.Tensor) -> bool:
    monkeypatch.setattr(referee, "tensors_of", lambda *_: (place,))
    desk: Any = SimpleNamespace(_configs=[{"input_offsets": [[0]]}], _inputs=None, _values=[[value]])
    return GpuReferee._inputs_intact(desk, 0, 0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (4, 4)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inputs_of_any_shape_and_dtype_are_told_from_changed_ones(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """A failure here would be the judge's and take the device out of service: an author chooses the shapes."""
    value = torch.ones(shape, dtype=dtype)
    changed = value.clone()
    changed.reshape(-1)[-1] = 0
    assert intact(monkeypatch, value.clone(), value)
    assert not intact(monkeypatch, changed, value)


def test_not_a_number_is_itself_and_minus_zero_is_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert intact(monkeypatch, torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not intact(monkeypatch, torch.tensor([-0.0]), torch.tensor([0.0]))
