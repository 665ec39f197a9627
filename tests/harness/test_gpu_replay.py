"""The clock of replayed calls on a driver that is a fake, and the session's part of it with processes that are.

What only a GPU shows was judged on one: `docs/results/h200/replay.md`.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import default_suites, find_task
from benchmarks.harness.child.gpu import appointment
from benchmarks.harness.child.gpu.appointment import Clock, Tampered
from benchmarks.harness.child.gpu.driver import Driver, DriverError
from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.gpu.record import NotReplayable, RecordedCall
from benchmarks.harness.gpu.replay import Burn, Captured, Replay
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.memory import overlay
from benchmarks.harness.measuring.session import NOTHING
from benchmarks.harness.protocol import ProtocolError, Status
from benchmarks.harness.report import Verdict

STAMP, WAIT = 2, 1


class FakeGpu:
    """Runs what is launched at once; the GPU's clock is the host's, less a thousand seconds."""

    behind_ns = 10**12

    def __init__(self, *, forges: bool = False, breaks: bool = False) -> None:
        self.forges, self.breaks = forges, breaks
        self.room = (ctypes.c_uint64 * (1 << 20))()
        self.working = False  # a submission's kernel was launched
        self.left: list[tuple[int, int]] = []  # stamps that come only when all is over

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0

    def now_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - self.behind_ns

    def cuModuleGetFunction(self, place: Any, _: Any, name: Any) -> int:
        place._obj.value = WAIT if b"wait" in name.value else STAMP
        return 0

    def cuMemHostAlloc(self, place: Any, *_: Any) -> int:
        place._obj.value = ctypes.addressof(self.room)
        return 0

    def cuMemHostGetDevicePointer_v2(self, place: Any, host: Any, _: Any) -> int:
        place._obj.value = host.value
        return 0

    def cuStreamWriteValue32_v2(self, _: Any, place: Any, word: Any, __: Any) -> int:
        ctypes.c_uint64.from_address(place.value).value = word.value
        return 0

    def cuStreamQuery(self, _: Any) -> int:
        return 700 if self.breaks else 600

    def cuGetErrorName(self, _: Any, place: Any) -> int:
        place._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS"
        return 0

    def cuLaunchKernel(self, function: Any, *arguments: Any) -> int:
        places = arguments[-2]
        words = [ctypes.c_uint64.from_address(places[i]).value for i in range(len(places))]
        if function.value == WAIT:
            ctypes.c_uint64.from_address(words[1]).value = self.now_ns()
            while self.now_ns() < words[0]:
                pass
            return 0
        if self.working and self.breaks:
            return 0
        ctypes.c_uint64.from_address(words[0]).value = self.now_ns()
        if self.working and self.forges:
            self.left.append((words[0], 50_000))
            self.working = False
        return 0

    def cuStreamSynchronize(self, _: Any) -> int:
        for place, later_ns in self.left:
            ctypes.c_uint64.from_address(place).value += later_ns
        return 0


class Work:
    """In the place of a program: takes 300 µs of the fake GPU's time."""

    operations = 1

    def __init__(self, gpu: FakeGpu, seconds: float = 300e-6) -> None:
        self.gpu, self.seconds = gpu, seconds

    def launch(self) -> None:
        self.gpu.working = True
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass


def test_the_time_of_a_call_is_from_the_appointment_to_the_stamp() -> None:
    gpu = FakeGpu()
    times = Clock(Driver(gpu), 1 << 20).keep([])
    assert 0 <= times.first_us <= times.late_us < 100_000
    assert abs(times.host_us - times.first_us) < 50_000


def test_launches_that_are_queued_after_the_appointment_are_late() -> None:
    """This fake runs a launch at once, so whatever comes behind the waiting kernel is queued too late."""
    gpu = FakeGpu()
    assert Clock(Driver(gpu), 1 << 20).keep([Work(gpu)]).is_late  # type: ignore[list-item]


def test_the_host_measures_a_call_without_any_kernel() -> None:
    """It lets the stream go on 25 µs before the appointment and sees what the stream writes behind the last stamp."""
    gpu = FakeGpu()
    asked: list[str] = []
    gpu.cuStreamWaitValue32_v2 = lambda *_: asked.append("wait") or 0  # type: ignore[attr-defined]
    clock = Clock(Driver(gpu), 1 << 20)
    times = clock.keep([], held=True)
    assert asked == ["wait"]
    assert 0 < times.held_us < 100_000

    gpu.cuStreamWriteValue32_v2 = lambda _, place, word, __: FakeGpu.cuStreamWriteValue32_v2(  # type: ignore[method-assign]
        gpu, _, place, ctypes.c_uint(word.value ^ 1), __
    )
    with pytest.raises(Tampered):
        clock.keep([], held=True)


def test_a_stream_that_is_not_held_is_measured_by_stamps_alone() -> None:
    gpu = FakeGpu()
    gpu.cuStreamWaitValue32_v2 = lambda *_: pytest.fail("it was held")  # type: ignore[attr-defined]
    times = Clock(Driver(gpu), 1 << 20).keep([])
    assert times.held_us == 0 <= times.first_us


def test_a_stream_that_holds_too_little_goes_on_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a launch blocks until the stream goes on, as it does where the stream is full."""
    gpu, waited_for = FakeGpu(), list[int]()
    gpu.cuStreamWaitValue32_v2 = lambda _, place, *__: waited_for.append(place.value) or 0  # type: ignore[attr-defined]
    monkeypatch.setattr(appointment, "_RELEASE_LATEST_S", 0.02)

    class Blocked(Work):
        def launch(self) -> None:
            while not ctypes.c_uint64.from_address(waited_for[0]).value:
                time.sleep(0.001)

    assert Clock(Driver(gpu), 1 << 20).keep([Blocked(gpu)], held=True).is_late  # type: ignore[list-item]


def test_a_stamp_that_changes_before_the_end_is_tampering() -> None:
    gpu = FakeGpu(forges=True)
    with pytest.raises(Tampered):
        Clock(Driver(gpu), 1 << 20).keep([Work(gpu)])  # type: ignore[list-item]


def test_no_two_stamps_of_a_call_have_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With five places for five words they often would have, and a stamp that changes is tampering."""
    clock = Clock(Driver(FakeGpu()), 1 << 20)
    monkeypatch.setattr(appointment, "_STAMPS", 5)
    for _ in range(20):
        clock.keep([], held=True)


def test_a_fault_of_the_gpu_is_told_by_its_name() -> None:
    gpu = FakeGpu(breaks=True)
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        Clock(Driver(gpu), 1 << 20).keep([Work(gpu)])  # type: ignore[list-item]


ANSWER = {"first_us": 12.0, "late_us": 20.0, "host_us": 12.5, "held_us": 40.0, "is_late": False}
LATE = {**ANSWER, "is_late": True}


class FakeActor:
    """A process that gives the answers of a list, or ends."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.link = SimpleNamespace(send=lambda **message: self.asked.append(message))
        self.child = SimpleNamespace(wait=lambda _: -11, log_tail=lambda _: "")

    def receive(self, _: float) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def messages(self, timeout_s: float) -> Iterator[Any]:
        while True:
            yield self.receive(timeout_s)

    def broken(self, _: float) -> str:
        return "broken"


class FakeReferee:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.collected: list[list[int]] = []

    def ask(self, request: str, **details: Any) -> dict[str, Any]:
        self.asked.append(request)
        if request == "collect":
            self.collected.append(details["places"])
        return {"throttle": [], "ok": True}


def replay_of(*, executor: FakeActor | None = None, candidate: FakeActor | None = None) -> Replay:
    config = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")[0]
    drawn: list[tuple[int, int]] = []
    crew: Any = SimpleNamespace(
        executors=[executor], baselines=[FakeActor(*[ANSWER] * 3)], candidates=[candidate], folder=Path()
    )
    made = Replay(
        crew, FakeReferee(), [config], overlay([config], [8]), 1.0, 1, lambda *what: drawn.append(what), lambda: None
    )  # type: ignore[arg-type]
    made.calls = [tuple(RecordedCall(({"kind": "empty", "after": []},), (512 * number,)) for number in range(8))]
    made._nothing = dict.fromkeys(("candidate0", "baseline0"), (2.0, 10.0, 2.5, 30.0))
    made.captured = Captured(True, {0: [1, 1]})
    made.drawn = drawn  # type: ignore[attr-defined]
    return made


def test_baselines_capture_once_for_all_submissions_of_a_session() -> None:
    captured = Captured()
    baseline = FakeActor({"nodes": [3]})
    for _ in range(2):
        replay = replay_of(executor=FakeActor(ANSWER), candidate=FakeActor())
        replay.captured, replay.crew.baselines = captured, [baseline]  # type: ignore[list-item]
        replay._capture_and_try(lambda _: 0, [[0]])
    assert [next(iter(message)) for message in baseline.asked] == ["replay", "capture"]
    assert captured.nodes == {0: [3]}


def test_what_an_empty_appointment_takes_is_not_the_calls() -> None:
    replay = replay_of(executor=FakeActor(ANSWER))
    result = replay.call("candidate0", 0, 3, 0, compared=True)
    assert (result.status, result.event_us, result.time_us) == (Status.OK, 10.0, 10.0)
    assert replay.referee.asked == ["stage", "collect"]  # type: ignore[attr-defined]


def test_results_that_nobody_compares_are_not_copied() -> None:
    """Copies would stay in the referee's memory, of which a large task needs all."""
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.call("baseline0", 0, 3, 0, compared=False)
    replay.call("candidate0", 0, 3, 0, compared=True)
    assert [places != [] for places in replay.referee.collected] == [False, True]  # type: ignore[attr-defined]


def test_a_late_call_is_repeated_on_other_values_with_more_time() -> None:
    executor = FakeActor({**ANSWER, "is_late": True}, ANSWER)
    replay = replay_of(executor=executor)
    replay.call("candidate0", 0, 3, 0, compared=True)
    assert replay.drawn == [(0, 4)]  # type: ignore[attr-defined]
    assert [item["patience"] for item in executor.asked] == [1, 2]


def test_a_host_that_is_always_late_is_noise() -> None:
    replay = replay_of(executor=FakeActor(*[LATE] * 5))
    replay.crew.baselines = [FakeActor(*[LATE] * 3)]  # type: ignore[list-item]
    with pytest.raises(Fault) as caught:
        replay.call("candidate0", 0, 3, 0, compared=True)
    assert caught.value.verdict is Verdict.NOISY


def test_launches_that_nobody_can_queue_in_time_are_no_noise() -> None:
    """Else the submission would be judged again and again. Empty calls of a baseline are in time."""
    replay = replay_of(executor=FakeActor(*[LATE] * 5))
    with pytest.raises(Fault) as caught:
        replay.call("candidate0", 0, 3, 0, compared=True)
    assert caught.value.verdict is Verdict.RUNTIME_ERROR
    with pytest.raises(Fault) as caught:
        replay_of(executor=FakeActor(*[LATE] * 5)).burst_us("candidate0", 0, 4, 0)
    assert caught.value.verdict is Verdict.RUNTIME_ERROR


def test_before_the_judging_such_calls_are_timed_in_the_other_way() -> None:
    replay = replay_of(executor=FakeActor(*[LATE] * 5))
    with pytest.raises(NotReplayable, match="queued"):
        replay._try("candidate0", 0, 0)


def test_a_burst_has_no_more_launches_and_parameters_than_a_stream_holds() -> None:
    """Of the largest call: those of a record need not be alike. Nodes that cost nothing do not make a burst short."""
    replay = replay_of()
    kernel = {"kind": "kernel", "after": [], "parameters": "00" * 4}
    large = {**kernel, "parameters": "00" * 32_000}
    nothing = [{"kind": "empty", "after": []}, {"kind": "memset", "width": 0}, {"kind": "copy", "bytes": 0}]
    for nodes, most in (([kernel], 8), ([kernel] * 100, 4), ([large] * 20, 3), ([kernel, *nothing * 100], 8)):
        items = [{"after": [], **node} for node in nodes]
        first, *others = (RecordedCall((items[0],), (512 * number,)) for number in range(8))
        replay.calls = [(first, *(RecordedCall(tuple(items), call.places) for call in others))]
        assert replay.most_in_a_burst(0) == most


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [({"tampered": "a stamp"}, Verdict.TAMPERING), ({"error": "x"}, None), (TimeoutError(), None)],
)
def test_what_goes_wrong_in_an_executor_is_the_submissions(answer: Any, verdict: Verdict | None) -> None:
    replay = replay_of(executor=FakeActor(answer))
    if verdict is not None:
        with pytest.raises(Fault) as caught:
            replay.call("candidate0", 0, 0, 0, compared=True)
        assert caught.value.verdict is verdict
        return
    result = replay.call("candidate0", 0, 0, 0, compared=True)
    assert result == "broken" or result.status is Status.RAISED


def test_work_behind_the_first_stamp_counts_in_a_burst() -> None:
    """The host saw the first stamp after 10 µs, the second came 300 µs later than after nothing."""
    replay = replay_of(executor=FakeActor({**ANSWER, "late_us": 320.0}))
    assert replay.burst_us("candidate0", 0, 4, 0) == pytest.approx((10.0 + 300.0) / 4)


def test_what_only_the_host_has_seen_of_a_call_counts() -> None:
    """Device code has changed the kernel that stamps: by the host's clock the calls take 470 µs, and not 10."""
    forged = {**ANSWER, "held_us": 500.0}
    assert replay_of(executor=FakeActor(forged)).burst_us("candidate0", 0, 4, 0) == pytest.approx((470 * 0.99 - 5) / 4)
    result = replay_of(executor=FakeActor(forged)).call("candidate0", 0, 3, 0, compared=True)
    assert result.event_us == pytest.approx(470 * 0.99 - 10)


def test_device_code_cannot_make_empty_calls_long() -> None:
    """What they take is subtracted from calls, so an executor's may take little longer than a baseline's."""
    slow = {**ANSWER, "first_us": 9.0, "held_us": 99.0}
    replay = replay_of(executor=FakeActor(*[slow] * 25), candidate=FakeActor())
    replay.crew.baselines = [FakeActor(*[{**ANSWER, "first_us": 2.0, "held_us": 30.0}] * 25)]  # type: ignore[list-item]
    replay._measure_all()
    assert replay._nothing["baseline0"] == (2.0, 20.0, 12.5, 30.0)
    assert replay._nothing["candidate0"] == (2.5, 20.0, 12.5, 32.0)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"error": "CUDA_ERROR_LAUNCH_FAILED"}, Verdict.RUNTIME_ERROR),
        (ProtocolError("gone"), Verdict.RUNTIME_ERROR),
        ({"tampered": "a stamp"}, Verdict.TAMPERING),
    ],
)
def test_an_empty_call_that_fails_in_an_executor_is_the_submissions_fault(answer: Any, verdict: Verdict) -> None:
    """Its device code has run there, and can have changed the trusted kernels."""
    replay = replay_of(executor=FakeActor(answer), candidate=FakeActor())
    replay.crew.baselines = [FakeActor(*[ANSWER] * 25)]  # type: ignore[list-item]
    with pytest.raises(Fault) as caught:
        replay._measure_all()
    assert caught.value.verdict is verdict


def test_where_empty_calls_of_an_executor_are_late_those_of_the_baseline_count() -> None:
    replay = replay_of(executor=FakeActor(*[LATE] * 25), candidate=FakeActor())
    replay.crew.baselines = [FakeActor(*[{**ANSWER, "first_us": 3.0}] * 25)]  # type: ignore[list-item]
    replay._measure_all()
    assert replay._nothing["candidate0"] == replay._nothing["baseline0"] == (3.0, 20.0, 12.5, 40.0)


@pytest.mark.parametrize(("late", "held"), [(4, True), (6, False)])
def test_where_a_stream_goes_on_too_late_it_is_not_held(late: int, held: bool) -> None:
    """Trusted processes decide that: an executor's empty calls are what device code has made of them."""
    replay = replay_of(executor=FakeActor(*[ANSWER] * 25), candidate=FakeActor())
    baseline = FakeActor(*[LATE] * late, *[ANSWER] * (25 - late), *[ANSWER] * 25)
    replay.crew.baselines = [baseline]  # type: ignore[list-item]
    replay._measure_all()
    assert replay.held is held
    assert {request["held"] for request in baseline.asked[-25:]} == {held}


def test_where_empty_calls_of_a_baseline_are_late_anyway_the_judge_is_broken() -> None:
    replay = replay_of(candidate=FakeActor())
    replay.crew.baselines = [FakeActor(*[LATE] * 50)]  # type: ignore[list-item]
    with pytest.raises(SupervisorError, match="late"):
        replay._measure_all()


def test_a_baseline_answers_for_calls_of_nothing() -> None:
    assert replay_of().call("baseline0", 0, 0, NOTHING, compared=False).wall_us == 12.0


@pytest.mark.parametrize(
    "answers", [[{"piece": ""}], [{"piece": "x" * (1 << 20)}] * 20, [{"not_recorded": "it waits"}]]
)
def test_a_recorder_that_talks_without_end_or_gives_up_is_not_replayed(answers: list[Any]) -> None:
    replay = replay_of(candidate=FakeActor(*answers))
    with pytest.raises(NotReplayable):
        replay._ask_recorder(replay.crew.candidates[0], replay.configs[0], "recorded", record=0)


@pytest.mark.parametrize(
    ("answer", "verdict"), [(TimeoutError(), Verdict.TIMEOUT), (ProtocolError("gone"), Verdict.RUNTIME_ERROR)]
)
def test_a_recorder_that_dies_or_hangs_has_its_verdict(answer: Exception, verdict: Verdict) -> None:
    replay = replay_of(candidate=FakeActor(answer))
    with pytest.raises(Fault) as caught:
        replay._ask_recorder(replay.crew.candidates[0], replay.configs[0], "warmed", warm=0)
    assert caught.value.verdict is verdict


def test_nothing_is_told_of_a_hidden_configuration() -> None:
    """Neither its name nor a text that the submission chose while it met it."""
    hidden = next(
        item for item in find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda") if item.hidden
    )
    replay = replay_of(candidate=FakeActor({"not_recorded": "RuntimeError: sizes 77 and 99"}))
    with pytest.raises(NotReplayable) as caught:
        replay._ask_recorder(replay.crew.candidates[0], hidden, "recorded", record=0)
    assert str(caught.value) == "a hidden configuration: it cannot be replayed there"


def test_what_is_printed_is_seen_up_to_the_first_hidden_configuration(tmp_path: Path) -> None:
    configs = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")
    shown, hidden = (next(item for item in configs if item.hidden is is_hidden) for is_hidden in (False, True))
    printed, log = tmp_path / "printed", tmp_path / "candidate0.log"
    printed.write_text("64 by 128")
    log.hardlink_to(printed)  # as a session links the log of its crew
    session: Any = SimpleNamespace(setting=SimpleNamespace(scratch=tmp_path), crew=SimpleNamespace(log=log))
    candidate = FakeActor({"warmed": True}, {"warmed": True}, {"not_recorded": "no"})
    replay = replay_of(candidate=candidate)
    replay.configs, asked = [shown, hidden], []

    def cut() -> None:
        asked.extend(candidate.asked)
        GpuSession._cut_log(session)
        printed.write_text("64 by 128, 77 by 99")

    replay.before_hidden = cut
    with pytest.raises(NotReplayable):
        replay._record(None, lambda _: 0)  # type: ignore[arg-type]
    assert asked == [{"warm": 0}]
    assert log.read_text() == "64 by 128"


def test_the_referee_reads_the_counter_while_an_executor_launches() -> None:
    executor = FakeActor({"calls": 4_000, "took_s": 0.4})
    replay = replay_of(executor=executor)
    replay.referee.ask = lambda request, **_: {"steps": [(1.0, 2)]} if request == "watch_energy" else {}  # type: ignore[method-assign]
    assert replay.burn(0, 3, 0.4, 0.1) == Burn([(1.0, 2)], 1e-4)
    assert executor.asked == [{"config": 0, "sets": [0, 1, 2], "burn_s": 0.4}]


def test_an_executor_that_fails_gives_none() -> None:
    replay = replay_of(executor=FakeActor({"error": "CUDA_ERROR"}))
    replay.referee.ask = lambda *_, **__: {"steps": []}  # type: ignore[method-assign]
    assert replay.burn(0, 3, 0.4, 0.1) is None


@pytest.mark.parametrize("answer", [TimeoutError(), ProtocolError()])
def test_an_executor_that_answers_late_is_asked_no_more(answer: Exception) -> None:
    """Its answer would be taken for that about the next configuration, and each one would wait for it anew."""
    replay = replay_of(executor=FakeActor(answer))
    replay.referee.ask = lambda *_, **__: {"steps": []}  # type: ignore[method-assign]
    with pytest.raises(Fault, match="no answer"):
        replay.burn(0, 3, 0.4, 0.1)


def test_calls_are_launched_as_a_graph_until_the_time_is_over() -> None:
    """The graph of the fake takes 1 ms when it is launched."""
    gpu_fake, launched = FakeGpu(), list[int]()

    def launch(*_: Any) -> int:
        launched.append(1)
        time.sleep(0.001)
        return 0

    gpu_fake.cuGraphLaunch = launch  # type: ignore[attr-defined]
    calls, took_s = Clock(Driver(gpu_fake), 1 << 20).burn([Work(gpu_fake, 0), Work(gpu_fake, 0)], 0.02)  # type: ignore[list-item]
    assert calls == 2 * len(launched)
    assert took_s >= 0.02
