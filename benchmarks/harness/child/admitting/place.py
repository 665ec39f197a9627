"""What an examination computes on: the processor, or a GPU with the memory and the arithmetic of a judging there.

`host` is the stand-in for a GPU: its limits, on the processor. Not covered: what is computed.
"""

import gc
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..gpu.accelerator import exact_arithmetic

_NO_MEMORY = re.compile("out of memory|ALLOC_FAILED", re.IGNORECASE)
_RESULTS_SHARE = 64  # of a GPU's memory so much is left to results that are stacked over seeds, in float64
_CPU_RESULTS_MAX_BYTES = 256 << 20
_PROCESSOR = torch.device("cpu")
_AIM_S = 10.0  # for what a GPU task can do without


@dataclass(frozen=True)
class ExaminationPlace:
    """`device_class` says whose configurations are examined. `until_s` is a moment of the monotonic clock."""

    device: torch.device = _PROCESSOR
    device_class: str = "cpu"
    memory_bytes: int | None = None  # of a GPU
    until_s: float = math.inf

    @property
    def stacked_bytes_max(self) -> int:
        """Results up to this size can be stacked over seeds in float64."""
        return _CPU_RESULTS_MAX_BYTES if self.memory_bytes is None else self.memory_bytes // _RESULTS_SHARE

    @property
    def is_bounded(self) -> bool:
        return self.until_s < math.inf

    def has_time_for(self, seconds: float) -> bool:
        return time.monotonic() + seconds < self.until_s

    def now_s(self) -> float:
        """The clock once everything that was asked of the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def free(self) -> None:
        """Gives back what nobody holds any more, so that the next step finds memory in one piece."""
        if self.device_class != "cpu":
            gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def no_memory(self, error: BaseException) -> str:
        """What to say where `error` is one of a GPU's memory; empty for others. Frees what its frames hold."""
        if self.memory_bytes is None or not _lacks_memory(error):
            return ""
        most = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else 0
        error.__traceback__ = None
        error.__context__ = None
        self.free()
        held = f"with {most / 1e9:.1f} GB of {self.memory_bytes / 1e9:.1f} GB in use, it needs more"
        return f"too large for this GPU: {held}"


def _lacks_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


PROCESSOR = ExaminationPlace()


def place_of(message: Mapping[str, Any]) -> ExaminationPlace:
    """From the first message of the process that asks."""
    accelerator = message["accelerator"]
    if accelerator == "cpu":
        return PROCESSOR
    exact_arithmetic()
    device = torch.device("cuda", 0) if accelerator == "cuda" else torch.device("cpu")
    torch.zeros(1, device=device)
    return ExaminationPlace(device, "cuda", message["memory_bytes"])


def with_aim(place: ExaminationPlace) -> ExaminationPlace:
    """The same, with the moment after which only what must be is done. A processor has all the time of its limit."""
    if place.device_class == "cpu":
        return place
    return replace(place, until_s=time.monotonic() + _AIM_S)
