"""Calls back to back, with scripted times: which configurations have bursts, how long, and what they are charged."""

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import default_rules, default_suites, find_task
from benchmarks.harness.gpu.bursts import credit_bursts
from benchmarks.harness.gpu.contexts import Contexts
from benchmarks.harness.gpu.word_times import Lateness
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.session import COMPILE, EAGER
from benchmarks.harness.measuring.tally import CANDIDATE, ConfigTally
from benchmarks.harness.protocol import Status
from benchmarks.harness.report import Verdict

RULES = default_rules()
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
SHOWN = next(item for item in TASK.configs["cuda"] if not item.hidden)
HIDDEN = next(item for item in TASK.configs["cuda"] if item.hidden)
EAGER_TIMES, COMPILE_TIMES = ("baseline", EAGER), ("baseline", COMPILE)


class Session:
    """Every burst takes so many microseconds a call."""

    def __init__(self, burst_us: float = 1.0, *, most: int = 64, sets: int = 64, replay: bool = True) -> None:
        self.setting = SimpleNamespace(rules=RULES, gpu_rules=RULES.gpu)
        self.replay = None
        if replay:
            told = {
                "configs": [HIDDEN] * 9,
                "calls": [range(sets)] * 9,
                "nothing_us": 1.0,
                "contexts": Contexts({"baseline0": 0.0625}, {"baseline0": 3.0}),
                "repeated": 3,
            }
            told |= {"late": [Lateness(2.0, 15.0)], "between_us": {"candidate0": [3.0, 3.5, 3.1], "baseline0": []}}
            self.replay = SimpleNamespace(most_in_a_burst=lambda _: most, **told)
        self._burst_us, self.log = burst_us, list[str]()

    def turn(self, launch: int) -> None:
        self.log.append(f"launch {launch}")

    def draw(self, number: int, count: int) -> None:
        self.log.append(f"draw {count}")

    def burst(self, number: int, count: int, usual: Lateness) -> float:
        self.log.append(f"usual {usual.behind_us} {usual.tail_us}")
        return self._burst_us


def tally(
    kernel_us: float = 10.0,
    config: Any = SHOWN,
    behind_us: Sequence[float] = (0.0,) * 5,
    tails_us: Sequence[float] = (15.0,) * 5,
) -> ConfigTally:
    """`behind_us` are the third words of the kernel's calls; those of baselines come after 2 and 3 µs.

    After each of its calls the referee's kernel takes so many of `tails_us`; after those of baselines 15 and 12 µs.
    """
    found = ConfigTally(config)
    found.times_us = {CANDIDATE: [kernel_us] * 5, EAGER_TIMES: [40.0] * 5, COMPILE_TIMES: [20.0] * 5}
    late = {
        CANDIDATE: zip(behind_us, tails_us, strict=True),
        EAGER_TIMES: [(2.0, 15.0)] * 5,
        COMPILE_TIMES: [(3.0, 12.0)] * 5,
    }
    for who, pairs in late.items():
        found.seen[who] = [CallResult(Status.OK, behind_us=behind, tail_us=tail) for behind, tail in pairs]
    return found


def credited(session: Session, *tallies: ConfigTally) -> dict[str, Any]:
    judging = SimpleNamespace(ledgers=list(tallies), give_up_if_late=lambda: session.log.append("in time"))
    return credit_bursts(session, judging)  # type: ignore[arg-type]


def test_who_is_slower_in_bursts_is_charged_the_difference_and_baselines_have_none() -> None:
    ledger = tally()
    found = credited(Session(14.0), ledger)
    assert {who: set(times) for who, times in ledger.times_us.items()} == {
        CANDIDATE: {14.0},
        EAGER_TIMES: {40.0},  # what slows a few bursts of theirs would make the kernel seem faster
        COMPILE_TIMES: {20.0},
    }
    assert found["replay"]["bursts"][SHOWN.key] == {"calls": 50, "kernel": {"single_us": 10.0, "burst_us": 14.0}}
    assert (found["replay"]["behind_p50_us"], found["replay"]["nothing_between_us"]) == (2.0, {"candidate0": 3.1})
    assert found["replay"]["contexts"] == {"surplus_us": {"baseline0": 0.062}, "empty_us": {"baseline0": 3.0}}
    ledger = tally()
    credited(Session(9.0), ledger)
    assert set(ledger.times_us[CANDIDATE]) == {10.0}  # faster in a burst: the single call counts


def test_a_charge_keeps_the_scatter_of_single_calls() -> None:
    ledger = tally()
    ledger.times_us[CANDIDATE] = [9.0, 10.0, 13.0]
    ledger.seen[CANDIDATE] = ledger.seen[CANDIDATE][:3]
    credited(Session(12.0), ledger)
    assert ledger.times_us[CANDIDATE] == [11.0, 12.0, 15.0]


def test_each_call_is_charged_for_its_own_late_word_where_there_is_no_burst_as_well() -> None:
    """Beyond what is usual for baselines and 5 µs. A median over all calls leaves out what few of them hide."""
    for kernel_us in (10.0, 600.0):
        ledger = tally(kernel_us, behind_us=[8.0, 208.0, 0.0, 9.5, 0.0])
        credited(Session(), ledger)
        assert ledger.times_us[CANDIDATE] == [kernel_us + late_us for late_us in (0.0, 200.0, 0.0, 1.5, 0.0)]
        assert ledger.times_us[EAGER_TIMES] == [40.0] * 5


def test_a_call_after_which_another_process_waits_for_the_gpu_is_charged() -> None:
    """A forged third word hides that the call goes on, and the referee's kernel waits for it: 100 µs are spared."""
    ledger = tally(600.0, tails_us=[115.0, 300.0, 15.0, 116.0, 0.0])
    credited(Session(), ledger)
    assert ledger.times_us[CANDIDATE] == [600.0 + more_us for more_us in (0.0, 185.0, 0.0, 1.0, 0.0)]


@pytest.mark.parametrize(("name", "spare_us"), [("lead_us", 100.0), ("start_us", 20.0)])
def test_work_that_is_left_on_the_gpu_before_a_call_is_charged(name: str, spare_us: float) -> None:
    """The inputs are there before the call begins: device code that forges its end could go on with them."""
    ledger = tally(600.0)
    usual = [CallResult(Status.OK, **{name: 7.0})] * 5  # type: ignore[arg-type]
    ledger.seen = {CANDIDATE: usual, EAGER_TIMES: usual, COMPILE_TIMES: usual}
    late_us = (7.0, 7.0 + spare_us, 8.0 + spare_us, 400.0)
    ledger.seen[CANDIDATE] = [CallResult(Status.OK, **{name: us}) for us in late_us]  # type: ignore[arg-type]
    ledger.times_us[CANDIDATE] = [600.0] * 4
    credited(Session(), ledger)
    assert ledger.times_us[CANDIDATE] == [600.0, 600.0, 601.0, 993.0 - spare_us]


def test_a_host_that_copies_slowly_for_baselines_as_well_is_too_busy() -> None:
    ledger = tally(600.0)
    ledger.seen = {who: [CallResult(Status.OK, sampled_us=150.0)] * 5 for who in (CANDIDATE, EAGER_TIMES)}
    with pytest.raises(Fault, match="copying rows of a result takes 150 µs") as raised:
        credited(Session(), ledger)
    assert raised.value.verdict is Verdict.NOISY


def test_a_copy_that_is_slow_after_long_calls_of_baselines_alone_is_no_noise() -> None:
    """`layernorm/backward` on an H200: 119 µs after eager's 16 ms, and less after the kernel's 0.3 ms."""
    ledger = tally(600.0)
    slow, quick = ([CallResult(Status.OK, sampled_us=us)] * 5 for us in (150.0, 60.0))
    ledger.seen = {CANDIDATE: quick, EAGER_TIMES: slow}
    credited(Session(), ledger)
    assert ledger.times_us[CANDIDATE] == [600.0] * 5


def test_of_a_long_call_a_slow_copy_is_charged_where_it_hardly_counts() -> None:
    """On an H200 copying rows took 104 µs in the median after calls of milliseconds, and honest kernels were NOISY."""
    for sampled_us, accepted in ((112.0, True), (113.0, False)):
        ledger = tally(600.0)
        ledger.seen = {who: [CallResult(Status.OK, sampled_us=sampled_us)] * 5 for who in ledger.seen}
        with nullcontext() if accepted else pytest.raises(Fault, match="too busy"):
            credited(Session(), ledger)
        assert ledger.times_us[CANDIDATE] == [612.0 if accepted else 600.0] * 5


def test_bursts_belong_to_the_time_of_a_judging() -> None:
    session = Session()
    credited(session, tally())
    assert session.log.count("in time") == RULES.time.launches * RULES.gpu.bursts


def test_a_call_whose_results_were_sampled_late_is_charged() -> None:
    ledger = tally(600.0)
    ledger.seen[CANDIDATE] = [CallResult(Status.OK, tail_us=0.0, sampled_us=us) for us in (40.0, 100.0, 101.0, 400.0)]
    ledger.times_us[CANDIDATE] = [600.0] * 4
    credited(Session(), ledger)
    assert ledger.times_us[CANDIDATE] == [600.0 + more_us for more_us in (0.0, 0.0, 1.0, 300.0)]


@pytest.mark.parametrize(
    ("kernel_us", "most", "sets", "more_us"),
    [(70.0, 1, 64, 35.0), (70.0, 3, 64, 25.0 / 3), (70.0, 8, 64, 0.0), (70.0, 1, 1, 0.0), (600.0, 1, 64, 0.0)],
    ids=["one call", "three", "as many as wanted", "no more input sets", "long by itself"],
)
def test_who_keeps_out_of_bursts_is_charged_what_a_forged_end_hides(
    kernel_us: float, most: int, sets: int, more_us: float
) -> None:
    """Calls with many launches or large parameters, which may do nothing. In each burst 40 µs could be hidden."""
    ledger = tally(kernel_us)
    ledger.seen[CANDIDATE] = [CallResult(Status.OK, sampled_us=40.0)] * 5
    credited(Session(most=most, sets=sets), ledger)
    assert ledger.times_us[CANDIDATE] == pytest.approx([kernel_us + more_us] * 5)


@pytest.mark.parametrize(
    ("kernel_us", "most", "calls"),
    [(10.0, 64, 50), (10.0, 8, 8), (2.0, 64, 64), (300.0, 64, 2)],
    ids=["as long as the rules say", "as memory allows", "as the record holds", "two at least"],
)
def test_a_burst_is_as_long_as_time_and_memory_allow(kernel_us: float, most: int, calls: int) -> None:
    session = Session(most=most)
    assert credited(session, tally(kernel_us))["replay"]["bursts"][SHOWN.key]["calls"] == calls
    assert session.log.count(f"draw {calls}") == RULES.time.launches * RULES.gpu.bursts
    assert [item for item in session.log if item.startswith("launch")] == ["launch 0", "launch 1"]


def test_long_calls_hidden_ones_and_those_without_times_have_no_bursts() -> None:
    session = Session()
    without = ConfigTally(SHOWN)
    found = credited(session, tally(600.0), tally(config=HIDDEN), without)
    assert (found["replay"]["bursts"], session.log) == ({}, [])


def test_what_is_not_replayed_has_no_bursts() -> None:
    assert credited(Session(replay=False), tally()) == {}


def test_a_wrong_result_in_a_burst_ends_the_judging() -> None:
    session = Session()

    def wrong(*_: Any) -> float:
        raise Fault(Verdict.INCORRECT_VALUE, "in 50 calls back to back")

    session.burst = wrong  # type: ignore[method-assign]
    with pytest.raises(Fault, match="back to back"):
        credited(session, tally())


def test_what_is_usual_for_a_burst_is_told_by_calls_of_the_same_configuration() -> None:
    """Of all together, long ones could be late by 2 % of themselves, and short bursts would be granted as much."""
    session, long = Session(), tally(20_000.0, tails_us=(15.0,) * 5)
    long.seen[EAGER_TIMES] = [CallResult(Status.OK, behind_us=2.0, tail_us=400.0)] * 50
    credited(session, long, tally())
    assert {item for item in session.log if item.startswith("usual")} == {"usual 3.0 15.0"}


def test_a_report_tells_nodes_of_shown_configurations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.gpu.bursts.summary", lambda calls: {"calls": calls})
    session = Session()
    session.replay.configs, session.replay.calls = [SHOWN, HIDDEN], ["a", "b"]
    told = credited(session)["replay"]["records"]
    assert told == [{"config": SHOWN.key, "calls": "a"}]
