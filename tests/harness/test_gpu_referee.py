"""What the referee of a GPU judging looks at beside the results of a call."""

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.harness.child.gpu import referee, sample
from benchmarks.harness.child.gpu.accelerator import item_bytes
from benchmarks.harness.child.gpu.host_accelerator import HostAccelerator
from benchmarks.harness.child.gpu.referee import ContestantDesk, GpuReferee
from benchmarks.harness.protocol import Word

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


RESULT = {"shape": [64, 100], "dtype": "float32"}


def collected(*, calls: list[list[int]], late_byte: int | None = None, ends: bool = True) -> dict[str, Any]:
    """What the referee says of calls that write one of their bytes after it has been told that they had ended."""
    device, words = HostAccelerator(), (ctypes.c_uint64 * 512)()
    arena = device.create(1 << 20)
    sampler = device.sampler()
    own: Any = SimpleNamespace(
        _desks={"candidate0": (desk := ContestantDesk(arena, words))},
        _configs=[{"results": [RESULT]}],
        _device=device,
        _mark=torch.zeros(1),
        _sampler=sampler,
        _spans=lambda *told: GpuReferee._spans(own, *told),
        _copy_results=lambda *told: GpuReferee._copy_results(own, *told),
    )

    def execute() -> None:
        taken = threading.Event()
        take = sampler.take
        sampler.take = lambda: (take(), taken.set())  # type: ignore[method-assign]
        words[Word.ENDED] = 77
        taken.wait()
        if late_byte is not None:
            arena.data[late_byte] = 1
        words[Word.FOLLOWED] = 77

    if ends:
        threading.Thread(target=execute).start()
    else:
        words[Word.ABORT] = 77
    found = GpuReferee.collect(own, "candidate0", 0, calls=calls, kept=True, step=77, timeout_s=10.0)
    return {**found, "kept": [tuple(item.shape) for item in desk.snapshot]}


def test_results_that_are_written_after_the_end_are_late() -> None:
    size_bytes = item_bytes(RESULT)
    found = collected(calls=[[512]])
    assert (found["late"], found["kept"]) == (False, [(64, 100)])
    assert found["sampled_us"] > 0
    assert not collected(calls=[[512]], late_byte=511)["late"]
    assert any(collected(calls=[[512]], late_byte=512 + byte)["late"] for byte in range(0, size_bytes, 64))


def test_a_process_that_is_gone_has_no_results() -> None:
    assert collected(calls=[[512]], ends=False) == {"kept": []}


@pytest.mark.parametrize("size_bytes", [1, 4, 16 << 10, (16 << 10) + 1, 100_000, (1 << 28) + 3])
def test_sampled_rows_lie_in_the_result_and_reach_all_of_it(size_bytes: int) -> None:
    """A stretch that is late is met if it is longer than the distance of two rows; a small result is copied whole."""
    for _ in range(50):
        [rows] = sample.drawn_rows([(4096, size_bytes)])
        assert rows.first_byte >= 4096
        last = rows.first_byte + (rows.count - 1) * rows.pitch_bytes + rows.width_bytes
        assert last <= 4096 + size_bytes
        assert rows.total_bytes <= sample.SAMPLE_MAX_BYTES // 8
        if size_bytes <= 16 << 10:
            assert rows.total_bytes == size_bytes
        else:
            assert rows.first_byte - 4096 < rows.pitch_bytes
            assert 4096 + size_bytes - last < 2 * rows.pitch_bytes


def test_which_rows_are_sampled_is_drawn_anew() -> None:
    assert len({sample.drawn_rows([(0, 1 << 24)])[0].first_byte for _ in range(20)}) > 1
    many = [(place << 20, 4) for place in range(64)]
    drawn = {item.first_byte for _ in range(40) for item in sample.drawn_rows(many)}
    assert all(len(sample.drawn_rows(many)) == 8 for _ in range(3))
    assert len(drawn) > 32
