"""What compilers of every language share: one tool run in the sandbox, where torch lies, and hashes.

Not covered: which tool with which flags (`gxx.py`, `nvcc.py`, `triton_source.py`) and the cache (`builds.py`).
"""

import functools
import hashlib
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from .errors import SupervisorError
from .isolation import Room, inside, spawn
from .rules import RuleSet
from .seccomp import builder_program, supported
from .source import CancelCheck, Paths, Source, never_cancelled

MODULE = "kbench_submission"
HEADERS = Path(__file__).parent / "headers"
_LOG_BYTES = 64 * 1024
_POLL_S = 0.1


@dataclass(frozen=True)
class KernelResources:
    """What one kernel of a CUDA build uses, as its assembler says it."""

    kernel: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Outcome:
    """How one compilation went; exit code None: it ran out of time or was cancelled."""

    exit_code: int | None
    log: str
    resources: tuple[KernelResources, ...] = ()


@dataclass(frozen=True)
class Workshop:
    """The folder of one compilation, with the rules and limits that hold in it."""

    folder: Path
    rules: RuleSet
    paths: Paths
    cancelled: CancelCheck = never_cancelled

    def room(self, read_only: dict[Path, str]) -> Room:
        limits = self.rules.compile
        return Room(
            read_only=read_only,
            writable={self.folder: "/kbench/work"},
            memory_bytes=limits.memory_bytes,
            file_bytes=4 * limits.binary_max_bytes,
            cpu_s=int(2 * limits.timeout_s),
            python=False,
        )

    def run(self, argv: Iterable[str], room: Room) -> Outcome:
        """One tool, started in the folder."""
        with tempfile.NamedTemporaryFile(prefix="log-", dir=self.folder.parent) as file:
            command = ["/usr/bin/env", "-C", inside(self.folder, "work"), *argv]
            child = spawn(command, room, Path(file.name), filter_program=builder_program() if supported() else b"")
            deadline = time.monotonic() + self.rules.compile.timeout_s
            try:
                while child.wait(_POLL_S) is None and time.monotonic() < deadline and not self.cancelled():
                    pass
                return Outcome(child.exit_code(), child.log_tail(_LOG_BYTES))
            finally:
                child.kill()

    def run_all(self, steps: Iterable[Iterable[str]], room: Room) -> Outcome:
        """The tools in turn until one fails."""
        log = ""
        for argv in steps:
            step = self.run(argv, room)
            log += step.log
            if step.exit_code != 0:
                return Outcome(step.exit_code, log)
        return Outcome(0, log)


class Toolchain(Protocol):
    """A compiler of one language."""

    @property
    def binary(self) -> str:
        """The name of the file that it makes."""

    def fingerprint(self, rules: RuleSet) -> tuple[str, ...]:
        """All that a build depends on beside its source and the compile rules."""

    def compile(self, source: Source, shop: Workshop) -> Outcome:
        """Leaves `binary` in the workshop's folder if the exit code is 0."""


def fallback(attempts: Iterable[Callable[[], Outcome]], wanted: Callable[[Outcome], bool]) -> Outcome:
    """The first attempt that succeeds or whose failure the next one would not mend."""
    outcome = Outcome(None, "")
    for attempt in attempts:
        outcome = attempt()
        if outcome.exit_code in (0, None) or not wanted(outcome):
            break
    return outcome


def includes(*mine: str) -> list[str]:
    """The folders of headers as flags: ours first, then torch's and Python's."""
    torch = inside(torch_folder() / "include", "torch/include")
    python = inside(Path(sysconfig.get_paths()["include"]), "python")
    folders = [*mine, torch, f"{torch}/torch/csrc/api/include", python]
    return [part for folder in folders for part in ("-isystem", folder)]


def packages() -> dict[Path, str]:
    """What a compiler may read beside /usr, and its place inside: our headers, torch, Python's headers."""
    folders = {
        HEADERS: "headers",
        torch_folder() / "include": "torch/include",
        torch_folder() / "lib": "torch/lib",
        Path(sysconfig.get_paths()["include"]): "python",
    }
    return {path: inside(path, name) for path, name in folders.items()}


def torch_libraries(*names: str) -> list[str]:
    """Linking against torch; a torch without CUDA lacks some libraries, which a shared object may leave open."""
    folder = torch_folder() / "lib"
    present = [name for name in names if (folder / f"lib{name}.so").exists()]
    return [f"-L{inside(folder, 'torch/lib')}", *(f"-l{name}" for name in present)]


@functools.cache
def torch_folder() -> Path:
    """Where torch is installed, found without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise SupervisorError("torch is not installed")
    return Path(spec.origin).parent


@functools.cache
def host_compiler() -> str:
    for name in ("g++", "c++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    raise SupervisorError("there is no C++ compiler on this machine: install g++")


@functools.cache
def host_compiler_version() -> str:
    shown = subprocess.run([host_compiler(), "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()[0]


@functools.cache
def headers_fingerprint() -> str:
    """Of the headers that come with kbench."""
    files = sorted(path for path in HEADERS.rglob("*") if path.is_file())
    return digest(*(text for path in files for text in (str(path.relative_to(HEADERS)), path.read_text())))


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
