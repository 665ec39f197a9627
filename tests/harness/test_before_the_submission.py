"""What ends before a process has a byte of the submission is our failure, and no submission can end another's process.

Not covered: what a process does that has loaded it (`test_faults.py`, the corpus).
"""

import ast
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import Paths, Source, Verdict, default_rules, default_suites, find_task, judge
from benchmarks.harness.child import candidate as on_processor
from benchmarks.harness.compilers import builds
from benchmarks.harness.errors import NotAwake, ProcessorsBusy, RefereeError
from benchmarks.harness.gpu import session as of_gpus
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.measuring import session as of_processors
from benchmarks.harness.measuring.baselines import CpuPreparation
from benchmarks.harness.measuring.contestants import Actor
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.session import CpuSession
from benchmarks.harness.protocol import ProtocolError
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork
from benchmarks.harness.source import Step, Watcher
from benchmarks.harness.tracks import CpuTrack

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
CHILDREN = Path(on_processor.__file__).parent


class Starting(Actor):
    """A process that says the messages of a list and then ends; what it is told is noted in `order`."""

    def __init__(self, name: str, order: list[str], *says: dict[str, Any]) -> None:
        self._says = list(says)
        self._order, self._name = order, name
        how = {"work": lambda: TreeWork(0.0, is_ready=False), "log_tail": lambda _: "bwrap: Can't find source path"}
        stops = {"freeze": lambda _: order.append(f"{name} frozen"), "pin": lambda _: None}
        self._child = cast(Any, SimpleNamespace(**how, **stops, wait=lambda _: 1, is_lost=lambda: False))
        self._link = cast(Any, SimpleNamespace(send=self._told))

    def _told(self, **message: Any) -> None:
        self._order.append(f"{self._name} {next(iter(message))}")

    def open(self, message: dict[str, Any]) -> None:
        self._order.append(f"{self._name} opened")

    def receive(self, timeout_s: float) -> dict[str, Any]:
        if not self._says:
            raise ProtocolError("the other side went away")
        self._order.append(f"{self._name} says {next(iter(self._says[0]))}")
        return self._says.pop(0)


def opening(kind: type[Any]) -> Any:
    """A session whose own processes run while those for the submission wait for leave to load it."""
    own, how = (
        object.__new__(kind),
        {"log_tail": lambda _: "", "wait": lambda _: 1, "exit_code": lambda: None, "is_lost": lambda: False},
    )
    referee, baseline, executor = (SimpleNamespace(child=SimpleNamespace(**how)) for _ in range(3))
    cores = SimpleNamespace(contestants=(0,))
    own.setting = SimpleNamespace(rules=default_rules(), order=lambda: None, cores=cores)
    own._referee, own._casts = referee, [(baseline, None)]
    own.crew = SimpleNamespace(executors=[executor], has_met_a_submission=False)
    own.is_alone = True
    return own


@pytest.mark.parametrize("kind", [CpuSession, GpuSession])
@pytest.mark.parametrize("says", [[], [{"started": True}], [{"awake": True}, {"loaded": True}, {"load_error": "no"}]])
def test_who_ends_before_it_has_the_submission_is_not_awake(kind: type[Any], says: list[dict[str, Any]]) -> None:
    """Whatever else it says: our code says that it is ready first."""
    with pytest.raises(NotAwake, match="the process for the submission did not start"):
        opening(kind)._let_load([Starting("one", [], *says)])


def test_who_waits_for_a_processor_until_its_time_is_over_is_nobodys_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]

    class Waiting(Starting):
        def receive(self, timeout_s: float) -> dict[str, Any]:
            now_s[0] += timeout_s
            raise TimeoutError

    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now_s[0])
    waits = Waiting("one", [])
    waits._child = cast(Any, SimpleNamespace(work=lambda: TreeWork(0.0, is_ready=True)))
    for run in (lambda: opening(CpuSession)._let_load([waits]), lambda: opening(CpuSession)._await_baseline(waits)):
        with pytest.raises(ProcessorsBusy):
            run()


def test_where_a_process_of_the_submission_has_run_nobody_is_blamed_and_no_device_doubted() -> None:
    """As a Triton kernel is compiled by one of its own before; it may have taken all memory of the machine."""
    with pytest.raises(Fault, match="a process for the submission did not start") as caught:
        opening(GpuSession)._let_load([Starting("one", [])], has_run=True)
    assert caught.value.verdict is Verdict.NOISY


def test_no_process_loads_the_submission_before_all_are_ready() -> None:
    """Else the submission could end the second one before that has loaded it, which would be told as our failure.

    And none runs while another one loads: it could keep that from the processors.
    """
    order: list[str] = []
    ready, serving = {"ready": True}, {"serving": True}
    two = Starting("two", order, {"started": True}, ready, serving)
    opening(CpuSession)._let_load([Starting("one", order, ready, serving), two])
    loading = [f"{name} {does}" for name in ("one", "two") for does in ("load", "says serving", "frozen")]
    assert order == ["one says ready", "two says started", "two says ready", *loading]
    order.clear()
    with pytest.raises(NotAwake):
        opening(CpuSession)._let_load([Starting("one", order, ready), Starting("two", order)])
    assert order == ["one says ready"]


@pytest.mark.parametrize("kind", [CpuSession, GpuSession])
def test_the_judge_is_alone_until_the_submission_may_load(kind: type[Any]) -> None:
    order: list[str] = []
    own = opening(kind)
    for child in own.trusted():
        child.exit_code = lambda: 1
        with pytest.raises(RefereeError, match="a process of the judge ended before the submission was loaded"):
            own._let_load([Starting("one", order, {"ready": True})])
        child.exit_code = lambda: None
        assert own.is_alone
    assert "one load" not in order
    own._let_load([Starting("one", order, {"ready": True}, {own.loaded: True})])
    assert not own.is_alone
    assert "one load" in order


@pytest.mark.sandbox
@pytest.mark.parametrize("who", ["referee", "baseline"])
def test_who_of_ours_ends_before_the_submission_is_loaded_is_no_fault_of_its_author(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """The machine has ended it once, say for want of memory, and a judging without the submission would work."""
    name = "_open_referee" if who == "referee" else "_let_load"
    step, left = getattr(CpuSession, name), [1]

    def killed_before(own: CpuSession, *args: Any) -> None:
        if left:
            left.pop()
            child = own._referee.child if who == "referee" else own._casts[0][0].child
            child.doom()
            assert child.wait(10) is not None
        step(own, *args)

    monkeypatch.setattr(CpuSession, name, killed_before)
    with pytest.raises(RefereeError):
        judge(Source(KERNEL, "cpp"), TASK, default_rules(), paths, quick=True)


def test_on_a_gpu_memory_is_handed_over_before_the_submission_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    own = opening(GpuSession)
    own._candidate_message = lambda _: {}
    monkeypatch.setattr(of_gpus, "STANDBY", SimpleNamespace(refill=lambda _: None))
    shared = SimpleNamespace(hand=lambda actor, _: order.append(f"{actor._name} has memory"))
    actors = [Starting(name, order, {"ready": True}, {"loaded": True}) for name in ("one", "two")]
    own._load(None, actors, shared, has_run=False)
    handed = ["one opened", "one has memory", "two opened", "two has memory"]
    loading = [f"{name} {does}" for name in ("one", "two") for does in ("load", "says loaded", "frozen")]
    assert order == [*handed, "one says ready", "two says ready", *loading]


@pytest.mark.parametrize("file", ["candidate.py", "gpu/candidate.py"])
def test_a_child_loads_the_submission_as_soon_as_it_may_and_not_before(file: str) -> None:
    """What fails in between would be told as the submission's failure, although it is our code: a filter, say."""
    (main,) = (
        item
        for item in ast.walk(ast.parse((CHILDREN / file).read_text()))
        if isinstance(item, ast.FunctionDef) and item.name == "main"
    )
    lines = [line.strip() for line in ast.unparse(main).splitlines()]
    loads = next(number for number, line in enumerate(lines) if line.startswith("functions = load_functions("))
    assert lines[loads - 1] == "await_leave_to_load(link)"


@pytest.mark.sandbox
def test_a_filter_that_cannot_be_installed_is_no_fault_of_its_author(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the machine has no memory for it."""
    monkeypatch.setattr(of_processors, "candidate_program", lambda: b"no program of a filter")
    with pytest.raises(NotAwake, match="the process for the submission did not start"):
        judge(Source(KERNEL, "cpp"), TASK, default_rules(), paths, quick=True)


@pytest.mark.sandbox
def test_a_build_that_goes_while_a_process_starts_is_no_fault_of_its_author(paths: Paths) -> None:
    source = Source(f"{KERNEL}// {uuid.uuid4()}\n", "cpp")

    def on_step(step: Step) -> None:
        if (step.stage, step.state) == ("load", "started"):
            kept = builds.kept(source, default_rules(), paths)
            assert kept is not None
            assert kept.binary is not None
            shutil.rmtree(kept.binary.parent)

    with pytest.raises(NotAwake, match="the process for the submission did not start"):
        judge(source, TASK, default_rules(), paths, quick=True, watcher=Watcher(on_step))


@pytest.mark.sandbox
@pytest.mark.parametrize("what", ["the build", "the baselines"])
def test_what_goes_while_a_judging_waits_for_the_device_is_made_again(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    source, lock, taken = Source(f"{KERNEL}// {uuid.uuid4()}\n", "cpp"), CpuTrack.lock, list[int]()

    @contextmanager
    def removing(track: CpuTrack, watcher: Watcher) -> Iterator[None]:
        taken.append(1)
        if len(taken) == 1:
            kept = builds.kept(source, default_rules(), paths)
            assert kept is not None
            assert kept.binary is not None
            prepared = track.preparation(TASK, watcher, stage="prepare", quick=True)
            shutil.rmtree(kept.binary.parent if what == "the build" else prepared.compiled(paths).cache.parent)
        with lock(track, watcher):
            yield

    monkeypatch.setattr(CpuTrack, "lock", removing)
    report = judge(source, TASK, default_rules(), paths, quick=True)
    assert report.verdict is Verdict.PASS, report.reason
    assert len(taken) == 2


def test_what_is_prepared_again_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same judging, which knows how it went the first time."""
    paths, compiled = Paths(tmp_path), list[list[int]]()
    assert paths.scratch.is_dir()

    class Counting(CpuPreparation):
        def begin(self, paths: Paths, cache: Path) -> None:
            cache.mkdir()

        def _compile(self, cache: Path, log: Path) -> None:
            compiled.append([number for number in range(len(self.configs)) if number not in self.problems])
            self.problems = {0: "it takes too long"}

    track = CpuTrack(default_rules(), paths)
    how = {"rules": default_rules(), "watcher": Watcher(), "cores": track.cores}
    preparation = Counting(task=TASK, configs=TASK.configs_for("cpu")[:1], **how)  # type: ignore[arg-type]
    first = preparation.compiled(paths)
    assert first.is_kept()
    shutil.rmtree(first.cache.parent)
    assert not first.is_kept()
    assert preparation.compiled(paths) == first
    assert compiled == [[0], [0]]
