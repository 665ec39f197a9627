"""How torch.compile's kernels are chosen, with a device whose timers tell what the test wants."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.harness.child.gpu import tuning


class Device:
    """Each timer tells the next of `times_us`; all others tell the last."""

    device = torch.device("cpu")

    def __init__(self, *times_us: float) -> None:
        self.times_us = list(times_us)

    def timer(self) -> Any:
        return SimpleNamespace(start=lambda: None, stop=lambda: None, elapsed_us=self._next)

    def _next(self) -> float:
        return self.times_us.pop(0) if len(self.times_us) > 1 else self.times_us[0]

    def synchronize(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    monkeypatch.setattr(tuning, "_FLUSH_BYTES", 8)
    monkeypatch.setattr(tuning, "_WARM_S", 0.01)


def test_a_kernel_takes_what_the_middle_half_of_its_calls_takes() -> None:
    calls: list[None] = []
    disturbed = Device(*[90.0] * 10, *[2.0] * 10, 5.5, *[4.5] * 9, *[5.0] * 10)
    assert tuning.ColdClock(disturbed).us(lambda: calls.append(None)) == pytest.approx((5.5 + 9 * 4.5 + 10 * 5.0) / 20)  # type: ignore[arg-type]
    assert len(calls) == 1 + 40


def test_of_a_long_kernel_few_calls_are_made() -> None:
    calls: list[None] = []
    assert tuning.ColdClock(Device(8000.0)).us(lambda: calls.append(None)) == 8000.0  # type: ignore[arg-type]
    assert len(calls) == 1 + 10


def test_torch_chooses_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its tuner asks: in milliseconds."""
    from torch._inductor.runtime import benchmarking  # takes a second or two, which every collection would pay

    benchmarker = benchmarking.TritonBenchmarker()
    monkeypatch.setattr(benchmarking, "benchmarker", benchmarker)
    tuning.tune_by_cold_calls(Device(7.0))  # type: ignore[arg-type]
    assert benchmarker.benchmark(lambda: None, (), {}, device="cuda", rep=40) == pytest.approx(0.007)


def test_a_gpu_that_had_nothing_to_do_is_warmed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """While torch.compile works on the processor. Else the version that is tried first looks slower."""
    synchronized: list[None] = []
    device = Device(5.0)
    device.synchronize = lambda: synchronized.append(None)  # type: ignore[method-assign]
    clock = tuning.ColdClock(device)  # type: ignore[arg-type]
    counts = []
    for _ in range(2):
        clock.us(lambda: None)
        counts.append(len(synchronized))
        synchronized.clear()
    assert counts[0] > counts[1] == 8
