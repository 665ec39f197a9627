"""The tools with which an agent tries a kernel before it proposes it: compile, check, time and profile,
on this machine.

Everything runs in the judge's own sandbox and quick mode; nothing measured here is a score. Without a device of the
run's kind only the reading tools work. Not covered: the limits on calls (`proposers/anthropic_agent.py`).
"""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness import HarnessError, Paths, Source, TaskSpec, Watcher, default_rules, device_class, profile

from ..curriculum import narrowed
from ..model import JudgeResult
from ..verifiers.compile import CompileVerifier
from ..verifiers.screen import quick, two_configs
from .feedback import LOG_CHARS, times
from .fences import fenced, one_line

ABSENT = "There is no such device on this machine: nothing can be compiled or measured before the judging."


class AgentWorkshop(Protocol):
    """The tools that need a machine. Each answers with a text for the model; being cancelled ends the work."""

    async def compile(self, source: str, language: str, task: TaskSpec) -> str: ...

    async def check(self, source: str, language: str, task: TaskSpec) -> tuple[bool, str]: ...

    async def time(self, source: str, language: str, task: TaskSpec, config: str) -> str: ...

    async def profile(self, source: str, language: str, task: TaskSpec) -> str: ...


class DeviceWorkshop:
    """The workshop of one device."""

    def __init__(self, paths: Paths, device: str) -> None:
        self._paths, self._device = paths, device
        self._turn = asyncio.Lock()

    async def compile(self, source: str, language: str, task: TaskSpec) -> str:
        opinion = await CompileVerifier(self._paths, device=self._device).judge(source, language, task)
        reasons = [
            f"line {item.line}: {one_line(item.text, 400)}" if item.line else one_line(item.text, 400)
            for item in opinion.reasons
        ]
        said = {"accept": "It compiles.", "reject": "It does not compile.", "abstain": "Nobody knows."}
        used = {name: value for name, value in (opinion.resources or {}).items() if name != "binary_sha256"}
        more = [", ".join(f"{name} {value}" for name, value in used.items())] if used else []
        return "\n".join([said[opinion.decision], *reasons, *more])

    async def check(self, source: str, language: str, task: TaskSpec) -> tuple[bool, str]:
        result = await self._quick(source, language, two_configs(task, language))
        return result.correct, text_of(result)

    async def time(self, source: str, language: str, task: TaskSpec, config: str) -> str:
        alone = narrowed(task, device_class(language), config)
        return text_of(await self._quick(source, language, alone))

    async def profile(self, source: str, language: str, task: TaskSpec) -> str:
        """The short form of a profile; on a processor it includes the times of a quick check."""
        times_us = {}
        if device_class(language) == "cpu":
            result = await self._quick(source, language, two_configs(task, language))
            times_us = {row["key"]: row["kernel_us"] for row in result.configs if row.get("kernel_us")}
        given_up = threading.Event()
        watcher = Watcher(cancelled=given_up.is_set)
        async with self._turn:
            try:
                found = await asyncio.to_thread(
                    profile,
                    Source(source, language),
                    task,
                    default_rules(),
                    self._paths,
                    device=self._device,
                    times_us=times_us,
                    watcher=watcher,
                )
            except HarnessError as error:
                return f"It could not be profiled: {one_line(str(error), 400)}"
            finally:
                given_up.set()
        return found.text

    async def _quick(self, source: str, language: str, task: TaskSpec) -> JudgeResult:
        given_up = threading.Event()
        async with self._turn:
            try:
                return await asyncio.to_thread(
                    quick, Source(source, language), task, self._paths, self._device, given_up
                )
            finally:
                given_up.set()


class AbsentWorkshop:
    """The workshop of a machine without the device."""

    async def compile(self, source: str, language: str, task: TaskSpec) -> str:
        return ABSENT

    async def check(self, source: str, language: str, task: TaskSpec) -> tuple[bool, str]:
        return False, ABSENT

    async def time(self, source: str, language: str, task: TaskSpec, config: str) -> str:
        return ABSENT

    async def profile(self, source: str, language: str, task: TaskSpec) -> str:
        return ABSENT


def workshop_of(settings: Mapping[str, Any]) -> AgentWorkshop:
    """`settings` holds `data` and `device`, and `elsewhere` if the device of the run is on another machine."""
    if settings.get("elsewhere") or not settings.get("data"):
        return AbsentWorkshop()
    return DeviceWorkshop(Paths(Path(settings["data"])), str(settings.get("device") or "cpu"))


def text_of(result: JudgeResult) -> str:
    """The result of a quick judging as a text for the author."""
    if result.ours:
        return f"It could not be measured: {one_line(result.reason, 400)}"
    if result.correct:
        return f"Correct on everything that was tested.\n{times(result)}"
    parts = [f"{result.verdict}: {one_line(result.reason, 600)}"]
    if result.log_tail.strip():
        parts.append(fenced(result.log_tail[-LOG_CHARS:], "end of the log"))
    return "\n".join(parts)
