"""Converts an author's file of another suite into a task that can be judged, or says why it cannot.

The file is untrusted code: it runs only in sandboxed children, and their answers are checked before they are used.
A child of `child/admitting/` finds arguments and results, and tries the checker on the task that is made of them: on
the processor, or on a GPU for tasks that are judged on GPUs alone. Not covered: reading folders of other suites
(`benchmarks.importers`) and keeping tasks.
"""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import TaskError, UsageError
from ..gpu.bytecode import bytecode_folder
from ..gpu.capacity import judging_bytes, told
from ..gpu.crew import gpu_filter, on_gpu
from ..gpu.discovery import Gpu, gpus
from ..hosts.locks import gpu_lock, host_build_lock
from ..protocol import Link, ProtocolError, make_links
from ..sandbox.isolation import Child, Room, child_code, inside, python_argv, spawn
from ..sandbox.seccomp import builder_program, supported
from ..source import NOBODY, Paths
from ..tasks.spec import Config, Result, TaskSpec
from ..tasks.spec_json import write_folder
from .facts import SENSELESS, Facts, facts_of

FORMS = ("model", "function", "gradients", "definition", "case")
_ENTRIES = {"definition": "run", "case": "custom_kernel"}  # of a submission in Python, by form
ONE_SHAPE = "one-shape"
CPU_BYTES_MAX = 256 << 20  # of a configuration for the CPU, arguments and results together
CPU_CALL_MAX_S = 0.2  # of eager: a judging makes hundreds of calls, and takes each again in float64
CUDA_BYTES_MAX = 16 << 30
EXAMINED_BYTES_MAX = 1 << 30  # of a configuration: the examination holds it many times, in float64 too
GPU_SHARE = 8  # a GPU's memory is at least so many times as large as a configuration: see `gpu_bytes_max`
GPU_TASK = "too large for a processor: a GPU task"
TOO_LARGE_FOR_A_GPU = "too large for this GPU"
TOLERANCE_MAX = 0.02  # what needs more is not computed by float32, or by a larger or similar dtype
_ROUNDINGS_MAX = 16  # of one value, for dtypes whose single rounding is coarse
_ROOM_BYTES = 16 << 30
_START_S = 600.0  # nothing of the author's runs until then, so only a busy machine takes long
_DESCRIBING_STEPS = 4  # all configurations together have the time of so many
_TRACEBACK_AT = 0.9  # of the time that a step has, its process prints where it is
_AUTHORS_LINE = re.compile(r'File "[^"\n]{0,200}(?:task|reference)\.py", line (\d{1,6})', re.ASCII)
_LABEL = re.compile(r"[a-z-]{1,40}(?::[A-Za-z]\w{0,200})?")  # shown to everybody, as a filter's word
_HARNESS = Path(__file__).parents[1]
# Beside the children's own folder.
_EXAMINER = (
    "errors.py",
    "tasks/spec.py",
    "tasks/spec_json.py",
    "tasks/expressions.py",
)


@dataclass(frozen=True)
class ForeignConfig:
    """One wanted configuration: its group and the values that the author's functions take by name."""

    group: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignTask:
    """One task as its author wrote it. `form` is one of FORMS; `labels` are those that its reader gives it."""

    suite: str
    op: str
    direction: str
    title: str
    summary: str
    family: str
    form: str
    source: str
    configs: tuple[ForeignConfig, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examined:
    """The outcome for a foreign task: `task` is None if it was rejected, and `problem` then says why.

    `labels` name filters that it trips and what else readers should know; `notes` are whole sentences.
    """

    task: TaskSpec | None
    problem: str = ""
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def examine(
    foreign: ForeignTask,
    paths: Paths,
    *,
    device: str = "cpu",
    timeout_s: float = 300.0,
    compare_compiled: bool = True,
) -> Examined:
    """Runs `foreign` in a sandbox and makes a task of it. Never raises for anything that the author's file does.

    On a GPU (`cuda:0`) it makes a task for GPUs alone. Raises UsageError for a device that is not here.
    """
    gpu = None if device == "cpu" else _gpu(device)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="import-", dir=paths.scratch) as scratch:
        work = _Work(foreign, paths, Path(scratch), timeout_s, gpu)
        try:
            found = work.run(compare_compiled=compare_compiled)
        except TaskError as error:
            found = Examined(None, str(error))
    return replace(found, seconds=time.monotonic() - started_s - work.waited_s)


def _gpu(name: str) -> Gpu:
    found = {gpu.name: gpu for gpu in gpus()}
    if name not in found:
        raise UsageError(f"there is no device {name!r} here; there are: {', '.join(['cpu', *found])}")
    return found[name]


def gpu_bytes_max(memory_bytes: int) -> int:
    """The largest configuration that is examined on a GPU, arguments and results together.

    At its worst the examination holds it four times: a cheap answer and two references in float64, while arguments are
    there in float64, too. As much again is left to what the reference makes on its way in float64.
    """
    return min(CUDA_BYTES_MAX, memory_bytes // GPU_SHARE)


class _Work:
    """The state of one task while the child examines it."""

    def __init__(self, foreign: ForeignTask, paths: Paths, scratch: Path, timeout_s: float, gpu: Gpu | None) -> None:
        self.foreign, self.paths, self.scratch, self.timeout_s, self.gpu = foreign, paths, scratch, timeout_s, gpu
        self.bytes_max = EXAMINED_BYTES_MAX if gpu is None else gpu_bytes_max(gpu.memory_bytes)
        self.file, self.folder = scratch / "task.py", scratch / "task"
        self.notes: list[str] = []
        self.waited_s = 0.0  # for the device

    def run(self, *, compare_compiled: bool) -> Examined:
        self.file.write_text(self.foreign.source)
        self.folder.mkdir()
        with self._untimed_processors(), self._child() as child, self._gpu_alone():
            try:
                found = self._probed(child)
                task = made_task(self.foreign, found, None if self.gpu is None else self.gpu.memory_bytes)
                findings = self._examined(child, task, compare_compiled=compare_compiled)
            finally:
                child.end()  # before others may have the GPU
        task = _adjusted(task, findings)
        labels = [*([ONE_SHAPE] if _has_one_shape(found) else []), *self.foreign.labels, *findings["labels"]]
        notes = [*self.notes, *findings["notes"]]
        return Examined(replace(task, labels=tuple(labels)), labels=tuple(labels), notes=tuple(notes))

    def _probed(self, child: "_Conversation") -> list[tuple[ForeignConfig, Facts]]:
        """The configurations that work, with their facts."""
        found, problems = [], []
        configs = [dict(config.values) for config in self.foreign.configs]
        child.send(
            accelerator="cpu" if self.gpu is None else self.gpu.accelerator,
            memory_bytes=self.gpu and self.gpu.memory_bytes,
            file=inside(self.file, "task.py"),
            form=self.foreign.form,
            threads=1,
            configs=configs,
            bytes_max=self.bytes_max,
            traceback_s=self.timeout_s * _TRACEBACK_AT,
        )
        started_s, most_s = time.monotonic(), _DESCRIBING_STEPS * self.timeout_s
        for config in self.foreign.configs:
            if time.monotonic() - started_s > most_s:
                raise TaskError(f"describing its {len(configs)} configurations took more than {most_s:g} s")
            answer = child.receive(self.timeout_s, "describing it")
            if "facts" in answer:
                found.append((config, facts_of(answer["facts"])))
            elif "problem" in answer or "size_bytes" in answer:
                problems.append(str(answer["problem"])[:800] if "problem" in answer else self._too_large(answer))
                if len(problems) == len(self.foreign.configs) or "file failed" in problems[-1]:
                    break
        if found and self.foreign.form in _ENTRIES:
            found[0] = (replace(found[0][0], group="single"), found[0][1])
        if not found or found[0][0].group != "single":
            raise TaskError(problems[0] if problems else "it has no configuration in the group single")
        if problems:
            self.notes.append(f"{len(problems)} of {len(configs)} configurations do not work: {problems[0]}")
        return found

    def _examined(self, child: "_Conversation", task: TaskSpec, *, compare_compiled: bool) -> dict[str, Any]:
        write_folder(task, self.folder)
        told_s, folder = self.timeout_s * _TRACEBACK_AT, inside(self.folder, "task")
        child.send(folder=folder, compare_compiled=compare_compiled, traceback_s=told_s)
        return _findings(child.receive(self.timeout_s, "trying the checker on it"), len(task.result_names))

    def _too_large(self, answer: Mapping[str, Any]) -> str:
        size_bytes = answer["size_bytes"]
        least = f"at least {min(size_bytes, 1 << 60) / 1e9:.2f} GB" if isinstance(size_bytes, int) else "more"
        most = f"at most {self.bytes_max / 1e9:.2f} GB are examined there"
        where = GPU_TASK
        if self.gpu is not None:
            where, most = TOO_LARGE_FOR_A_GPU, f"{most}, as it has {self.gpu.memory_bytes / 1e9:.1f} GB"
        return f"{where}. Its arguments and results take {least}; {most}"

    @contextmanager
    def _untimed_processors(self) -> Iterator[None]:
        """The author's file could use all processors, which slows down long calls more than short ones."""
        if self.gpu is not None:
            yield
            return
        started_s = time.monotonic()
        with host_build_lock("examine", NOBODY, kind="examination"):
            self.waited_s = time.monotonic() - started_s
            yield

    @contextmanager
    def _gpu_alone(self) -> Iterator[None]:
        """Beside a judging it would disturb timings, and beside another examination there may be too little memory."""
        if self.gpu is None:
            yield
            return
        started_s = time.monotonic()
        with gpu_lock(self.gpu.uuid, "examine", NOBODY):
            self.waited_s = time.monotonic() - started_s
            yield

    @contextmanager
    def _child(self) -> Iterator["_Conversation"]:
        ours, theirs = make_links()
        builder = builder_program() if supported() else b""
        try:
            child = spawn(
                python_argv("admitting.examiner", str(theirs.fileno())),
                self._room(),
                self.scratch / "examiner.log",
                fds=(theirs.fileno(),),
                filter_program=builder if self.gpu is None else gpu_filter(),
            )
        finally:
            theirs.close()
        talk = _Conversation(child, ours, "machine" if self.gpu is None else "GPU")
        try:
            talk.receive(_START_S, "starting")
            yield talk
        finally:
            talk.end()
            ours.close()

    def _room(self) -> Room:
        code = {_HARNESS / name: f"/kbench/benchmarks/harness/{name}" for name in _EXAMINER}
        room = Room(
            read_only={**child_code(), **code, self.file: "/kbench/task.py", self.folder: "/kbench/task"},
            environment={
                "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",  # noqa: S108 - its own tmpfs
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
                "USER": "kbench",
            },
            memory_bytes=_ROOM_BYTES,
            scratch_bytes=1 << 30,
        )
        return room if self.gpu is None else on_gpu(room, self.gpu, bytecode_folder(self.paths))


def made_task(foreign: ForeignTask, found: list[tuple[ForeignConfig, Facts]], gpu_bytes: int | None = None) -> TaskSpec:
    """The task before its tolerances are known; for GPUs alone if it is examined on one, with so much memory."""
    facts = found[0][1]
    if any(item.argument_names != facts.argument_names for _, item in found):
        raise TaskError("its configurations differ in their arguments")
    configs = tuple(_configs(found, foreign.form))
    devices = {"cpu": _for_cpu(configs, found) if gpu_bytes is None else ()}
    devices["cuda"] = tuple(item for item in configs if _nbytes(item) <= CUDA_BYTES_MAX)
    if gpu_bytes is not None:
        devices["cuda"] = tuple(item for item in devices["cuda"] if _judging_bytes(item, gpu_bytes) <= gpu_bytes)
        if not devices["cuda"]:
            least = min(_judging_bytes(item, gpu_bytes) for item in configs)
            raise TaskError(f"{TOO_LARGE_FOR_A_GPU}: {told(least, gpu_bytes)}")
    if foreign.form in _ENTRIES:
        devices = {name: _headed(items) for name, items in devices.items()}
    devices = {name: items for name, items in devices.items() if any(item.group == "single" for item in items)}
    if not devices:
        raise TaskError("its arguments are too large for any device")
    return TaskSpec(
        suite=foreign.suite,
        op=foreign.op,
        direction=foreign.direction,
        version=1,
        title=foreign.title,
        formula="",
        summary=foreign.summary,
        family=foreign.family,
        labels=(),
        argument_names=facts.argument_names,
        result_names=facts.result_names,
        exact=False,
        configs=devices,
        reference_source=foreign.source.rstrip() + "\n" + _tail(foreign.form, foreign.direction, found),
        folder=Path(),
    )


def _has_one_shape(found: list[tuple[ForeignConfig, Facts]]) -> bool:
    return all(facts.shapes == found[0][1].shapes for _, facts in found)


def _configs(found: list[tuple[ForeignConfig, Facts]], form: str) -> Iterator[Config]:
    """The author's configurations, then the same with other values: one shape does not test a kernel well."""
    entry = _ENTRIES.get(form)
    for config, facts in found:
        yield _config(config.group, config.values, "published", facts, entry)
    first, last = found[0], found[-1]
    if _has_one_shape(found):
        yield _config("multi", first[0].values, "scaled", first[1], entry)
    for variant in ("spread", "shifted"):  # the examination keeps one of them
        yield _config("hidden", last[0].values, variant, last[1], entry)
    if entry is None:  # without a module there is no state
        yield _config("hidden", first[0].values, "stirred", first[1], entry)


def _headed(items: tuple[Config, ...]) -> tuple[Config, ...]:
    """The first configuration that is shown becomes the single one where that is too large for a device."""
    if any(item.group == "single" for item in items):
        return items
    shown = [item for item in items if not item.hidden]
    hidden = tuple(item for item in items if item.hidden)
    return (replace(shown[0], group="single"), *shown[1:], *hidden) if shown else ()


def _config(group: str, values: Mapping[str, Any], variant: str, facts: Facts, entry: str | None) -> Config:
    made = {"init": facts.init} if facts.init is not None else {}
    if entry:
        made["entry"] = entry
    if entry and facts.plan:
        made["data"] = repr(facts.plan[1])
    shown = {**values, **made, "variant": variant}
    words = {name: value for name, value in shown.items() if name not in made}
    results = tuple(
        Result(name, item.shape, item.dtype, 1.0, 1.0)
        for name, item in zip(facts.result_names, facts.results, strict=True)
    )
    return Config(
        key=",".join(f"{name}={value}" for name, value in words.items()),
        group=group,
        values=shown,
        arguments=facts.arguments,
        results=results,
        bytes_moved=facts.bytes_moved,
        flops=facts.flops,
    )


def _for_cpu(configs: tuple[Config, ...], found: list[tuple[ForeignConfig, Facts]]) -> tuple[Config, ...]:
    slow = [facts.arguments for _, facts in found if facts.seconds > CPU_CALL_MAX_S]
    return tuple(item for item in configs if _nbytes(item) <= CPU_BYTES_MAX and item.arguments not in slow)


def _judging_bytes(config: Config, gpu_bytes: int) -> int:
    results = sum(item.nbytes for item in config.results)
    return judging_bytes(_nbytes(config) - results, results, gpu_bytes)


def _nbytes(config: Config) -> int:
    return sum(item.nbytes for item in config.tensors) + sum(item.nbytes for item in config.results)


# Imported tasks are stored with this text, so `child/foreign.py` and `child/gradients.py` keep their place.
_TAIL = """

# The author's file ends above. What follows is how kbench calls it.
from benchmarks.harness.child import {module} as _kbench

{direction}, kbench_draw = _kbench.{call}
"""


def _tail(form: str, direction: str, found: list[tuple[ForeignConfig, Facts]]) -> str:
    if form == "model":
        call = f"model_task(globals(), changed={found[0][1].changed!r})"
        return _TAIL.format(module="foreign", direction="forward", call=call)
    if form == "definition":
        return _TAIL.format(module="definitions", direction=direction, call="definition_task(globals())")
    if form == "function":
        return _TAIL.format(module="foreign", direction="forward", call="function_task(globals())")
    plans = dict(facts.plan for _, facts in found if facts.plan is not None)
    if form == "case":
        return _TAIL.format(module="cases", direction=direction, call=f"case_task(globals(), {plans!r})")
    return _TAIL.format(module="gradients", direction="backward", call=f"backward_task(globals(), {plans!r})")


def _adjusted(task: TaskSpec, findings: Mapping[str, Any]) -> TaskSpec:
    """The task with its measured tolerances and without variants whose results are meaningless."""
    dropped = set(findings["dropped"])
    places = list(zip(task.result_names, findings["tolerances"], strict=True))
    limit = max(TOLERANCE_MAX, _ROUNDINGS_MAX * task.precision.rounding)
    if any(tolerance > limit for _, (tolerance, _rms) in places):
        raise TaskError(f"it cannot be computed in {task.precision.name}: the error is over {limit:.2g} of the result")
    configs = {
        device: tuple(_with_tolerances(item, findings["tolerances"]) for item in items if item.key not in dropped)
        for device, items in task.configs.items()
    }
    if not all(any(item.group == "single" for item in items) for items in configs.values()):
        raise TaskError("the examination leaves no configuration in the group single")
    # in float64 the truth is what eager computes
    exact = task.precision.name == "float64" or all(tolerance == 0 for _, (tolerance, _rms) in places)
    return replace(task, configs=configs, exact=exact)


def _with_tolerances(config: Config, tolerances: list[tuple[float, float]]) -> Config:
    pairs = zip(config.results, tolerances, strict=True)
    return replace(
        config, results=tuple(replace(item, tolerance=both[0], rms_tolerance=both[1]) for item, both in pairs)
    )


def _findings(answer: Mapping[str, Any], results: int) -> dict[str, Any]:
    """What the examination said, in the form that it must have. Raises TaskError."""
    if "problem" in answer:
        raise TaskError(str(answer["problem"])[:800])
    try:
        tolerances = [(float(one), float(both)) for one, both in answer["tolerances"]]
        texts = {name: [str(item)[:300] for item in answer[name]][:64] for name in ("labels", "notes", "dropped")}
    except SENSELESS as error:
        raise TaskError(f"the examination gave no sensible answer: {error}"[:300]) from error
    if not all(map(_LABEL.fullmatch, texts["labels"])):
        raise TaskError("the examination gave a malformed label")
    if len(tolerances) != results or not all(0 <= value < 1e6 for both in tolerances for value in both):
        raise TaskError("the examination gave no sensible tolerances")
    return {**texts, "tolerances": tolerances}


class _Conversation:
    """A conversation with one sandboxed child; any failure of the child counts against the task."""

    def __init__(self, child: Child, link: Link, where: str) -> None:
        self._child, self._link, self._where = child, link, where

    def end(self) -> None:
        self._child.kill()

    def send(self, **message: Any) -> None:
        self._link.send(**message)

    def receive(self, timeout_s: float, doing: str) -> dict[str, Any]:
        try:
            return self._link.receive(timeout_s)
        except TimeoutError as error:
            line = _AUTHORS_LINE.search(self._child.log_tail(20_000))
            place = f" (line {int(line[1])})" if line else ""
            raise TaskError(f"{doing} took more than {timeout_s:g} s on this {self._where}{place}") from error
        except ProtocolError as error:
            last = self._child.log_tail(2000).strip().splitlines()
            said = f"; it printed: {last[-1][:300]}" if last else ""
            raise TaskError(f"its process ended while {doing}{said}") from error
