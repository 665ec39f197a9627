"""Checks an accepted GPU submission again with NVIDIA's tools.

Nsight Compute profiles one call per configuration: the sum of the kernel times is compared with the scored time, and
the bytes read from memory with the size of the inputs. Compute Sanitizer checks the memory accesses of the smallest
configuration. A tool's report is parsed as hostile data. Not covered: running the tools (`watching.py`), and results,
which the judging has compared.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import AuditBroken, SupervisorError
from ..protocol import clean_text
from ..report import ConfigReport
from ..tasks.spec import Config
from .watching import Watching, tool

_TIME, _READ, _WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_SCALES = {
    "ns": 1e-3,
    "us": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "Tbyte": 1e12,
}
_SHOWN_KERNELS = 12
_SHOWN_CHARS = 200  # of a kernel's name
_ERROR_EXIT = 99
_NUMBER = re.compile(r"[0-9][0-9,]{0,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_SUMMARY = re.compile(r"ERROR SUMMARY: ([0-9]{1,15}) errors?\b")
_LARGE_BYTES = 256 << 20  # inputs of this size cannot be in any cache


@dataclass(frozen=True)
class Watched:
    """The measurements of one call by Nsight Compute."""

    config: str
    kernels: tuple[str, ...]
    kernel_sum_us: float
    claimed_us: float
    dram_read_bytes: float
    dram_written_bytes: float
    input_bytes: int
    floor_bytes: int

    @property
    def problem(self) -> str:
        """The contradiction between profiler and reported time; empty if they agree."""
        if self.kernel_sum_us > self.claimed_us * 1.10 + 3.0:
            return f"its kernels take {self.kernel_sum_us:.1f} µs, the reported time is {self.claimed_us:.1f} µs"
        if not self.kernels:
            return "it runs no kernel at all"
        if self.input_bytes > _LARGE_BYTES and self.dram_read_bytes < 0.8 * self.input_bytes:
            return f"its kernels read only {self.dram_read_bytes:.3g} of {self.input_bytes:.3g} bytes of inputs"
        return ""


@dataclass(frozen=True)
class Auditor:
    """The tools and the processes that they examine."""

    watching: Watching
    configs: Sequence[Config]

    def look(self, results: Mapping[str, ConfigReport]) -> dict[str, Any]:
        """The audit as it stands in a report. `results` are those of the judging, by key of configuration."""
        chosen = _chosen(self.configs, results)
        watched = [self._profile(config, results[config.key]) for config in chosen]
        smallest = min(self.configs, key=lambda item: item.bytes_moved)
        sanitizer = self._sanitize(smallest)
        problems = [f"{item.config}: {item.problem}" for item in watched if item.problem]
        if sanitizer["errors"]:
            problems.append(f"compute-sanitizer: {sanitizer['errors']} invalid memory accesses")
        calls = [_plain(item) for item in watched]
        return {**calls[0], "calls": calls, "sanitizer": sanitizer, "agrees": not problems, "problems": problems}

    def _profile(self, config: Config, result: ConfigReport) -> Watched:
        if result.kernel_us is None:
            raise SupervisorError(f"{config.key} was never timed")
        output = self.watching.run([config], "ncu", _ncu_argv(), {0})
        rows = list(parse_ncu(output))
        return Watched(
            config=config.key,
            kernels=tuple(row[0] for row in rows),
            kernel_sum_us=sum(row[1] for row in rows),
            claimed_us=result.kernel_us,
            dram_read_bytes=sum(row[2] for row in rows),
            dram_written_bytes=sum(row[3] for row in rows),
            input_bytes=sum(item.nbytes for item in config.tensors),
            floor_bytes=config.bytes_moved,
        )

    def _sanitize(self, config: Config) -> dict[str, Any]:
        output = self.watching.run(
            [config],
            "compute-sanitizer",
            [tool("compute-sanitizer"), "--tool", "memcheck", "--error-exitcode", str(_ERROR_EXIT), "--log-file"],
            {0, _ERROR_EXIT},
        )
        return {"config": config.key, **parse_sanitizer(output)}


def parse_ncu(text: str) -> Iterator[tuple[str, float, float, float]]:
    """Name, time in microseconds, bytes read and bytes written of each kernel, from `--csv --page raw`.

    Raises AuditBroken for anything but one table.
    """
    lines = [line for line in text.split("\n") if line.startswith('"')]
    if not lines:
        return
    try:
        head, units, *rows = csv.reader(io.StringIO("\n".join(lines)), strict=True)
    except (csv.Error, ValueError) as error:
        raise AuditBroken("the profiler's report is not a table") from error
    if not {"Kernel Name", _TIME, _READ, _WRITTEN} <= set(head) or len(set(head)) < len(head):
        raise AuditBroken("the profiler's report lacks figures that were requested")
    if head in rows or any(len(row) != len(head) for row in (units, *rows)):
        raise AuditBroken("the profiler's report is not one table")
    place = {name: head.index(name) for name in head}
    for row in rows:
        time_us, read, written = (_scaled(row[place[name]], units[place[name]]) for name in (_TIME, _READ, _WRITTEN))
        yield clean_text(row[place["Kernel Name"]])[:_SHOWN_CHARS], time_us, read, written


def parse_sanitizer(text: str) -> dict[str, Any]:
    """The number of errors and the first of them, from compute-sanitizer's log.

    Raises AuditBroken for a log without its end: the tool's library runs in the submission's process, which can keep
    it from its summary and chooses the code with which the tool ends.
    """
    lines = [line.strip("= ").strip() for line in text.split("\n") if line.startswith("=====")]
    summaries = [found for line in lines if (found := _SUMMARY.match(line))]
    if not summaries:
        raise AuditBroken("compute-sanitizer ended without its summary, so memory accesses are not known to be valid")
    if len(summaries) > 1:
        raise AuditBroken("the report of compute-sanitizer has more than one end")
    first = next((line for line in lines if line.startswith(("Invalid", "Program hit", "Misaligned"))), "")
    return {"errors": int(summaries[0][1]), "first": clean_text(first)[:_SHOWN_CHARS]}


def _scaled(value: str, unit: str) -> float:
    if unit not in _SCALES:
        raise SupervisorError(f"Nsight Compute reports an unknown unit {unit!r}")
    if not _NUMBER.fullmatch(value) or not math.isfinite(number := float(value.replace(",", ""))):
        raise AuditBroken(f"the profiler's report holds {clean_text(value)[:_SHOWN_CHARS]!r} where a number belongs")
    return number * _SCALES[unit]


def _chosen(configs: Sequence[Config], results: Mapping[str, ConfigReport]) -> list[Config]:
    """The headline configuration and the one with the largest speedup."""
    timed = [item for item in configs if item.key in results and results[item.key].speedup is not None]
    headline = next(item for item in timed if item.group == "single")
    best = max(timed, key=lambda item: results[item.key].speedup or 0.0)
    return [headline] if best is headline else [headline, best]


def _plain(item: Watched) -> dict[str, Any]:
    return {
        "config": item.config,
        "kernels": list(item.kernels[:_SHOWN_KERNELS]),
        "kernel_count": len(item.kernels),
        "kernel_sum_us": round(item.kernel_sum_us, 3),
        "claimed_us": round(item.claimed_us, 3),
        "floor_bytes": item.floor_bytes,
        "dram_bytes": int(item.dram_read_bytes + item.dram_written_bytes),
        "input_bytes": item.input_bytes,
    }


def _ncu_argv() -> list[str]:
    return [
        tool("ncu"),
        *("--target-processes", "all", "--profile-from-start", "off"),
        *("--clock-control", "none", "--cache-control", "none"),
        *("--metrics", f"{_TIME},{_READ},{_WRITTEN}", "--csv", "--page", "raw", "--log-file"),
    ]
