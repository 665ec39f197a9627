"""V1: the judge's own compiler, sandbox and cache, so that the later judging finds the build.

It abstains if the failure is ours (no such device here, a compiler that was killed). Not covered: linking against what
is missing at run time, and what the program does.
"""

import asyncio
import hashlib
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.harness import (
    Build,
    Cancelled,
    HarnessError,
    Paths,
    Rules,
    Source,
    TaskSpec,
    Watcher,
    compile_source,
    default_rules,
)

from ..config import RunConfig
from ..model import Reason, VerifierOpinion

_MOST_REASONS = 5
_ERROR = re.compile(r"^kbench_submission\.\w+[:(](\d+)[):][^\n]*?(?:fatal )?error: ([^\n]+)$", re.MULTILINE)
_ANY_ERROR = re.compile(r"^[^\n]*\b[Ee]rror\b[^\n]*$", re.MULTILINE)
_OUR_FAULT = re.compile(
    r"Killed|No space left|[Cc]annot allocate|virtual memory exhausted|out of memory|internal compiler"
)


class CompileVerifier:
    """V1 on one device: `cpu`, or a GPU whose architecture it compiles for."""

    id = "compile"
    version = "1"

    def __init__(self, paths: Paths, *, device: str = "cpu", rules: Rules | None = None) -> None:
        self._paths, self._device = paths, device
        self._rules = rules or default_rules()

    @classmethod
    def from_config(cls, _config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """`settings` holds `data`, the folder of builds, and `device`."""
        return cls(Paths(Path(settings["data"])), device=settings["device"])

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        """Compiles in a thread; being cancelled ends the compiler."""
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(self._compile, Source(source, language), task, given_up)
        finally:
            given_up.set()

    def _compile(self, source: Source, task: TaskSpec, given_up: threading.Event) -> VerifierOpinion:
        started = time.perf_counter()
        try:
            build = compile_source(
                source, task, self._rules, self._paths, device=self._device, watcher=Watcher(cancelled=given_up.is_set)
            )
        except Cancelled:
            return VerifierOpinion("abstain", (Reason("compiling was abandoned"),))
        except HarnessError as error:
            return VerifierOpinion("abstain", (Reason(f"this could not be compiled here: {error}"),))
        return opinion_of(build, self._rules.compile.timeout_s, time.perf_counter() - started)


def opinion_of(build: Build, timeout_s: float, seconds: float) -> VerifierOpinion:
    """What a finished build says."""
    if build.binary is not None:
        resources = _resources(build)
        return VerifierOpinion("accept", _spilled(resources), seconds=seconds, resources=resources)
    if build.exit_code is None:
        reasons: tuple[Reason, ...] = (Reason(f"compiling took more than {timeout_s:g} s"),)
    elif build.problem:
        reasons = (Reason(build.problem),)
    else:
        reasons = errors(build.log)
    if not reasons or (_OUR_FAULT.search(build.log) and not build.problem):
        return VerifierOpinion("abstain", (Reason("the compiler failed without naming an error"),), seconds=seconds)
    return VerifierOpinion("reject", reasons, fault="compile", seconds=seconds)


def errors(log: str) -> tuple[Reason, ...]:
    """The first errors in a compiler's log with their lines; without lines where none has one."""
    cited = [Reason(item[2].strip(), int(item[1])) for item in _ERROR.finditer(log)]
    other = [Reason(item.group().strip()) for item in _ANY_ERROR.finditer(log)]
    return tuple((cited or other)[:_MOST_REASONS])


def _resources(build: Build) -> dict[str, Any]:
    """Of the most demanding kernel, where the compiler tells; and the hash of the binary."""
    found: dict[str, Any] = {"binary_sha256": _sha256(build.binary) if build.binary else None}
    if build.resources:
        found["registers"] = max(item.registers for item in build.resources)
        found["spill_bytes"] = max(item.spill_store_bytes + item.spill_load_bytes for item in build.resources)
        found["shared_bytes"] = max(item.shared_bytes for item in build.resources)
    return found


def _spilled(resources: Mapping[str, Any]) -> tuple[Reason, ...]:
    spill_bytes = resources.get("spill_bytes", 0)
    return (Reason(f"registers spill: {spill_bytes} bytes are stored and loaded"),) if spill_bytes else ()


def _sha256(path: Path) -> str:
    """The size of a file, or of all files of a folder."""
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(item.read_bytes() for item in files)).hexdigest()
