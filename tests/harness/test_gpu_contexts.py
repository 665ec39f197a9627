"""What short calls owe to the context of their process: asked of all processes, and subtracted from their calls.

The driver and the processes are fakes. Not covered: the kernel that does nothing, which needs a GPU.
"""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.child.gpu import contexts as child_contexts
from benchmarks.harness.child.gpu import executor
from benchmarks.harness.child.gpu.clock import Clock
from benchmarks.harness.child.gpu.driver import Driver, DriverError
from benchmarks.harness.gpu.contexts import Contexts, contexts_of
from benchmarks.harness.gpu.record import RecordedCall
from benchmarks.harness.measuring.session import COMPILE, EAGER, NOTHING
from tests.harness.test_gpu_replay import ANSWER, NO_CONTEXT, UNSEEN, FakeActor, FakeGpu, Work, replay_of


def told(kernels_us: float, *, calls: int = 10, empty_us: float = 2.0) -> list[dict[str, Any]]:
    """Of each round, for a process whose calls of kernels take so much longer than empty ones; others are worthless.

    The first round does not count: a process that has been idle takes longer.
    """
    empty, kernels = {**ANSWER, "call_us": empty_us}, {**ANSWER, "call_us": empty_us + kernels_us}
    lost = {**UNSEEN, "call_us": 99.0}
    first = {**ANSWER, "call_us": 50.0}
    then = {"empty": [empty] * calls + [lost] * 9, "kernels": [kernels] * calls + [lost] * 9}
    return [{"empty": [first] * 99, "kernels": [first] * 99}, *[then] * 4]


def contexts(*answers: Any) -> Contexts:
    actors: Any = {f"process{number}": FakeActor(*answer) for number, answer in enumerate(answers)}
    return contexts_of(actors, lambda actor: actor.receive(1.0))


def test_each_process_is_held_against_the_mean_of_all() -> None:
    found = contexts(told(5.9), told(6.4), told(5.9), told(6.4, empty_us=2.5))
    assert found.surplus_us == pytest.approx({"process0": -0.25, "process1": 0.25, "process2": -0.25, "process3": 0.25})
    assert found.empty_us == {"process0": 2.0, "process1": 2.0, "process2": 2.0, "process3": 2.5}


NO_KERNEL = [{**answer, "kernels": []} for answer in told(5.9)]


@pytest.mark.parametrize("other", [told(7.0), NO_KERNEL], ids=["disturbed", "no kernel"])
def test_nothing_is_subtracted_if_one_process_cannot_tell(other: Any) -> None:
    assert contexts(told(5.9), other) == Contexts(empty_us={"process0": 2.0, "process1": 2.0})


@pytest.mark.parametrize("other", [told(5.9, calls=9), NO_CONTEXT], ids=["too few", "none"])
def test_nothing_is_known_if_empty_calls_of_one_process_are_worth_nothing(other: Any) -> None:
    assert contexts(told(5.9), other) == Contexts()


@pytest.mark.parametrize(("kernels", "share"), [(0, 0.0), (1, 0.35), (2, 0.46), (4, 0.92), (8, 1.84), (99, 1.84)])
def test_what_four_kernels_take_longer_is_more_than_what_one_does(kernels: int, share: float) -> None:
    found = Contexts({"slow": 0.5, "quick": -0.5})
    assert found.surplus_of("slow", kernels) == pytest.approx(0.5 * share)
    assert found.surplus_of("quick", kernels) == pytest.approx(-0.5 * share)
    assert Contexts().surplus_of("slow", kernels) == 0.0


@pytest.mark.parametrize("surplus_us", [0.5, -0.5])
def test_the_surplus_of_its_process_is_subtracted_from_a_call_by_its_kernels(surplus_us: float) -> None:
    def time_us(who: str, function: int) -> float | None:
        replay = replay_of(executor=FakeActor(ANSWER))
        replay.crew.baselines = [FakeActor(ANSWER)]  # type: ignore[list-item]
        replay.calls = [(RecordedCall(({"kind": "kernel"}, {"kind": "memset"}, {"kind": "kernel"}), (0,)),) * 8]
        replay.captured.kernels = {(EAGER, 0): 4, (COMPILE, 0): 1}
        replay.contexts = Contexts({"candidate0": surplus_us, "baseline0": surplus_us})
        return replay.call(who, 0, 3, function, compared=False).time_us

    assert time_us("candidate0", EAGER) == pytest.approx(10.0 - 0.46 * surplus_us)
    assert time_us("baseline0", EAGER) == pytest.approx(10.0 - 0.92 * surplus_us)
    assert time_us("baseline0", COMPILE) == pytest.approx(10.0 - 0.35 * surplus_us)


def test_processes_are_asked_there_and_back_before_anything_is_captured() -> None:
    order = list[str]()
    actors = {"baseline": FakeActor(*told(5.9), *[{**ANSWER, "call_us": 9.0}] * 75), "candidate": FakeActor(*told(6.4))}
    for name, actor in actors.items():
        actor.link.send = lambda name=name, **message: order.append(name) if "context" in message else None
    replay = replay_of(executor=actors["candidate"])
    replay.crew.baselines = [actors["baseline"]]  # type: ignore[list-item]
    replay.capture_baselines(lambda _: 0, [[0]])
    assert replay.contexts.surplus_us == pytest.approx({"baseline0": -0.25, "candidate0": 0.25})
    assert replay.nothing_us["baseline0"] == 2.0, "as it was asked for with the context, not what it takes now"
    assert order == ["baseline", "candidate", *["candidate", "baseline", "baseline", "candidate"] * 2]


def test_empty_calls_between_timed_ones_are_made_like_these_and_each_process_is_first_in_turn() -> None:
    order = list[str]()
    actors = {"baseline": FakeActor(*[ANSWER] * 3), "executor": FakeActor(*[ANSWER] * 3)}
    for name, actor in actors.items():
        actor.link.send = lambda name=name, **_: order.append(name)
    replay = replay_of(executor=actors["executor"])
    replay.crew.baselines = [actors["baseline"]]  # type: ignore[list-item]
    replay.referee.ask = lambda what, who, **_: order.append(f"{what} for {who}")  # type: ignore[method-assign]
    for _ in range(3):
        replay.call("baseline0", 0, 0, NOTHING, compared=False)
    baseline, executor = ["stage for baseline0", "baseline"], ["stage for candidate0", "executor"]
    assert order == [*baseline, *executor, *executor, *baseline, *baseline, *executor]
    assert {who: len(times_us) for who, times_us in replay.between_us.items()} == {"baseline0": 3, "candidate0": 3}


def test_a_process_makes_empty_calls_and_calls_of_kernels_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, launched = FakeGpu(), list[int]()
    monkeypatch.setattr(child_contexts, "_CALLS", 3)
    monkeypatch.setattr(child_contexts, "program", lambda *_: Work(gpu, 0.005, first=lambda: launched.append(1)))
    driver = Driver(gpu)
    found = child_contexts.context_calls(driver, Clock(driver))
    assert (len(launched), len(found["kernels"]), len(found["empty"])) == (12, 3, 3)
    assert min(call["call_us"] for call in found["kernels"]) > 19_000 > max(call["call_us"] for call in found["empty"])


def test_an_executor_is_asked_several_times_before_it_gets_a_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another request would be read as that for the submission, whose memory would be waited for."""
    messages = iter([*[{"context": True}] * 5, {"code": "folder"}])
    sent = list[str]()
    link = SimpleNamespace(send=lambda **message: sent.extend(message), receive=lambda: next(messages))

    def linked(opened: socket.socket) -> Any:
        opened.close()
        return link

    class NothingLoads:
        def __init__(self, driver: Any, clock: Any, message: Any, link: Any) -> None:
            raise executor.NotLoaded(0, message["code"])

    fakes = {"Link": linked, "Driver": lambda: Driver(FakeGpu()), "Executor": NothingLoads}
    fakes["sleep_until_called"] = lambda *_: None
    fakes["context_calls"] = lambda *_: {"empty": []}
    for name, fake in fakes.items():
        monkeypatch.setattr(executor, name, fake)
    ours, theirs = socket.socketpair()
    executor.main([str(ours.detach())])
    theirs.close()
    assert sent == ["awake", *["empty"] * 5, "not_replayable", "config"]


class NoModule(FakeGpu):
    """Loads no kernel, and says why."""

    def __init__(self, error: bytes) -> None:
        super().__init__()
        self._error = error

    def cuModuleLoadData(self, *_: Any) -> int:
        return 2

    def cuGetErrorName(self, _: Any, place: Any) -> int:
        place._obj.value = self._error
        return 0


def test_a_driver_that_cannot_compile_the_kernel_makes_empty_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_contexts, "_CALLS", 3)
    driver = Driver(NoModule(b"CUDA_ERROR_JIT_COMPILER_NOT_FOUND"))
    found = child_contexts.context_calls(driver, Clock(driver))
    assert (len(found["empty"]), found["kernels"]) == (3, [])


def test_a_lack_of_memory_is_no_lack_of_a_compiler() -> None:
    driver = Driver(NoModule(b"CUDA_ERROR_OUT_OF_MEMORY"))
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        child_contexts.context_calls(driver, Clock(driver))
