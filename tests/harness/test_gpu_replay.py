"""The clock of replayed calls on a driver that is a fake, and the session's part of it with processes that are.

What only a GPU shows was judged on one: `docs/results/h200/replay.md`.
"""

import ctypes
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.harness import default_suites, find_task
from benchmarks.harness.child.gpu import clock as clock_module
from benchmarks.harness.child.gpu.clock import CallTimes, Clock, Tampered
from benchmarks.harness.child.gpu.driver import Driver, DriverError, pointer
from benchmarks.harness.child.gpu.launches import program
from benchmarks.harness.child.gpu.replayer import Replayer, count_lacks
from benchmarks.harness.errors import RefereeError
from benchmarks.harness.gpu import recording as recording_module
from benchmarks.harness.gpu.contexts import Contexts
from benchmarks.harness.gpu.gaps import replayed_baselines
from benchmarks.harness.gpu.record import NotReplayable, RecordedCall
from benchmarks.harness.gpu.recording import CallRecording
from benchmarks.harness.gpu.replay import Burn, Captured, Replay
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.gpu.word_times import Lateness, percentiles_us
from benchmarks.harness.measuring.contestants import CallResult, WholeLimit
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.laps import Laps
from benchmarks.harness.measuring.memory import overlay
from benchmarks.harness.measuring.session import NOTHING
from benchmarks.harness.protocol import CONTROL_BYTES, ControlWords, ProtocolError, Status, Word
from benchmarks.harness.report import Verdict
from benchmarks.harness.sandbox.crowd import TreeWork


@pytest.fixture(autouse=True)
def threads_take_short_turns() -> Iterator[None]:
    """The clock looks all the time, and so do the threads of a fake that wait."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual_s)


USUAL = Lateness(0.0, 0.0)  # around calls of baselines


class FakeGpu:
    """A stream: does what is launched in its order, in a thread, and waits where it is told to."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks
        self.room = (ctypes.c_uint64 * (1 << 20))()
        self.places: list[int] = []  # of the words that the stream was to write
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0

    def cuMemHostAlloc(self, place: Any, *_: Any) -> int:
        place._obj.value = ctypes.addressof(self.room)
        return 0

    def cuMemHostGetDevicePointer_v2(self, place: Any, host: Any, _: Any) -> int:
        place._obj.value = host.value
        return 0

    def cuStreamWaitValue32_v2(self, _: Any, place: Any, word: Any, __: Any) -> int:
        where = ctypes.c_uint64.from_address(place.value)
        self.later(lambda: wait_for(lambda: where.value == word.value))
        return 0

    def cuStreamWriteValue32_v2(self, _: Any, place: Any, word: Any, __: Any) -> int:
        self.places.append(place.value)
        self.later(lambda: write(place.value, word.value))
        return 0

    def cuStreamSynchronize(self, _: Any) -> int:
        self._queue.join()
        return 0

    def cuStreamQuery(self, _: Any) -> int:
        return 700 if self.breaks else 600

    def cuGetErrorName(self, _: Any, place: Any) -> int:
        place._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS"
        return 0

    def later(self, work: Callable[[], None]) -> None:
        if not (self.breaks and self.places):
            self._queue.put(work)

    def _run(self) -> None:
        while True:
            self._queue.get()()
            self._queue.task_done()


class Work:
    """In the place of a program: takes so much of the fake GPU's time, and may do something before."""

    steps = ()

    def __init__(self, gpu: FakeGpu, seconds: float = 0.02, first: Callable[[], None] = lambda: None) -> None:
        self.gpu, self.seconds, self.first = gpu, seconds, first

    def launch(self) -> None:
        def work() -> None:
            self.first()
            time.sleep(self.seconds)

        self.gpu.later(work)


def wait_for(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(1e-4)


def write(place: int, word: int) -> None:
    ctypes.c_uint64.from_address(place).value = word


def measured(gpu: FakeGpu, *programs: Any) -> CallTimes:
    return Clock(Driver(gpu)).measure(programs)


def test_the_time_of_a_call_is_between_the_words_around_it() -> None:
    gpu = FakeGpu()
    assert 0 < measured(gpu).call_us < 20_000
    times = measured(gpu, Work(gpu), Work(gpu))
    assert 40_000 <= times.call_us < 100_000
    assert 0 < times.behind_us < 20_000
    assert not times.is_late


def test_nothing_of_a_call_runs_before_all_of_it_is_queued() -> None:
    gpu, seen = FakeGpu(), list[int]()
    measured(gpu, Work(gpu, first=lambda: seen.append(len(gpu.places))))
    assert seen == [2]


def test_an_end_that_a_call_writes_itself_is_found_when_a_third_word_is_late() -> None:
    """Even if it has found out where and what the stream will write. A busy machine can delay a call."""

    def call() -> CallTimes:
        gpu, words = FakeGpu(), list[int]()
        queued = gpu.cuStreamWriteValue32_v2
        gpu.cuStreamWriteValue32_v2 = lambda *told: words.append(told[2].value) or queued(*told)  # type: ignore[method-assign]
        return measured(gpu, Work(gpu, first=lambda: write(gpu.places[1], words[1])))

    times = min((call() for _ in range(5)), key=lambda times: times.call_us)
    assert times.call_us < 20_000 <= times.behind_us


BRANCH = {
    "kind": "kernel",
    "after": [],
    "grid": [1, 1, 1],
    "block": [1, 1, 1],
    "shared_bytes": 0,
    "parameters": "00" * 12,
    "attributes": {},
    "max_dynamic_bytes": 0,
    "carveout": 0,
    "non_portable": 0,
}


class ForkingGpu(FakeGpu):
    """Has a thread for each stream. An event is a word in its memory, which a call can overwrite."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[int, queue.Queue[Callable[[], None]]] = {}
        self.events: dict[int, list[int]] = {}  # how often it was recorded, and the word
        self.kernels: dict[int, Callable[[], None]] = {}

    def cuStreamCreate(self, place: Any, _: Any) -> int:
        place._obj.value = number = len(self.queues) + 1
        self.queues[number] = queue.Queue()
        threading.Thread(target=self._serve, args=[self.queues[number]], daemon=True).start()
        return 0

    def cuEventCreate(self, place: Any, _: Any) -> int:
        place._obj.value = number = len(self.events) + 1
        self.events[number] = [0, 0]
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        item = self.events[event.value]
        item[0] += 1
        self.queues[stream.value].put(lambda wanted=item[0]: item.__setitem__(1, max(item[1], wanted)))
        return 0

    def cuStreamWaitEvent(self, stream: Any, event: Any, _: Any) -> int:
        item = self.events[event.value]
        self.queues[stream.value].put(lambda wanted=item[0]: wait_for(lambda: item[1] >= wanted))
        return 0

    def cuStreamWaitValue32_v2(self, stream: Any, place: Any, word: Any, _: Any) -> int:
        where = ctypes.c_uint64.from_address(place.value)
        self.queues[stream.value].put(lambda: wait_for(lambda: where.value == word.value))
        return 0

    def cuStreamWriteValue32_v2(self, stream: Any, place: Any, word: Any, _: Any) -> int:
        self.places.append(place.value)
        self.queues[stream.value].put(lambda: write(place.value, word.value))
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        self.queues[stream.value].join()
        return 0

    def cuFuncGetParamInfo(self, _: Any, number: Any, offset: Any, size: Any) -> int:
        if number.value > 1:
            return 1
        offset._obj.value, size._obj.value = (0, 8) if number.value == 0 else (8, 4)
        return 0

    def cuLaunchKernelEx(self, config: Any, function: Any, *_: Any) -> int:
        self.queues[config._obj.stream].put(self.kernels[function.value])
        return 0

    def _serve(self, queued: "queue.Queue[Callable[[], None]]") -> None:
        while True:
            queued.get()()
            queued.task_done()


@pytest.mark.parametrize("forges", [False, True])
def test_a_branch_whose_join_is_forged_is_waited_for_nevertheless(*, forges: bool) -> None:
    """Events lie in memory that device code can write."""
    gpu, ended = ForkingGpu(), list[float]()

    def first() -> None:
        for item in gpu.events.values() if forges else ():
            item[1] = 1 << 20

    def long() -> None:
        time.sleep(0.05)
        ended.append(time.perf_counter())

    gpu.kernels = {1: first, 2: long}
    clock = Clock(driver := Driver(gpu))
    branches = [{**BRANCH, "name": str(number)} for number in gpu.kernels]
    made = program(driver, clock.lanes, branches, named)
    times = clock.measure([made])
    assert ended
    assert 30_000 <= times.call_us < 150_000  # one thread of Python after the other sees the start late
    assert times.behind_us < 30_000


def test_more_branches_than_the_host_can_look_for_are_not_launched() -> None:
    clock = Clock(driver := Driver(ForkingGpu()))
    branches = [{**BRANCH, "name": str(number)} for number in range(16)]
    program(driver, clock.lanes, branches, named)
    with pytest.raises(DriverError, match="more than 16 branches"):
        program(driver, clock.lanes, [*branches, {**BRANCH, "name": "16"}], named)


def test_forks_one_after_the_other_share_their_streams() -> None:
    """A call that forks into two and joins, 20 times, has two branches at a time."""
    clock, nodes = Clock(driver := Driver(ForkingGpu())), list[dict[str, Any]]()
    for number in range(20):
        joins = [[3 * number - 2, 0], [3 * number - 1, 0]] if number else []
        nodes += [{**BRANCH, "name": "0", "after": joins}, *[{**BRANCH, "name": "0", "after": [[3 * number, 0]]}] * 2]
    made = program(driver, clock.lanes, nodes, named)
    assert {step.lane for step in made.steps} == {0, 1}
    for number, (step, node) in enumerate(zip(made.steps, nodes, strict=True)):
        for awaited, _ in node["after"]:
            assert awaited in step.waits or made.steps[awaited].lane == step.lane
        assert all(awaited < number for awaited in step.waits)


def test_work_that_is_still_queued_at_the_release_shows_in_the_start() -> None:
    """The start word comes after it, so the time of the call does not have it."""
    gpu = ForkingGpu()
    clock = Clock(driver := Driver(gpu))
    gpu.kernels = {1: lambda: None}
    made = program(driver, clock.lanes, [{**BRANCH, "name": "1"}], named)
    assert clock.measure([made]).start_us < 20_000
    queued = gpu.cuStreamWaitValue32_v2

    def wait_value(stream: Any, *told: Any) -> int:
        code = queued(stream, *told)
        gpu.queues[stream.value].put(lambda: time.sleep(0.05))
        return code

    gpu.cuStreamWaitValue32_v2 = wait_value  # type: ignore[method-assign]
    assert clock.measure([made]).start_us >= 40_000


def test_the_first_start_of_several_streams_counts() -> None:
    """Work on one of them could keep the others waiting until it is done: it knows the word that they wait for."""
    gpu = ForkingGpu()
    clock = Clock(driver := Driver(gpu))

    def keeps_the_other_waiting() -> None:
        time.sleep(0.05)

    gpu.kernels = {1: lambda: None, 2: keeps_the_other_waiting}
    made = program(driver, clock.lanes, [{**BRANCH, "name": str(number)} for number in gpu.kernels], named)
    first = clock.lanes.first.value
    queued = gpu.cuStreamWaitValue32_v2

    def wait_value(stream: Any, *told: Any) -> int:
        if stream.value == first:
            gpu.queues[first].put(lambda: time.sleep(0.05))  # as long as the other works
        return queued(stream, *told)

    gpu.cuStreamWaitValue32_v2 = wait_value  # type: ignore[method-assign]
    gpu.cuStreamWaitEvent = lambda *_: 0  # type: ignore[method-assign]
    assert clock.measure([made]).call_us >= 30_000


def named(node: dict[str, Any]) -> pointer:
    return pointer(int(node["name"]))


def test_a_function_keeps_the_largest_of_the_sizes_that_its_calls_need() -> None:
    """Calls of several configurations launch it, the one with the smallest perhaps last."""
    gpu, sizes = ForkingGpu(), dict[int, int]()

    def set_attribute(function: Any, which: Any, value: Any) -> int:
        sizes[which.value] = value.value
        return 0

    def get_attribute(place: Any, which: Any, _: Any) -> int:
        place._obj.value = sizes.get(which.value, 0)
        return 0

    gpu.cuFuncSetAttribute, gpu.cuFuncGetAttribute = set_attribute, get_attribute  # type: ignore[attr-defined]
    clock = Clock(driver := Driver(gpu))
    for needed in (1000, 90_000, 50_000):
        program(driver, clock.lanes, [{**BRANCH, "name": "1", "max_dynamic_bytes": needed}], named)
    assert sizes[8] == 90_000


def test_another_word_than_that_of_the_stream_is_tampering() -> None:
    gpu = FakeGpu()
    with pytest.raises(Tampered):
        measured(gpu, Work(gpu, first=lambda: write(gpu.places[1], 12345)))
    with pytest.raises(Tampered):  # the start was seen before, but a call has no business there
        measured(gpu := FakeGpu(), Work(gpu, first=lambda: write(gpu.places[0], 12345)))


def test_a_stream_that_holds_too_little_goes_on_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a launch blocks until the stream goes on, as it does where the stream is full."""
    gpu = FakeGpu()
    monkeypatch.setattr(clock_module, "_RELEASE_LATEST_S", 0.02)

    class Blocked(Work):
        def launch(self) -> None:
            wait_for(lambda: bool(ctypes.c_uint64.from_address(gpu.places[0]).value))

    assert measured(gpu, Blocked(gpu)).is_late


def test_how_long_the_host_did_not_look_is_told() -> None:
    """It looks for one word 2 ms after it had looked for the other; both are there."""
    clock = Clock(Driver(FakeGpu()))
    clock._words[7] = 12345
    found, seen_ns, blind_ns = clock._see([7], time.perf_counter_ns() - 2_000_000)
    assert found == [12345]
    assert seen_ns <= time.perf_counter_ns()
    assert blind_ns >= 2_000_000


def test_when_words_came_before_the_last_one_does_not_matter() -> None:
    """The first of two was there 2 ms before anybody looked; the second came while the host looked all the time.

    A busy processor may keep it from looking, but hardly ten times in a row.
    """
    clock, blind_ns = Clock(Driver(FakeGpu())), list[int]()
    for _ in range(10):
        clock._words[7], clock._words[8] = 12345, 0
        threading.Timer(0.01, clock._words.__setitem__, (8, 678)).start()
        found, _, blind = clock._see([7, 8], time.perf_counter_ns() - 2_000_000)
        assert found == [12345, 678]
        blind_ns.append(blind)
    assert min(blind_ns) < 1_500_000


def test_the_referee_is_told_of_the_end_before_the_third_word_is_queued() -> None:
    gpu, page, seen = FakeGpu(), page_of_a_waiting_referee(), list[tuple[int, int]]()
    queued = gpu.cuStreamWriteValue32_v2

    def write_value(*told: Any) -> int:
        seen.append((page[Word.ENDED], page[Word.FOLLOWED]))
        return queued(*told)

    gpu.cuStreamWriteValue32_v2 = write_value  # type: ignore[method-assign]
    Clock(Driver(gpu), page).measure([Work(gpu)], 77)  # type: ignore[list-item]
    assert seen == [(0, 0), (0, 0), (77, 0)]
    assert (page[Word.ENDED], page[Word.FOLLOWED]) == (77, 77)
    assert 0 < time.perf_counter_ns() - page[Word.ENDED_NS] < 10_000_000_000


def page_of_a_waiting_referee() -> ControlWords:
    page = (ctypes.c_uint64 * 512)()
    page[Word.AIMED] = 77
    return page


def test_a_call_begins_when_the_referee_waits_for_its_end() -> None:
    """Else its results would be sampled too late."""
    gpu, page = FakeGpu(), (ctypes.c_uint64 * 512)()
    began_s = time.monotonic()
    threading.Timer(0.05, page.__setitem__, (Word.AIMED, 77)).start()
    Clock(Driver(gpu), page).measure([], 77)
    assert time.monotonic() - began_s >= 0.05


def test_a_referee_that_does_not_wait_stops_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "_TIMEOUT_S", 0.02)
    gpu = FakeGpu()
    with pytest.raises(DriverError, match="does not wait"):
        Clock(Driver(gpu)).measure([], 77)
    assert gpu.places == []


def test_what_was_launched_before_an_error_has_ended_when_the_referee_is_told() -> None:
    """Else it would sample results that are not there yet."""
    gpu, page, told = FakeGpu(), page_of_a_waiting_referee(), list[int]()

    class Failing(Work):
        def launch(self) -> None:
            raise DriverError("launching b: CUDA_ERROR_INVALID_VALUE")

    def long() -> None:
        time.sleep(0.03)
        told.append(page[Word.ENDED])

    with pytest.raises(DriverError, match="INVALID_VALUE"):
        Clock(Driver(gpu), page).measure([Work(gpu, first=long), Failing(gpu)], 77)  # type: ignore[list-item]
    assert (told, page[Word.ENDED]) == ([0], 77)


def test_the_referee_is_told_of_an_end_by_a_fault_as_well() -> None:
    gpu, page = FakeGpu(breaks=True), page_of_a_waiting_referee()
    with pytest.raises(DriverError):
        Clock(Driver(gpu), page).measure([], 77)
    assert (page[Word.ENDED], page[Word.FOLLOWED]) == (77, 77)


def test_no_two_words_of_a_call_have_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four places for four words they often would have, and a word that changes is tampering."""
    clock = Clock(Driver(FakeGpu()))
    monkeypatch.setattr(clock_module, "_PLACES", 4)
    for _ in range(20):
        clock.measure([])


def test_a_fault_of_the_gpu_is_told_by_its_name() -> None:
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        measured(FakeGpu(breaks=True))


ANSWER = {"call_us": 12.0, "behind_us": 6.0, "is_late": False, "blind_us": 0.4, "start_us": 2.0}
LATE, UNSEEN = {**ANSWER, "is_late": True}, {**ANSWER, "blind_us": 2.1}
LATER = math.inf  # until when
WARM = 50  # empty calls of an executor that do not count
NO_CONTEXT: list[dict[str, Any]] = [{"empty": [], "kernels": []}] * 5  # one for each round


class FakeActor:
    """A process that gives the answers of a list, or ends."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.link = SimpleNamespace(send=lambda **message: self.asked.append(message))
        self.frozen = list[bool]()
        self.child = SimpleNamespace(
            wait=lambda _: -11,
            is_lost=lambda: False,
            log_tail=lambda _: "",
            freeze=lambda: self.frozen.append(True),
            resume=lambda: self.frozen.append(False),
            exit_code=lambda: None,
            work=lambda: TreeWork(0.0, is_ready=False),
        )

    def receive(self, _: float) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def messages(self, timeout_s: float) -> Iterator[Any]:
        while True:
            yield self.receive(timeout_s)

    def messages_within(self, limit: WholeLimit, _: Any = None) -> Iterator[Any]:
        return self.messages(limit.limit_s)

    def broken(self, _: float) -> str:
        return "broken"


class FakeReferee:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.collected: list[dict[str, Any]] = []
        self.tail_us, self.sampled_us, self.late, self.ok = 15.0, 12.0, False, True
        self.link = SimpleNamespace(send=self._told)

    def ask(self, request: str, **details: Any) -> dict[str, Any]:
        self.link.send(do=request, **details)
        return self.receive()

    def receive(self) -> dict[str, Any]:
        said = {"ok": self.ok, "reason": "no", "late": self.late}
        return {**said, "throttle": [], "lead_us": 9.0, "tail_us": self.tail_us, "sampled_us": self.sampled_us}

    def _told(self, do: str, **details: Any) -> None:
        self.asked.append(do)
        if do == "collect":
            self.collected.append(details)


def replay_of(*, executor: FakeActor | None = None, candidate: FakeActor | None = None) -> Replay:
    config = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")[0]
    drawn: list[tuple[int, int]] = []
    crew: Any = SimpleNamespace(
        executors=[executor],
        baselines=[FakeActor(*[ANSWER] * 8, *[LATE] * 2)],
        candidates=[candidate or FakeActor()],
        pages=[SimpleNamespace(words=[0] * 64, fd=-1)],
        folder=Path(),
    )
    made = Replay(
        crew,
        FakeReferee(),
        [config],
        overlay([config], [8]),
        [8],
        1.0,
        9.0,
        lambda *what: drawn.append(what),
        lambda: None,
    )  # type: ignore[arg-type]
    made.calls = [tuple(RecordedCall(({"kind": "empty", "after": []},), (512 * number,)) for number in range(8))]
    made._nothing = dict.fromkeys(("candidate0", "baseline0"), (2.0, 6.0))
    made.captured = Captured(is_told=True, is_whole=True)
    made.drawn = drawn  # type: ignore[attr-defined]
    return made


def recording_of(replay: Replay) -> CallRecording:
    return CallRecording(replay.crew.candidates[0], replay.referee, replay.configs, 1.0, time.monotonic() + 9.0, Laps())


def test_baselines_capture_once_for_all_submissions_of_a_session() -> None:
    captured = Captured()
    baseline = FakeActor(*NO_CONTEXT, {"kernels": [3]}, *NO_CONTEXT)
    for _ in range(2):
        replay = replay_of(executor=FakeActor(*NO_CONTEXT), candidate=FakeActor())
        replay.captured, replay.crew.baselines = captured, [baseline]  # type: ignore[list-item]
        replay._measure_nothing = lambda _: (1.0, 1.0)  # type: ignore[method-assign]
        replay.capture_baselines(lambda _: 0, [[0]])
    asked = [next(iter(message)) for message in baseline.asked]
    assert asked == ["replay", *["context"] * 5, "capture", *["context"] * 5]
    assert captured == Captured(is_told=True, is_whole=True, kernels={(0, 0): 3})


def test_a_baseline_that_cannot_be_captured_is_told_before_the_submission_is_loaded() -> None:
    replay, baseline = replay_of(executor=FakeActor(*NO_CONTEXT)), FakeActor(*NO_CONTEXT, {"not_captured": "eager: no"})
    replay.captured, replay.crew.baselines = Captured(), [baseline]  # type: ignore[list-item]
    replay._measure_nothing = lambda _: (1.0, 1.0)  # type: ignore[method-assign]
    with pytest.raises(NotReplayable, match="its baseline: eager: no"):
        replay.capture_baselines(lambda _: 0, [[0]])
    assert not replay.captured.is_whole


def test_a_baseline_says_how_often_it_lacked_memory_for_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN goes on with another plan then, so a call that ends well says nothing."""
    replayer, observers = object.__new__(Replayer), list[Any]()
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", observers.append, raising=False)

    def swallows(*_: Any) -> None:
        observers[-1](0, 1 << 20, 0, 0)  # as torch calls it

    def raises(*_: Any) -> None:
        swallows()
        raise torch.OutOfMemoryError

    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)

    def gives_up(*_: Any) -> None:
        swallows()
        swallows()
        raise RuntimeError("unable to find an engine to execute this computation")

    def fails(*_: Any) -> None:
        raise RuntimeError("for another reason")

    cases = (
        ([lambda: None], 0, True),
        ([swallows, swallows], 2, True),
        ([raises, swallows], 1, False),
        ([gives_up, swallows], 2, False),
    )
    for functions, lacked, works in cases:
        replayer._page = (ctypes.c_uint64 * (CONTROL_BYTES // 8))()
        count_lacks(replayer._page)
        replayer._pool = object()  # type: ignore[assignment]
        replayer._functions, replayer._calls = [[each] for each in functions], [SimpleNamespace(sets=[()])]  # type: ignore[list-item]
        replayer._programs = {(0, 0): []}
        assert replayer._reserve(0, range(len(functions))) is works
        assert replayer._page[Word.LACKED] == lacked
        assert (replayer._programs, replayer._pool) == ({}, None), "what was captured is given up first"
    replayer._functions = [[fails]]  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="for another reason"):
        replayer._reserve(0, [0])


def test_what_an_empty_call_takes_is_not_the_calls() -> None:
    replay = replay_of(executor=FakeActor(ANSWER))
    result = replay.call("candidate0", 0, 3, 0, compared=True)
    assert (result.status, result.event_us, result.time_us) == (Status.OK, 10.0, 10.0)
    assert replay.referee.asked == ["stage", "collect"]  # type: ignore[attr-defined]


def test_results_that_nobody_compares_are_not_copied() -> None:
    """Copies would stay in the referee's memory, of which a large task needs all."""
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.call("baseline0", 0, 3, 0, compared=False)
    replay.call("candidate0", 0, 3, 0, compared=True)
    collected: Any = replay.referee.collected  # type: ignore[attr-defined]
    assert [(item["kept"], item["calls"]) for item in collected] == [
        (False, [list(replay.layout.outputs[0])]),
        (True, [[512 * 3]]),
    ]


def test_the_referee_waits_for_the_end_of_a_call_before_that_is_made() -> None:
    """Only a baseline copies its results itself, which takes until it has answered."""
    replay = replay_of(executor=(executor := FakeActor(ANSWER)))
    order = list[str]()
    told, asked = replay.referee.link.send, executor.link.send
    replay.referee.link.send = lambda **message: (order.append(message["do"]), told(**message))
    executor.link.send = lambda **message: (order.append("call"), asked(**message))
    replay.crew.baselines[0].link.send = lambda **_: order.append("baseline")  # type: ignore[method-assign]
    replay.call("candidate0", 0, 3, 0, compared=True)
    replay.call("baseline0", 0, 3, 0, compared=False)
    replay.call("baseline0", 0, 3, 0, compared=True)
    assert order == ["stage", "collect", "call", "stage", "collect", "baseline", "stage", "baseline", "collect"]
    steps = [item["step"] for item in replay.referee.collected]  # type: ignore[attr-defined]
    assert executor.asked[0]["step"] == steps[0]
    assert steps[0] != steps[1]
    assert steps[2] == 0  # the referee does not wait


def test_device_code_that_slows_empty_calls_of_baselines_gains_nothing() -> None:
    """What an empty call takes is measured before any of it has run in an executor."""
    replay = replay_of(executor=FakeActor(*NO_CONTEXT, *[ANSWER] * (1 + WARM + 25)))
    rest, busy = {**ANSWER, "call_us": 2.0}, {**ANSWER, "call_us": 7.0}
    told = [*NO_CONTEXT, *[rest] * (WARM + 25), {"kernels": [3]}, *[busy] * 25]
    replay.captured = Captured()
    replay.crew.baselines = [FakeActor(*told)]  # type: ignore[list-item]
    replay.capture_baselines(lambda _: 0, [[0]])
    replay._try_all(lambda _: 0, time.monotonic() + 9.0)
    replay._measure_all(LATER)
    assert replay.nothing_us == {"baseline0": 2.0, "candidate0": 2.0}


def test_a_call_is_not_repeated_for_longer_than_one_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device code that knows a burst could take 9 s in each attempt, and have it repeated."""
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("benchmarks.harness.gpu.replay.time.monotonic", lambda: 0.4 * next(clock))
    replay = replay_of(executor=FakeActor(*[ANSWER] * 5))
    replay.referee.sampled_us = 400.0  # type: ignore[attr-defined]
    replay.burst_us("candidate0", 0, 4, USUAL)
    assert replay.repeated < 4


def test_results_that_change_after_the_end_are_tampering() -> None:
    replay = replay_of(executor=FakeActor(ANSWER, ANSWER))
    replay.referee.late = True  # type: ignore[attr-defined]
    for make in (
        lambda: replay.call("candidate0", 0, 3, 0, compared=True),
        lambda: replay.burst_us("candidate0", 0, 4, USUAL),
    ):
        with pytest.raises(Fault, match="after the call had reported its end") as caught:
            make()
        assert caught.value.verdict is Verdict.TAMPERING


def test_the_referee_does_not_wait_for_a_process_that_is_gone() -> None:
    replay = replay_of(executor=FakeActor(ProtocolError("gone")))
    replay.call("candidate0", 0, 3, 0, compared=True)
    [collected] = replay.referee.collected  # type: ignore[attr-defined]
    assert replay.crew.pages[0].words[Word.ABORT] == collected["step"]


def test_a_referee_that_misses_the_end_of_a_call_is_our_fault() -> None:
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.referee.receive = dict  # type: ignore[method-assign]
    replay.referee.ask = lambda *_, **__: {}  # type: ignore[method-assign]
    with pytest.raises(RefereeError, match="did not see"):
        replay.call("candidate0", 0, 3, 0, compared=True)


@pytest.mark.parametrize("worthless", [LATE, UNSEEN], ids=["late", "unseen"])
def test_a_call_that_is_repeated_must_be_right_as_well(worthless: Any) -> None:
    """Else device code could choose on which values it is judged: it can make the host look late."""
    replay = replay_of(executor=FakeActor(worthless, ANSWER))
    replay.referee.ok = False  # type: ignore[attr-defined]
    with pytest.raises(Fault) as caught:
        replay.call("candidate0", 0, 3, 0, compared=True)
    assert caught.value.verdict is Verdict.INCORRECT_VALUE
    baseline = replay_of()
    baseline.crew.baselines = [FakeActor(worthless, ANSWER)]  # type: ignore[list-item]
    baseline.call("baseline0", 0, 3, 0, compared=True)
    assert "compare_all" not in baseline.referee.asked  # type: ignore[attr-defined]


def test_results_of_a_burst_are_compared_at_once() -> None:
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.burst_us("candidate0", 0, 4, USUAL)
    assert replay.referee.asked == ["stage", "collect", "compare_all"]  # type: ignore[attr-defined]
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.referee.ok = False  # type: ignore[attr-defined]
    with pytest.raises(Fault, match="in 4 calls back to back: no") as caught:
        replay.burst_us("candidate0", 0, 4, USUAL)
    assert caught.value.verdict is Verdict.INCORRECT_VALUE


@pytest.mark.parametrize(
    ("exit_code", "verdict"), [(-11, Verdict.RUNTIME_ERROR), (None, Verdict.TIMEOUT)], ids=["crash", "hang"]
)
def test_an_executor_that_ends_in_a_burst_has_its_verdict(exit_code: int | None, verdict: Verdict) -> None:
    replay = replay_of(executor=(executor := FakeActor(ProtocolError("gone"))))
    executor.broken = lambda _: CallResult(None, exit_code=exit_code)  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(Fault) as caught:
        replay.burst_us("candidate0", 0, 4, USUAL)
    assert caught.value.verdict is verdict


@pytest.mark.parametrize("worthless", [LATE, UNSEEN], ids=["late", "unseen"])
def test_a_call_whose_times_are_worthless_is_repeated_on_other_values(worthless: Any) -> None:
    replay = replay_of(executor=FakeActor(worthless, ANSWER))
    replay.call("candidate0", 0, 3, 0, compared=True)
    assert replay.drawn == [(0, 4)]  # type: ignore[attr-defined]
    assert replay.referee.asked == ["stage", "collect", "compare_all", "stage", "collect"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("answer", "tries", "empty"), [(LATE, 5, LATE), (UNSEEN, 25, UNSEEN)], ids=["late", "unseen"])
def test_a_host_that_is_always_too_busy_is_noise(answer: Any, tries: int, empty: Any) -> None:
    replay = replay_of(executor=FakeActor(*[answer] * tries))
    replay.crew.baselines = [FakeActor(*[ANSWER] * 7, *[empty] * 3)]  # type: ignore[list-item]
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
        replay_of(executor=FakeActor(*[LATE] * 5)).burst_us("candidate0", 0, 4, USUAL)
    assert caught.value.verdict is Verdict.RUNTIME_ERROR


def test_calls_that_keep_the_host_from_seeing_their_end_are_no_noise() -> None:
    """Device code that reads memory of the host makes each look slow. Empty calls are seen in time."""
    replay = replay_of(executor=FakeActor(*[UNSEEN] * 25))
    with pytest.raises(Fault, match="seen too late") as caught:
        replay.call("candidate0", 0, 3, 0, compared=True)
    assert caught.value.verdict is Verdict.RUNTIME_ERROR


def test_before_the_judging_such_calls_are_timed_in_the_other_way() -> None:
    replay = replay_of(executor=FakeActor(*[LATE] * 5))
    with pytest.raises(NotReplayable, match="queued"):
        replay._try("candidate0", 0, 0)


def test_a_burst_has_no_more_launches_and_parameters_than_a_stream_holds() -> None:
    """Nodes that cost nothing do not make it short."""
    replay = replay_of()
    kernel = {"kind": "kernel", "after": [], "parameters": "00" * 4}
    large = {**kernel, "parameters": "00" * 32_000}
    nothing = [{"kind": "empty", "after": []}, {"kind": "memset", "width": 0}, {"kind": "copy", "bytes": 0}]
    for nodes, most in (([kernel], 8), ([kernel] * 100, 4), ([large] * 20, 3), ([kernel, *nothing * 100], 8)):
        items = tuple({"after": [], **node} for node in nodes)
        replay.calls = [tuple(RecordedCall(items, (512 * number,)) for number in range(8))]
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


def test_work_behind_the_end_counts() -> None:
    """The third word came 300 µs later than after nothing, so the stream had not written the one before."""
    forged = {**ANSWER, "behind_us": 306.0}
    replay = replay_of(executor=FakeActor(forged, *[forged] * 3))
    assert replay.burst_us("candidate0", 0, 4, USUAL) == pytest.approx((10 + 300 - 5) / 4)
    for _ in range(3):
        call = replay.call("candidate0", 0, 3, 0, compared=True)
        assert (call.event_us, call.behind_us) == (10.0, 300.0)
    medians = {"behind_p50_us": 300.0, "tail_p50_us": 15.0, "sampled_p50_us": 12.0, "lead_p50_us": 9.0}
    medians["start_p50_us"] = 2.0
    medians |= {name.replace("50", "99"): value for name, value in medians.items()}
    assert percentiles_us(replay.late) == medians


def test_a_burst_after_which_the_gpu_is_busy_is_charged() -> None:
    """Beyond what is usual for baselines of the same configuration, whatever others have."""
    replay = replay_of(executor=FakeActor(ANSWER, ANSWER))
    replay.referee.tail_us = 215.0  # type: ignore[attr-defined]
    assert replay.burst_us("candidate0", 0, 4, Lateness(900.0, 15.0)) == pytest.approx((10 + 200 - 100) / 4)
    assert replay.burst_us("candidate0", 0, 4, Lateness(0.0, 100.0)) == pytest.approx((10 + 115 - 100) / 4)


def test_a_call_whose_results_were_sampled_late_is_repeated_and_then_charged() -> None:
    """The host may have been busy. Device code can keep a copy engine busy, too, with copies of its own."""
    replay = replay_of(executor=FakeActor(*[ANSWER] * 5))
    replay.referee.sampled_us = 400.0  # type: ignore[attr-defined]
    assert replay.burst_us("candidate0", 0, 4, USUAL) == pytest.approx((10 + 400 - 100) / 4)
    assert replay.repeated == 4
    replay = replay_of(executor=FakeActor(*[ANSWER] * 5))
    replay.referee.sampled_us = 400.0  # type: ignore[attr-defined]
    assert replay.call("candidate0", 0, 3, 0, compared=True).sampled_us == 400.0


def test_a_call_that_is_repeated_because_its_results_came_late_counts_if_it_was_longer() -> None:
    """Device code could delay the copies after its slow calls alone."""
    replay = replay_of(executor=FakeActor({**ANSWER, "call_us": 9.0}, {**ANSWER, "call_us": 5.0}, ANSWER))
    referee: Any = replay.referee
    referee.sampled_us = 400.0
    asked = referee.link.send

    def told(do: str, **details: Any) -> None:
        referee.sampled_us = 400.0 if len(referee.collected) < 1 else 12.0
        asked(do, **details)

    referee.link.send = told
    result = replay.call("candidate0", 0, 3, 0, compared=True)
    assert (replay.repeated, result.event_us) == (1, 7.0)


@pytest.mark.parametrize(
    ("void", "counted_us"),
    [
        ({**ANSWER, "call_us": 42.0, "blind_us": 10.0}, 30.0),
        ({**ANSWER, "call_us": 12.5, "blind_us": 2.1}, 10.0),  # an honest one whose host was busy
        ({**ANSWER, "call_us": 42.0, "blind_us": 50.0}, 10.0),
        ({**ANSWER, "call_us": 42.0, "is_late": True}, 10.0),  # that is how long it was queued
    ],
)
@pytest.mark.parametrize("who", ["candidate0", "baseline0"])
def test_a_slow_call_whose_end_the_host_saw_late_counts_for_what_it_took_at_least(
    void: Any, counted_us: float, who: str
) -> None:
    """Device code could make the host blind after its slow calls alone, and have these repeated."""
    replay = replay_of(executor=FakeActor(void, ANSWER))
    replay.crew.baselines = [FakeActor(void, ANSWER)]  # type: ignore[list-item]
    assert replay.call(who, 0, 3, 0, compared=True).event_us == counted_us


def test_device_code_cannot_make_empty_calls_long() -> None:
    """What they take is subtracted from calls, so an executor's count as they were before it had device code."""
    slow = {**ANSWER, "call_us": 9.0, "behind_us": 99.0}
    replay = replay_of(executor=(executor := FakeActor(*[slow] * (WARM + 25))), candidate=FakeActor())
    replay._measure_all(LATER)
    assert replay._nothing["candidate0"] == (2.0, 7.0), "by the baseline's, as its own at rest are not known"
    replay.contexts, executor.answers = Contexts(empty_us={"candidate0": 3.0}), [slow] * (WARM + 25)
    replay._measure_all(LATER)
    assert replay._nothing["candidate0"] == (3.0, 7.0)


@pytest.mark.parametrize(("now_us", "subtracted_us"), [(2.7, 3.0), (2.5, 2.5)])
def test_of_an_executor_that_has_become_quicker_less_is_subtracted(now_us: float, subtracted_us: float) -> None:
    """Medians scatter, so a little less is no change."""
    replay = replay_of(executor=FakeActor(*[{**ANSWER, "call_us": now_us}] * (WARM + 25)), candidate=FakeActor())
    replay.contexts = Contexts(empty_us={"candidate0": 3.0})
    replay._measure_all(LATER)
    assert replay._nothing["candidate0"][0] == subtracted_us


def test_empty_calls_of_an_executor_end_with_the_time_for_recording() -> None:
    replay = replay_of(executor=FakeActor(*[ANSWER] * 99), candidate=FakeActor())
    with pytest.raises(Fault, match="recording and trying") as caught:
        replay._measure_all(time.monotonic() - 1.0)
    assert caught.value.verdict is Verdict.TIMEOUT


def test_the_first_empty_calls_of_an_executor_do_not_count() -> None:
    """They took up to 0.3 µs longer than others, as their process had been idle."""
    first, then = {**ANSWER, "behind_us": 6.9}, {**ANSWER, "behind_us": 6.2}
    replay = replay_of(executor=FakeActor(*[first] * WARM, *[then] * 25), candidate=FakeActor())
    replay._measure_all(LATER)
    assert replay._nothing["candidate0"] == (2.0, 6.2)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"error": "CUDA_ERROR_LAUNCH_FAILED"}, Verdict.RUNTIME_ERROR),
        (ProtocolError("gone"), Verdict.RUNTIME_ERROR),
        ({"tampered": "a word"}, Verdict.TAMPERING),
    ],
)
def test_an_empty_call_that_fails_in_an_executor_is_the_submissions_fault(answer: Any, verdict: Verdict) -> None:
    """Its device code has run there."""
    replay = replay_of(executor=FakeActor(answer), candidate=FakeActor())
    with pytest.raises(Fault) as caught:
        replay._measure_all(LATER)
    assert caught.value.verdict is verdict


NO_MEMORY = """Traceback (most recent call last):
  File "/kbench/child/gpu/executor.py", line 9, in main
    driver.open()
benchmarks.harness.child.gpu.driver.DriverError: cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY
"""
LOST = NO_MEMORY.replace("CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_VALUE")


def dead(log: str, *, code: int | None = 1) -> FakeActor:
    """An executor that has printed `log` and gives no more answers. Without a code it still runs."""
    actor = FakeActor(ProtocolError("gone") if code else TimeoutError())
    actor.child.wait, actor.child.log_tail = (lambda _: code), (lambda _: log)
    actor.open = lambda _: None  # type: ignore[attr-defined]
    return actor


@pytest.mark.parametrize(
    ("log", "code", "lacks"), [(NO_MEMORY, 1, True), (LOST, 1, False), (NO_MEMORY, None, False), ("", -9, False)]
)
def test_an_executor_may_have_died_for_want_of_memory(log: str, code: int | None, *, lacks: bool) -> None:
    """Else a session that waits for others decides that a kernel is bounded. A log is never shown: it may be forged."""
    shared: Any = SimpleNamespace(hand=lambda *_: None)
    replay = replay_of(executor=dead(log, code=code))
    with pytest.raises(NotReplayable) as opening:
        replay._open_executors(shared, time.monotonic() + 9.0)
    assert (str(opening.value), opening.value.lacks_gpu_memory) == ("its device code cannot be loaded", lacks)
    replay = replay_of(executor=dead(log, code=code))
    with pytest.raises(NotReplayable, match=r"fails when another process launches it \(no answer\)$") as trying:
        replay._try("candidate0", 0, 1)
    assert trying.value.lacks_gpu_memory is lacks


@pytest.mark.parametrize(
    ("executor", "lacks"),
    [
        (dead(NO_MEMORY), True),
        (dead(LOST), False),
        (FakeActor({"error": "CUDA_ERROR_OUT_OF_MEMORY"}), True),
        (FakeActor({"error": "CUDA_ERROR_LAUNCH_FAILED"}), False),
    ],
)
def test_an_empty_call_that_finds_no_memory_has_the_same_verdict_unless_sessions_held_it(
    executor: FakeActor, *, lacks: bool
) -> None:
    """What decides whether it is judged again may come from the submission, so no verdict follows from it."""
    replay = replay_of(executor=executor)
    with pytest.raises(Fault) as caught:
        replay._measure_all(LATER)
    assert (caught.value.verdict, caught.value.lacks_gpu_memory) == (Verdict.RUNTIME_ERROR, lacks)


def test_where_empty_calls_of_an_executor_are_late_those_of_the_baseline_count() -> None:
    replay = replay_of(executor=FakeActor(*[LATE] * (WARM + 100)), candidate=FakeActor())
    replay._measure_all(LATER)
    assert replay._nothing["candidate0"] == replay._nothing["baseline0"] == (2.0, 6.0)


def test_where_empty_calls_of_a_baseline_are_worthless_the_host_is_too_busy() -> None:
    """Twelve of a hundred are enough, and no more than 25 are needed."""
    replay = replay_of(executor=FakeActor(*NO_CONTEXT * 2))
    first = [*NO_CONTEXT, *[ANSWER] * WARM]
    told = [*first, *[UNSEEN] * 88, *[ANSWER] * 12, *first, *[UNSEEN] * 89, *[ANSWER] * 11]
    replay.crew.baselines = [FakeActor(*told)]  # type: ignore[list-item]
    replay.capture_baselines(lambda _: 0, [[0]])
    with pytest.raises(Fault, match="does not see") as caught:
        replay.capture_baselines(lambda _: 0, [[0]])
    assert caught.value.verdict is Verdict.NOISY


def test_a_baseline_answers_for_calls_of_nothing_and_its_executor_makes_one_as_well() -> None:
    """That of the executor decides nothing, but a report tells it; one that is worth nothing is left out."""
    quick = {**ANSWER, "call_us": 3.0}
    replay = replay_of(executor=FakeActor(quick, {**UNSEEN, "call_us": 99.0}))
    assert [replay.call("baseline0", 0, 0, NOTHING, compared=False).wall_us for _ in range(2)] == [12.0, 12.0]
    assert replay.between_us == {"baseline0": [12.0, 12.0], "candidate0": [3.0]}


@pytest.mark.parametrize(
    "answers", [[{"piece": ""}], [{"piece": "x" * (1 << 20)}] * 20, [{"not_recorded": "it waits"}]]
)
def test_a_recorder_that_talks_without_end_or_gives_up_is_not_replayed(answers: list[Any]) -> None:
    replay = replay_of(candidate=FakeActor(*answers))
    with pytest.raises(NotReplayable):
        recording_of(replay).ask(replay.configs[0], "recorded", record=0)


@pytest.mark.parametrize(
    ("answer", "verdict"), [(TimeoutError(), Verdict.TIMEOUT), (ProtocolError("gone"), Verdict.RUNTIME_ERROR)]
)
def test_a_recorder_that_dies_or_hangs_has_its_verdict(answer: Exception, verdict: Verdict) -> None:
    replay = replay_of(candidate=FakeActor(answer))
    with pytest.raises(Fault) as caught:
        recording_of(replay).ask(replay.configs[0], "warmed", warm=0)
    assert caught.value.verdict is verdict


def test_nothing_is_told_of_a_hidden_configuration() -> None:
    """Neither its name nor a text that the submission chose while it met it."""
    hidden = next(
        item for item in find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda") if item.hidden
    )
    replay = replay_of(candidate=FakeActor({"not_recorded": "RuntimeError: sizes 77 and 99"}))
    with pytest.raises(NotReplayable) as caught:
        recording_of(replay).ask(hidden, "recorded", record=0)
    assert str(caught.value) == "a hidden configuration: it cannot be replayed there"


def test_what_is_told_of_visible_configurations_is_told_before_the_first_hidden_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")
    shown, hidden = (next(item for item in configs if item.hidden is is_hidden) for is_hidden in (False, True))
    printed, log = tmp_path / "printed", tmp_path / "candidate0.log"
    printed.write_text("64 by 128")
    log.hardlink_to(printed)  # as a session links the log of its crew
    session: Any = SimpleNamespace(setting=SimpleNamespace(scratch=tmp_path), crew=SimpleNamespace(log=log))
    candidate = FakeActor({"warmed": True}, {"recorded": True}, {"warmed": True}, {"not_recorded": "no"})
    monkeypatch.setattr(recording_module, "read_record", lambda *_: ())
    monkeypatch.setattr(recording_module, "demand_little_moved", lambda *_: None)
    replay = replay_of(candidate=candidate)
    replay.configs, asked = [shown, hidden], []

    def cut() -> None:
        asked.extend(candidate.asked)
        GpuSession._cut_log(session)
        printed.write_text("64 by 128, 77 by 99")

    with pytest.raises(NotReplayable, match="a hidden configuration: it cannot be replayed there"):
        recording_of(replay).calls(lambda _: 0, cut, None, [8, 8])  # type: ignore[arg-type]
    assert asked == [{"warm": 0}, {"record": 0}]
    assert log.read_text() == "64 by 128"
    assert session.has_met_hidden


def test_recording_has_one_time_for_all_its_requests() -> None:
    """Each may take 30 s, and there are two for each configuration."""
    replay = replay_of(candidate=FakeActor(TimeoutError()))
    recording = replace(recording_of(replay), until_s=time.monotonic())
    with pytest.raises(Fault, match="took too long in all") as caught:
        recording.ask(replay.configs[0], "warmed", warm=0)
    assert caught.value.verdict is Verdict.TIMEOUT


def test_trying_the_calls_belongs_to_that_time() -> None:
    """Device code could spin for almost as long as a call may take, in every configuration and launch."""
    replay = replay_of(executor=FakeActor(ANSWER))
    replay._measure_nothing = lambda _: (1.0, 1.0)  # type: ignore[method-assign]
    with pytest.raises(Fault, match="recording and trying its calls took more than 9 s") as caught:
        replay._try_all(lambda _: 0, time.monotonic() - 1.0)
    assert caught.value.verdict is Verdict.TIMEOUT


@pytest.mark.parametrize("hidden", [False, True])
def test_an_exit_code_tells_nothing_of_hidden_configurations(*, hidden: bool) -> None:
    configs = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")
    replay = replay_of(candidate=(candidate := FakeActor(ProtocolError("gone"))))
    candidate.child.wait = lambda _: 77
    with pytest.raises(Fault) as caught:
        recording_of(replay).ask(next(item for item in configs if item.hidden is hidden), "warmed", warm=0)
    assert ("77" in caught.value.reason) is not hidden


def test_candidates_are_frozen_before_anything_is_timed() -> None:
    """Their threads could keep the host from seeing words in time."""
    replay = replay_of(executor=FakeActor(ANSWER), candidate=(candidate := FakeActor()))
    replay._freeze_candidates()
    assert candidate.frozen == [True]


def test_only_the_process_that_is_recorded_runs_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the second one could keep the processors, and the first would be waited for as if others had them."""

    def fails(*_: Any) -> None:
        raise NotReplayable("it cannot be recorded")

    monkeypatch.setattr(CallRecording, "calls", fails)
    replay, second = replay_of(candidate=(first := FakeActor())), FakeActor()
    replay.crew.candidates.append(second)  # type: ignore[arg-type]
    with pytest.raises(NotReplayable):
        replay.begin(SimpleNamespace(memory=None), lambda _: 0, None)  # type: ignore[arg-type]
    assert (first.frozen, second.frozen) == ([False], [])


def test_a_control_run_replays_the_baselines() -> None:
    """What failed in the judging is repeated: else a failure of ours would be called the submission's."""
    replay = replay_of()
    replay.captured, replay._nothing = Captured(), {}
    replay.crew.executors, told = [], [*NO_CONTEXT, *[ANSWER] * (WARM + 25), {"kernels": [3]}, ANSWER]
    replay.crew.baselines = [baseline := FakeActor(*told)]  # type: ignore[list-item]
    replay.capture_baselines(lambda _: 0, [[0]])
    assert [message for message in baseline.asked if "capture" in message or "replay" in message] == [
        {"replay": True},
        {"capture": 0, "functions": [0], "sets": 8},
    ]
    assert replay.call("baseline0", 0, 3, 0, compared=True).status is Status.OK


def test_baselines_are_timed_when_they_are_replayed_by_the_clock_of_all_replayed_calls() -> None:
    replay = replay_of()
    answers = [ANSWER, *[{**ANSWER, "call_us": call_us} for call_us in (9.0, 7.0, 8.0, 30.0, 8.0)]]
    replay.crew.baselines = [FakeActor(*answers)]  # type: ignore[list-item]
    assert replayed_baselines(replay, lambda _: 0, [[0]]) == {replay.configs[0].key: (6.0, None)}
    assert not replay.late, "a report tells of the calls of the judging"
    assert not replay.drawn, "an empty call takes 2 µs, and nobody needs other values"  # type: ignore[attr-defined]


@pytest.mark.parametrize("who", ["candidate0", "baseline0"])
@pytest.mark.parametrize(("now_us", "is_noise"), [(3.7, False), (3.5, True)])
def test_no_more_was_subtracted_than_an_empty_call_takes_in_the_end(*, now_us: float, is_noise: bool, who: str) -> None:
    """Left-over work that slows empty calls of baselines would be subtracted from every call."""
    replay = replay_of()
    replay._nothing[who] = (4.0, 6.0)
    first, then = ({**ANSWER, "call_us": call_us} for call_us in (9.0, now_us))
    replay.crew.baselines = [FakeActor(*[first] * WARM, *[then] * 25)]  # type: ignore[list-item]
    with pytest.raises(Fault, match="something slowed") if is_noise else nullcontext():
        replay.demand_short_nothing()


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
    calls, took_s = Clock(Driver(gpu_fake)).burn([Work(gpu_fake, 0), Work(gpu_fake, 0)], 0.02)  # type: ignore[list-item]
    assert calls == 2 * len(launched)
    assert took_s >= 0.02
