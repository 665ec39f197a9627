"""What short calls owe to the context of their process: asked of all processes, and subtracted from their calls.

The driver and the processes are fakes. Not covered: the kernel that does nothing, which needs a GPU.
"""

from typing import Any

import pytest

from benchmarks.harness.child.gpu import contexts as child_contexts
from benchmarks.harness.child.gpu.clock import Clock
from benchmarks.harness.child.gpu.driver import Driver
from benchmarks.harness.gpu.contexts import surpluses_us
from tests.harness.test_gpu_replay import ANSWER, UNSEEN, FakeActor, FakeGpu, Work, replay_of


def told(kernel_us: float, *, calls: int = 40) -> dict[str, Any]:
    """A process whose empty calls take 2 µs, and `kernel_us` longer with a kernel; others are worth nothing."""
    empty, kernel = {**ANSWER, "call_us": 2.0}, {**ANSWER, "call_us": 2.0 + kernel_us}
    lost = {**UNSEEN, "call_us": 99.0}
    return {"empty": [empty] * calls + [lost] * 9, "kernel": [kernel] * calls + [lost] * 9}


def surpluses_of(*answers: Any) -> dict[str, float]:
    actors: Any = {f"process{number}": FakeActor(answer) for number, answer in enumerate(answers)}
    return surpluses_us(actors, lambda actor: actor.receive(1.0))


def test_each_process_is_held_against_the_mean_of_all() -> None:
    found = surpluses_of(told(2.4), told(2.6), told(2.4), told(2.6))
    assert found == pytest.approx({"process0": -0.1, "process1": 0.1, "process2": -0.1, "process3": 0.1})


@pytest.mark.parametrize(
    "other",
    [told(2.9), told(2.4, calls=9), {"empty": [], "kernel": []}],
    ids=["disturbed", "too few calls", "no kernel"],
)
def test_nothing_is_subtracted_if_one_process_cannot_tell(other: Any) -> None:
    assert surpluses_of(told(2.4), other) == {}


def test_the_surplus_of_its_process_is_subtracted_from_a_call() -> None:
    for surplus_us, expected_us in ((0.25, 9.75), (-0.25, 10.25)):
        replay = replay_of(executor=FakeActor(ANSWER))
        replay.surplus_us = {"candidate0": surplus_us, "baseline0": 7.0}
        assert replay.call("candidate0", 0, 3, 0, compared=True).time_us == expected_us


def test_processes_are_asked_before_anything_is_captured_and_one_after_the_other() -> None:
    executor, baseline = FakeActor(told(2.6)), FakeActor(told(2.4), *[ANSWER] * 25)
    replay = replay_of(executor=executor)
    replay.crew.baselines = [baseline]  # type: ignore[list-item]
    replay.capture_baselines(lambda _: 0, [[0]])
    assert replay.surplus_us == pytest.approx({"baseline0": -0.1, "candidate0": 0.1})
    assert executor.asked == [{"context": True}]
    assert baseline.asked[0] == {"context": True}, "before its empty calls"


def test_a_process_makes_empty_calls_and_calls_of_the_kernel_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, launched = FakeGpu(), list[int]()
    monkeypatch.setattr(child_contexts, "_CALLS", 3)
    monkeypatch.setattr(child_contexts, "program", lambda *_: Work(gpu, 0.01, first=lambda: launched.append(1)))
    driver = Driver(gpu)
    found = child_contexts.context_calls(driver, Clock(driver))
    assert len(launched) == len(found["kernel"]) == len(found["empty"]) == 3
    assert min(call["call_us"] for call in found["kernel"]) > 9_000 > max(call["call_us"] for call in found["empty"])


def test_a_driver_that_cannot_compile_the_kernel_says_so() -> None:
    class NoCompiler(FakeGpu):
        def cuModuleLoadData(self, *_: Any) -> int:
            return 221

    driver = Driver(NoCompiler())
    assert child_contexts.context_calls(driver, Clock(driver)) == {"empty": [], "kernel": []}
