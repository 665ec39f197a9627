"""The GPU track without a GPU: a stand-in keeps the protocol in ordinary memory, and everything else is real.

Kernels are C++ here, since nothing can run CUDA; what only a GPU shows is in `tests/gpu/`.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import (
    DEVICE_STUCK,
    Paths,
    Report,
    Rules,
    Source,
    Verdict,
    audit,
    default_rules,
    default_suites,
    find_task,
    judge,
    prepare_side_by_side,
    timing_revision,
    tracks,
)
from benchmarks.harness.errors import ChildSurvived, NotAwake, RefereeError, SupervisorError
from benchmarks.harness.gpu import lack, warming
from benchmarks.harness.gpu.crew import Crew
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.marks import mark_of_task
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.measuring.calls import Judging
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.sandbox.isolation import Child
from benchmarks.harness.scores.scoring import BaselineTimes
from benchmarks.harness.tasks.spec import TaskSpec
from tests.warm import one_of_each_group

pytestmark = pytest.mark.sandbox

RIGHT = Path("benchmarks/suites/robust_kbench/mnist_linear_relu/kernels/forward_cpu.cpp").read_text()
WRONG = Path("benchmarks/harness/selfcheck/kernels/wrong.cpp").read_text()
STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")


@pytest.fixture(scope="module")
def task() -> TaskSpec:
    return one_of_each_group(find_task(default_suites(), "mnist_linear_relu/forward"), "cuda")


@pytest.fixture(scope="module")
def rules() -> Rules:
    """Few steps of one launch; what a busy machine does to a stand-in's times is nobody's fault."""
    rules = default_rules()
    few = replace(rules.gpu_time, launches=1, steps_per_config=4, min_steps_per_config=2)
    calm = replace(
        rules.gpu,
        flush_bytes=1 << 20,
        spare_bytes=1 << 20,
        burst_calls=8,
        burst_bytes=1 << 20,
        slack_us=1e6,
        spread_max_us=1e9,
        contention=1e6,
        canary_drift=1e6,
    )
    return replace(rules, gpu_time=few, gpu=calm, score=replace(rules.score, max_half_width=10.0))


@pytest.fixture(scope="module")
def two_launches(rules: Rules) -> Rules:
    """As the rules of the site have it."""
    return replace(rules, gpu_time=replace(rules.gpu_time, launches=2))


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks, "gpus", lambda: (STAND_IN,))
    monkeypatch.setattr(tracks.GpuTrack, "speaks", lambda *_: True)


def judged(text: str, task: TaskSpec, rules: Rules, paths: Paths, *, quick: bool = True) -> Report:
    return judge(Source(text, "cpp"), task, rules, paths, device="host:0", quick=quick)


def test_a_right_kernel_passes_with_bounded_times(task: TaskSpec, two_launches: Rules, paths: Paths) -> None:
    report = judged(RIGHT, task, two_launches, paths, quick=False)
    assert report.verdict is Verdict.PASS, report.reason
    assert report.score is not None
    assert report.score.timing_trust == "bounded"
    assert report.device_kind == "stand-in"
    assert all(item.copied for item in report.configs if item.group != "hidden")
    assert report.environment["null_bound_us"] is not None
    assert report.environment["timing_revision"] == timing_revision("cuda") > 0
    assert report.audit is None
    assert "baseline_gap" not in report.environment, "a stand-in replays no baseline"


def test_replayed_baselines_that_are_shorter_lower_the_intervals_of_a_bounded_judging(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [item.key for item in task.configs_for("cuda") if not item.hidden]
    monkeypatch.setattr(GpuSession, "replayed_baselines", dict.fromkeys(shown, BaselineTimes(1e-3)))
    report = judged(RIGHT, task, rules, paths)
    assert report.score is not None, report.reason
    shares = report.environment["baseline_gap"]
    assert list(shares) == [item.key for item in report.configs if item.group != "hidden"]
    assert max(shares.values()) < 0.01
    assert report.score.ci95[0] <= report.score.speedup * max(shares.values())
    for item in report.configs:
        if item.key in shares:
            assert item.ci95 is not None
            assert item.speedup is not None
            assert item.ci95[0] <= item.speedup * shares[item.key]


FROM_PYTHON = """
import os
from pathlib import Path
import torch

def forward(x, weights, biases):
    mark = Path(os.environ["TILELANG_CACHE_DIR"]) / "0" / "kernels" / "key" / f"{x.shape[0]}"
    if not mark.exists():  # only the process that fills the caches can write there
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text("compiled")
    return torch.relu(torch.nn.functional.linear(x, weights, biases))
"""


def test_what_a_package_has_compiled_is_there_when_it_is_judged(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "missing_here", lambda _: "")
    report = judge(Source(FROM_PYTHON, "tilelang"), task, rules, paths, device="host:0", quick=True)
    assert report.verdict is Verdict.PASS, report.reason
    assert "stand-in" in report.environment["not_replayed"]


def test_a_worker_without_a_package_says_so_and_blames_itself(task: TaskSpec, rules: Rules, paths: Paths) -> None:
    report = judge(Source(FROM_PYTHON, "numba_cuda"), task, rules, paths, device="host:0", quick=True)
    assert (report.verdict, report.verdict.ours) == (Verdict.INTERNAL_ERROR, True)
    assert report.reason == "the package numba-cuda is not installed on this worker, so it judges no Numba-CUDA"


def test_who_prepares_has_the_gpu_in_turns(
    task: TaskSpec, rules: Rules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while torch.compile works on the processor: before and after it."""
    few = replace(task, configs={"cuda": task.configs_for("cuda")[:1]})
    patient = replace(rules, score=replace(rules.score, baseline_compile_timeout_s=900.0))
    turns: list[str] = []

    @contextmanager
    def lock(*_: object) -> Iterator[None]:
        turns.append("taken")
        yield
        turns.append("given back")

    monkeypatch.setattr(tracks.GpuTrack, "prepare_lock", lock)
    own = Paths(tmp_path)
    assert prepare_side_by_side(few, patient, own, device="host:0") > 0
    assert turns == ["taken", "given back"] * 2
    (ready,) = own.baselines.glob("*/ready.json")
    assert json.loads(ready.read_text()) == {"problems": [None]}
    assert prepare_side_by_side(few, patient, own, device="host:0") < 1
    assert len(turns) == 4


def test_a_task_that_is_too_large_for_the_gpu_is_nobodys_fault(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception would leave the worker in doubt, which would repeat its self-test for each submission."""
    small = replace(STAND_IN, memory_bytes=1 << 20)
    monkeypatch.setattr(tracks, "gpus", lambda: (small,))
    report = judged(RIGHT, task, rules, paths)
    assert report.verdict is Verdict.INTERNAL_ERROR
    assert report.reason.startswith("the task is too large for this GPU: a judging of it takes at least")


def test_wrong_values_are_found(task: TaskSpec, rules: Rules, paths: Paths) -> None:
    report = judged(WRONG, task, rules, paths)
    assert report.verdict is Verdict.INCORRECT_VALUE
    assert report.score is None


def test_a_contestant_that_dies_in_a_call_is_told_apart_from_our_own_faults(
    task: TaskSpec, rules: Rules, paths: Paths
) -> None:
    dying = RIGHT.replace(
        'm.def("forward"',
        'm.def("forward", [](torch::Tensor, torch::Tensor, torch::Tensor) '
        '-> torch::Tensor { std::abort(); });\n    m.def("other"',
        1,
    )
    report = judged(dying, task, rules, paths)
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert "SIGABRT" in report.reason


def test_a_submission_that_cannot_be_ended_puts_the_device_in_doubt(
    task: TaskSpec, two_launches: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody else is ended all the same."""
    real_kill, killed = Child.kill, []

    def kill(child: Child) -> None:
        real_kill(child)
        killed.append(child.log.name)
        if child.log.name == "candidate1.log":
            raise ChildSurvived("it does not end")

    monkeypatch.setattr(Child, "kill", kill)
    report = judged(WRONG, task, two_launches, paths)
    assert report.verdict is Verdict.TIMEOUT
    assert DEVICE_STUCK in {flag.code for flag in report.flags}
    assert {"baseline0.log", "baseline1.log", "candidate0.log", "candidate1.log", "referee.log"} <= set(killed)


def test_a_first_call_that_cannot_be_ended_puts_the_device_in_doubt(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was booked as the judge's fault, which is tried again on the next device."""
    real_kill = Child.kill

    def kill(child: Child) -> None:
        real_kill(child)
        if child.log.name == "warm.log":
            raise ChildSurvived("it does not end")

    monkeypatch.setattr(Child, "kill", kill)
    monkeypatch.setattr(tracks, "missing_here", lambda _: "")
    report = judge(Source(FROM_PYTHON, "tilelang"), task, rules, paths, device="host:0", quick=True)
    assert report.verdict is Verdict.TIMEOUT, report.reason
    assert DEVICE_STUCK in {flag.code for flag in report.flags}


HOSTILE_ARCHIVE = """
import os
import sys

def forward(x, weights, biases):
    header = bytearray(512)
    header[0], header[156], header[257:265] = ord("a"), ord("L"), b"ustar  \\0"
    header[100:124] = b"0000644\\0" + b"0000000\\0" * 2
    header[124:136], header[136:148] = b"\\x80" + bytes(2) + b"\\xff" * 9, b"00000000000\\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\\0 " % sum(header)
    for fd in os.listdir("/proc/self/fd"):
        try:
            is_answer = "memfd:answer" in os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        if is_answer:
            os.pwrite(int(fd), bytes(header) + bytes(1024), 0)
    os.write(int(sys.argv[1]), b'{"warmed": true}')
    os._exit(0)
"""


def test_an_archive_that_breaks_its_reader_is_tampering(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the judging with an OverflowError, which took the device out of service."""
    monkeypatch.setattr(tracks, "missing_here", lambda _: "")
    report = judge(Source(HOSTILE_ARCHIVE, "tilelang"), task, rules, paths, device="host:0", quick=True)
    assert report.verdict is Verdict.TAMPERING, report.reason
    assert "left something other than compiled kernels" in report.reason


REPLACES = """
import os

def forward(x, weights, biases):
    folder = os.environ["KBENCH_KERNELS"]
    {change}
    return (x @ weights.T + biases).relu()
"""


@pytest.mark.parametrize("change", ["open(folder + '/stub.so', 'a').write('!')", "os.remove(folder + '/stub.so')"])
def test_a_submission_cannot_replace_what_is_loaded_before_its_filter(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Triton's own stub lies in the same cache and was loaded by the judged process while it might start programs."""
    stub = {"stub.so": hashlib.sha256(b"as it was compiled").hexdigest()}
    told = warming.await_warm
    monkeypatch.setattr(tracks, "missing_here", lambda _: "")
    monkeypatch.setattr(warming, "await_warm", lambda *of: told(*of) | stub)
    source = REPLACES.format(change=f"open(folder + '/stub.so', 'w').write('as it was compiled'); {change}")
    report = judge(Source(source, "tilelang"), task, rules, paths, device="host:0", quick=True)
    assert (report.verdict, "stub.so" in report.reason) == (Verdict.TAMPERING, True), report.reason


BLAMES_THE_WORKER = """
import os
import sys

def forward(x, weights, biases):
    os.write(int(sys.argv[1]), b'{"unusable": "ImportError: no such package"}')
    os._exit(0)
"""


def test_a_submission_cannot_say_that_a_package_fails(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "missing_here", lambda _: "")
    report = judge(Source(BLAMES_THE_WORKER, "tilelang"), task, rules, paths, device="host:0", quick=True)
    assert report.verdict is Verdict.RUNTIME_ERROR, report.reason


def test_an_accepted_submission_that_cannot_be_ended_under_a_tool_is_none(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit that fails by itself leaves an entry ranked and the device in service."""

    def look(*_: object) -> None:
        raise ChildSurvived("it does not end")

    accepted = judged(RIGHT, task, rules, paths)
    assert accepted.score is not None
    monkeypatch.setattr(tracks.GpuTrack, "audit", look)
    report = audit(Source(RIGHT, "cpp"), task, rules, paths, report=accepted, device="host:0")
    assert (report.verdict, report.score) == (Verdict.TIMEOUT, None)
    assert DEVICE_STUCK in {flag.code for flag in report.flags}


@pytest.fixture
def referee_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the submission's first call, as if its device code had ended the referee's context."""
    real_call = GpuSession.call_candidate

    def call(session: GpuSession, config: int, choice: int, *, compared: bool = True) -> CallResult:
        session._referee.doom()
        return real_call(session, config, choice, compared=compared)

    monkeypatch.setattr(GpuSession, "call_candidate", call)


@pytest.mark.usefixtures("referee_dies")
def test_who_breaks_off_a_judging_that_works_without_it_pays(task: TaskSpec, rules: Rules, paths: Paths) -> None:
    """It was booked as the judge's fault, which is tried again on the next device."""
    report = judged(RIGHT, task, rules, paths)
    assert report.verdict is Verdict.RUNTIME_ERROR, report.reason
    assert "works without it: the referee" in report.reason


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize("somebody_waits", [False, True])
def test_who_leaves_no_memory_pays_unless_sessions_that_wait_held_some(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch, *, somebody_waits: bool
) -> None:
    """A control run decides whether the judging works without the submission."""
    controls, open_control = list[str](), tracks.GpuTrack.control

    def call(session: GpuSession, config: int, choice: int, *, compared: bool = True) -> CallResult:
        with session._memory():
            raise RefereeError("CUDA out of memory")

    monkeypatch.setattr(GpuSession, "call_candidate", call)
    monkeypatch.setattr("benchmarks.harness.gpu.session.somebody_waits", lambda _: somebody_waits)
    monkeypatch.setattr(tracks.GpuTrack, "control", lambda *how: (controls.append("control"), open_control(*how))[1])
    report = judged(RIGHT, task, rules, paths)
    assert report.verdict is (Verdict.NOISY if somebody_waits else Verdict.OUT_OF_MEMORY), report.reason
    assert controls == ([] if somebody_waits else ["control"])


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize("somebody_waits", [False, True])
def test_a_process_of_ours_that_finds_no_memory_is_started_again_when_those_that_wait_have_ended(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch, *, somebody_waits: bool
) -> None:
    def start(session: GpuSession) -> None:
        session.is_alone = True
        raise NotAwake("the process baseline0 did not start: CUDA error: out of memory")

    monkeypatch.setattr(GpuSession, "_open", start)
    monkeypatch.setattr(lack, "demand_room", lambda _: somebody_waits)
    if somebody_waits:
        assert judged(RIGHT, task, rules, paths).verdict is Verdict.NOISY
        assert lack.is_crowded(mark_of_task(task)), "the next judging ends them first"
    else:
        with pytest.raises(NotAwake):
            judged(RIGHT, task, rules, paths)


def test_what_fails_when_the_submission_is_gone_is_our_fault(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baselines are called alone when there is a score: who has none of its processes left breaks nothing off."""

    def confirm(track: tracks.GpuTrack, judging: Judging) -> dict[str, Any]:
        track._opened().crew.end_candidates()
        track._opened().is_alone = True
        track._opened()._referee.doom()
        judging.control()
        return {}

    monkeypatch.setattr(tracks.GpuTrack, "confirm", confirm)
    with pytest.raises(SupervisorError, match="the referee"):
        judged(RIGHT, task, rules, paths)


@pytest.mark.usefixtures("referee_dies")
def test_a_device_that_judges_nothing_is_our_fault(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_call = GpuSession.call_baseline

    def call(session: GpuSession, config: int, choice: int, function: int, *, compared: bool = False) -> CallResult:
        if session.setting.control:
            raise SupervisorError("the device does not answer")
        return real_call(session, config, choice, function, compared=compared)

    monkeypatch.setattr(GpuSession, "call_baseline", call)
    with pytest.raises(SupervisorError, match="the device does not answer"):
        judged(RIGHT, task, rules, paths)


@pytest.mark.usefixtures("referee_dies")
@pytest.mark.parametrize("verdict", [Verdict.OUT_OF_MEMORY, Verdict.NOISY])
def test_what_goes_wrong_without_the_submission_is_not_its_fault(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    """A control run that lacked memory told that the kernel had left too little. A busy machine is told as such."""
    real_call = GpuSession.call_baseline

    def call(session: GpuSession, config: int, choice: int, function: int, *, compared: bool = False) -> CallResult:
        if session.setting.control:
            raise Fault(verdict, "in the control run")
        return real_call(session, config, choice, function, compared=compared)

    monkeypatch.setattr(GpuSession, "call_baseline", call)
    if verdict is Verdict.NOISY:
        assert judged(RIGHT, task, rules, paths).verdict is Verdict.NOISY
        return
    with pytest.raises(SupervisorError, match="the referee"):
        judged(RIGHT, task, rules, paths)


def test_who_was_shown_to_nobody_does_not_pay(
    task: TaskSpec, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A referee that ended while it woke up was booked as a RUNTIME_ERROR, since the control run worked."""
    real_meet, met = Crew.meet, []

    def meet(crew: Crew) -> None:
        met.append(crew)
        if len(met) == 1:
            crew.referee.child.kill()  # returns when it is gone: it may be quicker to answer than to end
        real_meet(crew)

    monkeypatch.setattr(Crew, "meet", meet)
    with pytest.raises(NotAwake, match="the process referee did not start"):
        judged(RIGHT, task, rules, paths)
    assert len(met) == 1
