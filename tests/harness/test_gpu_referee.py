"""What the referee of a GPU judging looks at beside the results of a call."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.harness.child.gpu import referee
from benchmarks.harness.child.gpu.referee import GpuReferee

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.bool)


def intact(place: torch.Tensor, value: torch.Tensor) -> bool:
    desk: Any = SimpleNamespace(_inputs_of=lambda _: [(place,)], _values=[[value]])
    return GpuReferee._inputs_intact(desk, 0, 0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (4, 4)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inputs_of_any_shape_and_dtype_are_told_from_changed_ones(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """A failure here would be the judge's and take the device out of service: an author chooses the shapes."""
    value = torch.ones(shape, dtype=dtype)
    changed = value.clone()
    changed.reshape(-1)[-1] = 0
    assert intact(value.clone(), value)
    assert not intact(changed, value)


def test_not_a_number_is_itself_and_minus_zero_is_another_value() -> None:
    assert intact(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not intact(torch.tensor([-0.0]), torch.tensor([0.0]))


def test_every_tensor_of_every_input_set_is_written_whatever_its_dtype() -> None:
    values = [[torch.full((number + 1,), number % 2, dtype=dtype) for dtype in DTYPES] for number in range(3)]
    values[1][1][0] = float("nan")
    places = [[torch.full_like(value, 7) for value in one] for one in values]
    unused = [torch.full((1,), 7, dtype=dtype) for dtype in DTYPES]
    desk: Any = SimpleNamespace(_inputs_of=lambda _: [*places, unused], _values=values)
    GpuReferee._write_inputs(desk, 0)
    assert all(GpuReferee._inputs_intact(desk, 0, number) for number in range(3))
    assert all(bool((item == torch.full_like(item, 7)).all()) for item in unused)
    desk._values = []
    GpuReferee._write_inputs(desk, 0)


def test_inputs_of_a_configuration_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[int]()
    monkeypatch.setattr(referee, "tensors_of", lambda *told: (found.append(told[2][0]), (torch.zeros(1),))[1])
    configs = [{"input_offsets": [[0], [1]]}, {"input_offsets": [[2]]}]
    desk: Any = SimpleNamespace(_configs=configs, _inputs=None, _input_sets={})
    counts = [len(GpuReferee._inputs_of(desk, config)) for config in (0, 1, 0, 1)]
    assert (counts, found) == ([2, 1, 2, 1], [0, 1, 2])


def test_the_cache_is_emptied_before_a_replayed_call_and_after_its_inputs_are_written() -> None:
    """The executor does it again, but device code can change the kernel that does it there."""
    done: list[str] = []
    desk = SimpleNamespace(arena=SimpleNamespace(bytes_of=lambda *_: torch.zeros(4, dtype=torch.uint8)))
    own: Any = SimpleNamespace(
        _write_inputs=lambda _: done.append("inputs"),
        _desks={"candidate0": desk},
        _configs=[{"results": [{}]}],
        _flush_cache=lambda: done.append("flush"),
        _device=SimpleNamespace(synchronize=lambda: None),
    )
    GpuReferee.stage(own, "candidate0", 0, [[0]])
    assert done == ["inputs", "flush"]
