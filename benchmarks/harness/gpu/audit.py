"""Checks an accepted GPU submission again with NVIDIA's tools.

Nsight Compute profiles one call per configuration: the sum of the kernel times is compared with the scored time, and
the bytes read from memory with the size of the inputs. Compute Sanitizer checks the memory accesses of the smallest
configuration. A tool's report leaves through a descriptor that the submission's process does not have, counts only if
the tool has finished, and is parsed as hostile data. Not covered: results, which the judging has compared, and host
code that modifies the tool's library, which is loaded into the submission's process.
"""

import csv
import io
import json
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import AuditBroken, HarnessError, SupervisorError
from ..measuring.memory import describe, overlay
from ..protocol import clean_text
from ..report import ConfigReport
from ..rules import GpuRules
from ..sandbox.isolation import Child, Room, child_code, inside, python_argv, spawn
from ..sandbox.outbox import AnswerFile, NotTaken
from ..source import CancelCheck
from ..tasks.spec import Config, TaskSpec
from .crew import gpu_filter
from .discovery import Gpu

_TIME, _READ, _WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_SCALES = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
_POLL_S = 0.1
_REPORT_BYTES = 4 << 20
_SHOWN_KERNELS = 12
_SHOWN_CHARS = 200  # of a kernel's name
_ERROR_EXIT = 99
_NO_COUNTERS = "ERR_NVGPUCTRPERM"
_NUMBER = re.compile(r"[0-9][0-9,]{0,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_SUMMARY = re.compile(r"ERROR SUMMARY: ([0-9]{1,15}) errors?\b")
_CODES_OF_SIGNALS = {number + base for number in (4, 6, 7, 8, 11) for base in (0, 128)}
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

    task: TaskSpec
    configs: Sequence[Config]
    binary: Path
    gpu: Gpu
    rules: GpuRules
    scratch: Path
    timeout_s: float
    cancelled: CancelCheck

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
        output = self._run(config, "ncu", _ncu_argv(), {0})
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
        output = self._run(
            config,
            "compute-sanitizer",
            [_tool("compute-sanitizer"), "--tool", "memcheck", "--error-exitcode", str(_ERROR_EXIT), "--log-file"],
            {0, _ERROR_EXIT},
        )
        return {"config": config.key, **parse_sanitizer(output)}

    def _run(self, config: Config, tool: str, argv: Sequence[str], ends: set[int]) -> str:
        """What the tool wrote about one call until it ended with one of `ends`.

        Raises SupervisorError if it did not do its work, AuditBroken if the submission's process kept it from that.
        """
        folder = self.scratch / f"{tool}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        plan = {
            "configs": describe([config], overlay([config], [1])),
            "direction": self.task.direction,
            "device": self.gpu.accelerator,
            "binary": inside(self.binary, f"job/{self.binary.name}"),
            "flush_bytes": self.rules.flush_bytes,
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        with AnswerFile(_REPORT_BYTES) as answer:
            watched = python_argv("gpu.apart", str(answer.fd), "audit", inside(folder / "plan.json", "plan.json"))
            command = [*argv, answer.path, *watched]
            child = spawn(command, self._room(folder), folder / "log", fds=(answer.fd,), filter_program=gpu_filter())
            code = self._await(child)
            return _report(tool, answer, code, ends, child.log_tail(2000))

    def _await(self, child: Child) -> int | None:
        deadline = time.monotonic() + self.timeout_s
        try:
            while child.wait(_POLL_S) is None and time.monotonic() < deadline and not self.cancelled():
                pass
            return child.exit_code()
        finally:
            child.kill()

    def _room(self, folder: Path) -> Room:
        environment = {**self.gpu.environment(), "TMPDIR": "/tmp", "USER": "kbench"}  # noqa: S108 - its own tmpfs
        return Room(
            read_only={
                **child_code(),
                **tool_folders(),
                self.binary: f"/kbench/job/{self.binary.name}",
                folder / "plan.json": "/kbench/plan.json",
            },
            environment=environment,
            devices=self.gpu.nodes,
            memory_bytes=None,
            file_bytes=1 << 30,
            scratch_bytes=1 << 30,
        )


def _report(tool: str, answer: AnswerFile, code: int | None, ends: set[int], log: str) -> str:
    if answer.empty:
        raise _broken(tool, code, log)
    try:
        text = answer.read().decode(errors="replace")
    except NotTaken as error:
        raise AuditBroken(f"the report of {tool} cannot be read: {error}") from error
    if code in ends:
        return text
    if _NO_COUNTERS in text:
        raise SupervisorError(f"{tool} may not read the GPU's counters here: {text[-500:]}")
    raise AuditBroken(f"{tool} began its report and did not finish it (exit code {code})")


def _broken(tool: str, code: int | None, log: str) -> HarnessError:
    """Tools end with small codes of their own; a signal, or the code of one, is how the submission's process ended."""
    if code is not None and (code < 0 or code in _CODES_OF_SIGNALS):
        return AuditBroken(f"the submission's process ended with {code} under {tool}")
    return SupervisorError(f"{tool} ended with {code}: {log}")


def tool_folders() -> dict[Path, str]:
    """What the tools need beside /usr, at the same place inside."""
    found = (shutil.which(name) for name in ("ncu", "compute-sanitizer"))
    tops = {Path(*Path(path).resolve().parts[:3]) for path in found if path}
    roots = [path for path in (*tops, Path("/opt/nvidia")) if path.is_dir() and not path.is_relative_to("/usr")]
    return {path: str(path) for path in roots}


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
        raise AuditBroken("the profiler's report is no table") from error
    if not {"Kernel Name", _TIME, _READ, _WRITTEN} <= set(head) or len(set(head)) < len(head):
        raise AuditBroken("the profiler's report lacks what was asked for")
    if head in rows or any(len(row) != len(head) for row in (units, *rows)):
        raise AuditBroken("the profiler's report is not one table")
    place = {name: head.index(name) for name in head}
    for row in rows:
        time_us, read, written = (_scaled(row[place[name]], units[place[name]]) for name in (_TIME, _READ, _WRITTEN))
        yield clean_text(row[place["Kernel Name"]])[:_SHOWN_CHARS], time_us, read, written


def parse_sanitizer(text: str) -> dict[str, Any]:
    """The number of errors and the first of them, from compute-sanitizer's log."""
    lines = [line.strip("= ").strip() for line in text.split("\n") if line.startswith("=====")]
    summaries = [found for line in lines if (found := _SUMMARY.match(line))]
    if not summaries:
        raise SupervisorError(f"the output of compute-sanitizer cannot be parsed: {text[-500:]}")
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
        _tool("ncu"),
        *("--target-processes", "all", "--profile-from-start", "off"),
        *("--clock-control", "none", "--cache-control", "none"),
        *("--metrics", f"{_TIME},{_READ},{_WRITTEN}", "--csv", "--page", "raw", "--log-file"),
    ]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SupervisorError(f"there is no {name} on this machine, so nothing can be audited")
    return found
