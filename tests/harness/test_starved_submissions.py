"""A submission that waits for a processor which builds of others have is not out of time.

On a GPU builds run beside a judging. Not covered: how much more time that is (`test_fair_deadlines.py`).
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import default_suites, find_task
from benchmarks.harness.gpu.recording import CallRecording
from benchmarks.harness.gpu.warming import await_warm
from benchmarks.harness.measuring.contestants import Actor
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.laps import Laps
from benchmarks.harness.measuring.session import Session
from benchmarks.harness.report import Verdict
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork

LIMIT_S = 100.0
CONFIGS = find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")[:1]


class KeptWaiting(Actor):
    """A process that says `first` at once and `last` after `answers_s`; `work` is what it has done until a moment."""

    def __init__(self, answers_s: float, work: Callable[[float], TreeWork], first: list[Any], last: Any) -> None:
        self.now_s, self._answers_s, self._says = 0.0, answers_s, [*first, last]
        self._child = cast(Any, SimpleNamespace(work=lambda: work(self.now_s), log_tail=lambda _: ""))
        self._link = cast(Any, SimpleNamespace(send=lambda **_: None))

    def receive(self, timeout_s: float) -> dict[str, Any]:
        if len(self._says) == 1:
            self.now_s += timeout_s
            if self.now_s < self._answers_s:
                raise TimeoutError
        return cast(dict[str, Any], self._says.pop(0))


def warms(actor: Callable[[list[Any], Any], Actor]) -> None:
    await_warm(actor([{"woken": {}}], {"warmed": True}), LIMIT_S)


def loads(actor: Callable[[list[Any], Any], Actor]) -> None:
    limits = SimpleNamespace(setup_s=LIMIT_S)
    session: Any = SimpleNamespace(setting=SimpleNamespace(rules=SimpleNamespace(limits=limits)))
    Session._await_candidate(session, actor([], {"serving": True}))


def is_recorded(actor: Callable[[list[Any], Any], Actor]) -> None:
    recording_of(actor([{"piece": "x"}], {"warmed": True})).ask(CONFIGS[0], "warmed", warm=0)


def recording_of(candidate: Actor) -> CallRecording:
    return CallRecording(candidate, cast(Any, None), CONFIGS, LIMIT_S, 3 * LIMIT_S, Laps())


WAYS = pytest.mark.parametrize("way", [warms, loads, is_recorded])


def outcome(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., None], answers_s: float, work: Callable[[float], TreeWork]
) -> Verdict | None:
    made: list[KeptWaiting] = []

    def actor(first: list[Any], last: Any) -> KeptWaiting:
        made.append(KeptWaiting(answers_s, work, first, last))
        return made[0]

    monkeypatch.setattr(deadlines.time, "monotonic", lambda: made[0].now_s if made else 0.0)
    try:
        way(actor)
    except Fault as fault:
        return fault.verdict
    return None


def starves(_: float) -> TreeWork:
    return TreeWork(0.1, is_ready=True, counts_all=False)


@WAYS
def test_who_waits_for_a_processor_has_more_time(monkeypatch: pytest.MonkeyPatch, way: Callable[..., None]) -> None:
    assert outcome(monkeypatch, way, 190.0, starves) is None


@WAYS
def test_who_has_never_had_a_processor_is_judged_again(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., None]
) -> None:
    assert outcome(monkeypatch, way, 1000.0, starves) is Verdict.NOISY


@WAYS
@pytest.mark.parametrize(
    "work",
    [
        lambda now_s: TreeWork(now_s, is_ready=True, counts_all=False),
        lambda now_s: TreeWork(0.0, is_ready=True, spare_s=now_s, counts_all=False),
        lambda _: TreeWork(0.0, is_ready=False, counts_all=False),
    ],
    ids=["it works", "the machine has processors to spare", "it sleeps"],
)
def test_who_has_had_its_time_is_out_of_time(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., None], work: Callable[[float], TreeWork]
) -> None:
    assert outcome(monkeypatch, way, 110.0, work) is Verdict.TIMEOUT


def test_time_for_all_requests_is_longer_by_what_one_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the part with which patience ends: half where some of its time may not be counted."""
    candidate = KeptWaiting(170.0, starves, [], {"warmed": True})
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: candidate.now_s)
    recording = recording_of(candidate)
    recording.ask(CONFIGS[0], "warmed", warm=0)
    assert recording.until_s == pytest.approx(3 * LIMIT_S + 170.0 / 2, abs=1)


def test_a_package_that_is_not_imported_in_time_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def imports(actor: Callable[[list[Any], Any], Actor]) -> None:
        await_warm(actor([], {"woken": {}}), LIMIT_S)

    asleep = outcome(monkeypatch, imports, 1000.0, lambda _: TreeWork(0.0, is_ready=False))
    assert asleep is Verdict.INTERNAL_ERROR
