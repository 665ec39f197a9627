"""Shared by the compilers of all languages: running tools in a sandbox, finding torch, and hashes.

A sandbox sees its input texts read-only and writes to its own memory; its output leaves through a descriptor
(`sandbox/outbox.py`). We never move, mount or open a file that it could write. Not covered: which tool with which flags
(`gxx.py`, `nvcc.py`, `device_source.py`) and the cache (`builds.py`).
"""

import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from ..errors import SupervisorError
from ..rules import Rules
from ..sandbox.deadlines import FairDeadline, FairTotal
from ..sandbox.isolation import Room, inside, isolation_in_force, spawn
from ..sandbox.outbox import AnswerFile, NotTaken, TooMuch
from ..sandbox.seccomp import builder_program, supported
from ..source import CancelCheck, Paths, Source, never_cancelled
from .twins import twins

MODULE = "kbench_submission"
HEADERS = Path(__file__).parent / "headers"
TOO_LARGE = "the compiled file is too large"
_LOG_BYTES = 64 * 1024
_SCRATCH_BYTES = 512 << 20  # object files, and what compilers keep between their steps
# Equal programs are equal files: without the names of what nobody calls from outside, some of which a compiler draws at
# random, and without an id of the build. Bytecode, which a text can hold in an asm, would be compiled now with options
# that it brings along, and one of them runs any command.
LINKING = ("-shared", "-s", "-fno-lto", "-Wl,--build-id=none")
# When a file was written and where it lies is nothing to a text
CONSTANT_MACROS = ("-Wno-builtin-macro-redefined", "-D__TIMESTAMP__=__DATE__", "-D__BASE_FILE__=__FILE__")
_DAY = "SOURCE_DATE_EPOCH=0"  # what __DATE__ and __TIME__ are made of: one text is compiled to one program on all days
# For a g++ that reads a text: how each of its tools ended is its own exit code, 128 and the number of a signal that
# ended the tool, and the last line. In a line of its own a text can say anything, but not the last word.
_TELLING_HOW_TOOLS_END = (
    "-pass-exit-codes",
    "-wrapper",
    'sh,-c,"$@" || { code=$?; echo "${1##*/} returned $code exit status" >&2; exit $code; },sh',
)
_BY_THE_MACHINE = (signal.SIGKILL, signal.SIGBUS)
_OF_ITSELF = 4  # the exit code of a g++ that has caught a signal
_OWN_ERROR, _NO_PAGE = "internal compiler error: ", "Bus error"
# What a driver, a shell or the sandbox says last of a machine without memory or processes left. That a tool got no more
# memory is none of it: each has a limit of its own, which a text reaches on any machine.
_WORDS_OF_THE_MACHINE = re.compile(
    r"^bwrap: |(?:Killed|Bus error) signal terminated|(?:terminated with|died due to) signal [79]\b|Cannot fork"
    r"|Resource temporarily unavailable|No space left on device|vfork: Cannot allocate memory"
)
_FULL = "No space left on device"
_ENDED_BY_US = re.compile(r"\nended: (it had more than \d+ [a-z ]+)\n\Z")  # as `crowd.py` writes it
_DRAWN = re.compile(r"(?<=/precompiled/)[0-9a-f]{32}|(?<=/cc)\w{6}(?=\.[os]\b)")  # names of a folder, and g++'s own
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
class Compilation:
    """How one compilation went; exit code None: it ran out of time or was cancelled."""

    exit_code: int | None
    log: str
    resources: tuple[KernelResources, ...] = ()
    problem: str = ""  # what is wrong beside what the compiler says
    by_machine: bool = False  # the machine ended processes meanwhile, which no text can make it look like
    is_starved: bool = False  # it ran out of time because others had the processors


@dataclass(frozen=True)
class Workshop:
    """The folder of one compilation, which no sandbox can write, with the rules and limits that hold.

    Each program may take the time that the rules allow, and all of them together twice as much, however often a
    compilation is tried with other headers. Time in which others have the processors is none of it (`FairTotal`).
    """

    folder: Path
    rules: Rules
    paths: Paths
    cancelled: CancelCheck = never_cancelled
    taken: FairTotal = field(default_factory=FairTotal)  # by all programs so far

    @property
    def given(self) -> str:
        """Where sandboxes find the texts that they were given, and where they start."""
        return inside(self._given, "given")

    @property
    def scratch(self) -> str:
        """The folder that a sandbox may write; deleted with it."""
        if isolation_in_force().strong:
            return "/tmp"  # noqa: S108 - its own tmpfs
        return tempfile.mkdtemp(prefix="loose-", dir=self.folder.parent)

    def give(self, texts: Mapping[str, str]) -> None:
        """Texts that sandboxes may read from now on, in place of earlier ones."""
        shutil.rmtree(self._given, ignore_errors=True)
        self._given.mkdir()
        for name, text in texts.items():
            (self._given / name).write_text(text)
            os.utime(self._given / name, (0, 0))

    def room(self, read_only: dict[Path, str]) -> Room:
        limits = self.rules.compile
        return Room(
            read_only={**read_only, **self._twins(read_only), self._given: self.given},
            memory_bytes=limits.memory_bytes,
            file_bytes=4 * limits.binary_max_bytes,
            scratch_bytes=_SCRATCH_BYTES,
            cpu_s=int(2 * limits.timeout_s),
            python=False,
            system=False,
        )

    def run(
        self,
        argv: Iterable[str],
        room: Room,
        *,
        fds: tuple[int, ...] = (),
        stdout: int | None = None,
        runs_text: bool = False,
    ) -> Compilation:
        """One program, started where the texts lie; what it prints is the log, or goes to `stdout`.

        One that `runs_text` may look starved by hiding the time that it uses, where nothing counts all of it.
        """
        with tempfile.NamedTemporaryFile(prefix="log-", dir=self.folder.parent) as file:
            command = ["/usr/bin/env", "-C", self.given, _DAY, *argv]
            filter_program = builder_program() if supported() else b""
            child = spawn(command, room, Path(file.name), fds=fds, stdout=stdout, filter_program=filter_program)
            timeout_s, texts = self.rules.compile.timeout_s, self._digest()
            deadline = FairDeadline(child.work, min(timeout_s, 2 * timeout_s - self.taken.charged_s))
            try:
                while child.wait(_POLL_S) is None and not deadline.is_over() and not self.cancelled():
                    deadline.look()
                code = child.exit_code()
            finally:
                self.taken.charge(deadline)
                child.kill()
            log = _as_each_time(child.log_tail(_LOG_BYTES), is_cut=Path(file.name).stat().st_size > _LOG_BYTES)
        if self._digest() != texts:
            return Compilation(1, log, problem="the text was changed while it was compiled")
        if child.has_overrun:
            return Compilation(1, log, problem=f"it took more than {(room.all_memory_bytes or 0) >> 20} MiB of memory")
        if child.was_ended:
            said = _ENDED_BY_US.search(log)
            return Compilation(code, log, problem=said[1] if said else "it had more than a sandbox may have")
        is_known = not runs_text or deadline.counts_all
        is_starved = is_known and code is None and (deadline.is_starved or self.taken.is_starved(2 * timeout_s))
        return Compilation(code, log, by_machine=child.met_shortage, is_starved=is_starved)

    def make(self, steps: Iterable[Iterable[str]], made: str, room: Room, target: Path) -> Compilation:
        """The tools in turn in one sandbox, until one fails; then what lies at `made` becomes the file `target`."""
        tools = "\n".join(shlex.join(argv) for argv in steps)
        # no tool has the answer's file; without /proc it can be reached as a number alone
        script = f"exec 3>&1 >&2\n{{\n{tools}\n}} 3>&-\nexec cat {shlex.quote(made)} >&3"
        with AnswerFile(room.file_bytes) as answer:
            outcome = self.run(["sh", "-ec", script], room, stdout=answer.fd)
            return saved(outcome, answer, target)

    def _twins(self, read_only: Mapping[Path, str]) -> dict[Path, str]:
        """Copies that lie over headers whose times a text could compare."""
        if HEADERS not in read_only or not isolation_in_force().strong:
            return {}
        headers = {path: place for path, place in packages().items() if path in read_only and path.name != "lib"}
        name = digest("twins", *map(str, headers), version("torch"), sys.version, headers_fingerprint())
        return twins(headers, self.paths, name)

    @property
    def _given(self) -> Path:
        return self.folder / "given"

    def _digest(self) -> str:
        """The hash of the texts given to sandboxes."""
        files = sorted(self._given.iterdir())
        return digest(*(part for file in files for part in (file.name, file.read_text(errors="replace"))))


def _as_each_time(log: str, *, is_cut: bool) -> str:
    """A log as it is each time: without names that are drawn, nor half of one in its first line."""
    return _DRAWN.sub("_", log.partition("\n")[2] if is_cut else log)


def saved(outcome: Compilation, answer: AnswerFile, target: Path) -> Compilation:
    """`outcome` of what was to leave `answer`, which becomes the file `target` if all went well."""
    if outcome.exit_code == -signal.SIGXFSZ:
        return replace(outcome, exit_code=1, problem=TOO_LARGE)
    if outcome.exit_code != 0:
        return outcome
    try:
        answer.save(target)
    except TooMuch:
        return replace(outcome, exit_code=1, problem=TOO_LARGE)
    except NotTaken as error:
        return replace(outcome, exit_code=1, problem=f"the compiler left no file: {error}")
    return outcome


class CompilerOutcome(Protocol):
    """How anything ended that compiles."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def log(self) -> str: ...
    @property
    def problem(self) -> str: ...


def is_of_the_machine(outcome: CompilerOutcome) -> bool:
    """Whether it failed for a reason that may be gone next time. No text of C++ can make its own errors look so."""
    code, log = outcome.exit_code, outcome.log
    if code in (0, None) or outcome.problem:
        return False
    is_killed = code in {way for number in _BY_THE_MACHINE for way in (-number, 128 + number)}
    last = log.rstrip("\n").removesuffix("compilation terminated.").rstrip("\n").rpartition("\n")[2]
    error_of_its_own = log.rpartition(_OWN_ERROR)[2]  # the last one: before it a text can print anything
    is_without_page = code == _OF_ITSELF and _OWN_ERROR in log and error_of_its_own.startswith(_NO_PAGE)
    return is_killed or is_without_page or bool(_WORDS_OF_THE_MACHINE.search(last))


def told_by_gxx(outcome: Compilation) -> Compilation:
    """Of a text that g++ alone has read: what its last line says of the machine is true.

    But a text can fill a disk; and below an error of its own g++ shows a line of the text, which can say anything.
    """
    is_true = _FULL not in outcome.log.rstrip("\n").rpartition("\n")[2] and outcome.exit_code != _OF_ITSELF
    return replace(outcome, by_machine=outcome.by_machine or (is_of_the_machine(outcome) and is_true))


class Toolchain(Protocol):
    """A compiler of one language."""

    @property
    def binary(self) -> str:
        """The name of the compiled file."""

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        """All that a build depends on beside its source and the compile rules."""

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        """Leaves `binary` in the workshop's folder if the exit code is 0."""


def fallback(attempts: Iterable[Callable[[], Compilation]], wanted: Callable[[Compilation], bool]) -> Compilation:
    """The first attempt that succeeds or whose failure the next one would not mend.

    A failure of the machine is none that other headers mend: they may lead to another program, which would be kept.
    """
    outcome = Compilation(None, "")
    for attempt in attempts:
        outcome = attempt()
        if outcome.exit_code in (0, None) or is_of_the_machine(outcome) or not wanted(outcome):
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


def how_tools_end() -> tuple[str, ...]:
    """Options of the host's compiler by which its log ends with how its tools did."""
    return _TELLING_HOW_TOOLS_END if "clang" not in host_compiler_version() else ()


@functools.cache
def headers_fingerprint() -> str:
    """The hash of the headers that come with kbench."""
    files = sorted(path for path in HEADERS.rglob("*") if path.is_file())
    return digest(*(text for path in files for text in (str(path.relative_to(HEADERS)), path.read_text())))


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
