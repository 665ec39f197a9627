"""Everything that is alive during one judging: referee, and launches of baseline and candidate, over one shared memory.

The referee answers while contestants are frozen, so its reference values never coexist with running submission code
in one process, nor is any contestant disturbed while it is timed.
Not covered: how many calls there are and what follows from them (`judging.py`).
"""

import base64
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from . import baselines
from .baselines import PreparedBaseline
from .contestants import CallResult, Contestant
from .devices import Cores
from .errors import RefereeError
from .faults import load_fault
from .isolation import Child, Room, child_code, inside, python_argv, spawn
from .memory import SharedMemory, describe, lay_out
from .protocol import Link, ProtocolError, Status, make_links
from .rules import RuleSet
from .seccomp import builder_program, candidate_program, supported
from .spec import Config, TaskSpec

EAGER, COMPILE, NOTHING = 0, 1, 2
_REFEREE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Comparison:
    """What the referee says of one call's results."""

    ok: bool
    reason: str
    max_abs_error: float
    max_rel_error: float
    distribution: str


@dataclass(frozen=True)
class Setting:
    """What a session is made from."""

    task: TaskSpec
    configs: Sequence[Config]
    rules: RuleSet
    cores: Cores
    binary: Path
    prepared: PreparedBaseline
    scratch: Path


class Session:
    """Context manager; every child is dead when it is left. Raises Fault if the submission cannot be loaded."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._sets = [_set_count(config, setting.rules) for config in setting.configs]
        self._layout = lay_out(setting.configs, self._sets)
        self._secret = secrets.token_bytes(32)
        self._drawn = 0
        self._stack = ExitStack()
        self._casts: list[tuple[Contestant, Contestant]] = []  # baseline and candidate of each launch
        self.launch = 0

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def baseline(self) -> Contestant:
        return self._casts[self.launch][0]

    @property
    def candidate(self) -> Contestant:
        return self._casts[self.launch][1]

    def turn(self, number: int) -> None:
        """Goes on with launch `number`, counted round and round."""
        self.launch = number % len(self._casts)

    def fill(self, config: int, distribution: str | None = None) -> int:
        """Fresh values for every input set of `config`; the number of the one that will count, known to nobody else."""
        seeds = [self._seed() for _ in range(self._sets[config])]
        self._referee.ask("fill", config=config, seeds=seeds, distribution=distribution)
        return secrets.randbelow(len(seeds))

    def show(self, config: int, *, decoys: bool = False) -> None:
        """Puts the filled values, or decoys in their place, before the contestants, which are all frozen."""
        self._referee.ask("show", config=config, what="decoys" if decoys else "values")

    def call_candidate(self, config: int, choice: int) -> CallResult:
        return self.candidate.call(config, choice, timeout_s=self.setting.rules.limits.call_s)

    def call_baseline(self, config: int, choice: int, function: int) -> CallResult:
        """Raises RefereeError if the baseline does not answer as it must."""
        result = self.baseline.call(config, choice, function=function, timeout_s=self.setting.rules.limits.call_s * 3)
        if result.status is not Status.OK:
            name = ("eager", "torch.compile", "null call")[function]
            raise RefereeError(f"the {name} baseline failed: {result.text}\n{self.baseline.child.log_tail(2000)}")
        return result

    def compare(self, who: str, config: int, choice: int) -> Comparison:
        answer = self._referee.ask("compare", who=f"{who}{self.launch}", config=config, number=choice)
        return Comparison(
            ok=bool(answer["ok"]),
            reason=str(answer["reason"]),
            max_abs_error=float(answer["max_abs_error"]),
            max_rel_error=float(answer["max_rel_error"]),
            distribution=str(answer["distribution"]),
        )

    def _open(self) -> None:
        setting = self.setting
        inputs = SharedMemory("inputs", self._layout.input_bytes)
        self._stack.callback(inputs.close)
        described = describe(setting.configs, self._layout)
        common = baselines.opening(setting.task, described, setting.cores.threads)
        for _ in range(setting.rules.time.launches):
            self._casts.append((self._contestant("baseline", inputs.fd), self._contestant("candidate", inputs.fd)))
        # baselines take longest to start, so they begin
        for number, (baseline, _) in enumerate(self._casts):
            self._start_baseline(baseline, common, number)
        self._referee = _Referee(setting, inputs.fd, self._casts)
        self._stack.callback(self._referee.kill)
        for number, (_, candidate) in enumerate(self._casts):
            candidate.start(self._candidate_room(), setting.scratch / f"candidate{number}.log")
        self._referee.open(common)
        inputs.forbid_new_writers()
        for _, candidate in self._casts:
            self._open_candidate(candidate, {key: value for key, value in common.items() if key != "task"})
        for _, candidate in self._casts:
            self._await_candidate(candidate)
            self._park(candidate)
        for baseline, _ in self._casts:
            self._await_baseline(baseline)
            self._park(baseline)

    def _park(self, contestant: Contestant) -> None:
        """Frozen until its first call, and from then on only on the cores that are for contestants."""
        contestant.child.freeze()
        contestant.child.pin(self.setting.cores.contestants)

    def _contestant(self, module: str, inputs_fd: int) -> Contestant:
        contestant = Contestant(module, self.setting.configs, self._layout, inputs_fd)
        self._stack.callback(contestant.kill)
        return contestant

    def _start_baseline(self, baseline: Contestant, common: dict[str, Any], number: int) -> None:
        setting = self.setting
        cache = baselines.own_copy(setting.prepared, setting.scratch)
        room = baselines.baseline_room(setting.task, cache, setting.rules)
        baseline.start(room, setting.scratch / f"baseline{number}.log", _trusted_filter())
        wanted = [problem is None for problem in setting.prepared.problems]
        baseline.open({**common, "prepare": False, "compile": wanted})

    def _candidate_room(self) -> Room:
        limits, binary = self.setting.rules.limits, self.setting.binary
        threads = str(self.setting.cores.threads)
        return Room(
            read_only={**child_code(), binary: f"/kbench/job/{binary.name}"},
            environment={"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            memory_bytes=limits.memory_bytes + self._layout.input_bytes + self._layout.output_bytes,
            file_bytes=limits.file_bytes,
            scratch_bytes=limits.scratch_bytes,
            cpu_s=int(2 * limits.judging_s * self.setting.cores.threads),
        )

    def _open_candidate(self, candidate: Contestant, common: dict[str, Any]) -> None:
        program = candidate_program() if supported() else b""
        binary = inside(self.setting.binary, f"job/{self.setting.binary.name}")
        candidate.open({**common, "binary": binary, "filter": base64.b64encode(program).decode()})

    def _await_candidate(self, candidate: Contestant) -> None:
        """Waits until the candidate serves; whatever else it says or does is a Fault."""
        deadline = time.monotonic() + self.setting.rules.limits.setup_s
        while True:
            try:
                message = candidate.receive(max(0.01, deadline - time.monotonic()))
            except TimeoutError:
                raise load_fault({"timeout_s": self.setting.rules.limits.setup_s}, None) from None
            except ProtocolError:
                raise load_fault({}, candidate.child.wait(1.0)) from None
            if message.get("serving"):
                return
            if "load_error" in message or "missing" in message:
                raise load_fault(message, None)

    def _await_baseline(self, baseline: Contestant) -> None:
        try:
            while not baseline.receive(_REFEREE_TIMEOUT_S).get("serving"):
                pass
        except (TimeoutError, ProtocolError) as error:
            raise RefereeError(f"the baseline did not start: {baseline.child.log_tail(4000)}") from error

    def _seed(self) -> str:
        self._drawn += 1
        return hmac.new(self._secret, self._drawn.to_bytes(8, "little"), hashlib.sha256).hexdigest()


class _Referee:
    """The supervisor's end of `child/referee.py`."""

    def __init__(self, setting: Setting, inputs_fd: int, casts: Sequence[tuple[Contestant, Contestant]]) -> None:
        self._setting = setting
        outputs = {
            f"{contestant.module}{number}": contestant.outputs.fd
            for number, cast in enumerate(casts)
            for contestant in cast
        }
        self._memory = {"inputs": inputs_fd, "outputs": outputs}
        ours, theirs = make_links()
        room = Room(
            read_only={**child_code(), setting.task.folder / "reference.py": "/kbench/task/reference.py"},
            memory_bytes=4 * setting.rules.limits.memory_bytes,
        )
        fds = (theirs.fileno(), inputs_fd, *outputs.values())
        argv = python_argv("referee", str(theirs.fileno()))
        self._link: Link = ours
        self._child: Child = spawn(
            argv, room, setting.scratch / "referee.log", fds=fds, filter_program=_trusted_filter()
        )
        theirs.close()

    def open(self, common: dict[str, Any]) -> None:
        self._receive()
        threads = len(os.sched_getaffinity(0))
        writing_cores = self._setting.cores.supervisor
        self._link.send(**{**common, "threads": threads}, **self._memory, writing_cores=writing_cores)
        self._receive()

    def ask(self, request: str, **details: Any) -> dict[str, Any]:
        self._link.send(do=request, **details)
        return self._receive()

    def kill(self) -> None:
        self._child.kill()
        self._link.close()

    def _receive(self) -> dict[str, Any]:
        try:
            return self._link.receive(_REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            raise RefereeError(f"the referee failed: {error}\n{self._child.log_tail(4000)}") from error


def _set_count(config: Config, rules: RuleSet) -> int:
    """Small inputs lie ready in many sets, since little time is enough to compute ahead on them."""
    size_bytes = max(1, sum(item.nbytes for item in config.tensors))
    return max(1, min(rules.time.input_sets, rules.time.input_sets_max_bytes // size_bytes))


def _trusted_filter() -> bytes:
    return builder_program() if supported() else b""
