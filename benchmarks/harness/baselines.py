"""What torch.compile builds for a task, prepared once per machine where no submission can write, and the peaks.

A judging times the baselines anew; only their compilation is kept. A configuration that torch.compile cannot do, or
not in time, is remembered with the reason, and eager alone counts there.
"""

import hashlib
import json
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .builds import compiler_environment
from .contestants import Actor, Contestant
from .errors import RefereeError
from .isolation import STEADY_HEAP, Room, child_code, inside
from .locks import file_lock
from .machine import Cores, Peaks
from .memory import SharedMemory, describe, lay_out
from .protocol import ProtocolError
from .rules import RuleSet
from .seccomp import builder_program, supported
from .source import Paths
from .spec import Config, TaskSpec

Progress = Callable[[int, int, str], None]
LEFT_OUT = "left out of a quick check"
_FORM = "2"  # of what is kept; another one is prepared anew
_OWN_TIME_S = 120.0  # for starting torch and its compiler, beside the configurations


@dataclass(frozen=True)
class PreparedBaseline:
    """`problems[c]` says why configuration c has no torch.compile time; None where it has one."""

    cache: Path
    problems: tuple[str | None, ...]
    peaks: Peaks


def prepare(
    task: TaskSpec,
    configs: Sequence[Config],
    rules: RuleSet,
    paths: Paths,
    *,
    cores: Cores,
    progress: Progress,
    quick: bool = False,
    peaks_again: bool = False,
) -> PreparedBaseline:
    """The prepared baselines of `task`, made now if this machine does not have them yet; `quick`: without compiling."""
    preparation = CpuPreparation(task, configs, rules, progress, cores=cores, quick=quick)
    return preparation.kept(paths, peaks_again=peaks_again)


def baseline_room(task: Path, cache: Path, rules: RuleSet) -> Room:
    """Where baselines run: they see the reference (a file, or the folder that holds it) and a cache of their own."""
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
    )


def task_folder(task: TaskSpec) -> str:
    return str(Path(inside(task.folder / "reference.py", "task/reference.py")).parent)


def opening(task: TaskSpec, described: list[dict[str, Any]], threads: int) -> dict[str, Any]:
    """The part of an `open` message that all children need."""
    return {"configs": described, "threads": threads, "task": task_folder(task), "direction": task.direction}


class Preparation(ABC):
    """Compiles configurations in a child; one that does not end in time is given up and the rest goes on."""

    def __init__(self, task: TaskSpec, configs: Sequence[Config], rules: RuleSet, progress: Progress) -> None:
        self.task, self.configs, self.rules = task, configs, rules
        self._progress = progress
        self.problems: dict[int, str | None] = {}
        self.peaks: dict[str, Any] | None = None

    @abstractmethod
    def start(self, wanted: list[int], cache: Path, log: Path) -> Actor:
        """A child at work on the configurations `wanted`, its compiled kernels going to `cache`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of everything that the result depends on."""

    def kept(self, paths: Paths, *, peaks_again: bool = False) -> PreparedBaseline:
        """What this machine keeps under `name`, prepared first if nothing does.

        `peaks_again` measures the peaks once more and keeps the better ones: they may stem from a busy moment.
        """
        folder = paths.baselines / self.name
        with file_lock(folder.with_suffix(".lock")):
            if not (folder / "ready.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
                (folder / "cache").mkdir(parents=True)
                return self._run(folder, paths)
            prepared = _read(folder)
            if not peaks_again:
                return prepared
            self.problems = dict(enumerate(prepared.problems))
            return self._run(folder, paths, prepared.peaks)

    def _run(self, folder: Path, paths: Paths, before: Peaks | None = None) -> PreparedBaseline:
        with tempfile.TemporaryDirectory(prefix="prepare-", dir=paths.scratch) as scratch:
            while self.peaks is None:
                self._run_child(folder / "cache", Path(scratch) / "log")
        peaks = Peaks.from_json(self.peaks)
        peaks = peaks.or_better(before) if before else peaks
        problems = [self.problems[number] for number in range(len(self.configs))]
        (folder / "ready.partial").write_text(json.dumps({"problems": problems, "peaks": asdict(peaks)}))
        (folder / "ready.partial").replace(folder / "ready.json")
        return _read(folder)

    def _run_child(self, cache: Path, log: Path) -> None:
        """One child; a second one is needed only after a configuration that did not end."""
        wanted = [number for number in range(len(self.configs)) if number not in self.problems]
        child = self.start(wanted, cache, log)
        try:
            self._follow(child)
        except ProtocolError as error:
            raise RefereeError(f"preparing baselines failed: {error}\n{child.child.log_tail(4000)}") from error
        finally:
            child.kill()

    def _follow(self, child: Actor) -> None:
        current: int | None = None
        while self.peaks is None:
            timeout_s = _OWN_TIME_S if current is None else self.rules.score.baseline_compile_timeout_s
            try:
                message = child.receive(timeout_s)
            except TimeoutError as error:
                if current is None:
                    raise RefereeError("preparing baselines did not answer") from error
                self.problems[current] = f"torch.compile took more than {timeout_s:g} s"
                return
            current = self._take(message, current)

    def _take(self, message: dict[str, Any], current: int | None) -> int | None:
        if "compiling" in message:
            self._progress(len(self.problems), len(self.configs), "torch.compile builds its baseline")
            return int(message["compiling"])
        if "compiled" in message:
            self.problems[int(message["compiled"])] = message["problem"]
            return None
        self.peaks = message.get("peaks")
        return current


class CpuPreparation(Preparation):
    def __init__(
        self,
        task: TaskSpec,
        configs: Sequence[Config],
        rules: RuleSet,
        progress: Progress,
        *,
        cores: Cores,
        quick: bool,
    ) -> None:
        super().__init__(task, configs, rules, progress)
        self._cores, self._quick = cores, quick
        if quick:
            self.problems = dict.fromkeys(range(len(configs)), LEFT_OUT)

    @property
    def name(self) -> str:
        return key(self.task, self.configs, str(self._cores.threads), *((LEFT_OUT,) if self._quick else ()))

    def start(self, wanted: list[int], cache: Path, log: Path) -> Contestant:
        layout = lay_out(self.configs, [1] * len(self.configs))
        inputs = SharedMemory("inputs", layout.input_bytes)
        child = Contestant("baseline", self.configs, layout, inputs.fd)
        try:
            child.start(
                baseline_room(self.task.folder / "reference.py", cache, self.rules),
                log,
                builder_program() if supported() else b"",
            )
            common = opening(self.task, describe(self.configs, layout), self._cores.threads)
            child.open({**common, "prepare": True, "wanted": wanted})
        except BaseException:
            child.kill()
            raise
        finally:
            inputs.close()
        return child


def _read(folder: Path) -> PreparedBaseline:
    data = json.loads((folder / "ready.json").read_text())
    return PreparedBaseline(folder / "cache", tuple(data["problems"]), Peaks.from_json(data["peaks"]))


def key(task: TaskSpec, configs: Sequence[Config], *machine: str) -> str:
    """A name for everything that prepared baselines depend on."""
    parts = [
        _FORM,
        task.content_sha256,
        *(config.key for config in configs),
        *compiler_environment().values(),
        *machine,
    ]
    return f"{task.op}-{task.direction}-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def own_copy(prepared: PreparedBaseline, scratch: Path) -> Path:
    """A copy of the prepared cache for one judging: torch takes locks in it."""
    return Path(shutil.copytree(prepared.cache, scratch / f"cache-{time.monotonic_ns()}"))
