"""How long a baseline or a build may take: by the clock, and where others have the processors, by what it gets of them.

Not covered: what torch.compile makes (`test_judge.py`).
"""

import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from benchmarks.harness import ProcessorsBusy, Source, Verdict, default_rules, default_suites, find_task, judge
from benchmarks.harness.child.gpu import baseline
from benchmarks.harness.child.gpu.cuda_accelerator import CudaAccelerator
from benchmarks.harness.child.gpu.host_accelerator import HostAccelerator
from benchmarks.harness.compilers import pruning
from benchmarks.harness.errors import LacksMemory
from benchmarks.harness.gpu import baselines as of_gpus
from benchmarks.harness.gpu import marks
from benchmarks.harness.gpu.baselines import GpuPreparation
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.hosts.machine import Cores
from benchmarks.harness.measuring import baselines
from benchmarks.harness.measuring.baselines import LEFT_OUT, CpuPreparation, Preparation
from benchmarks.harness.measuring.contestants import Actor
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork, end_tree, work_of
from benchmarks.harness.source import NOBODY, Paths, Watcher
from benchmarks.harness.stages import StagedJudging

LIMIT_S = 100.0


class Compiling(Actor):
    """A child that answers after `answers_s`; `work` says what it has done until a moment."""

    def __init__(self, answers_s: float, work: Callable[[float], TreeWork]) -> None:
        self.now_s, self._answers_s = 0.0, answers_s
        self._child = cast(Any, SimpleNamespace(work=lambda: work(self.now_s)))

    def receive(self, timeout_s: float) -> dict[str, Any]:
        self.now_s += timeout_s
        if self.now_s < self._answers_s:
            raise TimeoutError
        return {"problem": None}


def unprepared(kind: type[Preparation], **more: Any) -> Preparation:
    return kind(task=cast(Any, None), configs=(), rules=default_rules(), watcher=NOBODY, **more)


def answered_s(monkeypatch: pytest.MonkeyPatch, answers_s: float, work: Callable[[float], TreeWork]) -> float | None:
    """When the answer was taken; None if nobody waited for it."""
    child = Compiling(answers_s, work)
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: child.now_s)
    try:
        unprepared(CpuPreparation, cores=Cores((0,), (1,)))._heard(child, ("problem",), LIMIT_S)
    except TimeoutError:
        assert child.now_s >= LIMIT_S - 1
        return None
    return child.now_s


def test_who_gets_no_processor_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a build that keeps all processors busy leaves the task without this baseline on this machine."""

    def held_up(now_s: float) -> TreeWork:
        return TreeWork(now_s / 50 if now_s < 180 else now_s - 176.4, is_ready=True)

    assert answered_s(monkeypatch, 230.0, held_up) == pytest.approx(230.0, abs=1)
    assert answered_s(monkeypatch, 270.0, held_up) == pytest.approx(270.0, abs=1)
    assert answered_s(monkeypatch, 290.0, held_up) is None  # it has had as much as anybody


def test_who_works_or_sleeps_has_the_time_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_s(monkeypatch, 90.0, lambda now_s: TreeWork(now_s, is_ready=True)) is not None
    assert answered_s(monkeypatch, 110.0, lambda now_s: TreeWork(now_s, is_ready=True)) is None
    assert answered_s(monkeypatch, 110.0, lambda _: TreeWork(0.0, is_ready=False)) is None


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_s(monkeypatch, 390.0, lambda _: TreeWork(0.0, is_ready=True)) is not None
    assert answered_s(monkeypatch, 410.0, lambda _: TreeWork(0.0, is_ready=True)) is None


def test_the_work_of_all_below_a_process_counts() -> None:
    loop = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    busy = subprocess.Popen(["/bin/sh", "-c", f"({loop}); while :; do :; done & wait"], start_new_session=True)
    idle = subprocess.Popen(["sleep", "60"])
    try:
        until = time.monotonic() + 30
        while not (found := work_of(busy.pid)).used_s > 0.05 and time.monotonic() < until:
            time.sleep(0.01)
        assert found.is_ready
        assert (work_of(idle.pid).used_s, work_of(idle.pid).is_ready) == (0.0, False)
    finally:
        end_tree(busy.pid)
        idle.kill()
        busy.wait()
        idle.wait()
    assert work_of(idle.pid) == TreeWork(0.0, is_ready=False, counts_all=False)


class HeldUp(Actor):
    """A child that says something and is then kept from the processors for ever."""

    def __init__(self, *says: dict[str, Any]) -> None:
        self.now_s, self._says = 0.0, list(says)
        self._child = cast(Any, SimpleNamespace(work=lambda: TreeWork(0.0, is_ready=True)))

    def receive(self, timeout_s: float) -> dict[str, Any]:
        if self._says:
            return self._says.pop(0)
        self.now_s += timeout_s
        raise TimeoutError

    def kill(self) -> None:
        pass


FIRST_IS_COMPILED: list[dict[str, Any]] = [{"compiling": 0}, {"compiled": 0, "problem": None}]


@pytest.mark.parametrize("says", [FIRST_IS_COMPILED[:1], FIRST_IS_COMPILED], ids=["while it compiles", "in between"])
def test_a_baseline_that_others_keep_from_the_processors_is_not_kept_as_missing(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch, says: list[dict[str, Any]]
) -> None:
    """Every later score would be against eager alone. And it tells nothing of the device."""
    child, task = HeldUp(*says), find_task(default_suites(), "mnist_linear_relu/forward")
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: child.now_s)
    monkeypatch.setattr(CpuPreparation, "start", lambda *_, **__: child)
    monkeypatch.setattr(CpuPreparation, "begin", lambda _, __, cache: cache.mkdir())
    how = {"rules": default_rules(), "watcher": NOBODY, "cores": Cores((0,), (1,))}
    preparation = CpuPreparation(task=task, configs=task.configs_for("cpu")[:2], **how)  # type: ignore[arg-type]
    with pytest.raises(ProcessorsBusy, match="the processors of the machine are too busy"):
        preparation.compiled(own_paths)
    assert not preparation.is_ready(own_paths)
    assert not list(own_paths.baselines.glob("*/ready.json"))


def test_a_judging_whose_own_processes_get_no_processor_is_noisy(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: StagedJudging) -> None:
        raise ProcessorsBusy("the baselines of the task could not be prepared in time")

    monkeypatch.setattr(StagedJudging, "_made", busy)
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    text = (task.folder / "kernels" / "forward_cpu.cpp").read_text()
    report = judge(Source(text, "cpp"), task, default_rules(), own_paths)
    assert (report.verdict, report.reason.partition(":")[0]) == (
        Verdict.NOISY,
        "the processors of the machine are too busy",
    )


STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")
NO_MEMORY = "InductorError: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
NO_CONFIG = "RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: shared memory"


def saying(messages: Iterator[dict[str, Any]], **more: Any) -> Any:
    child: Any = SimpleNamespace(receive=lambda _: next(messages), **more)
    child.messages_within = partial(Actor.messages_within, child)
    return child


class Preparing(GpuPreparation):
    """Each child compiles what it is to, and a configuration has the next of its `outcomes` each time."""

    outcomes: list[list[str | None]]
    started: list[list[int]]
    room: tuple[int, int] | tuple[()] = ()

    @contextmanager
    def _child(self, cache: Path, log: Path, *, wanted: list[int], instead: str = "") -> Iterator[Any]:
        self.started.append(wanted)
        messages: list[dict[str, Any]] = []
        for number in wanted:
            outcomes = self.outcomes[number]
            problem = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
            messages += [{"compiling": number}, {"compiled": number, "problem": problem, "room": self.room}]
        told = iter([*messages, {"prepared": True}])
        works = SimpleNamespace(work=lambda: TreeWork(0.0, is_ready=True))
        yield saying(told, child=works)


def preparing(*outcomes: list[str | None], room: tuple[int, int] | tuple[()] = (), **more: Any) -> Preparing:
    """`room` is what each child tells of the memory that it had."""
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    configs, rules = task.configs_for("cuda")[: len(outcomes)], default_rules()
    made = Preparing(task=task, configs=configs, rules=rules, watcher=NOBODY, gpu=STAND_IN, bytecode=None, **more)
    made.outcomes, made.started, made.room = list(outcomes), [], room
    return made


@pytest.fixture
def own_paths(tmp_path: Path, own_marks: None) -> Paths:
    own = Paths(tmp_path)
    own.scratch.mkdir(parents=True, exist_ok=True)
    own.baselines.mkdir(parents=True, exist_ok=True)
    return own


def test_memory_that_torch_compile_lacked_is_not_kept_as_a_missing_baseline(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have held it, and every later score would be against eager alone."""
    first = preparing([None], [NO_MEMORY])
    with pytest.raises(LacksMemory, match="out of memory"):
        first.compiled(own_paths)
    assert first.started == [[0, 1], [1]], "once more by itself"
    assert not first.is_ready(own_paths)
    again = preparing([None], [None])
    with pytest.raises(LacksMemory, match="less than an hour ago"):  # nor does it cost every judging as much
        again.compiled(own_paths)
    assert again.started == []
    monkeypatch.setattr(marks, "CROWDED_S", 0.0)
    assert again.compiled(own_paths).problems == (None, None)


@pytest.mark.parametrize(("now_bytes", "tries"), [(3 << 30, False), (4 << 30, True), (None, False)])
def test_a_lack_of_memory_is_over_when_there_is_clearly_more(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch, now_bytes: int | None, *, tries: bool
) -> None:
    """Else all submissions of the task that wait end with our error, within seconds each."""
    asked: list[Gpu] = []
    monkeypatch.setattr(of_gpus, "demand_room", asked.append)
    monkeypatch.setattr(of_gpus, "free_bytes", lambda _: now_bytes)
    with pytest.raises(LacksMemory, match="out of memory"):
        preparing([NO_MEMORY], room=((3 << 30) - (1 << 20), 8 << 30)).compiled(own_paths)
    again = preparing([None])
    with nullcontext() if tries else pytest.raises(LacksMemory, match="less than an hour ago"):
        assert again.compiled(own_paths).problems == (None,)
    assert len(again.started) == tries
    assert asked == [STAND_IN], "memory that sessions hold which wait is free for it"


def test_nothing_is_lacking_where_nothing_is_compiled(own_paths: Paths) -> None:
    """A quick check has no torch.compile, so it starts no process."""
    with pytest.raises(LacksMemory, match="out of memory"):
        preparing([NO_MEMORY]).compiled(own_paths)
    quick = preparing([NO_MEMORY], quick=True)
    assert quick.compiled(own_paths).problems == (LEFT_OUT,)
    assert quick.started == []


@pytest.mark.parametrize("free_bytes", [7 << 30, (7 << 30) - 1])
def test_a_baseline_that_is_too_large_for_the_whole_gpu_is_a_missing_one(own_paths: Paths, free_bytes: int) -> None:
    """Eager may fit, and the task would have no full judging at all. One eighth may be contexts of the judge."""
    made = preparing([None], [NO_MEMORY], room=(free_bytes, 8 << 30))
    if free_bytes < 7 << 30:
        with pytest.raises(LacksMemory, match="out of memory"):
            made.compiled(own_paths)
        return
    assert made.compiled(own_paths).problems == (None, of_gpus._NEEDS_MORE)
    assert made.started == [[0, 1], [1]], "the second process had nothing of other configurations"
    again = preparing([None], [None])
    assert again.is_ready(own_paths), "it is kept as other problems of torch.compile are"


def test_a_compiler_that_lacks_memory_of_the_host_tells_nothing_of_the_gpu(own_paths: Paths) -> None:
    made = preparing(["cc1plus: out of memory allocating 65536 bytes"], room=(8 << 30, 8 << 30))
    with pytest.raises(LacksMemory, match="out of memory"):
        made.compiled(own_paths)
    assert not preparing([None]).is_ready(own_paths)


def test_a_process_that_told_nothing_the_second_time_had_no_gpu_for_itself(own_paths: Paths) -> None:
    made = preparing([NO_MEMORY])
    made._room = (8 << 30, 8 << 30)
    with pytest.raises(LacksMemory, match="out of memory"):
        made.compiled(own_paths)


def test_tasks_that_are_prepared_side_by_side_say_nothing_of_a_lack_of_memory(own_paths: Paths) -> None:
    """They have taken it from each other."""
    beside = preparing([NO_MEMORY], room=(8 << 30, 8 << 30), in_turns=lambda _: nullcontext())
    for _ in range(2):
        with pytest.raises(LacksMemory, match="out of memory"):
            beside.compiled(own_paths)
        beside.problems.clear()
    assert beside.started == [[0]] * 4
    assert preparing([None]).compiled(own_paths).problems == (None,), "no note is left for a judging"


def test_memory_that_other_configurations_kept_costs_no_baseline(own_paths: Paths) -> None:
    assert preparing([NO_MEMORY, None], [None]).compiled(own_paths).problems == (None, None)


def test_what_torch_compile_cannot_do_is_kept(own_paths: Paths) -> None:
    assert preparing([NO_CONFIG], [None]).compiled(own_paths).problems == (NO_CONFIG, None)
    again = preparing([None], [None])
    assert again.compiled(own_paths).problems == (NO_CONFIG, None)
    assert again.started == []


def test_what_was_compiled_for_a_torch_in_another_folder_is_not_used(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.compile would not find its libraries again, and compile them in each judging."""
    preparing([None]).compiled(own_paths)
    assert preparing([None]).is_ready(own_paths)
    monkeypatch.setattr(baselines, "torch_folder", lambda: Path("/elsewhere/torch"))
    assert not preparing([None]).is_ready(own_paths)


def test_a_lack_of_memory_that_was_kept_before_is_compiled_again(own_paths: Paths) -> None:
    preparing([None]).compiled(own_paths)
    (ready,) = own_paths.baselines.glob("*/ready.json")
    ready.write_text(json.dumps({"problems": [NO_MEMORY]}))
    assert preparing([None]).compiled(own_paths).problems == (None,)


def test_new_baselines_make_room_and_what_is_measured_stays(own_paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem may keep two gigabytes on each machine, and anybody may post problems."""
    monkeypatch.setattr(pruning, "KEPT_MAX_BYTES", 1)
    digest, cache = "0" * 24, own_paths.baselines
    names = [f"posted-forward-{digest}", f"probes-forward-{digest}", f"probes-{digest}"]
    for name in names:
        (cache / name / "cache").mkdir(parents=True)
        (cache / name / "cache" / "compiled.so").write_bytes(b"x" * 1000)
        os.utime(cache / name, (1, 1))
    (cache / f"peaks-{digest}.json").write_text("{}")
    os.utime(cache / f"peaks-{digest}.json", (1, 1))
    made = preparing([None]).compiled(own_paths)
    left = {path.name for path in cache.iterdir() if not path.name.startswith(".")}
    assert left == {f"probes-{digest}", f"peaks-{digest}.json", made.cache.parent.name}


def test_baselines_that_are_ready_when_they_are_asked_for_stay_for_an_hour(
    own_paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compiled under a lock, which nobody takes who finds them ready."""
    monkeypatch.setattr(pruning, "KEPT_MAX_BYTES", 1)
    monkeypatch.setattr(pruning, "LOOK_EVERY_S", 0.0)
    kept = preparing([None]).compiled(own_paths)
    os.utime(kept.cache.parent, (1, 1))
    again = preparing([None])
    with again.turn(own_paths, lambda _: pytest.fail("nothing is left to compile")):
        pruning.make_room(own_paths.baselines)
        assert again.compiled(own_paths) == kept
    assert again.started == []


def test_whoever_takes_its_turn_on_the_gpu_gets_the_memory_of_sessions_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Gpu] = []
    monkeypatch.setattr(of_gpus, "demand_room", asked.append)
    told = iter([{"gpu": "wanted"}, {"gpu": "free"}, {"gpu": "wanted"}, {"problem": None}])
    made = unprepared(GpuPreparation, gpu=STAND_IN, bytecode=None, in_turns=lambda _: nullcontext())
    works = SimpleNamespace(work=lambda: TreeWork(0.0, is_ready=True))
    child = saying(told, child=works, link=SimpleNamespace(send=lambda **_: None))
    assert made._heard(child, ("problem",), 9.0) == {"problem": None}
    assert asked == [STAND_IN] * 2


def test_waiting_for_the_gpu_is_not_the_time_of_the_child_but_asking_for_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_gpus, "demand_room", lambda _: None)
    child = Compiling(math.inf, lambda now_s: TreeWork(now_s, is_ready=True))
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: child.now_s)
    asks = cycle([{"gpu": "wanted"}, {"gpu": "free"}])
    waits: list[float] = []

    def asking(_: float) -> dict[str, Any]:
        child.now_s += 1.0
        return next(asks)

    @contextmanager
    def turn(_: Watcher) -> Iterator[None]:
        waits.append(1000.0)
        child.now_s += waits[-1]
        yield

    child.receive = asking  # type: ignore[method-assign]
    child._link = cast(Any, SimpleNamespace(send=lambda **_: None))
    with pytest.raises(TimeoutError):
        unprepared(GpuPreparation, gpu=STAND_IN, bytecode=None, in_turns=turn)._heard(child, ("problem",), LIMIT_S)
    assert child.now_s - sum(waits) == pytest.approx(LIMIT_S, abs=2)


def test_a_gpu_that_has_failed_tells_nothing_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is then still told as the problem of its configuration."""
    device = object.__new__(CudaAccelerator)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (5, 9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2)
    assert device.room() == (7, 9)

    def failing() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "mem_get_info", failing)
    assert device.room() == ()
    assert HostAccelerator().room() == ()


def test_inputs_that_do_not_fit_are_the_answer_about_their_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that compiles goes on with the next one."""

    def drawn(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 200.00 GiB.")

    monkeypatch.setattr(baseline, "drawn_tensors", drawn)
    problem = baseline._try_compile(cast(Any, None), {}, HostAccelerator())
    assert problem == "OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 GiB."
