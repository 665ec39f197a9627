"""Runs a built submission in the sandbox of a candidate, beside a trusted process that holds the reference.

Both see the memory of inputs and results; only the trusted one sees the reference. The report of the submission's
process is hostile: it is limited and cleaned, and only findings against the submission are believed. Not covered: what
a finding means (`checking.py`).
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from ..harness import (
    Argument,
    CancelCheck,
    Child,
    Config,
    Link,
    Paths,
    ProtocolError,
    Room,
    Rules,
    SharedMemory,
    SupervisorError,
    TaskSpec,
    TensorArgument,
    builder_program,
    candidate_program,
    child_code,
    inside,
    make_links,
    seccomp_supported,
    spawn,
    torch_folder,
)
from .reported import SubmissionReport, submission_report
from .sizes import runs_once, runs_twice

HERE = Path(__file__).parent
_PLACE_BYTES = 64
_REPORT_BYTES = 256 * 1024
_ROOM_BYTES = 40 << 30  # of address space, most of it never touched: the shadow of the emulated memory
_REFERENCE_S = 120.0
_SAMPLED_SEED = 3  # of the run in which the emulator runs a few blocks of each launch, on zeros
POISONS = (0xFFF7FFF3, 0x7B7B7B7B, 0xFB7BFB7B)  # NaN, large, large and negative: what uninitialised memory holds


@dataclass(frozen=True)
class PlannedRun:
    """One call: a configuration, an order of threads, and where its results go."""

    number: int
    config: int
    seed: int
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class ResultProblem:
    """What is wrong with the results of a run. `near` says that they are within twice the tolerance."""

    text: str
    near: bool = False


@dataclass
class Conversation:
    """What came of all runs: what the submission's process reports, and what is wrong with its results."""

    report: SubmissionReport = field(default_factory=SubmissionReport)
    ended: str = ""  # how the process ended, if not as it should
    overdue: bool = False  # it was ended because its time was over
    log: str = ""
    warnings: str = ""  # of the compiler
    done: tuple[PlannedRun, ...] = ()  # those with results
    problems: dict[int, ResultProblem | None] = field(default_factory=dict)  # by number of the run; None: right


class CheckPlan:
    """Where everything lies: inputs by configuration, results by run.

    After the runs that are compared comes one of `sampled`, if there is one: a few blocks of each launch, on zeros, so
    that addresses and launches at full size are seen. It has neither inputs nor results.
    """

    def __init__(
        self, task: TaskSpec, configs: Sequence[Config], seeds: Sequence[int], sampled: Config | None = None
    ) -> None:
        self.task, self.configs, self.function, self.sampled = task, configs, task.direction, sampled
        self.inputs_bytes = self.results_bytes = 0
        self.input_offsets = [[self._input(item.nbytes) for item in config.tensors] for config in configs]
        self.runs = [
            PlannedRun(number, place, seed, tuple(self._result(item.nbytes) for item in configs[place].results))
            for number, (seed, place) in enumerate(_turns(configs, seeds))
        ]

    @property
    def numbers(self) -> list[int]:
        """Of all runs, in their order."""
        return list(range(len(self.runs) + (self.sampled is not None)))

    def key_of(self, number: int | None) -> str:
        """The configuration of a run; empty if there is no such run."""
        if number == len(self.runs) and self.sampled is not None:
            return f"{self.sampled.key}, a few blocks of each launch"
        return next((self.configs[run.config].key for run in self.runs if run.number == number), "")

    def described(self) -> list[dict[str, Any]]:
        """The configurations for the process that draws and compares."""
        return [
            {
                "arguments": [_argument(item) for item in config.arguments],
                "results": [asdict(item) for item in config.results],
                "values": dict(config.values),
                "offsets": offsets,
                "seed": hashlib.sha256(f"emulator {place}".encode()).hexdigest(),
            }
            for place, (config, offsets) in enumerate(zip(self.configs, self.input_offsets, strict=True))
        ]

    def words(self, inputs: int, results: int, report: int) -> str:
        """The same for the submission's process."""
        head = f"function {self.function} inputs {inputs} {self.inputs_bytes} results {results} report {report}"
        runs = [self._run_words(run) for run in self.runs]
        if self.sampled is not None:
            arguments = [_argument_words(item, repeat(-1)) for item in self.sampled.arguments]
            runs.append(" ".join([f"run {len(self.runs)} {_SAMPLED_SEED} 0 {len(arguments)}", *arguments, "0"]))
        return "\n".join([head, *runs, "end", ""])

    def _run_words(self, run: PlannedRun) -> str:
        config, places = self.configs[run.config], iter(self.input_offsets[run.config])
        arguments = [_argument_words(item, places) for item in config.arguments]
        results = [
            f"{item.dtype} {offset} {len(item.shape)} {_numbers(item.shape)}"
            for item, offset in zip(config.results, run.offsets, strict=True)
        ]
        words = [f"run {run.number} {run.seed} {POISONS[run.seed % len(POISONS)]} {len(arguments)}", *arguments]
        return " ".join([*words, str(len(results)), *results])

    def _input(self, nbytes: int) -> int:
        place, self.inputs_bytes = self.inputs_bytes, self.inputs_bytes + _rounded(nbytes)
        return place

    def _result(self, nbytes: int) -> int:
        place, self.results_bytes = self.results_bytes, self.results_bytes + _rounded(nbytes)
        return place


def _turns(configs: Sequence[Config], seeds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Every configuration in every order, but larger ones leave out one of the first two by turns, or both."""
    for seed in seeds:
        for place, config in enumerate(configs):
            left_out = seeds[:-1] if runs_once(config) else seeds[1 - place % 2 :][:1] if runs_twice(config) else ()
            if seed == seeds[-1] or seed not in left_out:
                yield seed, place


class ReferenceProcess:
    """The trusted process."""

    def __init__(self, plan: CheckPlan, link: Link, child: Child) -> None:
        self._plan, self._link, self._child = plan, link, child

    def drawn(self) -> None:
        """Waits until inputs lie ready. Raises SupervisorError."""
        self._answer("drawn")

    def problems(self, runs: Sequence[PlannedRun]) -> dict[int, ResultProblem | None]:
        self._link.send(runs=[{"config": run.config, "offsets": list(run.offsets)} for run in runs])
        answer = self._answer("problems")
        found = zip(runs, answer["problems"], answer["near"], strict=True)
        return {run.number: ResultProblem(str(text), bool(near)) if text else None for run, text, near in found}

    def _answer(self, word: str) -> dict[str, Any]:
        try:
            answer = self._link.receive(_REFERENCE_S)
        except (TimeoutError, ProtocolError) as error:
            raise SupervisorError(f"the reference gave no answer: {error}; {self._child.log_tail(2000)}") from error
        if word not in answer:
            raise SupervisorError(f"the reference failed: {answer.get('problem', '')}")
        return answer


@contextmanager
def memories(plan: CheckPlan) -> Iterator[tuple[int, int, int]]:
    """Files in memory for inputs, results and the report. A trusted process maps the first two: their size is fixed."""
    with ExitStack() as stack:
        report = os.memfd_create("report", os.MFD_CLOEXEC)
        stack.callback(os.close, report)
        fixed = []
        for name, size_bytes in (("inputs", plan.inputs_bytes), ("results", plan.results_bytes)):
            memory = SharedMemory(name, max(size_bytes, 1))
            stack.callback(memory.close)
            fixed.append(memory.fd)
        yield fixed[0], fixed[1], report


@contextmanager
def reference_process(plan: CheckPlan, fds: tuple[int, int, int], paths: Paths) -> Iterator[ReferenceProcess]:
    """Starts to draw inputs at once, while others compile."""
    ours, theirs = make_links()
    with tempfile.TemporaryDirectory(prefix="emulator-", dir=paths.scratch) as scratch:
        folder = Path(scratch) / "task"
        folder.mkdir()
        (folder / "reference.py").write_text(plan.task.reference_source)
        script = inside(HERE / "children", "benchmarks/emulator/children") + "/reference.py"
        room = Room(
            read_only={
                **child_code(),
                HERE / "children": "/kbench/benchmarks/emulator/children",
                folder: "/kbench/task",
            },
            file_bytes=1 << 30,
        )
        program = builder_program() if seccomp_supported() else b""
        argv = [sys.executable, "-I", "-B", script, str(theirs.fileno())]
        child = spawn(argv, room, Path(scratch) / "log", fds=(theirs.fileno(), *fds[:2]), filter_program=program)
        theirs.close()
        try:
            ours.send(
                task=inside(folder, "task"),
                function=plan.task.direction,
                configs=plan.described(),
                inputs=fds[0],
                results=fds[1],
            )
            yield ReferenceProcess(plan, ours, child)
        finally:
            child.kill()
            ours.close()


def run_submission(
    files: tuple[Path, Path],
    plan: CheckPlan,
    fds: tuple[int, int, int],
    rules: Rules,
    paths: Paths,
    *,
    budget_s: float,
    cancelled: CancelCheck,
) -> Conversation:
    """All runs of the plan in one process, until one of them fails or the time is over."""
    (binary, launcher), (inputs, results, report) = files, fds
    with tempfile.TemporaryDirectory(prefix="emulator-", dir=paths.scratch) as scratch:
        job = Path(scratch) / "job"
        job.mkdir()
        (job / "plan").write_text(plan.words(inputs, results, report))
        (job / "filter").write_bytes(candidate_program() if seccomp_supported() else b"")
        room = Room(
            read_only={
                job: "/kbench/job",
                binary: "/kbench/module.so",
                launcher: "/kbench/launcher",
                torch_folder() / "lib": "/kbench/torch/lib",
            },
            environment={"OMP_NUM_THREADS": "1"},
            memory_bytes=_ROOM_BYTES,
            file_bytes=max(plan.results_bytes, _REPORT_BYTES),
            scratch_bytes=rules.limits.scratch_bytes,
            cpu_s=int(budget_s) + 10,
            python=False,
        )
        place = inside(job, "job")
        argv = [inside(launcher, "launcher"), f"{place}/filter", inside(binary, "module.so"), f"{place}/plan"]
        child = spawn(argv, room, Path(scratch) / "log", fds=fds)
        try:
            code, left_s = None, budget_s
            while code is None and left_s > 0 and not cancelled():
                code, left_s = child.wait(0.1), left_s - 0.1
        finally:
            child.kill()
        log = child.log_tail(rules.limits.output_bytes)
    said = submission_report(os.pread(report, _REPORT_BYTES, 0), plan.numbers)
    found = Conversation(report=said, log=log)
    found.ended = "" if code == 0 else f"did not end within {budget_s:g} s" if code is None else _end(code)
    found.overdue = code is None
    found.done = tuple(run for run in plan.runs if run.number in said.returned)
    return found


def _end(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with exit status {code}"


def _argument(item: Argument) -> dict[str, Any]:
    return {**asdict(item), "options": dict(item.options)} if isinstance(item, TensorArgument) else asdict(item)


def _argument_words(item: Argument, places: Iterator[int]) -> str:
    if not isinstance(item, TensorArgument):
        return _value_words(item.value)
    words = f"tensor {item.name} {item.dtype} {next(places)} {len(item.shape)} {_numbers(item.shape)}"
    return f"list 1 {words}" if item.packed else words


def _value_words(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "none"
    if isinstance(value, bool):
        return f"bool {int(value)}"
    if isinstance(value, int):
        return f"int {value}"
    if isinstance(value, float):
        return f"real {value!r}"
    return " ".join([f"list {len(value)}", *map(_value_words, value)])


def _numbers(shape: Sequence[int]) -> str:
    return " ".join(map(str, shape))


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _PLACE_BYTES) * _PLACE_BYTES
