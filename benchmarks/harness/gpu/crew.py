"""The processes of one GPU judging, started before the submission is known.

Starting Python, torch and a context on the GPU takes several seconds and does not depend on the submission. The
folders of a crew are empty at first; task, compiled kernels and submission are put there when its session begins. A
worker keeps the next crew ready: its processes load their libraries while the judging before is loaded, and take a
context on the GPU only when nothing is timed any more. Every crew serves one session and is killed with it. What fails
before a crew has met a submission is no submission's fault. Not covered: what the processes do (`gpu/session.py`).
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..compilers.nvcc import cuda_folder
from ..errors import ChildSurvived, HarnessError, NotAwake, Overloaded, SupervisorError
from ..measuring.baselines import baseline_room, trusted_cpu_s
from ..measuring.contestants import Actor
from ..measuring.faults import Stuck
from ..measuring.last_words import not_awake
from ..measuring.memory import ControlPage
from ..measuring.session import REFEREE_TIMEOUT_S, RefereeProcess
from ..protocol import Link, ProtocolError
from ..rules import Rules
from ..sandbox.isolation import Room, child_code, inside, isolation_in_force
from ..sandbox.outbox import AnswerFile, Bounds, NotTaken, discard, unpack_into
from ..sandbox.seccomp import gpu_program, supported
from .discovery import Gpu

KERNELS = Bounds(files=20_000, total_bytes=256 << 20, depth=6)  # of one submission, compiled while it ran
_FOLDERS = ("task", "job", "kernels", "code")
# each package keeps what it has compiled under names that no other one uses
_CACHES = ("KBENCH_KERNELS", "TRITON_CACHE_DIR", "TILELANG_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "NUMBA_CACHE_DIR")
_KEEP_CUBINS = {"CUTE_DSL_KEEP": "cubin"}
_IN_PIECES = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}  # else a large task fails with much memory free


@dataclass(frozen=True)
class CrewSpec:
    """What a crew is made for; one that was made for another order is of no use."""

    gpu: Gpu
    rules: Rules
    pool: Path
    scratch: Path
    bytecode: Path | None  # where compiled Python files are kept, if torch lacks them
    threads: int
    compiles: bool = True  # whether a baseline by torch.compile is run


class Crew:
    """A referee, a baseline and a candidate for each launch, and on a GPU an executor for each, and who compiles.

    All of them sleep until `wake`.
    """

    def __init__(self, order: CrewSpec) -> None:
        self.order = order
        self.started_s = time.monotonic()
        self._is_awake = False
        self.has_met_a_submission = False  # set by whoever is about to show one to its processes
        self.folder = Path(tempfile.mkdtemp(prefix="crew-", dir=order.scratch))
        launches = range(order.rules.time.launches)
        self.caches = [self.folder / f"cache{number}" for number in launches]
        for path in (*(self.folder / name for name in _FOLDERS), *self.caches):
            path.mkdir()
        self.baselines = [Actor("gpu.baseline") for _ in launches]
        self.candidates = [Actor("gpu.candidate") for _ in launches]
        # a stand-in for a GPU has no device code to launch
        self._on_cuda = order.gpu.accelerator == "cuda"
        self.executors = [Actor("gpu.executor") for _ in launches if self._on_cuda]
        self.pages = [ControlPage() for _ in launches]  # of the executors, one after the other; a submission has none
        self._answer = AnswerFile(2 * KERNELS.total_bytes)
        self._warmer: Actor | None = None
        self._referee: RefereeProcess | None = None
        with ExitStack() as failed:
            failed.callback(self.kill)
            self._start()
            failed.pop_all()

    @property
    def referee(self) -> RefereeProcess:
        if self._referee is None:
            raise SupervisorError("a crew was used that never started")
        return self._referee

    @property
    def log(self) -> Path:
        """The output of the submission in its first launch."""
        return self.log_of(0)

    def wake(self) -> None:
        """Everybody takes a context on the GPU."""
        if not self._is_awake:
            self._is_awake = True
            for link in (self.referee.link, *(actor.link for actor in self._everybody)):
                link.send(wake=True)

    def meet(self) -> None:
        """All of them but who compiles have a context now. Raises NotAwake, Overloaded."""
        self.wake()
        launched = {"baseline": self.baselines, "candidate": self.candidates, "executor": self.executors}
        actors = {f"{name}{number}": actor for name, cast in launched.items() for number, actor in enumerate(cast)}
        self._demand_awake({"referee": self.referee, **actors})

    def spare(self, number: int) -> "Spare":
        """Processes for a submission after the one at hand, asleep; `number` is theirs alone.

        They share the control page of the only candidate.
        """
        spare = Spare(Actor("gpu.candidate", self.candidates[0].control), None, number)
        with ExitStack() as failed:
            failed.callback(spare.end)
            self._start_candidate(spare.candidate, number)
            if self._on_cuda:
                spare.executor = Actor("gpu.executor")
                self._start_executor(spare.executor, number)
            failed.pop_all()
        return spare

    def dismiss(self) -> None:
        """Ends the submission's processes, so that others can relieve them. Raises as `kill` does."""
        actors = (*self.candidates, *self.executors)
        with self._whose_fault():
            end_theirs(actors)
        for actor in actors:
            with suppress(OSError):  # a session may meet a hundred submissions
                actor.child.log.unlink()
        for executor in self.executors:
            executor.close()
        self.executors.clear()
        for candidate in self.candidates:
            candidate.link.close()
            candidate.control.numbers[:] = 0

    def relieve(self, spare: "Spare") -> None:
        """It takes the place of the submission's processes, which have been dismissed. Raises NotAwake, Overloaded."""
        spare.wake()
        actors = {f"candidate{spare.number}": spare.candidate}
        if spare.executor is not None:
            actors[f"executor{spare.number}"] = spare.executor
        self._demand_awake(actors)
        self.candidates[:] = [spare.candidate]
        self.executors[:] = [] if spare.executor is None else [spare.executor]
        self.has_met_a_submission = False

    def log_of(self, number: int) -> Path:
        """The output of the submission in its process `number`."""
        return self.folder / f"candidate{number}.log"

    def inside(self, name: str) -> str:
        """A path below the crew's folder as its children see it."""
        return inside(self.folder / name, name)

    def warmer(self) -> tuple[Actor, int]:
        """The process that compiles a Python submission's kernels, and the descriptor where it leaves them.

        On a GPU it is awake before a submission is known, as the others are; a stand-in starts it when it is needed.
        One that ended while it waited, for want of memory, say, is replaced once. Raises NotAwake, Overloaded.
        """
        warmer = self._started_warmer()
        try:
            self._demand_awake({"warm": warmer})
        except (NotAwake, Overloaded):
            warmer.kill()  # no submission has met it: if it survives, that is our fault
            warmer.close()
            self._warmer = None
            warmer = self._started_warmer()
            self._demand_awake({"warm": warmer})
        return warmer, self._answer.fd

    def end_warmer(self) -> None:
        """Its memory on the GPU is free for others afterwards. Raises as `kill` does."""
        with self._whose_fault():
            end_theirs(self.warmers)

    def keep_kernels(self, ours: Mapping[str, str]) -> None:
        """What the warming process, which has ended, left of its cache is what candidates see.

        `ours` are the digests of the files that were there before the submission was loaded. A candidate loads some of
        them before its filter is in force. Raises NotTaken, also if one of them has changed.
        """
        place = self.folder / "kernels"
        for item in place.iterdir():  # without the strong sandbox the process has written there itself
            discard(item)
        unpack_into(self._answer.read(), place, KERNELS)
        for name, sha256 in ours.items():
            file = place / name
            if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
                raise NotTaken(f"the file {name!r} was compiled before the submission was loaded and has changed since")

    def kill(self) -> None:
        """Ends everybody. Raises Stuck if a submission cannot be ended, ChildSurvived if one of ours cannot."""
        with self._whose_fault():
            self._end()

    @contextmanager
    def _whose_fault(self) -> Iterator[None]:
        """What does not end is the fault of a submission if these processes have met one, and else ours."""
        try:
            yield
        except Stuck as error:
            if self.has_met_a_submission:
                raise
            raise ChildSurvived("a process on the GPU that never loaded a submission survived SIGKILL") from error

    def _end(self) -> None:
        self._doom()  # a process with much of a GPU's memory takes a while to end: all at the same time
        ours = [_ended(actor.kill) for actor in (*self.baselines, self._referee) if actor is not None]
        theirs = [_ended(actor.kill) for actor in self.executors]
        held = (*self.candidates, *self.warmers)
        try:
            end_theirs(held)
        finally:
            self._answer.close()
            for page in self.pages:
                page.close()
            for actor in held:
                actor.close()
            discard(self.folder)
        if not all(ours):
            raise ChildSurvived("a trusted process on the GPU survived SIGKILL")
        if not all(theirs):  # it was running the submission's kernels
            raise Stuck

    def _doom(self) -> None:
        for actor in self._everybody:
            if actor.started:
                actor.child.doom()
        if self._referee is not None:
            self._referee.doom()

    def end_candidates(self) -> None:
        """Whatever they left on the GPU goes with them. Raises as `kill` does if it does not."""
        with self._whose_fault():
            end_theirs(self.candidates)

    def end_executors(self) -> None:
        """Raises as `kill` does if a kernel runs on."""
        with self._whose_fault():
            end_theirs(self.executors)

    def alive(self) -> bool:
        return self.referee.exit_code() is None and all(actor.child.exit_code() is None for actor in self._everybody)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (self.order.gpu.accelerator, "asleep")

    @property
    def _everybody(self) -> tuple[Actor, ...]:
        return (*self.baselines, *self.candidates, *self.executors, *self.warmers)

    @property
    def warmers(self) -> tuple[Actor, ...]:
        return () if self._warmer is None else (self._warmer,)

    def _start(self) -> None:
        filter_program, arguments = gpu_filter(), self._arguments
        compiles = ("compile",) if self.order.compiles else ()
        for number, actor in enumerate(self.baselines):
            log = self.folder / f"baseline{number}.log"
            actor.start(
                self._on_gpu(baseline_room(self.folder / "task", self.caches[number], self.order.rules)),
                log,
                filter_program,
                arguments=(*arguments, *compiles),
            )
        controls = [actor.control for actor in (*self.baselines, *self.candidates)]
        fds = tuple(page.fd for page in (*controls, *self.pages))
        log = self.folder / "referee.log"
        self._referee = RefereeProcess(
            "gpu.referee", self._referee_room(), log, fds=fds, filter_program=filter_program, arguments=arguments
        )
        for number, actor in enumerate(self.candidates):
            self._start_candidate(actor, number)
        for number, actor in enumerate(self.executors):
            self._start_executor(actor, number)
        if self.executors:
            self._started_warmer()

    def _start_candidate(self, actor: Actor, number: int) -> None:
        log, around = self.folder / f"candidate{number}.log", gpu_filter(may_install=True)
        actor.start(self.candidate_room(), log, around, arguments=self._arguments)

    def _start_executor(self, actor: Actor, number: int) -> None:
        log = self.folder / f"executor{number}.log"
        actor.start(self._executor_room(), log, gpu_filter(), arguments=self._arguments)

    def _started_warmer(self) -> Actor:
        if self._warmer is None:
            self._warmer = Actor("gpu.warm")
            room, log = self.candidate_room(warming=True), self.folder / "warm.log"
            around = gpu_filter(may_install=True)
            self._warmer.start(room, log, around, fds=(self._answer.fd,), arguments=self._arguments)
            if self._is_awake:
                self._warmer.link.send(wake=True)
        return self._warmer

    def _demand_awake(self, processes: Mapping[str, Actor | RefereeProcess]) -> None:
        deadline_s = time.monotonic() + REFEREE_TIMEOUT_S
        for name, process in processes.items():
            try:
                _await_awake(process.link, deadline_s)
            except (TimeoutError, ProtocolError) as error:
                raise not_awake(f"the process {name}", process.child, error) from error

    def _executor_room(self) -> Room:
        """Device code and records, never a library of the submission."""
        return self._on_gpu(Room(read_only={**child_code(), self.folder / "code": "/kbench/code"}))

    def _referee_room(self) -> Room:
        """It sends memory as descriptors, more of which may be under way than any candidate can fill up."""
        shown = {**child_code(), self.folder / "task": "/kbench/task"}
        room = Room(read_only=shown, open_files=1024, cpu_s=trusted_cpu_s())
        return self._on_gpu(replace(room, environment={**room.environment, **_IN_PIECES}))

    def _on_gpu(self, room: Room) -> Room:
        return on_gpu(room, self.order.gpu, self.order.bytecode)

    def candidate_room(self, *, warming: bool = False) -> Room:
        """Where a submission runs: it sees itself, and its compiled kernels where it compiles them while `warming`."""
        limits, threads = self.order.rules.limits, str(self.order.threads)
        kernels = self.folder / "kernels"
        place = "/tmp/kernels" if isolation_in_force().strong else str(kernels)  # noqa: S108 - its own tmpfs
        toolkit = _toolkit() if warming else None
        compiling = {**_KEEP_CUBINS, "CUTE_DSL_DUMP_DIR": place} if warming else {}
        if toolkit is not None:
            compiling["CUDA_HOME"] = str(toolkit)
        room = Room(
            read_only={
                **child_code(),
                self.order.pool: "/kbench/pool.so",
                self.folder / "job": "/kbench/job",
                **({} if warming else {kernels: place}),
                **({toolkit: str(toolkit)} if toolkit and not toolkit.is_relative_to("/usr") else {}),
            },
            environment={
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                **dict.fromkeys(_CACHES, place),
                **compiling,
                "USER": "kbench",
            },
            file_bytes=2 * KERNELS.total_bytes if warming else limits.file_bytes,
            scratch_bytes=2 * KERNELS.total_bytes if warming else limits.scratch_bytes,
            cpu_s=int(2 * limits.judging_s * self.order.threads),
        )
        return self._on_gpu(room)


@dataclass
class Spare:
    """A candidate, and on a GPU an executor, for a submission that comes later."""

    candidate: Actor
    executor: Actor | None
    number: int
    _is_awake: bool = False

    def wake(self) -> None:
        """Both take a context on the GPU. Nothing is timed now."""
        if not self._is_awake:
            self._is_awake = True
            for actor in self._actors:
                actor.link.send(wake=True)

    def end(self) -> None:
        """No submission's fault if one of them does not end: raises ChildSurvived. The control page stays."""
        try:
            end_theirs(self._actors)
        except Stuck as error:
            raise ChildSurvived("a process that waits for a submission survived SIGKILL") from error
        finally:
            if self.candidate.started:
                self.candidate.link.close()
            if self.executor is not None:
                self.executor.close()

    @property
    def _actors(self) -> tuple[Actor, ...]:
        return (self.candidate,) if self.executor is None else (self.candidate, self.executor)


def end_theirs(actors: Iterable[Actor]) -> None:
    """Ends processes that run kernels of a submission. Raises Stuck if one of them does not end."""
    children = [actor.child for actor in actors if actor.started]
    for child in children:
        child.doom()
    ended = [_ended(child.kill) for child in children]
    if not all(ended):
        raise Stuck


def _await_awake(link: Link, deadline_s: float) -> None:
    while (left_s := deadline_s - time.monotonic()) > 0:
        if link.receive(left_s).get("awake"):
            return
    raise TimeoutError("no message in time")


def _ended(kill: Callable[[], None]) -> bool:
    try:
        kill()
    except ChildSurvived:
        return False
    return True


def on_gpu(room: Room, gpu: Gpu, bytecode: Path | None) -> Room:
    """`room` with a GPU in it, and with compiled Python files."""
    room = replace(room, devices=gpu.nodes, memory_bytes=None, environment={**room.environment, **gpu.environment()})
    if bytecode is None:
        return room
    environment = {**room.environment, "KBENCH_BYTECODE": inside(bytecode, "bytecode")}
    return replace(room, read_only={**room.read_only, bytecode: "/kbench/bytecode"}, environment=environment)


def _toolkit() -> Path | None:
    """Where packages that compile CUDA C++ find its compiler; None where there is none."""
    try:
        return cuda_folder()
    except SupervisorError:
        return None


class Standby:
    """Keeps at most one crew ready for the next session."""

    def __init__(self) -> None:
        self.wanted = False  # a worker wants it; a single judging from the command line does not
        self._crew: Crew | None = None

    def take(self, order: CrewSpec) -> Crew:
        """The crew that waits, if it was made for this order and wakes up, else a new one.

        A submission that fills the GPU can keep processes that wake up beside it from getting a context. So a crew
        that fails is replaced, and only a new one that fails, with nobody beside it, is a fault. Raises NotAwake,
        and Overloaded.
        """
        crew, self._crew = self._crew, None
        if crew is not None:
            if crew.order == order and crew.alive() and _meets(crew):
                return crew
            crew.kill()
        crew = Crew(order)
        with ExitStack() as failed:
            failed.callback(crew.kill)
            crew.meet()
            failed.pop_all()
        return crew

    def refill(self, order: CrewSpec) -> None:
        """Starts the next crew in advance; it sleeps. One that has died is replaced.

        If it cannot be started, the judging in progress goes on: the next one starts its own crew, or tells the error.
        Raises ChildSurvived.
        """
        if self._crew is not None and not self._crew.alive():
            crew, self._crew = self._crew, None
            crew.kill()
        if self.wanted and self._crew is None:
            try:
                self._crew = Crew(order)
            except ChildSurvived:
                raise
            except (OSError, HarnessError):
                self._crew = None

    def wake(self) -> None:
        """Nothing is timed on the GPU now."""
        if self._crew is not None and self._crew.alive():
            self._crew.wake()

    def close(self) -> None:
        self.wanted = False
        if self._crew is not None:
            self._crew.kill()
            self._crew = None


def _meets(crew: Crew) -> bool:
    try:
        crew.meet()
    except (NotAwake, Overloaded):
        return False
    return True


STANDBY = Standby()


def gpu_filter(*, may_install: bool = False, for_tools: bool = False) -> bytes:
    return gpu_program(may_install=may_install, for_tools=for_tools) if supported() else b""
