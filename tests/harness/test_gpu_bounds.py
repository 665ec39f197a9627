"""What the referee's clock says of claimed times."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import default_rules, default_suites, find_task
from benchmarks.harness.gpu import bounds
from benchmarks.harness.gpu.claims import charged, demand_true_claims
from benchmarks.harness.measuring.calls import CANDIDATE, ConfigTally
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.protocol import Status
from benchmarks.harness.report import ConfigReport, Verdict

RULES = default_rules().gpu


def calls(
    event_us: float, wall_us: float, *, count: int = 9, flush_us: float = 90.0, gate_us: float = 250.0
) -> list[CallResult]:
    return [
        CallResult(
            Status.OK,
            wall_us=wall_us + number % 3,
            resume_us=0.0,
            tail_us=170.0,
            event_us=event_us,
            flush_us=flush_us,
            gate_us=gate_us,
        )
        for number in range(count)
    ]


NULL = calls(1.3, 405.0)


def usual_us(*beside: Sequence[CallResult], alone: Sequence[CallResult] | None = None) -> float:
    return bounds.usual_us([bounds.TrustedCalls(calls, alone or calls) for calls in beside], RULES)


def excess_us(seen: Sequence[CallResult], *trusted: Sequence[CallResult]) -> float:
    return bounds.excess_us(seen, usual_us(*trusted))


SCATTER_US = bounds.spread_us(NULL)


def test_an_honest_claim_leaves_nothing_over() -> None:
    assert excess_us(calls(50.0, 453.7), NULL) == pytest.approx(0.0, abs=1.0)


def test_hidden_work_shows_in_the_excess() -> None:
    seen = calls(50.0, 953.7)
    assert excess_us(seen, NULL) == pytest.approx(500.0, abs=1.0)
    assert excess_us(seen, NULL) > bounds.slack_us(seen, SCATTER_US, RULES)


def test_a_machine_that_is_slow_for_trusted_calls_is_slow_for_everybody() -> None:
    slow = calls(20.0, 750.0)
    assert excess_us(calls(50.0, 780.0), NULL, slow) == pytest.approx(0.0, abs=1.0)


def test_what_is_left_running_beside_trusted_calls_hides_nothing() -> None:
    """A kernel that outlives each call of a submission slows the baselines after it, and ends before anybody looks."""
    slowed, alone = calls(300.0, 1900.0), calls(300.0, 703.7)
    assert usual_us(slowed, alone=alone) == pytest.approx(usual_us(alone) + RULES.slack_us)
    assert bounds.slowed_us(bounds.TrustedCalls(slowed, alone)) == pytest.approx(1900.0 - 703.7)
    lying = calls(30.0, 300.0 + 403.7)
    left = bounds.excess_us(lying, usual_us(slowed, alone=alone))
    assert left > bounds.slack_us(lying, SCATTER_US, RULES) + RULES.spread_max_us
    assert excess_us(lying, slowed) < 0  # if it were not for the calls alone


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


def test_each_call_is_charged_with_what_nothing_explains() -> None:
    mixed = calls(50.0, 453.7, count=5) + calls(50.0, 953.7, count=4)
    charges = bounds.charges_us(mixed, usual_us(NULL), SCATTER_US, RULES)
    assert charges[:5] == [0.0] * 5
    assert all(500.0 - bounds.slack_us(mixed, SCATTER_US, RULES) - 3 < charge < 500.0 for charge in charges[5:])


def test_an_honest_contestant_is_charged_nothing() -> None:
    assert set(bounds.charges_us(calls(50.0, 453.7), usual_us(NULL), SCATTER_US, RULES)) == {0.0}


def ledger_of(*launches: list[CallResult]) -> ConfigTally:
    found = ConfigTally(find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cuda")[0])
    for number, launch in enumerate(launches):
        for result in launch:
            found.launches.append(number)
            for who in (CANDIDATE, ("baseline", 0)):
                found.note_time(who, result if who == CANDIDATE else calls(60.0, 463.7, count=1)[0])
    return found


def bounded(ledger: ConfigTally, alone: Sequence[CallResult] = NULL, null: Sequence[CallResult] = NULL) -> ConfigReport:
    judging: Any = SimpleNamespace(ledgers=[ledger], null_calls=null)
    demand_true_claims(judging, RULES)
    return charged(judging, bounds.CallsAlone(alone), 0, ConfigReport("c", "single"), RULES, flush_us=90.0)


def test_every_launch_holds_by_itself() -> None:
    """Nearly nothing is claimed in one launch and the truth in the other: pooled, the median would be honest."""
    honest, lying = calls(500.0, 903.7, count=9), calls(5.0, 903.7, count=8)
    assert excess_us(honest + lying, NULL) == pytest.approx(0.0, abs=3.0)
    with pytest.raises(Fault, match="longer than the reported time"):
        bounded(ledger_of(honest, lying))


def test_a_few_late_calls_are_charged_and_are_no_tampering() -> None:
    ledger = ledger_of(calls(50.0, 453.7), calls(50.0, 453.7) + calls(50.0, 953.7, count=3))
    assert bounded(ledger).excess_us == pytest.approx(0.0, abs=3.0)
    times = ledger.times_us[CANDIDATE]
    assert times[:18] == [50.0] * 18
    assert min(times[18:]) > 500.0


def test_what_is_left_running_beside_baselines_gains_nothing() -> None:
    """A kernel in a second context beside every call of a baseline: what they took longer counted for the kernel."""
    ledger, eager = ledger_of(calls(50.0, 453.7), calls(50.0, 453.7)), ("baseline", 0)
    ledger.seen[eager] = calls(60.0, 463.7 + 55.0, count=18)
    times_us = list(ledger.times_us[eager])
    bounded(ledger)
    assert ledger.times_us[eager] == times_us


def test_a_machine_that_was_slower_beside_the_submission_is_noise() -> None:
    """And no proof that the kernel hides anything: honest calls are as much slower."""
    for slower_us in (RULES.spread_max_us - 5.0, RULES.spread_max_us + 100.0):
        ledger = ledger_of(*[calls(50.0, 453.7 + slower_us)] * 2)
        slow = calls(1.3, 405.0 + slower_us)
        is_noise = slower_us > RULES.spread_max_us
        with pytest.raises(Fault, match="something slowed the machine") if is_noise else nullcontext() as raised:
            bounded(ledger, null=slow)
        assert not is_noise or raised.value.verdict is Verdict.NOISY


def test_how_slow_the_machine_was_beside_the_submission_accuses_nobody() -> None:
    """55 µs slower for everybody, and 39 of its own where 24 and 60 are explained: charged, and no TAMPERING."""
    ledger = ledger_of(*[calls(50.0, 453.7 + 55.0 + 39.0)] * 2)
    bounded(ledger, null=calls(1.3, 405.0 + 55.0))
    assert min(ledger.times_us[CANDIDATE]) > 50.0 + 39.0


def test_scatter_of_empty_calls_beside_the_submission_hides_nothing() -> None:
    """It could make every other one late: then as much of its own calls would count as noise."""
    ledger = ledger_of(*[calls(50.0, 453.7 + 50.0)] * 2)
    wild = [replace(item, wall_us=405.0 + 18.0 * (number % 3 - 1)) for number, item in enumerate(NULL)]
    assert bounds.spread_us(wild) > 50.0
    bounded(ledger, null=wild)
    assert min(ledger.times_us[CANDIDATE]) > 70.0
