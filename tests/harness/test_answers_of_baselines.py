"""What baselines tell has the form that our own code gives it, or the judging ends as nobody's fault.

Not covered: preparing them (`test_endless_baselines.py`).
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.errors import RefereeError
from benchmarks.harness.gpu.contexts import contexts_of
from benchmarks.harness.gpu.word_times import demand_times
from benchmarks.harness.measuring.answers import number_of, numbers_of, problem_of
from benchmarks.harness.measuring.session import EAGER
from tests.harness.test_gpu_replay import ANSWER, FakeActor, replay_of

CHILD: Any = SimpleNamespace(log_tail=lambda _: "", wait=lambda _: None)
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e13", "true", "null", '"1"', "[]", "{}", "1" + 400 * "0"]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_number_is_finite_and_of_sensible_size(text: str) -> None:
    answer = json.loads(f'{{"n": {text}, "list": [1, {text}]}}')
    for told in (lambda: number_of(answer, "n", CHILD), lambda: numbers_of(answer, "list", 2, CHILD)):
        with pytest.raises(RefereeError, match="a baseline of the task gave no sensible answer"):
            told()


def test_what_is_missing_or_too_much_is_no_answer() -> None:
    for told in (
        lambda: number_of({}, "n", CHILD),
        lambda: numbers_of({"n": [1.0]}, "n", 2, CHILD),
        lambda: numbers_of({"n": {"0": 1}}, "n", 1, CHILD),
        lambda: problem_of({}, CHILD),
    ):
        with pytest.raises(RefereeError):
            told()
    assert number_of({"n": 3}, "n", CHILD) == 3.0
    assert numbers_of({"n": [1, 2.5]}, "n", 2, CHILD) == [1.0, 2.5]
    assert len(problem_of({"problem": "x" * 10_000}, CHILD) or "") == 500


@pytest.mark.parametrize("change", [{"call_us": "1"}, {"is_late": 0}, {"blind_us": None}, {"start_us": float("nan")}])
def test_times_of_a_call_on_a_gpu_are_numbers(change: dict[str, Any]) -> None:
    demand_times(ANSWER, CHILD)
    with pytest.raises(RefereeError):
        demand_times({**ANSWER, **change}, CHILD)
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.crew.baselines = [FakeActor({**ANSWER, **change})]  # type: ignore[list-item]
    with pytest.raises(RefereeError):
        replay.call("baseline0", 0, 0, EAGER, compared=False)


@pytest.mark.parametrize("kernels", [None, 3, [], [1, 2], ["1"], [float("inf")]])
def test_numbers_of_kernels_are_as_many_as_were_captured(kernels: Any) -> None:
    replay = replay_of(executor=FakeActor(ANSWER))
    replay.crew.baselines = [FakeActor({"kernels": kernels})]  # type: ignore[list-item]
    with pytest.raises(RefereeError):
        replay._capture(0, [EAGER])


@pytest.mark.parametrize("told", [{}, {"empty": 1, "kernels": []}, {"empty": [1], "kernels": []}, {"empty": [{}]}])
def test_what_a_context_costs_is_told_in_calls(told: dict[str, Any]) -> None:
    actors: Any = {"baseline0": FakeActor()}
    with pytest.raises(RefereeError):
        contexts_of(actors, lambda _: told)
