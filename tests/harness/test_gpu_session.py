"""A session of a GPU judging over the stand-in for a GPU: real processes, the real protocol, ordinary memory.

The calls of `measuring/calls.py` are made one by one here. Kernels are C++, since nothing can run CUDA.
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import Paths, Source, Verdict, default_rules, default_suites, find_task
from benchmarks.harness.compilers import builds
from benchmarks.harness.errors import LacksMemory, RefereeError, SupervisorError
from benchmarks.harness.gpu import lack, marks
from benchmarks.harness.gpu.crew import STANDBY, Crew, Standby
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.lack import is_crowded, lack_is_told
from benchmarks.harness.gpu.marks import mark_of, mark_of_task
from benchmarks.harness.gpu.record import NotReplayable
from benchmarks.harness.gpu.recording import not_replayable
from benchmarks.harness.gpu.replay import Captured, Replay
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.gpu.word_times import Lateness
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.laps import Laps
from benchmarks.harness.measuring.session import COMPILE, DISTRIBUTIONS, EAGER, NOTHING
from benchmarks.harness.protocol import Status, Word
from benchmarks.harness.sandbox.outbox import scratch_folder
from benchmarks.harness.source import Watcher
from benchmarks.harness.tasks.spec import TaskSpec
from benchmarks.harness.tracks import GpuTrack

pytestmark = pytest.mark.sandbox

STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")
RIGHT = Path("benchmarks/suites/robust_kbench/mnist_linear_relu/kernels/forward_cpu.cpp").read_text()


# lacks beside sessions; then, with two where there were none: whether all calls work later, and how many lacks more
BESIDE_AND_ALONE = [(2, True, 0, False), (2, True, 1, True), (2, False, 0, True), (3, True, 0, False)]


class Opened:
    """Sessions with one launch on two visible configurations and a hidden one."""

    def __init__(self, paths: Paths, scratch: Path) -> None:
        rules = default_rules()
        small = replace(rules.gpu, flush_bytes=1 << 20, spare_bytes=1 << 20, burst_calls=4, burst_bytes=1 << 20)
        self.rules = replace(rules, gpu=small, gpu_time=replace(rules.gpu_time, launches=1, input_sets=2))
        self.track = GpuTrack(STAND_IN, self.rules, paths)
        self.task: TaskSpec = find_task(default_suites(), "mnist_linear_relu/forward")
        configs = sorted(self.track.configs(self.task), key=lambda item: (item.hidden, item.bytes_moved))
        self.configs = [configs[0], configs[1], next(item for item in configs if item.hidden)]
        self.paths, self.scratch = paths, scratch
        preparation = self.track.preparation(self.task, Watcher(), stage="prepare", quick=True)
        self.prepared = preparation.compiled(paths)

    def session(self, text: str) -> GpuSession:
        """Not started yet. Of the baselines only eager is there."""
        build = builds.build(Source(text, "cpp"), self.track.rules, self.paths, target=None)
        assert build.binary is not None, build.log
        folder = self.scratch / str(len(list(self.scratch.iterdir())))
        folder.mkdir()
        problems = self.prepared.problems[: len(self.configs)]
        prepared = replace(self.prepared, problems=problems)
        return self.track.session(self.task, self.configs, build.binary, prepared, folder)


@pytest.fixture(scope="module")
def opened(paths: Paths) -> Iterator[Opened]:
    """Beside the crews: the log of a submission is linked from one to the other."""
    with scratch_folder("sessions-", paths.scratch) as folder:
        yield Opened(paths, folder)


@pytest.fixture(scope="module")
def session(opened: Opened) -> Iterator[GpuSession]:
    """An open session of a right kernel, which no test of this module ends."""
    with opened.session(RIGHT) as session:
        yield session


def test_a_call_is_right_and_is_timed_by_both_clocks(session: GpuSession) -> None:
    choice = session.fill(0)
    result = session.call_candidate(0, choice)
    assert result.status is Status.OK
    assert None not in (result.event_us, result.wall_us, result.tail_us, result.flush_us)
    found = session.compare("candidate", 0, choice)
    assert (found.ok, found.intact) == (True, True), found.reason


def test_every_configuration_is_served_hidden_ones_too(session: GpuSession) -> None:
    for number in range(3):
        choice = session.fill(number)
        assert session.call_candidate(number, choice).status is Status.OK
        assert session.compare("candidate", number, choice).ok


def test_a_result_of_the_call_before_is_wrong_for_the_values_of_the_next(session: GpuSession) -> None:
    choice = session.fill(0)
    session.call_candidate(0, choice)
    session.fill(0)
    assert not session.compare("candidate", 0, choice).ok


def test_eager_is_right_and_a_call_of_nothing_is_answered(session: GpuSession) -> None:
    """What an empty call takes is the overhead that is taken off every other call."""
    choice = session.fill(1)
    session.call_baseline(1, choice, EAGER, compared=True)
    assert session.compare("baseline", 1, choice).ok
    assert session.call_baseline(1, choice, NOTHING).event_us is not None


def test_contestants_are_frozen_between_their_calls(session: GpuSession) -> None:
    session.call_candidate(0, session.fill(0))
    states = [Path(f"/proc/{actor.child.pid}/stat") for actor in (session.candidate, session.baseline)]
    assert [path.read_text().rpartition(")")[2].split()[0] for path in states] == ["T", "T"]


def test_a_stand_in_says_why_nothing_is_replayed(session: GpuSession) -> None:
    assert session.replay is None
    assert "stand-in" in session.not_replayed
    with pytest.raises(SupervisorError, match="nothing is replayed"):
        session.burst(0, 4, Lateness(0.0, 0.0))


def test_the_state_of_the_device_is_measured(session: GpuSession) -> None:
    found = session.canary()
    assert min(found["copy_gb_per_s"], found["gemm_tflops"]) > 0
    assert "flush_us" in session.machine


def test_a_contestant_that_dies_is_told_by_its_exit_and_all_processes_end_with_the_session(opened: Opened) -> None:
    with opened.session(RIGHT) as session:
        crew = session.crew
        choice = session.fill(0)
        os.kill(session.candidate.child.pid, signal.SIGKILL)
        result = session.call_candidate(0, choice)
    assert result.status is None
    assert result.exit_code is not None
    assert not result.timed_out
    assert all(actor.child.exit_code() is not None for actor in (*crew.baselines, *crew.candidates))
    assert not crew.folder.exists()
    assert (session.setting.scratch / "candidate0.log").exists()


def test_a_judging_can_be_looked_at_again_without_the_candidates(opened: Opened) -> None:
    with opened.session(RIGHT) as session:
        assert session.writes_us() > 0
        session.crew.end_candidates()
        assert session.writes_us() > 0
        result = session.call_baseline(0, session.fill(0), NOTHING)
        assert result.status is Status.OK


def test_a_dead_referee_is_our_fault(opened: Opened) -> None:
    with opened.session(RIGHT) as session:
        os.kill(session.crew.referee.child.pid, signal.SIGKILL)
        with pytest.raises(RefereeError):
            session.fill(0)


@pytest.fixture
def standby() -> Iterator[Standby]:
    """As a worker has it, empty at first and at the end."""
    STANDBY.close()
    STANDBY.wanted = True
    yield STANDBY
    STANDBY.close()


@pytest.mark.parametrize("whose", ["candidate", "referee"])
def test_who_dies_while_it_wakes_up_is_replaced(
    opened: Opened, standby: Standby, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """As when the submission before fills the GPU: it still runs when it is looked at, and ends a moment later."""
    session = opened.session(RIGHT)
    standby.refill(session.setting.order())
    waiting = standby._crew
    assert waiting is not None
    one = waiting.candidates[0] if whose == "candidate" else waiting.referee
    ended = select.poll()
    ended.register(one.link._end, select.POLLHUP)
    wake = Crew.wake

    def dies(crew: Crew) -> None:
        if crew is waiting:
            one.child.doom()
            assert ended.poll(10_000)  # until then it may say that it is awake
        wake(crew)

    monkeypatch.setattr(Crew, "wake", dies)
    standby.wanted = False
    with session:
        assert session.crew is not waiting
        choice = session.fill(0)
        assert session.call_candidate(0, choice).status is Status.OK
        assert session.compare("candidate", 0, choice).ok
    assert not waiting.folder.exists()


def test_nobody_wakes_up_beside_a_process_of_the_submission(
    opened: Opened, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that are not replayed need it until the end, and it may hold all of the GPU's memory."""
    woken: list[bool] = []
    with opened.session(RIGHT) as session:
        monkeypatch.setattr(Standby, "wake", lambda _: woken.append(session.candidate.child.exit_code() is not None))
        assert woken == []
    opened.track.finished()
    assert woken == [True]


def test_a_waiting_crew_becomes_a_session(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker starts the processes of the next judging before it knows the submission."""
    made: list[Crew] = []
    start = Crew._start

    def counted(crew: Crew) -> None:
        made.append(crew)
        start(crew)

    monkeypatch.setattr(Crew, "_start", counted)
    with ExitStack() as stack:
        STANDBY.close()  # of an earlier test
        stack.callback(STANDBY.close)
        session = opened.session(RIGHT)
        STANDBY.wanted = True
        STANDBY.refill(session.setting.order())
        with session:
            assert session.crew is made[0]
            choice = session.fill(0)
            assert session.call_candidate(0, choice).status is Status.OK
            assert session.compare("candidate", 0, choice).ok
            with pytest.raises(TimeoutError):
                made[1].baselines[0].receive(5.0)
            STANDBY.wake()
            assert made[1].baselines[0].receive(60.0) == {"awake": True}
    assert len(made) == 2


@pytest.mark.parametrize("words", ["CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA_ERROR_OUT_OF_MEMORY"])
def test_memory_that_our_processes_lack_is_told_as_such(words: str) -> None:
    with pytest.raises(LacksMemory, match="too little GPU memory"), lack_is_told():
        raise RefereeError(words)


def test_baselines_have_captured_before_anything_of_the_submission_is_loaded(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuDNN chooses another plan where memory is lacking, and keeps it: a submission could take all of it first."""
    order: list[str] = []
    capture, message = GpuSession._capture_baselines, GpuSession._candidate_message
    monkeypatch.setattr(GpuSession, "_capture_baselines", lambda *own: (order.append("captured"), capture(*own))[1])
    monkeypatch.setattr(GpuSession, "_candidate_message", lambda *own: (order.append("loads"), message(*own))[1])
    with opened.session(RIGHT) as session:
        assert order == ["captured", *["loads"] * len(session.crew.candidates)]


def test_a_package_compiles_its_kernels_after_that_as_well(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is the submission's fault before that process has a context."""
    order: list[str] = []

    def warmer(own: Crew) -> Any:
        order.append("awake too late" if own.has_met_a_submission else "awake while nobody is there")
        return SimpleNamespace(open=opens, child=SimpleNamespace(log_tail=lambda _: "")), 0

    def opens(_: Any) -> None:
        order.append("warms too early" if session.is_alone else "warms")
        raise Fault(Verdict.REJECTED, "that is all")

    session = opened.session(RIGHT)
    module = session.setting.binary.with_suffix(".py")
    module.write_text("")
    session.setting = replace(session.setting, binary=module)
    monkeypatch.setattr(GpuSession, "_capture_baselines", lambda own, _: order.append(f"captured {own.is_alone}"))
    monkeypatch.setattr(Crew, "warmer", warmer)
    with pytest.raises(Fault, match="that is all"), session:
        pass
    assert order == ["captured True", "awake while nobody is there", "warms"]


def test_who_compiles_ends_before_the_judging_knows_a_submission_that_it_will_not_see(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the driver holds that process, an author of C++ or CUDA has nothing to do with it."""
    met: list[bool] = []
    ends = Crew.end_warmer
    monkeypatch.setattr(Crew, "end_warmer", lambda own: (met.append(own.has_met_a_submission), ends(own))[1])
    with opened.session(RIGHT) as session:
        assert met == [False]
        assert session.crew.has_met_a_submission


@pytest.mark.parametrize(("lacked", "is_control", "is_fault"), [(0, False, False), (1, False, True), (1, True, False)])
def test_bounded_baselines_take_their_memory_while_the_candidates_are_frozen(
    lacked: int, *, is_control: bool, is_fault: bool
) -> None:
    order: list[str] = []

    def actor(name: str) -> Any:
        changes = {"freeze": "frozen", "resume": "resumed"}
        child = SimpleNamespace(**{how: partial(order.append, f"{name} {done}") for how, done in changes.items()})
        link = SimpleNamespace(send=lambda **what: order.append(f"{name} {what}"))
        words = {Word.LACKED: 5 if name == "baseline" else 0}
        return SimpleNamespace(child=child, link=link, control=SimpleNamespace(words=words))

    def reserved(baseline: Any, word: str = "") -> dict[str, Any]:
        baseline.control.words[Word.LACKED] += lacked if word == "reserved" else 0
        return {"works": True}

    crew: Any = SimpleNamespace(baselines=[actor("baseline")], end_executors=lambda: None)
    own: Any = SimpleNamespace(
        crew=crew,
        _captured=Captured(is_told=True),
        _referee=SimpleNamespace(ask=lambda *_, **what: order.append(f"staged {what['config']}")),
        _await_candidate=lambda *_: None,
        _park=lambda candidate: candidate.child.freeze(),
        _await_baseline=reserved,
        _lacked_before=5,
        setting=SimpleNamespace(prepared=SimpleNamespace(problems=("too slow", None)), control=is_control),
        fill=lambda _: None,
    )
    for name in ("_reserve_for_baselines", "demand_memory_for_baselines", "_lacked", "_serve_candidate", "_seat"):
        setattr(own, name, partial(getattr(GpuSession, name), own))
    with pytest.raises(Fault, match="too little GPU memory") if is_fault else nullcontext() as raised:
        GpuSession._serve(own, crew, [] if is_control else [actor("candidate")])
    assert not is_fault or raised.value.verdict is Verdict.OUT_OF_MEMORY
    first = [] if is_control else ["candidate resumed", "candidate {'serve': True}", "candidate frozen"]
    calls = ["staged 0", f"baseline {{'reserve': 0, 'functions': {[EAGER]}}}"]
    calls += ["staged 1", f"baseline {{'reserve': 1, 'functions': {[EAGER, COMPILE]}}}"]
    served = [] if is_fault else ["baseline {'serve': True}", "baseline frozen"]
    assert order == [*first, *calls, *served]


@pytest.mark.parametrize("works", [True, False])
def test_baselines_that_cannot_be_captured_call_everything_before_the_submission_is_loaded(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, *, works: bool
) -> None:
    """Else libraries would choose their kernels beside it; and a call that fails would fail again beside it."""
    order: list[str] = []

    def fails(*_: Any) -> None:
        raise NotReplayable("eager: no")

    session = opened.session(RIGHT)
    gpu = replace(session.setting.gpu, accelerator="cuda")
    own: Any = SimpleNamespace(
        setting=replace(session.setting, gpu=gpu),
        _settle_baselines=lambda: order.append("reserved") or works,
        _lacked=lambda: 3,
        _lacked_before=0,
        _make_room_for_baselines=lambda lacks, *, works: order.append(f"room for {lacks}"),
        repeats_replay=False,
        fill=lambda _: 0,
        _needs="",
    )
    for name in ("crew", "_referee", "_layout", "_sets", "_draw_again", "_cut_log", "_captured"):
        setattr(own, name, None)
    monkeypatch.setattr(Replay, "capture_baselines", fails)
    with nullcontext() if works else pytest.raises(Fault, match="more memory than is free on this GPU") as raised:
        GpuSession._capture_baselines(own, Laps())
    assert works or raised.value.verdict is Verdict.INTERNAL_ERROR
    assert (order, own.replay, own.not_replayed) == (["reserved", "room for 3"], None, "eager: no")
    assert own._lacked_before == 3, "what it lacks without a submission is not the submission's fault"


@pytest.mark.parametrize(
    ("passes", "works"),
    [
        ([(0, True)], True),
        ([(1, False)], False),
        ([(2, True), (0, True)], True),
        ([(2, True), (1, True)], False),
        ([(2, True), (1, False)], False),
    ],
)
def test_baselines_that_lack_memory_in_every_call_are_nobodys_fault_but_ours(
    passes: list[tuple[int, bool]], *, works: bool
) -> None:
    """Else each call beside the submission would count as memory that it took."""
    counted = [0]

    def reserve() -> bool:
        lacks, passed = passes.pop(0)
        counted[0] += lacks
        return passed

    own: Any = SimpleNamespace(_lacked=lambda: counted[0], _reserve_for_baselines=reserve)
    assert GpuSession._settle_baselines(own) is works
    assert passes == []


def test_memory_that_is_lacking_when_the_submission_is_gone_is_not_held_by_it() -> None:
    session = object.__new__(GpuSession)
    told = "a judging of it takes at least 99.0 GB"
    for session.is_alone, session._has_loaded, session._needs, error in (
        (False, True, "", LacksMemory),  # whether it is the submission's fault is decided without it
        (True, False, "", LacksMemory),
        (True, False, told, Fault),  # another program may hold the rest
        (True, True, told, LacksMemory),  # it was enough before
    ):
        with pytest.raises(error) as raised, session._memory():
            raise RefereeError("CUDA out of memory")
        assert ("the kernel left" in str(raised.value)) is not session.is_alone
        if isinstance(raised.value, Fault):
            assert raised.value.verdict is Verdict.INTERNAL_ERROR
            assert told in raised.value.reason


def test_a_failure_of_ours_before_a_large_task_is_judged_is_not_the_submissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A baseline may find no memory for one plan, take another one, and fail for a reason of its own."""
    monkeypatch.setattr(GpuSession, "_lacked", lambda _: 1)
    session = object.__new__(GpuSession)
    session.is_alone, session._has_loaded, session._lacked_before = True, False, 0
    session._needs = "a judging of it takes at least 99.0 GB"
    with pytest.raises(LacksMemory), session._memory():
        raise RefereeError("it lost its way")


@pytest.mark.parametrize("request_name", ["fill", "stage"])
def test_memory_that_is_lacking_in_a_burst_is_held_by_the_submission(request_name: str) -> None:
    """An executor holds memory as well: its kernels may need a large stack for each thread of the GPU."""

    def ask(request: str, **_: Any) -> dict[str, Any]:
        if request == request_name:
            raise RefereeError("CUDA out of memory")
        return {"ok": True}

    def burst_us(*_: Any) -> float:
        ask("stage")
        return 1.0

    replay = SimpleNamespace(burst_us=burst_us)
    own: Any = SimpleNamespace(
        _replaying=replay,
        _memory=lack_is_told,
        _referee=SimpleNamespace(ask=ask),
        _seed=lambda: "00",
        launch=0,
        _distributions={},
    )

    def drawn_and_called() -> None:
        GpuSession.draw(own, 0, 2)
        GpuSession.burst(own, 0, 2, Lateness(0.0, 0.0))

    with pytest.raises(LacksMemory, match="too little GPU memory"):
        drawn_and_called()


def test_values_that_are_drawn_again_have_the_same_distribution(opened: Opened) -> None:
    """Else a submission could have its calls repeated until they are made on values that it is fast on."""
    with opened.session(RIGHT) as session:
        asked = list[str]()
        ask = session._referee.ask
        session._referee.ask = lambda request, **how: (  # type: ignore[method-assign]
            asked.append(how["distribution"]) if request == "fill" else None,
            ask(request, **how),
        )[1]
        for _ in range(6):
            session.fill(0)
            session._draw_again(0, 2)
            session.draw(1, 2)
            session._draw_again(1, 2)
    assert set(asked) <= set(DISTRIBUTIONS)
    assert len(set(asked)) > 1
    assert asked[::2] == asked[1::2]


def test_a_task_that_fills_the_gpu_is_told_beside_the_kernel() -> None:
    needs = "a judging of it takes 9 of 10 GB"
    with pytest.raises(LacksMemory, match=f"for its judging; {needs}"), lack_is_told(needs):
        raise RefereeError("CUDA out of memory")


def test_any_other_failure_of_the_referee_stays_ours() -> None:
    with pytest.raises(RefereeError, match="it lost its way"), lack_is_told():
        raise RefereeError("it lost its way")


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize(
    ("lacked", "takes_most", "stayed", "is_noisy"),
    [(1, False, True, True), (1, False, False, False), (1, True, True, False), (0, False, True, False)],
)
def test_memory_that_baselines_lack_before_the_submission_is_loaded_is_taken_from_sessions_that_wait(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, lacked: int, *, takes_most: bool, stayed: bool, is_noisy: bool
) -> None:
    """cuDNN keeps the plan that it chose then. If nobody else held memory, it is what the task gets on this GPU."""
    asked: list[Gpu] = []

    def demand_room(gpu: Gpu) -> bool:
        asked.append(gpu)
        return stayed

    session = opened.session(RIGHT)
    session._has_room = takes_most  # it has been made when the session was opened
    monkeypatch.setattr(lack, "demand_room", demand_room)
    monkeypatch.setattr(GpuSession, "_lacked", lambda _: lacked)
    own: Any = session
    own.crew = own._referee = None
    with pytest.raises(Fault, match="held memory that was needed") if is_noisy else nullcontext() as raised:
        own._capture_baselines(Laps())
    assert not is_noisy or raised.value.verdict is Verdict.NOISY
    assert len(asked) == (lacked and not takes_most)
    assert own._lacked_before == lacked, "later it is the submission's fault if there are more"
    assert is_crowded(mark_of_task(session.setting.task)) is is_noisy, "the next judging ends them first"


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize(("crowded", "of_file", "demanded"), [(False, False, 0), (True, False, 1), (True, True, 1)])
def test_a_task_or_a_file_that_lacked_memory_gets_it_from_the_start(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, *, crowded: bool, of_file: bool, demanded: int
) -> None:
    asked: list[Gpu] = []
    session = opened.session(RIGHT)
    monkeypatch.setattr("benchmarks.harness.gpu.session.demand_room", asked.append)
    if crowded:
        setting = session.setting
        lack.note_crowded(mark_of(setting.binary) if of_file else mark_of_task(setting.task))
    with session:
        assert len(asked) == demanded


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize("change", [{"suite": "imported"}, {"version": 99}, {"reference_source": "import torch"}])
def test_a_task_of_the_same_name_ends_no_session_for_another(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """Anybody may have a task imported, with any name and of any size."""
    asked: list[Gpu] = []
    monkeypatch.setattr(lack, "demand_room", lambda gpu: asked.append(gpu) is None)
    monkeypatch.setattr("benchmarks.harness.gpu.session.demand_room", asked.append)
    huge = opened.session(RIGHT)
    huge.setting = replace(huge.setting, task=replace(huge.setting.task, **change))
    huge.is_alone = True
    with pytest.raises(Fault, match="held memory"):
        huge._make_room_for_baselines(1, works=False)
    assert len(asked) == 1
    assert is_crowded(mark_of_task(huge.setting.task))
    with opened.session(RIGHT):
        assert len(asked) == 1
    assert not lack.lacks_anyway(STAND_IN, mark_of_task(opened.task), 1, works=False)


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize(("beside", "works", "more", "is_noisy"), BESIDE_AND_ALONE)
def test_nobody_ends_for_a_task_that_lacks_memory_without_sessions_as_well(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, *, beside: int, works: bool, more: int, is_noisy: bool
) -> None:
    """Else each judging of it would end all sessions, and be NOISY, for nothing."""
    asked: list[Gpu] = []
    monkeypatch.setattr(lack, "demand_room", lambda gpu: asked.append(gpu) is None)

    def judged(lacks: int, *, works: bool, has_room: bool) -> GpuSession:
        session = opened.session(RIGHT)
        session.is_alone, session._has_room = True, has_room
        session._make_room_for_baselines(lacks, works=works)
        return session

    with pytest.raises(Fault, match="held memory"):
        judged(beside, works=False, has_room=False)
    task = mark_of_task(opened.task)
    assert is_crowded(task)
    judged(2, works=True, has_room=True)
    assert is_crowded(task) is (beside > 2), "it was for those sessions if it lacks less without them"
    asked.clear()
    with pytest.raises(Fault, match="held memory") if is_noisy else nullcontext():
        judged(2 + more, works=works, has_room=False)
    assert len(asked) == is_noisy


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize("has_room", [True, False])
def test_a_task_whose_baselines_fail_on_a_gpu_of_this_size_is_not_noisy_again_and_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, *, has_room: bool
) -> None:
    waits = iter([] if has_room else [False])  # once nobody waits, and later somebody does
    monkeypatch.setattr(lack, "demand_room", lambda _: next(waits, True))
    session = opened.session(RIGHT)
    session.is_alone, session._has_room = True, has_room
    session._make_room_for_baselines(1, works=False)
    session.excuse_lack()
    session = opened.session(RIGHT)
    session.is_alone, session._somebody_waited = True, True
    session._make_room_for_baselines(1, works=False)
    session.excuse_lack()
    other = opened.session(RIGHT)
    other.setting = replace(other.setting, gpu=replace(other.setting.gpu, uuid="another"))
    other.is_alone = True
    with pytest.raises(Fault, match="held memory"):
        other._make_room_for_baselines(1, works=False)


@pytest.mark.usefixtures("own_marks")
@pytest.mark.parametrize(
    ("waited", "has_room", "is_alone", "is_noisy", "ended"),
    [
        (True, False, False, True, 0),
        (False, False, False, False, 0),
        (True, True, False, False, 0),
        (True, False, True, True, 1),  # nothing of the submission can have claimed it
    ],
)
def test_what_a_submission_says_of_memory_ends_no_session(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    *,
    waited: bool,
    has_room: bool,
    is_alone: bool,
    is_noisy: bool,
    ended: int,
) -> None:
    """It could end those of others in each of its judgings, and mark tasks for an hour. Its next judging has room."""
    asked: list[Gpu] = []
    monkeypatch.setattr(lack, "demand_room", lambda gpu: asked.append(gpu) is None)
    session = opened.session(RIGHT)
    session.is_alone, session._somebody_waited, session._has_room = is_alone, waited, has_room
    with pytest.raises(Fault, match="held memory that was needed") if is_noisy else nullcontext():
        session.excuse_lack()
    assert len(asked) == ended
    assert is_crowded(mark_of_task(session.setting.task)) is is_alone
    assert is_crowded(mark_of(session.setting.binary)) is (is_noisy and not is_alone)


@pytest.mark.usefixtures("own_marks")
def test_marks_of_files_are_few(tmp_path: Path) -> None:
    """They are never deleted."""
    assert len({mark_of(tmp_path / str(number)) for number in range(9999)}) == 256


@pytest.mark.parametrize(("why", "times"), [("CUDA error: out of memory", 1), ("it allocates", 0)])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_calls_that_cannot_be_recorded_for_want_of_memory_are_recorded_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, why: str, times: int, *, is_hidden: bool
) -> None:
    """Else sessions that wait would decide how a kernel is timed. Of a hidden configuration the reason is not shown."""
    asked: list[str] = []

    def begin(replay: Replay, *_: Any) -> None:
        raise not_replayable(next(item for item in replay.configs if item.hidden is is_hidden), why)

    monkeypatch.setattr(Replay, "begin", begin)
    monkeypatch.setattr(GpuSession, "excuse_lack", lambda own: asked.append(own.not_replayed))
    with opened.session(RIGHT):
        assert len(asked) == times


def test_a_baseline_that_fails_after_it_has_found_no_memory_lacks_it(opened: Opened) -> None:
    """Libraries have many words for it."""
    with opened.session(RIGHT) as session:
        page = session.crew.baselines[0].control.words
        with pytest.raises(RefereeError) as kept, session._memory():
            raise RefereeError("no plan was found")
        assert not isinstance(kept.value, LacksMemory)
        page[Word.LACKED] += 1
        with pytest.raises(LacksMemory), session._memory():
            raise RefereeError("no plan was found")


@pytest.mark.usefixtures("own_marks")
def test_a_mark_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lack.note_crowded("a/task")
    assert (is_crowded("a/task"), is_crowded("another/task")) == (True, False)
    monkeypatch.setattr(marks, "CROWDED_S", 0.0)
    assert not is_crowded("a/task")


@pytest.mark.usefixtures("own_marks")
def test_a_session_that_has_ended_by_itself_has_held_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lack, "demand_room", lambda _: False)
    gpu: Any = None
    with pytest.raises(Fault, match="held memory that was needed"):
        lack.end_waiting(gpu, "a/task", somebody_waited=True)
    lack.end_waiting(gpu, "a/task", somebody_waited=False)
