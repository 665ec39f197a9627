"""Starts children in a sandbox: bubblewrap with seccomp and limits, or the strongest one that the machine allows.

A `Room` says what a child may see and use; `spawn` starts it there. Without bubblewrap the same limits, filter and
empty environment apply, but the child sees the machine's files and network: `Isolation.strong` is False then. The
number of processes and threads is limited by Linux, or counted (`crowd.py`) where its limit does not hold, as names of
files and mappings are. All memory of a sandbox together is limited where it can have a control group (`groups.py`), and
nowhere else: a build may use `memory_bytes` in each of its processes.
"""

import base64
import functools
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from ..errors import ChildSurvived, IsolationError
from ..protocol import clean_text
from . import groups, seccomp
from .crowd import TreeWork, children_of, end_tree, has_lowered, is_gone, mark_of, threads_of, watch, work_of
from .freezer import Freezer, RunSpan, signal_quietly
from .outbox import log_end
from .trial import tried

_HARNESS = Path(__file__).parents[1]
CHILD_FOLDER = _HARNESS / "child"
_PROTOCOL = _HARNESS / "protocol.py"
_DTYPES = _HARNESS / "dtypes.py"
_ROOT_LINKS = ("bin", "sbin", "lib", "lib64")
_SHARED_FILES = ("/etc/alternatives",)
_LIBRARIES = "/etc/ld.so.cache"  # libraries are found without it, as long as they lie where the system has its own
_LOCAL = "/usr/local"
_NOT_FOR_COMPILERS = ("/usr/share", "/usr/src", "/usr/games")  # packages that differ between workers have files there
_PROCESSORS = "/sys/devices/system/cpu"
# An Arm compiler's -march=native reads it, and it always says the same; on x86-64 it has the clock rate of the moment
_NATIVE = ("/proc/cpuinfo",) if platform.machine() == "aarch64" else ()
_NULL = Path("/dev/null")
_DEVICES = tuple(Path("/dev") / name for name in ("zero", "random", "urandom"))
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
# An examination with torch.compile needs 8, and numpy starts a thread for each core in every process of Python
TASKS_MAX = 256 + 4 * (os.cpu_count() or 1)
_NAMES_MAX = 20_000  # in one folder in memory: each takes a kilobyte of the kernel's, and ending it takes time
_MAPPINGS_MAX = 20_000  # of all processes together; a process with torch has 500, an audit on a GPU 900
_STACK_BYTES = 64 << 20
_KILL_WAIT_S = 30.0  # a driver first ends what the process left on a GPU
# Python ignores its own variables in isolated mode, so a child looks at ours
_WRITE_BITS = 0o222
_BYTECODE = "sys.pycache_prefix = os.environ.get('KBENCH_BYTECODE', sys.pycache_prefix); sys.dont_write_bytecode = True"


@dataclass(frozen=True)
class Isolation:
    """The isolation of submissions on this machine. Public mode requires `strong`."""

    name: str
    strong: bool
    text: str


# For whatever is timed: what it has freed stays with it. Whether glibc gives memory back between two calls depends
# else on what happens to lie above it in the heap, and a megabyte faulted in again costs hundreds of microseconds.
STEADY_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 62), "MALLOC_TOP_PAD_": str(64 << 20)}


@dataclass(frozen=True)
class Room:
    """What one child sees and may use. Paths map the machine's path to the path inside."""

    read_only: Mapping[Path, str] = field(default_factory=dict)
    writable: Mapping[Path, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Path, ...] = ()
    memory_bytes: int | None = (
        8 << 30
    )  # of address space; None: no limit, as a GPU's driver reserves far more than it uses
    file_bytes: int = 64 << 20
    scratch_bytes: int = 256 << 20
    open_files: int = 256  # descriptors under way to other processes count for all of a user together
    cpu_s: int = 600
    tasks: int = TASKS_MAX  # processes and threads at a time
    cores: tuple[int, ...] = ()
    python: bool = True  # the interpreter and torch are there
    # /proc, what Linux tells of the processors, random numbers as files, the list of the machine's libraries, what an
    # operator has put into /usr/local, and the worker's limit of the stack. A program whose result shall depend on what
    # it was given alone must not see them.
    system: bool = True

    @property
    def all_memory_bytes(self) -> int | None:
        """What its processes may take together, if it has a control group: as one of them, and both folders full."""
        return None if self.memory_bytes is None else self.memory_bytes + 2 * self.scratch_bytes


@functools.cache
def isolation_in_force() -> Isolation:
    """The strongest isolation that works here, found by trying it once per process.

    Raises IsolationError, and tries it again next time, if bubblewrap is installed and could not be tried.
    """
    if _bubblewrap_works():
        grouped = "" if groups.home() is None else ", control groups"
        return Isolation("bubblewrap", True, f"bubblewrap namespaces, seccomp filter, resource limits{grouped}")
    if seccomp.supported():
        return Isolation(
            "seccomp", False, "seccomp filter and resource limits only: bubblewrap does not work on this machine"
        )
    return Isolation("limits", False, "resource limits only: neither bubblewrap nor seccomp works on this machine")


@functools.cache
def tasks_are_limited() -> bool:
    """Whether Linux holds a sandbox to its number of processes: whom the machine knows as root it does not.

    Raises IsolationError as `isolation_in_force` does.
    """
    if not isolation_in_force().strong:
        return False
    forks = [sys.executable, "-I", "-S", "-c", "import os; os.fork()"]
    return b"BlockingIOError" in _tried("/usr/bin/prlimit", "--nproc=1", *forks).stderr


def demand_isolation(*, public: bool) -> Isolation:
    """The isolation in force; raises IsolationError if it is too weak for strangers' code."""
    isolation = isolation_in_force()
    if public and not isolation.strong:
        raise IsolationError(f"public mode refuses to judge: {isolation.text}")
    return isolation


def inside(path: Path, name: str) -> str:
    """The path under which a child sees our read-only path: /kbench/NAME, or the path itself without bubblewrap."""
    return f"/kbench/{name}" if isolation_in_force().strong else str(path)


def child_code() -> dict[Path, str]:
    """What a Python child needs of this package, for `Room.read_only`: `child/`, protocol and dtypes, nothing else."""
    return {
        CHILD_FOLDER: "/kbench/benchmarks/harness/child",
        _PROTOCOL: "/kbench/benchmarks/harness/protocol.py",
        _DTYPES: "/kbench/benchmarks/harness/dtypes.py",
    }


class Child:
    """A running child. `pid` is the process itself as this machine numbers it, not its wrapper."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: Path,
        *,
        wrapped: bool,
        group: groups.Group | None = None,
        ends_first: bool = False,
    ) -> None:
        self._process = process
        self._wrapped = wrapped
        self._group = group
        self._ends_first = ends_first
        self.was_ended = False  # once it is killed: whether it did what `crowd.py` ends a sandbox for
        self.has_overrun = False  # once it is killed: whether it took more memory than its group may have
        self.met_shortage = False  # once it is killed: whether the machine, out of memory, ended processes beside it
        self._is_lost = False
        self._ended_before = groups.ended_for_memory()
        self._doomed: list[int] | None = None
        self.log = log

    @functools.cached_property
    def pid(self) -> int | None:
        """Known once the child has answered; None if it was gone by then."""
        pid = self._process.pid
        for _ in range(2 if self._wrapped else 0):
            children = children_of(pid)
            if not children:
                return None
            pid = children[0]
        return pid

    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal, as in `subprocess`."""
        code = self._process.poll()
        return 128 - code if code is not None and code > 128 and self._wrapped else code

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None if it still runs after `timeout_s`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return self.exit_code()

    def is_lost(self) -> bool:
        """Whether the machine has ended it for want of memory, and neither we nor its own limit. The same once killed.

        Whom the process that counts (`crowd.py`) has ended, we have. Its group knows. Without one, Linux has ended some
        process since this one began, and this one by SIGKILL.
        """
        if self._doomed is None:
            ended = groups.ended_for_memory() > self._ended_before
            self.met_shortage = ended if self._group is None else self._group.met_shortage()
            self.was_ended = mark_of(self.log).exists() or (self._ends_first and has_lowered(self._process.pid))
            is_killed = self.met_shortage and self.exit_code() == -signal.SIGKILL
            self._is_lost = is_killed and not self.was_ended
        return self._is_lost

    @functools.cached_property
    def _freezer(self) -> Freezer | None:
        return None if self.pid is None else Freezer(self.pid)

    def resume(self) -> int:
        """Lets the child run; the processor time in ns that it has used since it was frozen."""
        return 0 if self._freezer is None else self._freezer.resume()

    def since_resume(self) -> tuple[int, int]:
        """Processor time of all threads and queue wait of the first one since it was let run, in ns."""
        return (0, 0) if self._freezer is None else self._freezer.since_resume()

    def freeze(self, deadline_s: float = 2.0) -> RunSpan:
        """Returns when every thread of the child has stopped. A dead child is frozen too. Raises NotStopped."""
        return RunSpan(0, 0) if self._freezer is None else self._freezer.freeze(deadline_s)

    def work(self) -> TreeWork:
        """What it and all that it has started do, also before it has answered."""
        found = work_of(self._process.pid)
        used_s = None if self._group is None else self._group.used_s()
        return found if used_s is None else replace(found, used_s=used_s, counts_all=True)

    def pin(self, cores: Sequence[int]) -> None:
        """Moves every thread of the child to `cores`; threads that it starts later follow."""
        for thread in threads_of(self.pid):
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:
                continue

    def doom(self) -> None:
        """Sends SIGKILL to the child and everything it started, without waiting."""
        if self._doomed is not None:
            return
        self.is_lost()  # it can be asked for the last time
        if not self._wrapped:
            self._doomed = []
            end_tree(self._process.pid)
            return
        # the first process of the sandbox takes all others with it
        inner = children_of(self._process.pid)
        self._doomed = [*inner, *(pid for parent in inner for pid in children_of(parent))]
        for pid in (*inner, self._process.pid):
            signal_quietly(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends the child and everything it started; returns when they are gone. Raises ChildSurvived."""
        self.doom()
        try:
            self._process.wait(_KILL_WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise ChildSurvived("a child survived SIGKILL") from error
        _await_gone(self._doomed or [])
        self._doomed = []  # their numbers may be others' by the next time
        mark_of(self.log).unlink(missing_ok=True)
        if self._group is not None:
            self.has_overrun = self.has_overrun or self._group.has_overrun()
            self._group.end()

    def log_tail(self, limit_bytes: int) -> str:
        """The end of what the child printed, control characters replaced."""
        return clean_text(log_end(self.log, limit_bytes).decode(errors="replace"))


def spawn(
    argv: Sequence[str],
    room: Room,
    log: Path,
    *,
    fds: Sequence[int] = (),
    stdout: int | None = None,
    filter_program: bytes = b"",
) -> Child:
    """Starts `argv` in `room`, its output going to `log`, or `stdout` and errors to `log`, `fds` staying open in it.

    `filter_program` is installed before `argv` starts; a child that must load trusted code first installs its own.
    """
    strong, is_limited = isolation_in_force().strong, tasks_are_limited()
    group = groups.new_group(room.all_memory_bytes, room.tasks)
    program = filter_program if seccomp.supported() else b""
    limited = ["/usr/bin/prlimit", f"--nproc={room.tasks}", *argv] if is_limited else list(argv)
    command = [*_bubblewrap(room), "--", *limited] if strong else limited
    if program and strong:
        fd = os.memfd_create("filter")
        os.write(fd, program)
        os.lseek(fd, 0, os.SEEK_SET)
        command[1:1] = ["--seccomp", str(fd)]
        fds, program = [*fds, fd], b""
    plan = {
        "limits": _limits(room),
        "cores": room.cores,
        "filter": base64.b64encode(program).decode(),
        "adopts": not strong,
        "group": "" if group is None else group.door,
    }
    log.write_bytes(b"")
    mark_of(log).unlink(missing_ok=True)  # of another child with this log
    with log.open("ab") as output, _nothing() as nothing:  # others write there, too
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(CHILD_FOLDER / "enter.py"), json.dumps(plan), *command],
            stdin=nothing,
            stdout=output if stdout is None else stdout,
            stderr=output,
            pass_fds=tuple(fds),
            env=_environment(room),
            cwd="/",
            start_new_session=True,
        )
    if strong and filter_program and seccomp.supported():
        os.close(fds[-1])
    counted = not is_limited and not (group and group.limits_tasks)
    tasks, names = room.tasks if counted else None, _NAMES_MAX if strong else None
    writes = strong and bool(room.devices)  # in its /proc, so also how soon Linux ends it for want of memory
    watch(process.pid, log, tasks=tasks, names=names, mappings=_MAPPINGS_MAX, ends_first=writes)
    return Child(process, log, wrapped=strong, group=group, ends_first=writes)


@contextmanager
def _nothing() -> Iterator[int]:
    """To read from; /dev/null would be the machine's own, opened where no mount of the sandbox guards it."""
    end, other = os.pipe()
    os.close(other)
    try:
        yield end
    finally:
        os.close(end)


def python_argv(module: str, *arguments: str) -> list[str]:
    """Runs a module of `child/`, such as `gpu.referee`, inside a room that maps the child folder.

    What importing torch leaves is needed until the end, so no search for garbage looks at it, then or later.
    """
    root = "/kbench" if isolation_in_force().strong else str(CHILD_FOLDER.parents[2])
    load = f"sys.path.insert(0, {root!r}); from benchmarks.harness.child.{module} import main"
    load = f"gc.disable(); {load}; gc.freeze(); gc.enable()"
    code = f"import gc, os, sys; {_BYTECODE}; {load}; main(sys.argv[1:])"
    return [sys.executable, "-I", "-B", "-c", code, *arguments]


def bytecode_missing() -> bool:
    """Whether torch was installed without its compiled Python files: each process would compile them anew."""
    spec = find_spec("torch")
    return spec is not None and spec.origin is not None and not (Path(spec.origin).parent / "__pycache__").is_dir()


def _environment(room: Room) -> dict[str, str]:
    # torch asks for the name of its user, which a machine without an entry for this one cannot tell
    fixed = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "USER": "nobody", "LC_ALL": "C.UTF-8"}  # noqa: S108 - its own tmpfs
    return {**fixed, **room.environment}


def _limits(room: Room) -> dict[str, int]:
    address_space = {} if room.memory_bytes is None else {"RLIMIT_AS": room.memory_bytes}
    stack = {} if room.system else {"RLIMIT_STACK": _stack_bytes()}
    return {
        **address_space,
        **stack,
        "RLIMIT_FSIZE": room.file_bytes,
        "RLIMIT_CPU": room.cpu_s,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": room.open_files,
        # these count for all processes of a user together: nobody needs many of them, so nobody can use them up
        "RLIMIT_SIGPENDING": 256,
        "RLIMIT_MSGQUEUE": 0,
    }


def _stack_bytes() -> int:
    """As much as g++ takes if it may. Raises IsolationError where a worker may have less: it would build otherwise."""
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if most not in (resource.RLIM_INFINITY, -1) and most < _STACK_BYTES:
        raise IsolationError(f"compilers need a stack of {_STACK_BYTES} bytes, and this worker may have {most}")
    return _STACK_BYTES


def _bubblewrap(room: Room) -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--hostname", "kbench", "--uid", "65534", "--gid", "65534"]
    command += ["--tmpfs", "/dev", "--size", str(room.scratch_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    # not --dev, which adds terminals: the system's kernel keeps what is written to them and works on it by itself
    for node in (_NULL, *room.devices):
        command += ["--dev-bind", str(node), str(node)]
    command += _system(room) if room.system else _read_only(_NATIVE)
    command += ["--ro-bind", "/usr", "/usr", *_root_links()]
    command += _read_only((*_SHARED_FILES, _LIBRARIES) if room.system else _SHARED_FILES)
    hidden = [*filter(os.path.isdir, _NOT_FOR_COMPILERS), *([] if _compiler_is_local() else [_LOCAL])]
    for folder in [] if room.system else hidden:
        command += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for prefix in _python_prefixes() if room.python else ():
        command += ["--ro-bind", prefix, prefix]
    for source, target in room.read_only.items():
        command += ["--ro-bind", str(source), target]
    for source, target in room.writable.items():
        command += ["--bind", str(source), target]
    # the root and /dev are tmpfs of the machine's size: what is left of them must not hold anything
    command += ["--size", str(room.scratch_bytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--remount-ro", "/"]  # noqa: S108
    return [*command, "--chdir", "/tmp"]  # noqa: S108 - its own tmpfs


def _system(room: Room) -> list[str]:
    """What Linux tells of the machine and of the processes of the sandbox."""
    # the first process is bubblewrap's own, without a candidate's filter: whoever wrote its memory would run in it
    command = ["--proc", "/proc", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    for name, target in _DEVICE_LINKS.items():
        command += ["--symlink", target, f"/dev/{name}"]
    for node in _DEVICES:
        command += ["--dev-bind", str(node), str(node)]
    # the settings of the system's kernel in /proc belong to root, as whom a worker may run
    command += _settings_read_only() if room.devices else ["--remount-ro", "/proc"]
    return [*command, *_read_only((_PROCESSORS,))]


def _read_only(paths: Sequence[str]) -> list[str]:
    """As they are here; what is not there is left out."""
    return [part for path in paths for part in ("--ro-bind-try", path, path)]


def _settings_read_only() -> list[str]:
    """For a GPU, whose driver does not start if it cannot write below /proc/self: all of /proc but processes."""
    command: list[str] = []
    for entry in sorted(Path("/proc").iterdir()):
        is_process = entry.name.isdigit() or entry.is_symlink()
        if not is_process and (entry.is_dir() or entry.stat().st_mode & _WRITE_BITS):
            command += ["--ro-bind", str(entry), str(entry)]
    return command


@functools.cache
def _compiler_is_local() -> bool:
    """Whether the compiler lies where an operator puts what is no part of the system; CUDA has its own mount."""
    found = next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), "")
    return str(Path(found).resolve()).startswith(f"{_LOCAL}/")


def _root_links() -> list[str]:
    """/bin, /lib and so on: links into /usr on most systems, folders on others."""
    result: list[str] = []
    for name in _ROOT_LINKS:
        path = Path("/") / name
        if path.is_symlink():
            result += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            result += ["--ro-bind", str(path), str(path)]
    return result


def _python_prefixes() -> list[str]:
    """The interpreter and its packages; a prefix below /usr is there already."""
    prefixes = dict.fromkeys([sys.base_prefix, sys.prefix])
    return [prefix for prefix in prefixes if not Path(prefix).is_relative_to("/usr") or prefix.startswith("/usr/local")]


def _bubblewrap_works() -> bool:
    if shutil.which("bwrap") is None or not seccomp.supported():
        return False
    return _tried("/usr/bin/env").returncode == 0


def _tried(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return tried([*_bubblewrap(Room()), "--", *argv])


def _await_gone(pids: Sequence[int]) -> None:
    until = time.monotonic() + _KILL_WAIT_S
    while not all(map(is_gone, pids)):
        if time.monotonic() > until:
            raise ChildSurvived("a sandboxed process survived SIGKILL")
        time.sleep(0.001)
