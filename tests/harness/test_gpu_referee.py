"""What the referee of a GPU judging looks at beside the results of a call."""

import ctypes
import threading
import time
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
SIZE_BYTES = item_bytes(RESULT)


class Judging:
    """A referee, and the process of some calls that writes one byte after it has told the referee of their end."""

    def __init__(self, calls: list[list[int]], late_byte: int | None = None) -> None:
        self.device, self.page, self.calls = HostAccelerator(), (ctypes.c_uint64 * 512)(), calls
        self.arena, self.late_byte = self.device.create(1 << 20), late_byte
        self.arena.data.random_()
        self.desk = ContestantDesk(self.arena, self.page, self.page)
        self.referee: Any = GpuReferee.__new__(GpuReferee)
        self.referee._desks = {"candidate0": self.desk}
        self.referee._configs = [{"results": [RESULT]}]
        self.referee._device, self.referee._sampler = self.device, self.device.sampler()
        self.referee._mark = torch.zeros(1)
        self.referee._values = [[torch.zeros(1)] for _ in calls]
        self.referee._doubtful = lambda *_: []

    def collected(self, *, kept: bool) -> dict[str, Any]:
        threading.Thread(target=self._execute).start()
        return self.referee.collect("candidate0", 0, 77, self.calls, kept=kept)  # type: ignore[no-any-return]

    def compared(self) -> dict[str, Any]:
        numbers = list(range(len(self.calls)))
        return self.referee.compare_all("candidate0", 0, self.calls, numbers)  # type: ignore[no-any-return]

    def _execute(self) -> None:
        while self.page[Word.AIMED] != 77:
            pass
        taken, take = threading.Event(), self.referee._sampler.take

        def take_and_tell() -> Any:
            found = take()
            taken.set()
            return found

        self.referee._sampler.take = take_and_tell
        self.page[Word.ENDED_NS] = time.perf_counter_ns()
        self.page[Word.ENDED] = 77
        taken.wait()
        if self.late_byte is not None:
            self.arena.data[self.late_byte] ^= 1
        self.page[Word.FOLLOWED] = 77


def test_results_that_are_written_after_the_end_are_late() -> None:
    judging = Judging([[512]])
    found = judging.collected(kept=True)
    assert not found["late"]
    assert 0 < found["sampled_us"] < 10_000_000
    assert [tuple(item.shape) for item in judging.desk.snapshot] == [(64, 100)]
    assert not Judging([[512]], late_byte=511).collected(kept=True)["late"]
    every = range(512, 512 + SIZE_BYTES, 32)
    assert any(Judging([[512]], late_byte=byte).collected(kept=True)["late"] for byte in every)


def test_late_results_of_a_burst_are_found_when_they_are_compared() -> None:
    """What counts is what is compared: it may have been written after the referee had looked for the first time."""
    calls = [[number << 15] for number in range(8)]
    judging = Judging(calls)
    assert not judging.collected(kept=False)["late"]
    assert judging.compared() == {"ok": True, "late": False, "reason": ""}
    judging.arena.data.bitwise_not_()
    assert judging.compared()["late"]


def test_a_process_that_is_gone_has_no_results() -> None:
    judging = Judging([[512]])
    judging.page[Word.ABORT] = 77
    assert judging.referee.collect("candidate0", 0, 77, [[512]], kept=True) == {}


def test_what_has_ended_already_is_not_waited_for() -> None:
    judging = Judging([[512]])
    found = judging.referee.collect("candidate0", 0, 0, [[512]], kept=True)
    assert (found["late"], found["sampled_us"]) == (False, 0.0)


@pytest.mark.parametrize("size_bytes", [1, 4, 16 << 10, (16 << 10) + 1, 100_000, (1 << 28) + 3])
def test_sampled_rows_lie_in_the_result(size_bytes: int) -> None:
    for _ in range(50):
        rows = sample.drawn_rows(size_bytes)
        assert rows.first_byte >= 0
        assert rows.first_byte + (rows.count - 1) * rows.pitch_bytes + rows.width_bytes <= size_bytes
        assert rows.total_bytes <= sample.SAMPLE_MAX_BYTES // 3
        assert size_bytes > 16 << 10 or rows.total_bytes == size_bytes


def test_work_that_is_left_out_at_regular_places_is_met() -> None:
    """A twentieth of each 64th of the result; and the last of its bytes."""
    size_bytes = 1 << 24
    period, met, ends = size_bytes // 64, 0, 0
    for _ in range(100):
        rows = sample.drawn_rows(size_bytes)
        starts = [rows.first_byte + number * rows.pitch_bytes for number in range(rows.count)]
        met += any(start % period < period // 20 for start in starts)
        ends += starts[-1] > size_bytes - 2 * period
    assert met > 80
    assert ends > 0


def test_which_results_are_sampled_is_drawn_but_a_large_one_always_is() -> None:
    calls = [[(60 * call + result) << 20 for result in range(60)] for call in range(2)]
    sizes = [4] * 59 + [1 << 20]
    drawn = [sample.drawn_pieces(calls, sizes) for _ in range(60)]
    assert all(len(pieces) == 3 for pieces in drawn)
    assert all(any(piece.result == 59 for piece in pieces) for pieces in drawn)
    assert len({(piece.call, piece.result) for pieces in drawn for piece in pieces}) > 30
    assert all(piece.place == calls[piece.call][piece.result] for pieces in drawn for piece in pieces)
    assert sample.drawn_pieces([[0, 64]], [0, 0]) == []
    assert sample.drawn_pieces([], [4]) == []
