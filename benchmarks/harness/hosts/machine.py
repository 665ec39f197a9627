"""Facts about this machine: cores, the record in every report, and the roofline.

Not covered: GPUs (`gpu/discovery.py`); measuring peaks, which the baseline child does.
"""

import os
import platform
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..rules import CpuRules
from .processors import processor


@dataclass(frozen=True)
class Cores:
    """Which cores do what while something is timed. On a machine of one core both are the same."""

    supervisor: tuple[int, ...]
    contestants: tuple[int, ...]

    @property
    def threads(self) -> int:
        return len(self.contestants)


@dataclass(frozen=True)
class Peaks:
    """The best this machine ever did on the cores of a contestant: copy bandwidth by size, and arithmetic."""

    copy_bytes_per_s: tuple[tuple[int, float], ...]
    flops_per_s: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Peaks":
        return cls(tuple((int(size), float(rate)) for size, rate in data["copy_bytes_per_s"]), data["flops_per_s"])

    def or_better(self, other: "Peaks") -> "Peaks":
        """The better value of each pair: other work can only slow a measurement down."""
        known = dict(other.copy_bytes_per_s)
        rates = tuple((size, max(rate, known.get(size, rate))) for size, rate in self.copy_bytes_per_s)
        return Peaks(rates, max(self.flops_per_s, other.flops_per_s))

    def floor_us(self, bytes_moved: int, flops: int) -> float:
        """The shortest possible time for data of this size, in the fastest cache that it fits."""
        return 1e6 * max(bytes_moved / self.bandwidth(bytes_moved), flops / self.flops_per_s)

    def bandwidth(self, size_bytes: int) -> float:
        """The best rate of this size or any larger one: a small copy is bound by its overhead, not by the memory."""
        sizes = [size for size, _ in self.copy_bytes_per_s]
        first = min(bisect_left(sizes, size_bytes), len(sizes) - 1)
        return max(rate for _, rate in self.copy_bytes_per_s[first:])


def divide_cores(rules: CpuRules) -> Cores:
    """The first cores for the supervisor, the next ones for whoever is timed."""
    cores = sorted(os.sched_getaffinity(0))
    reserved = min(rules.reserved_cores, len(cores) - 1)
    contestants = cores[reserved:][: rules.max_threads]
    return Cores(supervisor=tuple(cores[:reserved]) or tuple(contestants), contestants=tuple(contestants))


@contextmanager
def pinned_to(cores: Collection[int]) -> Iterator[None]:
    """This thread runs on `cores` alone, and so does every process that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def machine_record() -> dict[str, Any]:
    return {
        "cpu": processor().model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }
