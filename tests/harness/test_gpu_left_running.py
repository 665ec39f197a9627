"""What disturbs a bounded judging is the submission's doing if it ends with its processes, and the machine's if not."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.harness import Verdict, default_rules
from benchmarks.harness.gpu import left_running
from benchmarks.harness.gpu.left_running import demand_that_nothing_is_left
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.protocol import Status

RULES = default_rules().gpu
CALM_US, WILD_US = 5.0, 100.0


@dataclass
class Session:
    """Stands in for a session: what it measures before and after the candidates are ended."""

    writes: tuple[float, float] = (90.0, 90.0)
    deviation_us: tuple[float, float] = (CALM_US, CALM_US)  # of empty calls, from their middle
    ended: bool = False
    calls: int = 0

    @property
    def crew(self) -> "Session":
        return self

    def end_candidates(self) -> None:
        self.ended = True

    def writes_us(self) -> float:
        return self.writes[self.ended]

    def fill(self, config: int) -> int:
        return config

    def call_baseline(self, config: int, choice: int, function: int) -> CallResult:
        self.calls += 1
        more_us = self.deviation_us[self.ended] * (self.calls % 3 - 1)
        return CallResult(Status.OK, wall_us=700.0 + more_us, resume_us=0.0, event_us=0.0, tail_us=20.0, gate_us=400.0)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_running.time, "sleep", lambda _: None)


def look(
    session: Session, *, drift: float = 0.0, scatter_us: float = 10.0, drift_now: Callable[[], float] = lambda: 0.0
) -> None:
    found: Any = session
    demand_that_nothing_is_left(found, RULES, drift=drift, scatter_us=scatter_us, drift_now=drift_now)


def test_nothing_is_said_of_a_calm_gpu() -> None:
    session = Session()
    look(session)
    assert session.ended
    assert session.is_alone
    assert session.calls == 0


@pytest.mark.parametrize(("afterwards", "is_accused"), [(90.0, True), (180.0, False)])
def test_writes_that_are_slow_until_the_candidates_end_are_their_doing(afterwards: float, is_accused: bool) -> None:
    with pytest.raises(Fault, match="writes took 100% longer") if is_accused else nullcontext():
        look(Session(writes=(180.0, afterwards)))


@pytest.mark.parametrize(("afterwards", "is_accused"), [(0.01, True), (0.25, False)])
def test_a_gpu_that_is_slow_until_the_candidates_end_is_their_doing(afterwards: float, is_accused: bool) -> None:
    with pytest.raises(Fault, match=r"25\.0% slower than before") if is_accused else nullcontext():
        look(Session(), drift=0.25, drift_now=lambda: afterwards)


@pytest.mark.parametrize(
    ("deviations_us", "verdict"),
    [
        ((WILD_US, CALM_US), Verdict.TAMPERING),  # it ends with the candidates
        ((WILD_US, WILD_US), Verdict.NOISY),  # it stays: the machine's
        ((WILD_US, 15.0), Verdict.NOISY),  # it is less afterwards, but not calm
        ((CALM_US, CALM_US), Verdict.NOISY),  # it was over before the candidates were ended
    ],
)
def test_scatter_of_empty_calls_is_judged_by_what_becomes_of_it(
    deviations_us: tuple[float, float], verdict: Verdict
) -> None:
    with pytest.raises(Fault) as raised:
        look(Session(deviation_us=deviations_us), scatter_us=200.0)
    assert raised.value.verdict is verdict


def test_scatter_within_the_rules_is_not_looked_into() -> None:
    session = Session(deviation_us=(WILD_US, CALM_US))
    look(session, scatter_us=RULES.spread_max_us)
    assert session.calls == 0
