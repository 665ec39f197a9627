"""All processes of one judging: referee, and launches of baseline and candidate, over one shared memory.

The referee answers while contestants are frozen, so its reference values never coexist with running submission code
in one process, nor is any contestant disturbed while it is timed. Not covered: how many calls there are and what
follows from them (`calls.py`).
"""

import base64
import hashlib
import hmac
import math
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from ..errors import NotStopped, ProcessorsBusy, SupervisorError
from ..hosts.machine import Cores
from ..protocol import Link, ProtocolError, Status, make_links
from ..report import Verdict
from ..rules import Rules
from ..sandbox.isolation import STEADY_HEAP, Child, Room, child_code, inside, python_argv, spawn
from ..sandbox.seccomp import builder_program, candidate_program, supported
from ..tasks.spec import VALUES, Config, TaskSpec
from . import baselines, used_up
from .baselines import PreparedBaseline
from .contestants import Actor, CallComparison, CallResult, Contestant, Starved, WholeLimit
from .faults import Fault, end_of, first_line, load_fault, may_lack_gpu_memory, slow_load
from .last_words import failed, not_awake
from .memory import SharedMemory, describe, lay_out
from .used_up import Touched

ActorT = TypeVar("ActorT", bound=Actor)
EAGER, COMPILE, NOTHING = 0, 1, 2
REFEREE_TIMEOUT_S = 120.0
_PARKED_WITHIN_S = 10.0
# of values; verification uses them in turn
DISTRIBUTIONS = ("normal", "outliers", "mixed", "integers", "uniform", "published", "large", "small")


@dataclass(frozen=True)
class Setting:
    """The arguments from which a session is made."""

    task: TaskSpec
    configs: Sequence[Config]
    rules: Rules
    cores: Cores
    binary: Path
    prepared: PreparedBaseline
    scratch: Path
    control: bool = field(default=False, kw_only=True)  # a control run: without the submission


@dataclass(frozen=True)
class CpuSetting(Setting):
    """The setting of a session on a CPU."""

    shell: Path  # the native calling loop


@dataclass(frozen=True)
class Fill:
    """The seeds and numbers from which the values of one configuration's input sets can be drawn again."""

    config: int
    seeds: tuple[str, ...]
    distribution: str | None


class Session(ABC, Generic[ActorT]):
    """Context manager; every child is dead when it is left. Raises Fault if the submission cannot be loaded."""

    loaded = "serving"  # what a candidate says when it has loaded the submission
    decoys: bool  # a contestant warms up on other values before its call counts
    wanted_share = 1.0  # of the widest interval that the rules allow: more steps follow while it is wider
    has_met_hidden = False  # the submission has met a hidden configuration before the first call is judged
    is_alone = False  # no process of the submission is there, yet or any more, so what fails is not its fault

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._sets = [_set_count(config, setting.rules) for config in setting.configs]
        self._secret = secrets.token_bytes(32)
        self._drawn = 0
        self._fills: dict[int, list[Fill]] = {}
        self._met: dict[int, tuple[int, int]] = {}  # of the last call that counts: its launch and its set
        self._decoys: dict[int, int] = {}  # how many decoys there are, each with all sets
        self._new_decoys: dict[int, list[tuple[int, int]]] = {}  # those of them that the kernel has not met
        self._stack = ExitStack()
        self._casts: list[tuple[ActorT, ActorT]] = []  # baseline and candidate of each launch
        self._referee: RefereeProcess
        self.launch = 0

    def __enter__(self) -> Self:
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            self._open()
            failed.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def _open(self) -> None:
        """Starts every child and leaves the contestants frozen before their first call."""

    @abstractmethod
    def show(self, config: int, *, decoys: int | None = None) -> None:
        """Puts the filled values, or decoys in their place, before the contestants, which are all frozen.

        Decoys 0 are the values of the fill before; the others were drawn together with the values.
        """

    @abstractmethod
    def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
        """One call of `baseline` or `candidate`, left frozen or dead."""

    def forget_touched(self) -> None:
        """From now on `touched` counts what the candidate touches. All contestants are frozen."""

    def touched(self) -> Touched | None:
        """Memory that the frozen candidate has touched since then; None where it cannot be measured, as on a GPU."""
        return None

    @property
    def baseline(self) -> ActorT:
        return self._casts[self.launch][0]

    @property
    def candidate(self) -> ActorT:
        return self._casts[self.launch][1]

    def turn(self, number: int) -> None:
        """Continues with launch `number`, modulo the number of launches."""
        self.launch = number % len(self._casts)

    def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
        """Fresh values for every input set of `config`; the number of the one that will count, known to nobody else.

        So many calls of the kernel on `decoys` come before the one that counts, each on values that it has not met.
        """
        known, count = self._met.pop(config, None), self._sets[config]
        new = [(0, place) for place in range(count) if (self.launch, place) != known]
        more = [self._new_fill(config, None) for _ in range(math.ceil(max(0, decoys - len(new)) / count))]
        new += [(number, place) for number in range(1, 1 + len(more)) for place in range(count)]
        secrets.SystemRandom().shuffle(new)
        self._decoys[config], self._new_decoys[config] = 1 + len(more), new
        fill = self._new_fill(config, distribution)
        before = self._fills.pop(config, [])[-1:]
        self._fills[config] = [*before, *more, fill]  # the configuration of the last fill comes last
        self.fill_again(fill, more)
        choice = secrets.randbelow(count)
        if decoys:
            self._met[config] = (self.launch, choice)
        return choice

    def fill_again(self, fill: Fill, more: Sequence[Fill] = ()) -> None:
        """Draws the same values as another session; the values of the fills in `more` become decoys."""
        how = {"config": fill.config, "seeds": list(fill.seeds), "distribution": fill.distribution}
        decoys = {"decoys": [list(item.seeds) for item in more]} if more else {}
        self._referee.ask("fill", **how, **decoys)

    def values_of(self, config: int) -> Fill:
        """What the values that `config` was filled with last are made of."""
        return self._fills[config][-1]

    def last_fills(self) -> tuple[Fill, ...]:
        """The fills of the configuration that was filled last: those of its decoys, then that of its values."""
        return tuple(next(reversed(self._fills.values()), ()))

    def any_decoy(self, config: int) -> tuple[int, int]:
        """The number of the decoys and of the set in them on which a baseline is called next."""
        return secrets.randbelow(self._decoys[config]), secrets.randbelow(self._sets[config])

    def new_decoy(self, config: int) -> tuple[int, int]:
        """The same for the kernel: values on which it has not been called before."""
        return self._new_decoys[config].pop()

    def call_candidate(self, config: int, choice: int, *, compared: bool = True) -> CallResult:
        return self._call("candidate", config, choice, function=0, compared=compared)

    def call_baseline(self, config: int, choice: int, function: int, *, compared: bool = False) -> CallResult:
        """Calls a baseline. Raises RefereeError if it fails or gives an invalid answer."""
        result = self._call("baseline", config, choice, function=function, compared=compared)
        if result.status is not Status.OK:
            name = ("eager", "torch.compile", "null call")[function]
            raise failed(f"the {name} baseline failed: {result.text}", self.baseline.child)
        return result

    def compare(self, who: str, config: int, choice: int) -> CallComparison:
        answer = self._referee.ask("compare", who=f"{who}{self.launch}", config=config, number=choice)
        return CallComparison(
            ok=bool(answer["ok"]),
            reason=str(answer["reason"]),
            max_abs_error=float(answer["max_abs_error"]),
            max_rel_error=float(answer["max_rel_error"]),
            distribution=str(answer["distribution"]),
            intact=bool(answer.get("intact", True)),
        )

    def _timeout_s(self, who: str) -> float:
        """Of one call; the baselines have time to spare, since their lateness would be our fault."""
        return self.setting.rules.limits.call_s * (1 if who == "candidate" else 3)

    def _let_load(self, candidates: Sequence[ActorT], *, has_run: bool = False) -> None:
        """When all of them have all but the submission. None of them loads it before, so none can end another one.

        One after the other they load it and are frozen, so none keeps another one from the processors meanwhile.
        If one is gone, raises NotAwake, as no process has seen anything of the submission yet. But if one of it
        `has_run`, it may have taken the machine's memory: raises Fault, NOISY, which doubts no device.
        If a process of ours is gone, raises RefereeError, which is nobody's fault while the judge `is_alone`. If the
        machine has ended one, or others had the processors for too long, raises Overloaded.
        """
        for candidate in candidates:
            try:
                self._heard(candidate, "ready", self.setting.rules.limits.setup_s)
            except (TimeoutError, ProtocolError) as error:
                if has_run:
                    reason = first_line(failed("a process for the submission did not start", candidate.child).reason)
                    raise Fault(Verdict.NOISY, reason, lacks_gpu_memory=may_lack_gpu_memory(reason)) from error
                raise not_awake("the process for the submission", candidate.child, error) from error
        for child in self.trusted():
            if child.exit_code() is not None:
                raise failed("a process of the judge ended before the submission was loaded", child)
        if candidates:
            self._meet_submission()
        for candidate in candidates:
            candidate.link.send(load=True)
            self._seat(candidate, self.loaded)

    def trusted(self) -> tuple[Child, ...]:
        """The processes that do not load the submission."""
        return (self._referee.child, *(baseline.child for baseline, _ in self._casts))

    def untrusted(self) -> tuple[Child, ...]:
        return tuple(candidate.child for _, candidate in self._casts if candidate.started)

    def _meet_submission(self) -> None:
        """From now on a process of it may do anything, so what fails may be its fault."""
        self.is_alone = False

    def _seat(self, candidate: ActorT, word: str) -> None:
        self._await_candidate(candidate, word)
        with faults_of("candidate"):
            self._park(candidate)

    def _park(self, contestant: ActorT) -> None:
        """Freezes a contestant until its first call. Others may have the processors meanwhile."""
        contestant.child.freeze(_PARKED_WITHIN_S)

    def _await_candidate(self, candidate: ActorT, word: str = "serving") -> None:
        """Waits until the candidate sends `word`; anything else is a Fault."""
        limit = WholeLimit(candidate.child.work, self.setting.rules.limits.setup_s)
        try:
            for message in candidate.messages_within(limit):
                if message.get(word):
                    return
                if "load_error" in message or "missing" in message:
                    raise load_fault(message)
        except TimeoutError:
            raise slow_load(limit) from None
        except ProtocolError:
            raise end_of(candidate.child) from None

    def _await_baseline(self, baseline: ActorT, word: str = "serving") -> dict[str, Any]:
        try:
            return self._heard(baseline, word, REFEREE_TIMEOUT_S)
        except Starved as error:
            raise ProcessorsBusy("a baseline did not start in time") from error
        except (TimeoutError, ProtocolError) as error:
            raise failed("the baseline did not start", baseline.child) from error

    def _heard(self, actor: ActorT, word: str, limit_s: float) -> dict[str, Any]:
        """The message with `word`, of a process without the submission; others give it no more time."""
        messages = actor.messages_within(WholeLimit(actor.child.work, limit_s))
        return next(message for message in messages if message.get(word))

    def _new_fill(self, config: int, distribution: str | None) -> Fill:
        return Fill(config, tuple(self._seed() for _ in range(self._sets[config])), distribution)

    def _seed(self) -> str:
        self._drawn += 1
        return hmac.new(self._secret, self._drawn.to_bytes(8, "little"), hashlib.sha256).hexdigest()


class CpuSession(Session[Contestant]):
    """Contestants on the processor, called and timed by the supervisor itself."""

    decoys = True
    setting: CpuSetting

    def __init__(self, setting: CpuSetting) -> None:
        super().__init__(setting)
        self._layout = lay_out(setting.configs, self._sets)

    def show(self, config: int, *, decoys: int | None = None) -> None:
        self._referee.ask("show", config=config, decoys=decoys)

    def forget_touched(self) -> None:
        for contestant in (self.candidate, self.baseline):  # both, since their next calls set the marks again
            used_up.forget(contestant.child.pid or 0)

    def touched(self) -> Touched | None:
        return used_up.look(self.candidate.child.pid or 0, without=os.fstat(self._inputs_fd))

    def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
        contestant = self.candidate if who == "candidate" else self.baseline
        timeout_s = self._timeout_s(who)
        with faults_of(who):
            return contestant.call(config, choice, function=function, timeout_s=timeout_s, compared=compared)

    def _open(self) -> None:
        self.is_alone = True
        setting = self.setting
        inputs = SharedMemory("inputs", self._layout.input_bytes)
        self._stack.callback(inputs.close)
        self._inputs_fd = inputs.fd
        common = self._common()
        for _ in range(setting.rules.time.launches):
            self._casts.append((self._contestant("baseline", inputs.fd), self._contestant("candidate", inputs.fd)))
        # baselines take longest to start, so they begin
        for number, (baseline, _) in enumerate(self._casts):
            self._start_baseline(baseline, common, number)
        self._referee = self._start_referee(inputs.fd)
        candidates = [] if setting.control else [candidate for _, candidate in self._casts]
        for number, candidate in enumerate(candidates):
            candidate.start(self._candidate_room(), setting.scratch / f"candidate{number}.log")
        self._open_referee(common, inputs.fd)
        inputs.forbid_new_writers()
        for candidate in candidates:
            self._open_candidate(candidate, common)
        for baseline, _ in self._casts:  # before the submission, so that it can keep none of them from starting
            self._await_baseline(baseline)
            self._park(baseline)
        self._let_load(candidates)

    def _common(self) -> dict[str, Any]:
        """The part of an `open` message that all children need."""
        setting = self.setting
        return baselines.opening(setting.task, describe(setting.configs, self._layout), setting.cores.threads)

    def _park(self, contestant: Contestant) -> None:
        """And restricts it to the cores reserved for contestants."""
        super()._park(contestant)
        contestant.child.pin(self.setting.cores.contestants)

    def _contestant(self, module: str, inputs_fd: int) -> Contestant:
        contestant = Contestant(module, self.setting.configs, self._layout, inputs_fd, self.setting.cores.threads)
        self._stack.callback(contestant.kill)
        return contestant

    def _start_referee(self, inputs_fd: int) -> "RefereeProcess":
        memory = [contestant.outputs.fd for cast in self._casts for contestant in cast]
        setting = self.setting
        room = Room(
            read_only={**child_code(), **files_of(setting.task)},
            # by default its threads spin for milliseconds after each comparison, on the core of the next contestant
            environment={"OMP_WAIT_POLICY": "PASSIVE"},
            memory_bytes=4 * setting.rules.limits.memory_bytes,
            cpu_s=baselines.trusted_cpu_s(),
        )
        referee = RefereeProcess("referee", room, setting.scratch / "referee.log", fds=(inputs_fd, *memory))
        self._stack.callback(referee.kill)
        return referee

    def _open_referee(self, common: dict[str, Any], inputs_fd: int) -> None:
        outputs = {
            f"{item.module}{number}": item.outputs.fd for number, cast in enumerate(self._casts) for item in cast
        }
        here = {"threads": len(os.sched_getaffinity(0)), "writing_cores": self.setting.cores.supervisor}
        self._referee.open(**{**common, **here}, inputs=inputs_fd, outputs=outputs)
        self._referee.receive()

    def _start_baseline(self, baseline: Contestant, common: dict[str, Any], number: int) -> None:
        setting = self.setting
        cache = baselines.own_copy(setting.prepared, setting.scratch)
        room = baselines.baseline_room(setting.task.folder / "reference.py", cache, setting.rules)
        room = replace(room, read_only={**room.read_only, setting.shell: "/kbench/shell.so"})
        baseline.start(room, setting.scratch / f"baseline{number}.log", trusted_filter())
        wanted = [problem is None for problem in setting.prepared.problems]
        baseline.open({**common, "shell": inside(setting.shell, "shell.so"), "prepare": False, "compile": wanted})

    def _candidate_room(self) -> Room:
        limits, binary = self.setting.rules.limits, self.setting.binary
        threads = str(self.setting.cores.threads)
        return Room(
            read_only={
                **child_code(),
                binary: f"/kbench/job/{binary.name}",
                self.setting.shell: "/kbench/shell.so",
            },
            environment={"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **STEADY_HEAP},
            memory_bytes=limits.memory_bytes + self._layout.input_bytes + self._layout.output_bytes,
            file_bytes=limits.file_bytes,
            scratch_bytes=limits.scratch_bytes,
            cpu_s=int(2 * limits.judging_s * self.setting.cores.threads),
        )

    def _open_candidate(self, candidate: Contestant, common: dict[str, Any]) -> None:
        program = candidate_program() if supported() else b""
        binary = inside(self.setting.binary, f"job/{self.setting.binary.name}")
        shell = inside(self.setting.shell, "shell.so")
        told = {key: value for key, value in common.items() if key != "task"}
        candidate.open({**told, "binary": binary, "shell": shell, "filter": base64.b64encode(program).decode()})


class RefereeProcess:
    """The supervisor's connection to a referee process. Every failure there is our fault, most often a RefereeError."""

    def __init__(
        self,
        module: str,
        room: Room,
        log: Path,
        *,
        fds: Sequence[int],
        filter_program: bytes | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        ours, theirs = make_links()
        self.link: Link = ours
        try:
            argv = python_argv(module, str(theirs.fileno()), *arguments)
            self.child: Child = spawn(
                argv, room, log, fds=(theirs.fileno(), *fds), filter_program=filter_program or trusted_filter()
            )
        finally:
            theirs.close()

    def open(self, **message: Any) -> None:
        self.receive()
        self.link.send(**message)

    def ask(self, request: str, **details: Any) -> dict[str, Any]:
        self.link.send(do=request, **details)
        return self.receive()

    def receive(self) -> dict[str, Any]:
        try:
            return self.link.receive(REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> SupervisorError:
        return failed(f"the referee failed: {error}", self.child)

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.child.exit_code()

    def doom(self) -> None:
        """Sends SIGKILL without waiting."""
        self.child.doom()

    def kill(self) -> None:
        self.child.kill()
        self.link.close()


@contextmanager
def faults_of(who: str) -> Iterator[None]:
    """A process that does not stop, or hides its memory: the submission's fault if it is its own, else ours."""
    try:
        yield
    except NotStopped as error:
        if who == "candidate":
            raise Fault(Verdict.TAMPERING, "a process of the submission kept running when it was stopped") from error
        raise
    except PermissionError as error:
        if who == "candidate":
            raise Fault(Verdict.TAMPERING, "the process made its memory unreadable for the judge") from error
        raise SupervisorError(f"{error}: allow ptrace of children (kernel.yama.ptrace_scope at most 1)") from error


def files_of(task: TaskSpec) -> dict[Path, str]:
    """What the referee needs of a task's folder; nobody else sees recorded values."""
    names = ("reference.py", VALUES) if task.values_sha256 else ("reference.py",)
    return {task.folder / name: f"/kbench/task/{name}" for name in names}


def _set_count(config: Config, rules: Rules) -> int:
    """The number of input sets: many for small inputs, on which a kernel could compute quickly in advance."""
    size_bytes = max(1, sum(item.nbytes for item in config.tensors))
    return max(1, min(rules.time.input_sets, rules.time.input_sets_max_bytes // size_bytes))


def trusted_filter() -> bytes:
    return builder_program() if supported() else b""
