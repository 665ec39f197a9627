"""The records of a profile and their JSON form, which is a public interface.

Figures that a tool did not give are None. Texts that a submission could have written are printable and short.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class KernelProfile:
    """One launch of a kernel: metrics by the keys of `metrics.METRICS`, and why its warps wait."""

    name: str
    metrics: Mapping[str, float | None]
    stalls: Mapping[str, float] = field(default_factory=dict)  # reason → share of a warp's time, 0 to 1, largest first
    occupancy_limiter: str | None = None  # what allows the fewest blocks on a multiprocessor


@dataclass(frozen=True)
class Roofline:
    """Where a call lies under the ceilings of its device. `flops` and `least_bytes` are those of the task."""

    flops: int
    least_bytes: int
    moved_bytes: float | None  # what the call really moved to and from memory
    time_us: float | None
    peak_flops_per_s: float | None
    peak_bytes_per_s: float | None

    @property
    def intensity(self) -> float | None:
        """Operations per byte."""
        moved = self.moved_bytes or self.least_bytes
        return self.flops / moved if moved else None

    @property
    def flops_per_s(self) -> float | None:
        return self.flops / self.time_us * 1e6 if self.time_us else None

    @property
    def bytes_per_s(self) -> float | None:
        return (self.moved_bytes or self.least_bytes) / self.time_us * 1e6 if self.time_us else None

    @property
    def least_us(self) -> float | None:
        """The shortest time that both ceilings allow for the work of the task."""
        if not self.peak_flops_per_s or not self.peak_bytes_per_s:
            return None
        return 1e6 * max(self.least_bytes / self.peak_bytes_per_s, self.flops / self.peak_flops_per_s)

    def to_json(self) -> dict[str, Any]:
        derived = {name: getattr(self, name) for name in ("intensity", "flops_per_s", "bytes_per_s", "least_us")}
        return {**asdict(self), **derived}


@dataclass(frozen=True)
class Bottleneck:
    """What limits a call most: a key of the table in `bottleneck.py`, with the figures that say so."""

    key: str
    title: str
    evidence: str
    advice: str

    @property
    def sentence(self) -> str:
        return f"{self.title}: {self.evidence}. {self.advice}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence}


@dataclass(frozen=True)
class ConfigProfile:
    """One call on one configuration, never a hidden one."""

    key: str
    group: str
    kernels: tuple[KernelProfile, ...]  # in the order of their launches, those that take longest if there are many
    kernel_count: int
    time_us: float | None
    roofline: Roofline
    bottleneck: Bottleneck | None

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "group": self.group,
            "kernels": [asdict(item) for item in self.kernels],
            "kernel_count": self.kernel_count,
            "time_us": self.time_us,
            "roofline": self.roofline.to_json(),
            "bottleneck": self.bottleneck.to_json() if self.bottleneck else None,
        }


@dataclass(frozen=True)
class HotLine:
    """A line of the source on which warps wait, with its share of all samples of its kernel."""

    kernel: str
    line: int | None  # of the submission; None for an instruction that no line is known of
    text: str
    samples: int
    share: float


@dataclass(frozen=True)
class Listing:
    """A text for reading beside the source: `ptx`, `sass`, `assembly`, or the compiler's remarks `vectorisation`."""

    kind: str
    text: str
    cut: bool = False  # it was longer than what is kept


@dataclass(frozen=True)
class Profile:
    """What was seen of one source on one device."""

    task: str
    suite: str
    language: str
    device: str
    device_kind: str
    source_sha256: str
    tool: str
    configs: tuple[ConfigProfile, ...]
    resources: tuple[Mapping[str, Any], ...] = ()  # registers, spills and shared memory, as the assembler says
    instructions: Mapping[str, int] = field(default_factory=dict)  # of a processor: how many of each kind stand in it
    hot_lines: tuple[HotLine, ...] = ()
    listings: tuple[Listing, ...] = ()
    missing: tuple[str, ...] = ()  # what is not here, and why
    text: str = ""  # the short form
    raw: Mapping[str, str] = field(default_factory=dict)  # what the tools printed; not part of the JSON form

    def to_json(self) -> dict[str, Any]:
        plain = ("task", "suite", "language", "device", "device_kind", "source_sha256", "tool", "text")
        return {
            **{name: getattr(self, name) for name in plain},
            "configs": [item.to_json() for item in self.configs],
            "resources": [dict(item) for item in self.resources],
            "instructions": dict(self.instructions),
            "hot_lines": [asdict(item) for item in self.hot_lines],
            "listings": [asdict(item) for item in self.listings],
            "missing": list(self.missing),
        }


def short_name(kernel: str) -> str:
    """The name of a kernel without the types of its arguments."""
    plain = kernel.replace("<unnamed>::", "")
    end = plain.find(">(") + 1 or plain.find("(")
    return plain[: end if end > 0 else None].removeprefix("void ")[:60]


def base_name(kernel: str) -> str:
    """The identifier alone, without namespaces, template arguments and types."""
    return short_name(kernel).partition("<")[0].rpartition(":")[2]
