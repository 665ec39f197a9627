"""From source to shared object: compiled in a sandbox, kept under the hash of everything that it depends on.

A precompiled thin header (`headers/torch/extension.h`) makes a build several times faster than the stock one; where
it is not enough the stock header is used. Compiling is repeatable, so failures are kept as well, except time-outs.
Not covered: loading the result, which only a candidate process does.
"""

import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from .errors import SupervisorError
from .isolation import Room, inside, spawn
from .rules import RuleSet
from .seccomp import builder_program, supported
from .source import CancelCheck, Paths, Source, never_cancelled

MODULE = "kbench_submission"
_HEADERS = Path(__file__).parent / "headers"
_LIBRARIES = ("c10", "torch", "torch_cpu", "torch_python")
_LOG_BYTES = 64 * 1024
_POLL_S = 0.1
# what the compiler says when a name that the stock header brings is missing from the thin one
_MISSING_NAME = re.compile(
    r"not a member of ‘(?:torch|at|c10|std|pybind11)|‘(?:torch|at|c10|std|pybind11)::[^’]*’ has not been declared"
    r"|is not a namespace|is defined in header|‘[A-Z][A-Z0-9_]+’ was not declared|in namespace ‘(?:torch|at|c10|std)"
)


@dataclass(frozen=True)
class Build:
    """The outcome of one compilation; `binary` is None if there is none, and `log` then says why."""

    binary: Path | None
    log: str
    seconds: float
    cached: bool
    exit_code: int | None  # None: it ran out of time
    problem: str = ""  # what is wrong beside what the compiler says


def build(source: Source, rules: RuleSet, paths: Paths, *, cancelled: CancelCheck = never_cancelled) -> Build:
    """The build of `source` under `rules`, from the cache if it was done before."""
    folder = paths.builds / _key(source, rules)
    found = _read(folder)
    if found is not None:
        return found
    result = _compile(source, rules, paths, folder, cancelled)
    return result if result.exit_code is None else _keep(result, folder)


def compiler_environment() -> dict[str, str]:
    """What a build depends on beside source and flags; recorded in reports."""
    return {"compiler": _compiler_version(), "torch": version("torch"), "machine": _machine()}


def prepare_headers(rules: RuleSet, paths: Paths) -> Path | None:
    """The folder of the precompiled header, built once per machine and flags; None if it cannot be built."""
    folder = paths.headers / _hash(_HEADERS.joinpath("torch/extension.h").read_text(), *_fixed_parts(rules))
    with _locked(folder.with_suffix(".lock")):
        if not folder.exists():
            _precompile(rules, paths, folder)
    return folder if (folder / "kbench.h.gch").exists() else None


def _precompile(rules: RuleSet, paths: Paths, folder: Path) -> None:
    with _scratch(paths) as work:
        (work / "kbench.h").write_text('#include "torch/extension.h"\n')
        argv = [
            _compiler(),
            *_flags(rules),
            *_includes(thin=True),
            "-x",
            "c++-header",
            "kbench.h",
            "-o",
            "kbench.h.gch",
        ]
        room = replace(_room(rules, work), file_bytes=2 << 30)
        _run(argv, room, work, timeout_s=rules.compile.timeout_s, cancelled=never_cancelled)
        _move(work, folder)


def _compile(source: Source, rules: RuleSet, paths: Paths, folder: Path, cancelled: CancelCheck) -> Build:
    headers = prepare_headers(rules, paths)
    started = time.monotonic()
    with _scratch(paths) as work:
        (work / f"{MODULE}.cpp").write_text(source.text)
        code, log = _attempt(rules, work, headers, cancelled)
        if code not in (0, None) and headers and _MISSING_NAME.search(log):
            code, log = _attempt(rules, work, None, cancelled)
        seconds = time.monotonic() - started
        binary = work / f"{MODULE}.so"
        if code == 0 and binary.stat().st_size > rules.compile.binary_max_bytes:
            return Build(None, log, seconds, cached=False, exit_code=1, problem="the compiled file is too large")
        if code == 0:
            _move(work, folder)
        return Build(folder / binary.name if code == 0 else None, log, seconds, cached=False, exit_code=code)


def _attempt(rules: RuleSet, work: Path, headers: Path | None, cancelled: CancelCheck) -> tuple[int | None, str]:
    """Compiles and links; with `headers` against the thin precompiled header, else against the stock one."""
    room = _room(rules, work)
    use = ["-include", f"{inside(headers, 'headers')}/kbench.h"] if headers else []
    if headers:
        room = replace(room, read_only={**room.read_only, headers: "/kbench/headers"})
    steps = [
        [_compiler(), *use, *_flags(rules), *_includes(thin=headers is not None), "-c", f"{MODULE}.cpp", "-o", "a.o"],
        [_compiler(), "-shared", "a.o", "-o", f"{MODULE}.so", *_linking()],
    ]
    log = ""
    for argv in steps:
        code, text = _run(argv, room, work, timeout_s=rules.compile.timeout_s, cancelled=cancelled)
        log += text
        if code != 0:
            return code, log
    return 0, log


def _run(
    argv: list[str], room: Room, work: Path, *, timeout_s: float, cancelled: CancelCheck
) -> tuple[int | None, str]:
    """Exit code (None if it ran out of time) and output of one tool, run inside `work`."""
    with tempfile.NamedTemporaryFile(prefix="log-", dir=work.parent) as file:
        command = ["/usr/bin/env", "-C", inside(work, "work"), *argv]
        child = spawn(command, room, Path(file.name), filter_program=builder_program() if supported() else b"")
        deadline = time.monotonic() + timeout_s
        try:
            while child.wait(_POLL_S) is None and time.monotonic() < deadline and not cancelled():
                pass
            return child.exit_code(), child.log_tail(_LOG_BYTES)
        finally:
            child.kill()


def _room(rules: RuleSet, work: Path) -> Room:
    packages = {path: inside(path, name) for path, name in _packages().items()}
    return Room(
        read_only={_HEADERS: "/kbench/thin", **packages},
        writable={work: "/kbench/work"},
        memory_bytes=rules.compile.memory_bytes,
        file_bytes=4 * rules.compile.binary_max_bytes,
        cpu_s=int(2 * rules.compile.timeout_s),
        python=False,
    )


def _flags(rules: RuleSet) -> list[str]:
    return [*rules.compile.flags, f"-DTORCH_EXTENSION_NAME={MODULE}", "-fmax-errors=20", "-fdiagnostics-color=never"]


def _includes(*, thin: bool) -> list[str]:
    torch = inside(_torch_folder() / "include", "torch/include")
    python = Path(sysconfig.get_paths()["include"])
    folders = [torch, f"{torch}/torch/csrc/api/include", inside(python, "python")]
    mine = ["-isystem", inside(_HEADERS, "thin")] if thin else []
    return [*mine, *(part for folder in folders for part in ("-isystem", folder))]


def _linking() -> list[str]:
    libraries = inside(_torch_folder() / "lib", "torch/lib")
    return [f"-L{libraries}", *(f"-l{name}" for name in _LIBRARIES), "-fopenmp", "-Wl,--as-needed"]


@functools.cache
def _torch_folder() -> Path:
    """Where torch is installed, found without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise SupervisorError("torch is not installed")
    return Path(spec.origin).parent


def _packages() -> dict[Path, str]:
    """What a compiler may read beside /usr, and its name inside: torch's headers and libraries, Python's headers."""
    return {
        _torch_folder() / "include": "torch/include",
        _torch_folder() / "lib": "torch/lib",
        Path(sysconfig.get_paths()["include"]): "python",
    }


@functools.cache
def _compiler() -> str:
    for name in ("g++", "c++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    raise SupervisorError("there is no C++ compiler on this machine: install g++")


@functools.cache
def _compiler_version() -> str:
    return subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


@functools.cache
def _machine() -> str:
    """The processor as the compiler's -march=native sees it."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    lines = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in info.splitlines()}
    return _hash(platform.machine(), lines.get("model name", ""), lines.get("flags", lines.get("Features", "")))[:16]


def _fixed_parts(rules: RuleSet) -> tuple[str, ...]:
    return (*_flags(rules), *_includes(thin=True), *compiler_environment().values(), sys.version)


def _key(source: Source, rules: RuleSet) -> str:
    header = _HEADERS.joinpath("torch/extension.h").read_text()
    return _hash(source.text, header, str(rules.compile), *_fixed_parts(rules))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read(folder: Path) -> Build | None:
    try:
        data = json.loads((folder / "build.json").read_text())
    except (OSError, ValueError):
        return None
    binary = folder / f"{MODULE}.so"
    return Build(
        binary if data["exit_code"] == 0 else None,
        data["log"],
        data["seconds"],
        True,
        data["exit_code"],
        data["problem"],
    )


def _keep(result: Build, folder: Path) -> Build:
    """Writes the record last: a folder without one is no build."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"exit_code": result.exit_code, "log": result.log, "seconds": result.seconds, "problem": result.problem}
    partial = folder / f"build.{os.getpid()}"
    partial.write_text(json.dumps(data))
    partial.replace(folder / "build.json")
    return result


def _move(work: Path, folder: Path) -> None:
    """Renames in one step; losing the race to another process that built the same is normal."""
    kept = work.with_suffix(".done")
    kept.mkdir()
    for path in work.iterdir():
        if path.name in (f"{MODULE}.so", "kbench.h", "kbench.h.gch"):
            path.rename(kept / path.name)
    try:
        kept.rename(folder)
    except OSError:
        shutil.rmtree(kept)


@contextmanager
def _scratch(paths: Paths) -> Iterator[Path]:
    outer = Path(tempfile.mkdtemp(prefix="build-", dir=paths.scratch))
    work = outer / "work"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(outer, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
