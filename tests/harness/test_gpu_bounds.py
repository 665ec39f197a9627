"""What the referee's clock says of claimed times."""

import pytest

from benchmarks.harness import default_rules
from benchmarks.harness.contestants import CallResult
from benchmarks.harness.gpu import bounds
from benchmarks.harness.protocol import Status

RULES = default_rules().gpu


def calls(
    event_us: float, wall_us: float, *, count: int = 9, flush_us: float = 90.0, gate_us: float = 250.0
) -> list[CallResult]:
    return [
        CallResult(
            Status.OK,
            wall_us=wall_us + number % 3,
            tail_us=170.0,
            event_us=event_us,
            flush_us=flush_us,
            gate_us=gate_us,
        )
        for number in range(count)
    ]


NULL = calls(1.3, 405.0)


def test_an_honest_claim_leaves_nothing_over() -> None:
    assert bounds.excess_us(calls(50.0, 453.7), [NULL]) == pytest.approx(0.0, abs=1.0)


def test_hidden_work_shows_in_the_excess() -> None:
    seen = calls(50.0, 953.7)
    assert bounds.excess_us(seen, [NULL]) == pytest.approx(500.0, abs=1.0)
    assert bounds.excess_us(seen, [NULL]) > bounds.slack_us(seen, NULL, RULES)


def test_a_machine_that_is_slow_for_trusted_calls_is_slow_for_everybody() -> None:
    slow = calls(20.0, 750.0)
    assert bounds.excess_us(calls(50.0, 780.0), [NULL, slow]) == pytest.approx(0.0, abs=1.0)


def test_only_short_baselines_say_what_a_call_costs() -> None:
    assert bounds.comparable(calls(20.0, 430.0))
    assert not bounds.comparable(calls(16_000.0, 16_500.0))
    assert not bounds.comparable([])


def test_a_longer_gate_does_not_change_the_bound() -> None:
    assert bounds.median_bound_us(calls(50.0, 1203.7, gate_us=1000.0)) == bounds.median_bound_us(calls(50.0, 453.7))


def test_a_call_that_did_not_end_has_no_bound() -> None:
    with pytest.raises(ValueError, match="did not end"):
        bounds.bound_us(CallResult(None, timed_out=True))


def test_slow_flushes_before_many_calls_mean_that_something_is_running() -> None:
    assert not bounds.busy(calls(5.0, 410.0), 90.0, RULES)
    assert bounds.busy(calls(5.0, 410.0) + calls(5.0, 410.0, flush_us=400.0, count=4), 90.0, RULES)
