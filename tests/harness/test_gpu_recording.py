"""How long a submission may take until its calls are recorded: what others take from it does not count.

Not covered: what a record may say (`test_gpu_records.py`).
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import Verdict
from benchmarks.harness.gpu.recording import CallRecording
from benchmarks.harness.measuring.contestants import Actor
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.laps import Laps
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork

CONFIG: Any = SimpleNamespace(hidden=False, key="n=1")
EACH_S, ALL_S = 30.0, 240.0


class Answering(Actor):
    """Answers each request after `each_s` in which it gets `share` of a processor and none is idle."""

    def __init__(self, clock: list[float], each_s: float, share: float) -> None:
        self._clock, self._each_s, self._answers_at_s = clock, each_s, 0.0
        self._child = cast(Any, SimpleNamespace(work=lambda: TreeWork(share * clock[0], is_ready=True)))
        self._link = cast(Any, SimpleNamespace(send=self._asked))

    def _asked(self, **_: Any) -> None:
        self._answers_at_s = self._clock[0] + self._each_s

    def receive(self, timeout_s: float) -> dict[str, Any]:
        if self._answers_at_s > self._clock[0] + timeout_s:
            self._clock[0] += timeout_s
            raise TimeoutError
        self._clock[0] = max(self._clock[0], self._answers_at_s)
        return {"warmed": True}


def answered(monkeypatch: pytest.MonkeyPatch, each_s: float, share: float, *, fill_s: float = 0.5) -> tuple[int, str]:
    """How many of 40 requests are answered, and the verdict on the next one."""
    clock = [0.0]
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: clock[0])
    referee = cast(Any, SimpleNamespace(ask=lambda *_, **__: None))
    recording = CallRecording(Answering(clock, each_s, share), referee, [CONFIG], EACH_S, ALL_S, Laps())

    def fill(_: int) -> int:
        clock[0] += fill_s
        return 0

    for number in range(40):
        try:
            recording._warm_up(0, fill)
        except Fault as fault:
            return number, fault.verdict.value
    return 40, ""


def test_who_works_has_as_much_time_as_the_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, 25.0, 1.0) == (9, Verdict.TIMEOUT.value)
    assert answered(monkeypatch, 5.0, 1.0, fill_s=20.0) == (40, ""), "the referee's time is not the submission's"


def test_whom_others_keep_waiting_in_each_request_has_more_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(monkeypatch, 25.0, 0.05)
    assert found[0] > 30
    assert found[1] == Verdict.NOISY.value
    assert answered(monkeypatch, 130.0, 0.05) == (0, Verdict.NOISY.value)
