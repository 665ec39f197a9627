"""How torch.compile chooses between the kernels that it has written: by cold calls which the host has queued ahead.

Its own clock takes the shortest of calls that the host launches one by one. For kernels of a few microseconds that
tells more of the host than of the kernel, so that a busy host chose other kernels each time, up to 20 % slower ones.
Not covered: which kernels there are to choose from.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from .accelerator import Accelerator

_FLUSH_BYTES = 256 << 20
_AHEAD_CYCLES = 2_000_000  # about a millisecond, in which the host queues the calls of a batch
_CALLS_OF_A_BATCH, _BATCHES = 10, 4
_LONG_US = 5000.0  # of such calls the first batch is enough
_IDLE_S, _WARM_S = 0.5, 0.15  # clocks rise for so long after the GPU had nothing to do


def tune_by_cold_calls(device: Accelerator) -> None:
    """From here on, in this process."""
    from torch._inductor.runtime.benchmarking import benchmarker  # takes seconds

    benchmarker.benchmark_gpu = ColdClock(device).kernel_ms


class ColdClock:
    """Times calls with nothing of them in the cache."""

    def __init__(self, device: Accelerator) -> None:
        self._device = device
        self._used_s = float("-inf")

    def kernel_ms(self, call: Callable[[], Any], *_: Any, **__: Any) -> float:
        """As torch's tuner asks."""
        return self.us(call) / 1e3

    def us(self, call: Callable[[], Any]) -> float:
        """How long `call` takes: the mean of the middle half of its times."""
        device = self._device
        flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device.device)
        timers, times_us = [device.timer() for _ in range(_CALLS_OF_A_BATCH)], list[float]()
        call()
        if time.monotonic() > self._used_s + _IDLE_S:
            until_s = time.monotonic() + _WARM_S
            while time.monotonic() < until_s:
                flush.zero_()
                device.synchronize()
        for _ in range(_BATCHES):
            device.synchronize()
            torch.cuda._sleep(_AHEAD_CYCLES)
            for timer in timers:
                flush.zero_()
                timer.start()
                call()
                timer.stop()
            device.synchronize()
            times_us += [timer.elapsed_us() for timer in timers]
            if min(times_us) > _LONG_US:
                break
        self._used_s = time.monotonic()
        quarter = len(times_us) // 4
        middle_us = sorted(times_us)[quarter : len(times_us) - quarter]
        return sum(middle_us) / len(middle_us)
