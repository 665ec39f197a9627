"""V2: the emulator, which runs a CUDA kernel without a GPU.

It rejects a kernel in which the emulator has found a fault. For CUDA only. Not covered: what large shapes do, and what
only nvcc or a GPU refuses.
"""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.emulator import EmulatorReport, EmulatorVerdict, check
from benchmarks.harness import Cancelled, HarnessError, Paths, Rules, Source, TaskSpec, default_rules

from ..config import RunConfig
from ..model import Reason, VerifierOpinion

_MOST_REASONS = 5
_FAULTS = {
    "race": "race",
    "stale read": "race",
    "divergent barrier": "race",
    "wrong result": "numerics",
    "raised": "interface",
    "refused launch": "interface",
}


class EmulateVerifier:
    """V2. It needs a C++ compiler, and neither a GPU nor nvcc."""

    id = "emulate"
    version = "4"

    def __init__(self, paths: Paths, rules: Rules | None = None) -> None:
        self._paths, self._rules = paths, rules or default_rules()

    @classmethod
    def from_config(cls, _config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """`settings` holds `data`, the folder of builds."""
        return cls(Paths(Path(settings["data"])))

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        """Runs it in a thread; being cancelled ends the emulator's processes."""
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(self._emulate, Source(source, language), task, given_up)
        finally:
            given_up.set()

    def _emulate(self, source: Source, task: TaskSpec, given_up: threading.Event) -> VerifierOpinion:
        try:
            return opinion_of(check(source, task, self._rules, self._paths, cancelled=given_up.is_set))
        except Cancelled:
            return VerifierOpinion("abstain", (Reason("emulating was abandoned"),))
        except HarnessError as error:
            return VerifierOpinion("abstain", (Reason(f"this could not be emulated here: {error}"),))


def opinion_of(report: EmulatorReport) -> VerifierOpinion:
    """What a report says as an opinion."""
    if report.verdict is EmulatorVerdict.CORRECT_HERE:
        return VerifierOpinion("accept", seconds=report.seconds)
    if report.verdict is EmulatorVerdict.ABSTAINED:
        return VerifierOpinion("abstain", (Reason(report.reason, report.line),), seconds=report.seconds)
    reasons = tuple(Reason(f"{item.kind}: {item.sentence}", item.line) for item in report.findings)
    fault = _FAULTS.get(report.findings[0].kind, "memory") if report.findings else "interface"
    return VerifierOpinion(
        "reject", reasons[:_MOST_REASONS] or (Reason(report.reason),), fault=fault, seconds=report.seconds
    )
