"""The compiled baselines of a task, prepared once per machine where no submission can write, and the machine's peaks.

Only the compilation of baselines is cached; every judging times them again. If torch.compile fails on a configuration
or takes too long, the reason is stored and eager alone is the baseline there. If it lacks memory of a GPU that others
may have held, or others kept it from the processors, nothing is stored. Peaks belong to the machine, not to a task,
and are measured while nothing else is.
"""

import hashlib
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..compilers.builds import compiler_environment
from ..compilers.pruning import make_room, note_use
from ..compilers.toolchain import torch_folder
from ..errors import Cancelled, ProcessorsBusy, RefereeError
from ..hosts.locks import file_lock, watched_file_lock
from ..hosts.machine import Cores, Peaks
from ..protocol import ProtocolError
from ..rules import Rules
from ..sandbox.isolation import STEADY_HEAP, Room, child_code, inside
from ..sandbox.outbox import Bounds, NotTaken, discard, scratch_folder, take_folder
from ..sandbox.seccomp import builder_program, supported
from ..source import Paths, Step, Watcher
from ..tasks.spec import Config, TaskSpec
from .answers import problem_of, senseless
from .contestants import Actor, Contestant, Starved, WholeLimit
from .last_words import failed
from .memory import SharedMemory, describe, lay_out

MachineLock = Callable[[Watcher], AbstractContextManager[None]]
LEFT_OUT = "left out of a quick check"
_FORM = "4"  # of what is kept; another one is prepared anew. "3" may miss baselines that waited for a processor
_CACHE = Bounds(files=20_000, total_bytes=2 << 30, depth=12)  # of what torch.compile keeps of one task
_OWN_TIME_S = 240.0  # for starting torch and its compiler, or for what needs no reference
_PROBES = re.compile(r"probes-[0-9a-f]{24}")
_TRUSTED_CPU_S = 600
_BETWEEN_S = 30.0  # from one configuration to the next one


@dataclass(frozen=True)
class PreparedBaseline:
    """`problems[c]` says why configuration c has no torch.compile time; None where it has one."""

    cache: Path
    problems: tuple[str | None, ...]

    def is_kept(self) -> bool:
        """Whether they are still there. If so, they stay for as long as a judging takes."""
        note_use(self.cache.parent)
        return self.cache.exists()


def baseline_room(task: Path, cache: Path, rules: Rules) -> Room:
    """The sandbox of baselines: they see the reference (a file, or the folder that holds it) and their own cache."""
    place = "/kbench/task" if task.is_dir() else "/kbench/task/reference.py"
    return Room(
        read_only={**child_code(), task: place},
        writable={cache: "/kbench/cache"},
        environment={
            "TORCHINDUCTOR_CACHE_DIR": inside(cache, "cache"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "USER": "kbench",
            **STEADY_HEAP,
        },
        memory_bytes=4 * rules.limits.memory_bytes,
        file_bytes=1 << 30,
        scratch_bytes=4 * rules.limits.scratch_bytes,
        cpu_s=trusted_cpu_s(),
    )


def trusted_cpu_s() -> int:
    """The limit of processor time for a process of ours, which may compute on all processors at a time."""
    return _TRUSTED_CPU_S * len(os.sched_getaffinity(0))


def task_folder(task: TaskSpec) -> str:
    return str(Path(inside(task.folder / "reference.py", "task/reference.py")).parent)


def opening(task: TaskSpec, described: list[dict[str, Any]], threads: int) -> dict[str, Any]:
    """The part of an `open` message that all children need."""
    return {"configs": described, "threads": threads, "task": task_folder(task), "direction": task.direction}


@dataclass(kw_only=True)
class Preparation(ABC):
    """Compiles configurations in a child; one that does not end in time is given up and the rest goes on.

    `quick` compiles nothing. What it does is told as steps of `stage`. Raises Cancelled where somebody asks for it.
    """

    task: TaskSpec
    configs: Sequence[Config]
    rules: Rules
    watcher: Watcher
    stage: str = "prepare"
    quick: bool = False
    problems: dict[int, str | None] = field(init=False)

    def __post_init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.problems = dict.fromkeys(range(len(self.configs)), LEFT_OUT) if self.quick else {}

    @abstractmethod
    def start(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Actor:
        """A child that compiles the configurations `wanted` into `cache`, or does `instead` what needs no reference."""

    @property
    @abstractmethod
    def machine(self) -> tuple[str, ...]:
        """All properties of this machine on which the results depend."""

    def is_ready(self, paths: Paths) -> bool:
        """Whether nothing is left to compile."""
        file = self._folder(paths) / "ready.json"
        return file.exists() and not any(self._lacks_memory(problem) for problem in _problems(file) if problem)

    @contextmanager
    def turn(self, paths: Paths, lock: MachineLock) -> Iterator[None]:
        """Held around `compiled`, so that nobody else compiles the same; holds `lock` if something must be compiled."""
        waiting = Step(self.stage, "waiting", text="the baselines of the task are being compiled")
        note_use(self._folder(paths))  # what is ready now is ready in an hour
        with ExitStack() as stack:
            if not self.is_ready(paths):
                file = self._folder(paths).with_suffix(".lock")
                stack.enter_context(watched_file_lock(file, waiting, self.watcher))
            if not self.is_ready(paths):
                stack.enter_context(lock(self.watcher))
            yield

    def compiled(self, paths: Paths) -> PreparedBaseline:
        """The compiled baselines of the task on this machine; compiles them if there are none.

        Raises RefereeError, and Overloaded, after which nothing is kept.
        """
        folder = self._folder(paths)
        if not self.is_ready(paths):
            self._begin_anew()  # what was prepared with this may have gone since
            discard(folder)
            with scratch_folder("prepare-", paths.scratch) as scratch:
                self.begin(paths, scratch / "cache")
                self._compile(scratch / "cache", scratch / "log")
                folder.mkdir(parents=True)  # not before: an empty folder that nobody uses may be removed meanwhile
                _taken(scratch / "cache", folder / "cache")
            problems = [self.problems[number] for number in range(len(self.configs))]
            _write(folder / "ready.json", {"problems": problems})
            make_room(paths.baselines, spared=_is_small)
        return PreparedBaseline(folder / "cache", _problems(folder / "ready.json"))

    def _lacks_memory(self, problem: str) -> bool:
        """Whether a configuration had no memory, which others may have held: such a problem is not kept."""
        return False

    def begin(self, paths: Paths, cache: Path) -> None:
        """Makes the folder in which torch.compile keeps what it has compiled."""
        cache.mkdir()

    def peaks(self, paths: Paths, *, again: bool = False) -> Peaks:
        """Those of this machine, measured first if it has none.

        `again` measures them once more and keeps the better ones: they may stem from a busy moment.
        """
        file = paths.baselines / f"peaks-{_digest(*self.machine)}.json"
        with file_lock(file.with_suffix(".lock")):
            before = Peaks.from_json(json.loads(file.read_text())) if file.exists() else None
            if before and not again:
                return before
            peaks = self._measured(paths)
            peaks = peaks.or_better(before) if before else peaks
            _write(file, asdict(peaks))
        return peaks

    def _folder(self, paths: Paths) -> Path:
        parts = (self.task.content_sha256, *(config.key for config in self.configs), *self.machine, _place_of_torch())
        left_out = (LEFT_OUT,) if self.quick else ()
        return paths.baselines / f"{self.task.op}-{self.task.direction}-{_digest(*parts, *left_out)}"

    def _compile(self, cache: Path, log: Path) -> None:
        """In one child; a second one is needed only after a configuration that did not end."""
        while wanted := [number for number in range(len(self.configs)) if number not in self.problems]:
            with self._child(cache, log, wanted=wanted) as child:
                self._follow(child, wanted)

    def _measured(self, paths: Paths) -> Peaks:
        with scratch_folder("peaks-", paths.scratch) as scratch:
            (scratch / "cache").mkdir()
            return Peaks.from_json(self._asked("peaks", scratch))

    def _asked(self, errand: str, scratch: Path) -> Any:
        """The answer of a child that sees a cache in `scratch` and loads no reference."""
        with self._child(scratch / "cache", scratch / "log", wanted=[], instead=errand) as child:
            return self._heard(child, (errand,), _OWN_TIME_S)[errand]

    @contextmanager
    def _child(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Iterator[Actor]:
        child = self.start(cache, log, wanted=wanted, instead=instead)
        try:
            yield child
        except ProtocolError as error:
            raise failed(f"preparing baselines failed: {error}", child.child) from error
        except Starved as error:
            raise ProcessorsBusy("the baselines of the task could not be prepared in time") from error
        except TimeoutError as error:
            raise RefereeError("preparing baselines did not answer") from error
        finally:
            child.kill()

    def _follow(self, child: Actor, wanted: Sequence[int]) -> None:
        """Waits until the child has compiled everything or one configuration takes too long.

        A stranger's reference runs in it. So it is heard in the order in which our code speaks, and what else it says
        gives it no more time: all of it together takes no longer than its configurations and what lies between them.
        """
        limit_s = _OWN_TIME_S
        for number in wanted:
            if self._heard(child, ("compiling", "prepared"), limit_s).get("compiling") != number:
                raise senseless("it compiles something else than it was asked for", child.child)
            if not self._compiles(child, number):
                return
            limit_s = _BETWEEN_S
        self._heard(child, ("prepared",), limit_s)

    def _compiles(self, child: Actor, number: int) -> bool:
        """Records the outcome; False if it did not end in time."""
        done, total = len(self.problems), len(self.configs)
        self.watcher.on_step(Step(self.stage, "progress", done, total, "torch.compile builds its baseline"))
        timeout_s = self.rules.score.baseline_compile_timeout_s
        try:
            message = self._heard(child, ("compiled", "prepared"), timeout_s)
        except Starved:
            raise  # it says nothing of the baseline, which later scores would lack
        except TimeoutError:
            self.problems[number] = f"torch.compile took more than {timeout_s:g} s"
            return False
        self._record(child, number, message)
        return True

    def _record(self, child: Actor, number: int, message: dict[str, Any]) -> None:
        if message.get("compiled") != number:
            raise senseless("it has compiled something else than it was asked for", child.child)
        self.problems[number] = problem_of(message, child.child)

    def _heard(self, child: Actor, words: Sequence[str], limit_s: float) -> dict[str, Any]:
        """The child's next message with one of the words; looks up meanwhile whether anybody still wants it.

        What is not compiled in time has no baseline on this machine from then on. So a child that others keep from
        working, such as a build that starts many processes, has more time. Raises Starved if that is not enough.
        """
        limit = WholeLimit(child.child.work, limit_s)
        for message in child.messages_within(limit, self._demand_wanted):
            if any(word in message for word in words):
                return message
            self._note(child, message, limit)
        raise TimeoutError  # as the messages do by themselves

    def _demand_wanted(self) -> None:
        if self.watcher.cancelled():
            raise Cancelled

    def _note(self, child: Actor, message: dict[str, Any], limit: WholeLimit) -> None:  # noqa: B027 - most have nothing
        """Does what the child asks for in between: nothing on a processor."""


@dataclass(kw_only=True)
class CpuPreparation(Preparation):
    cores: Cores

    @property
    def machine(self) -> tuple[str, ...]:
        return (*compiler_environment().values(), str(self.cores.threads))

    def begin(self, paths: Paths, cache: Path) -> None:
        """With the programs from which torch.compile learns what the processor can do: compiling them takes 10 s."""
        _taken(self.probes(paths), cache)

    def probes(self, paths: Paths) -> Path:
        """Those programs, compiled once per machine in a process that loads no reference: some are strangers' code."""
        folder = paths.baselines / f"probes-{_digest(*self.machine, _place_of_torch())}"
        with file_lock(folder.with_suffix(".lock")):
            if not folder.exists():
                with scratch_folder("probes-", paths.scratch) as scratch:
                    (scratch / "cache").mkdir()
                    self._asked("probes", scratch)
                    _taken(scratch / "cache", scratch / "taken")
                    (scratch / "taken").rename(folder)
        return folder

    def start(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Contestant:
        layout = lay_out(self.configs, [1] * len(self.configs))
        inputs = SharedMemory("inputs", layout.input_bytes)
        child = Contestant("baseline", self.configs, layout, inputs.fd, self.cores.threads)
        with closing(inputs), ExitStack() as failed:
            failed.callback(child.kill)
            child.start(
                baseline_room(self.task.folder / "reference.py", cache, self.rules),
                log,
                builder_program() if supported() else b"",
            )
            common = opening(self.task, describe(self.configs, layout), self.cores.threads)
            work = {"prepare": True, "wanted": wanted, "instead": instead, "cores": self.cores.contestants}
            child.open({**common, **work})
            failed.pop_all()
        return child


def _problems(file: Path) -> tuple[str | None, ...]:
    return tuple(json.loads(file.read_text())["problems"])


def _taken(cache: Path, target: Path) -> None:
    """Moves what a child compiled to a folder that no child can write: references of other suites are untrusted."""
    try:
        take_folder(cache, target, _CACHE)
    except NotTaken as error:
        raise RefereeError(f"the reference left more than files beside its compiled baselines: {error}") from error


def _write(file: Path, data: dict[str, Any]) -> None:
    """Writes the file in one step, so that readers never see a part of it."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(data))
    partial.replace(file)


def _is_small(name: str) -> bool:
    """The programs of `CpuPreparation.probes`: compiled once per machine, and no task has any of its own."""
    return _PROBES.fullmatch(name) is not None


def _place_of_torch() -> str:
    """torch.compile looks for its libraries under the hash of a command that names this folder.

    What was compiled for a torch in another folder would be compiled again in each judging.
    """
    return str(torch_folder())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join((_FORM, *parts)).encode()).hexdigest()[:24]


def own_copy(prepared: PreparedBaseline, scratch: Path) -> Path:
    """A copy of the prepared cache for one judging: torch takes locks in it."""
    copy = scratch / f"cache-{time.monotonic_ns()}"
    _taken(prepared.cache, copy)
    return copy
