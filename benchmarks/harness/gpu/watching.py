"""Runs one of NVIDIA's tools around the process of a submission, and takes its report.

The report leaves through a descriptor that the submission's process does not have, and counts only if the tool has
finished. Not covered: what a report says, and host code that modifies the tool's library, which is loaded into the
submission's process.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AuditBroken, HarnessError, SupervisorError
from ..measuring.memory import describe, overlay
from ..rules import GpuRules
from ..sandbox.isolation import Child, Room, child_code, inside, python_argv, spawn
from ..sandbox.outbox import AnswerFile, NotTaken
from ..source import CancelCheck
from ..tasks.spec import Config, TaskSpec
from .crew import gpu_filter
from .discovery import Gpu
from .room import demand_room

_POLL_S = 0.1
_REPORT_BYTES = 4 << 20
_NO_COUNTERS = "ERR_NVGPUCTRPERM"
_CODES_OF_SIGNALS = {number + base for number in (4, 6, 7, 8, 11) for base in (0, 128)}


@dataclass(frozen=True)
class Watching:
    """A submission and the GPU on which a tool looks at it."""

    task: TaskSpec
    binary: Path
    gpu: Gpu
    rules: GpuRules
    scratch: Path
    timeout_s: float
    cancelled: CancelCheck

    def run(
        self,
        configs: Sequence[Config],
        tool: str,
        argv: Sequence[str],
        ends: set[int],
        *,
        marked: bool = False,
        more: Mapping[Path, str] | None = None,
        report_bytes: int = _REPORT_BYTES,
    ) -> str:
        """What the tool wrote about one call per configuration until it ended with one of `ends`.

        With `marked` a kernel of torch, `spin_kernel`, runs behind each of them. `more` are files that the tool reads
        beside the build, and their places inside.

        Sessions that wait on this GPU end before. Raises SupervisorError if it did not do its work, AuditBroken if the
        submission's process kept it from that.
        """
        demand_room(self.gpu)
        folder = self.scratch / f"{tool}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        plan = {
            "configs": describe(configs, overlay(configs, [1] * len(configs))),
            "direction": self.task.direction,
            "device": self.gpu.accelerator,
            "binary": inside(self.binary, f"job/{self.binary.name}"),
            "flush_bytes": self.rules.flush_bytes,
            "marked": marked,
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        with AnswerFile(report_bytes) as answer:
            watched = python_argv("gpu.apart", str(answer.fd), "audit", inside(folder / "plan.json", "plan.json"))
            command = [*argv, answer.path, *watched]
            room = self._room(folder, more or {})
            child = spawn(command, room, folder / "log", fds=(answer.fd,), filter_program=gpu_filter(for_tools=True))
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

    def _room(self, folder: Path, more: Mapping[Path, str]) -> Room:
        environment = {**self.gpu.environment(), "TMPDIR": "/tmp", "USER": "kbench"}  # noqa: S108 - its own tmpfs
        return Room(
            read_only={
                **child_code(),
                **tool_folders(),
                **more,
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
        raise _broken(tool, code, ends, log)
    try:
        text = answer.read().decode(errors="replace")
    except NotTaken as error:
        raise AuditBroken(f"the report of {tool} cannot be read: {error}") from error
    if code in ends:
        return text
    if _NO_COUNTERS in text:
        raise SupervisorError(f"{tool} may not read the GPU's counters here: {text[-500:]}")
    raise AuditBroken(f"{tool} began its report and did not finish it (exit code {code})")


def _broken(tool: str, code: int | None, ends: set[int], log: str) -> HarnessError:
    """Why there is no report.

    Tools end with small codes of their own; a signal, or the code of one, is how the submission's process ended. A tool
    that has done its work writes a report, so one that ends well without it, or never, was kept from it.
    """
    if code in ends:
        return AuditBroken(f"{tool} ended with {code} and wrote no report")
    if code is None:
        return AuditBroken(f"{tool} did not end in time and wrote no report")
    if code < 0 or code in _CODES_OF_SIGNALS:
        return AuditBroken(f"the submission's process ended with {code} under {tool}")
    return SupervisorError(f"{tool} ended with {code}: {log}")


def tool_folders() -> dict[Path, str]:
    """What the tools need beside /usr, at the same place inside."""
    found = (shutil.which(name) for name in ("ncu", "compute-sanitizer"))
    tops = {Path(*Path(path).resolve().parts[:3]) for path in found if path}
    roots = [path for path in (*tops, Path("/opt/nvidia")) if path.is_dir() and not path.is_relative_to("/usr")]
    return {path: str(path) for path in roots}


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SupervisorError(f"there is no {name} on this machine: install the tools of NVIDIA's CUDA toolkit")
    return found
