"""What is called how often, and what a call costs beside its own time. The contestants are scripted."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, cycle, islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import Verdict, default_rules, default_suites, find_task
from benchmarks.harness.errors import NotStopped, RefereeError, SupervisorError
from benchmarks.harness.measuring import calls, contestants
from benchmarks.harness.measuring.calls import Judging
from benchmarks.harness.measuring.contestants import Actor, CallComparison, CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.session import COMPILE, EAGER, Session, faults_of
from benchmarks.harness.measuring.tally import CANDIDATE, with_decoys
from benchmarks.harness.measuring.used_up import Touched
from benchmarks.harness.protocol import Status
from benchmarks.harness.source import NOBODY

RULES = replace(
    default_rules(), time=replace(default_rules().time, launches=2, steps_per_config=8, min_steps_per_config=2)
)
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
CONFIG = TASK.configs_for("cpu")[0]
SETS = 8
Script = Callable[[str, int, int], CallResult]  # who, launch and number of the call


def usual(who: str, launch: int, number: int) -> CallResult:
    return CallResult(Status.OK, wall_us=100.0 if who == "baseline" else 50.0, resume_us=40.0)


def long(who: str, launch: int, number: int) -> CallResult:
    """So long that a visit has one decoy or two."""
    return replace(usual(who, launch, number), wall_us=5000.0)


class Scripted(Session[Any]):
    """One configuration; every call answers as `script` says."""

    decoys = True

    def __init__(self, script: Script = usual, *, right: bool = True) -> None:
        prepared = SimpleNamespace(problems=("left out",))
        super().__init__(cast(Any, SimpleNamespace(configs=[CONFIG], rules=RULES, prepared=prepared)))
        child = SimpleNamespace(exit_code=lambda: None, log_tail=lambda _: "")
        self._casts = [cast(Any, (SimpleNamespace(child=child), SimpleNamespace(child=child)))] * 2
        self._sets = [SETS]
        self.calls: list[tuple[str, int, str]] = []  # who, which set, on what
        self._script, self._right, self._shown = script, right, ""

    def _open(self) -> None:
        return

    def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
        self._new_decoys[config], self._decoys[config] = [(0, place % SETS) for place in range(decoys)], 1
        return 0

    def show(self, config: int, *, decoys: int | None = None) -> None:
        self._shown = "values" if decoys is None else "decoys"

    def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
        self.calls.append((who, choice, self._shown))
        return self._script(who, self.launch, len(self.calls))

    def compare(self, who: str, config: int, choice: int) -> CallComparison:
        return CallComparison(self._right, "" if self._right else "wrong", 0.0, 0.0, "normal")


def judged(session: Scripted) -> Judging:
    judging = Judging(session, NOBODY)
    judging.verify()
    judging.time()
    return judging


@pytest.mark.parametrize("has_met_hidden", [False, True])
def test_messages_are_shown_until_the_submission_has_met_a_hidden_configuration(*, has_met_hidden: bool) -> None:
    """As on a GPU, where it has met all of them if its calls could not be replayed."""
    session = Scripted(lambda *_: CallResult(Status.RAISED, 1.0, 1.0, text="77 by 99", error="RuntimeError"))
    session.has_met_hidden = has_met_hidden
    session.call_baseline = lambda *_, **__: usual("baseline", 0, 1)  # type: ignore[method-assign]
    judging = Judging(session, NOBODY)
    judging.verify()
    assert judging.fault is not None
    assert ("77 by 99" in judging.fault[1].reason) is not has_met_hidden


@pytest.mark.parametrize(("call_us", "most", "mean"), [(5000.0, 2, 1.25), (333.0, 5, 3.0), (40.0, 11, 6.0)])
def test_decoys_come_a_random_number_of_times_with_sets_of_their_own(call_us: float, most: int, mean: float) -> None:
    """The shorter the calls are the more often, and the call that counts is as likely after any number of them."""
    session = Scripted(lambda *call: replace(usual(*call), wall_us=call_us))
    for _ in range(100):
        judged(session)
    shown = "".join(what[0] for who, _, what in session.calls if who == "candidate")  # d: decoys, v: values
    runs = [len(run) for run in shown.split("v")[:-1]]
    assert set(runs[1:]) == set(range(1, most + 1))
    assert sum(runs) / len(runs) == pytest.approx(mean, rel=0.1)
    assert {choice for _, choice, what in session.calls if what == "decoys"} == set(range(SETS))


@pytest.mark.parametrize(("input_mib", "most"), [(1, 11), (16, 8), (256, 2)])
def test_few_decoys_are_drawn_where_arguments_are_large(input_mib: int, most: int) -> None:
    drawn = {calls.number_of_decoys(40.0, input_mib << 20, random.Random(seed)) for seed in range(1000)}
    assert drawn == set(range(1, most + 1))


@pytest.mark.parametrize("sets", [1, 2, 8])
@pytest.mark.parametrize("call_us", [5000.0, 40.0])
def test_the_kernel_meets_no_values_twice(sets: int, call_us: float) -> None:
    """Else it knows a decoy by a few words, has its result already, and prepares other calls meanwhile."""

    class Drawn(Scripted):
        def __init__(self) -> None:
            super().__init__(lambda *call: replace(usual(*call), wall_us=call_us))
            self._sets = [sets]
            self._referee = cast(Any, SimpleNamespace(ask=self._asked))
            self._values: list[str] = []
            self._lists: list[list[str]] = []
            self.met: dict[tuple[str, int], list[str]] = {}

        def _asked(self, _: str, config: int, seeds: list[str], decoys: Sequence[list[str]] = (), **more: Any) -> None:
            self._lists = [self._values or [seed[::-1] for seed in seeds], *decoys]
            self._values = seeds

        def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
            return Session.fill(self, config, distribution, decoys=decoys)

        def show(self, config: int, *, decoys: int | None = None) -> None:
            super().show(config, decoys=decoys)
            self.there = self._values if decoys is None else self._lists[decoys]

        def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
            self.met.setdefault((who, self.launch), []).append(self.there[choice])
            return super()._call(who, config, choice, function=function, compared=compared)

    session = Drawn()
    judged(session)
    for launch in range(2):
        met = session.met["candidate", launch]
        assert len(set(met)) == len(met) > 7
    assert {who for who, _ in session.met} == {"candidate", "baseline"}


def test_only_right_results_make_a_configuration_a_quick_one() -> None:
    """Who answers a decoy at once, with results that nobody compares, gets no longer visits for it."""
    session = Scripted(lambda *call: replace(usual(*call), wall_us=5000.0), right=False)
    judging = Judging(session, NOBODY)
    judging.ledgers[0].note_right(session.call_baseline(0, 0, EAGER))
    quick = replace(usual("candidate", 0, 0), wall_us=1.0)
    judging._check(0, 0, quick, compare=False)
    judging._check(0, 0, quick)
    assert judging.ledgers[0].quickest_us == 5000.0


def test_a_kernel_that_is_wrong_on_the_values_of_a_decoy_is_not_called_random() -> None:
    """Another call on the values that count is right, and says nothing of those of the decoy."""

    class WrongOnDecoys(Scripted):
        def compare(self, who: str, config: int, choice: int) -> CallComparison:
            is_right = who == "baseline" or self._shown != "decoys"
            return CallComparison(is_right, "" if is_right else "wrong", 0.0, 0.0, "normal")

    session = WrongOnDecoys()
    judging = Judging(session, NOBODY)
    judging.verify()
    assert judging.fault is not None
    assert (judging.fault[1].verdict, judging.fault[1].reason) == (Verdict.INCORRECT_VALUE, "wrong")
    assert session.calls[-1][2] == "decoys"


def test_inputs_are_written_anew_before_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the break before the call that counts would tell it from the decoys."""
    session, shows = Scripted(lambda *call: replace(usual(*call), wall_us=40.0)), list[int]()
    monkeypatch.setattr(session, "show", lambda config, decoys=None: shows.append(len(session.calls)))
    Judging(session, NOBODY).time()
    assert shows == sorted({*range(len(session.calls))})


def test_lateness_is_added_to_its_own_call_in_its_own_launch() -> None:
    def late_in_one_launch(who: str, launch: int, number: int) -> CallResult:
        late_us = 500.0 if (who, launch) == ("candidate", 1) else 0.0
        return replace(usual(who, launch, number), resume_us=40.0 + late_us)

    judging = judged(Scripted(late_in_one_launch))
    first, second = judging.paired_times(0).by_launch()
    assert set(first.kernel_us) == {50.0}
    assert set(second.kernel_us) == {550.0 - RULES.time.resume_slack_us}
    assert set(second.eager_us) == {100.0}


def test_more_steps_follow_while_the_interval_is_too_wide() -> None:
    assert judged(Scripted()).paired_times(0).steps == RULES.time.steps_per_config
    scattered = cycle([20.0, 50.0, 200.0])
    judging = judged(Scripted(lambda *call: replace(usual(*call), wall_us=next(scattered))))
    assert judging.paired_times(0).steps == 4 * RULES.time.steps_per_config


@pytest.mark.parametrize(("wanted_share", "times_usual"), [(1.0, 1), (0.01, 4)])
def test_a_session_may_want_a_narrower_interval_than_the_rules(
    monkeypatch: pytest.MonkeyPatch, wanted_share: float, times_usual: int
) -> None:
    monkeypatch.setattr(Scripted, "wanted_share", wanted_share)
    scattered = cycle([49.0, 51.0, 49.5, 50.5, 50.0])
    judging = judged(Scripted(lambda *call: replace(usual(*call), wall_us=next(scattered))))
    assert judging.paired_times(0).steps == times_usual * RULES.time.steps_per_config


def test_later_only_the_rules_ask_for_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_EARLY_S", 0.0)
    monkeypatch.setattr(Scripted, "wanted_share", 0.0)
    assert judged(Scripted()).paired_times(0).steps == RULES.time.steps_per_config
    scattered = cycle([20.0, 50.0, 200.0])
    judging = judged(Scripted(lambda *call: replace(usual(*call), wall_us=next(scattered))))
    assert judging.paired_times(0).steps == 2 * RULES.time.steps_per_config


def test_who_waits_for_a_processor_is_not_late_but_who_works_meanwhile_is() -> None:
    assert contestants.own_lateness_us(3_000_000, used_ns=9_000, queued_ns=2_940_000) == 60.0
    assert contestants.own_lateness_us(3_000_000, used_ns=2_900_000, queued_ns=2_940_000) == 2900.0
    assert contestants.own_lateness_us(3_000_000, used_ns=9_000, queued_ns=0) == 3000.0


def test_waiting_as_long_as_eager_costs_nothing_and_the_baselines_pay_alike() -> None:
    judging = judged(Scripted())
    judging.ledgers[0].resumes_us["baseline", EAGER] = [90.0, *[40.0] * 7]
    late_us = 50.0 - RULES.time.resume_slack_us
    assert sorted(judging.paired_times(0).eager_us) == [100.0] * 7 + [100.0 + late_us]
    assert set(judging.paired_times(0).kernel_us) == {50.0}


def test_whatever_a_child_says_its_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(contestants.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(Actor, "receive", lambda *_: {"still": "loading"})
    with pytest.raises(TimeoutError):
        deque(islice(Actor("candidate").messages(10.0), 100))


def visited(call_us: Callable[[int], float], decoy_us: Callable[[int], float], steps: int = 100) -> Judging:
    """A judging in which a visit to eager took 250 µs, and the kernel and its decoys what is said of each step."""
    judging = Judging(Scripted(), NOBODY)
    ledger = judging.ledgers[0]
    for step in range(steps):
        ledger.launches.append(step // 2 % 2)
        eager = replace(usual("baseline", 0, 0), used_us=100.0)
        ledger.note_time(("baseline", EAGER), with_decoys(eager, [replace(eager, used_us=150.0)]))
        result = replace(usual("candidate", 0, 0), wall_us=call_us(step), used_us=call_us(step))
        decoys = [replace(result, used_us=decoy_us(step))]
        ledger.note_time(CANDIDATE, with_decoys(result, decoys))
    return judging


EVERY_EIGHTH = [0.0] * 7 + [800.0]
BY_LOT = [1600.0 if random.Random(step).random() < 1 / 16 else 0.0 for step in range(400)]


@pytest.mark.parametrize("pattern", [EVERY_EIGHTH, BY_LOT], ids=["every eighth", "by lot"])
@pytest.mark.parametrize("where", ["calls", "decoys", "both"])
def test_work_of_a_few_calls_for_all_others_is_charged_to_all(pattern: list[float], where: str) -> None:
    calls_us, decoys_us = {"calls": (1.0, 0.0), "decoys": (0.0, 1.0), "both": (0.5, 0.5)}[where]
    judging = visited(
        lambda step: 50.0 + calls_us * pattern[step % len(pattern)],
        lambda step: 75.0 + decoys_us * pattern[step % len(pattern)],
        steps=400,
    )
    assert judging.gathered_us()[0] == pytest.approx(sum(pattern) / len(pattern), rel=0.05)


def test_chance_is_not_charged_and_what_it_may_hide_is_judged_again() -> None:
    noise = random.Random(7)
    even = visited(lambda _: 50.0 + noise.expovariate(1 / 5), lambda _: 75.0 + noise.expovariate(1 / 5))
    assert even.gathered_us() == {}
    once = visited(lambda step: 50.0 + (9000.0 if step == 20 else 0.0), lambda _: 75.0)
    assert once.gathered_us() == {}
    twice = visited(lambda step: 50.0 + (1500.0 if step in (20, 71) else 0.0), lambda _: 75.0)
    with pytest.raises(Fault, match="too noisy to tell whether that is chance") as found:
        twice.gathered_us()
    assert found.value.verdict is Verdict.NOISY


def test_spinning_while_the_supervisor_waits_for_a_processor_is_no_work_and_working_more_is() -> None:
    judging = visited(lambda step: 50.0 + EVERY_EIGHTH[step % 8], lambda _: 75.0)
    seen = judging.ledgers[0].seen[CANDIDATE]
    seen[:] = [replace(call, waited_us=call.used_us - 50.0) for call in seen]
    assert judging.gathered_us() == {}
    seen[:] = [replace(call, waited_us=(call.used_us - 50.0) / 2) for call in seen]
    assert judging.gathered_us()[0] == pytest.approx(sum(EVERY_EIGHTH) / 8 / 2, rel=0.1)


def test_a_slow_eager_that_scatters_is_not_charged_to_the_kernel() -> None:
    """Without its waits eager's mean is below its median, by more than the whole call of a fast kernel takes."""
    judging = visited(lambda _: 50.0, lambda _: 75.0)
    seen = judging.ledgers[0].seen["baseline", EAGER]
    calls_us = [4000.0 + 40.0 * (step % 11 - 5) for step in range(len(seen))]
    seen[:] = [
        replace(call, used_us=us, waited_us=max(0.0, us - 4000.0)) for call, us in zip(seen, calls_us, strict=True)
    ]
    assert judging.ledgers[0].above_the_median(("baseline", EAGER)).us < -50.0
    assert judging.gathered_us() == {}


@pytest.mark.parametrize("bytes_per_call", [0, 16 * 1024, 4 << 20])
def test_memory_that_was_made_ready_and_is_used_up_is_charged(
    monkeypatch: pytest.MonkeyPatch, bytes_per_call: int
) -> None:
    used_bytes = [0, 0]  # of each launch

    def using(who: str, launch: int, number: int) -> CallResult:
        used_bytes[launch] += bytes_per_call if who == "candidate" else 0
        return usual(who, launch, number)

    session = Scripted(using)
    monkeypatch.setattr(session, "touched", lambda: Touched(used_bytes[session.launch], 0))
    monkeypatch.setattr(calls, "fresh_us_per_byte", lambda: 1e-3)
    judging = Judging(session, NOBODY)
    judging._rules = replace(RULES, time=replace(RULES.time, steps_per_config=20))
    judging.time()
    if bytes_per_call > 16 * 1024:  # a visit has two calls at least
        assert judging.used_up_us() >= (2 * bytes_per_call - (1 << 20)) * 1e-3
    else:
        assert judging.used_up_us() == 0


def test_slow_calls_use_up_the_time_of_verifying_too() -> None:
    session = Scripted()
    judging = Judging(session, NOBODY)
    judging._deadline = 0.0
    with pytest.raises(Fault, match="verifying and timing together") as found:
        judging.verify()
    assert (found.value.verdict, session.calls) == (Verdict.TIMEOUT, [])


def test_a_busy_machine_gives_a_kernel_no_time_to_work_in() -> None:
    judging = judged(Scripted())
    ledger = judging.ledgers[0]
    ledger.resumes_us["baseline", EAGER] = [
        40.0,
        4000.0,
        40.0,
        *[4000.0] * 5,
    ]  # other work delays most
    ledger.resumes_us[CANDIDATE] = [4000.0] * 8
    late_us = 4000.0 - 40.0 - RULES.time.resume_scatter_us - RULES.time.resume_slack_us
    assert list(judging.paired_times(0).kernel_us) == [50.0 + late_us] * 8
    assert sorted(judging.paired_times(0).eager_us) == [100.0] * 2 + [100.0 + late_us] * 6


def test_work_while_frozen_is_added_and_much_of_it_is_tampering() -> None:
    judging = judged(Scripted(lambda *call: replace(long(*call), woke_us=7.0 if call[0] == "candidate" else 0.0)))
    assert set(judging.paired_times(0).kernel_us) <= {5014.0, 5021.0}  # after one or two decoys, which count too
    judging = judged(Scripted(lambda *call: replace(usual(*call), woke_us=51_000.0 if call[0] == "candidate" else 0.0)))
    assert judging.fault is not None
    assert judging.fault[1].verdict is Verdict.TAMPERING


def test_who_works_after_its_end_pays_for_it() -> None:
    judging = judged(Scripted(lambda *call: replace(long(*call), after_us=8.0 if call[0] == "candidate" else 0.0)))
    assert set(judging.paired_times(0).kernel_us) <= {5000.0 + 2 * 8.0, 5000.0 + 3 * 8.0}  # with one or two decoys
    assert set(judging.paired_times(0).eager_us) == {5000.0}


def test_what_decoys_do_beside_computing_is_added_to_the_call_that_counts() -> None:
    class HidesWork(Scripted):
        def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
            result = super()._call(who, config, choice, function=function, compared=compared)
            hides = who == "candidate" and self._shown == "decoys"
            return replace(result, used_us=30_000.0 if hides else 50.0, woke_us=5.0 if hides else 0.0)

    judging = judged(HidesWork(long))
    one_decoy_us = 30_000.0 - 3 * 50.0 - 1000.0 + 5.0
    times = judging.paired_times(0)
    outside_us = judging.ledgers[0].outside_us()
    assert set(times.kernel_us - outside_us) <= {5000.0 + one_decoy_us, 5000.0 + 2 * one_decoy_us}
    assert outside_us.min() > 20_000.0  # as eager's decoys take no longer than its calls
    assert set(times.eager_us) == {5000.0}


@pytest.mark.parametrize("trait", ["late", "foreign", "early"])
def test_results_that_change_or_lie_nowhere_are_tampering(trait: str) -> None:
    judging = judged(Scripted(lambda *call: replace(usual(*call), **{trait: call[0] == "candidate"})))
    assert judging.fault is not None
    assert judging.fault[1].verdict is Verdict.TAMPERING
    assert CANDIDATE not in judging.ledgers[0].times_us


def test_a_control_run_leaves_the_submission_alone() -> None:
    session = Scripted()
    Judging(session, NOBODY).control()
    assert {who for who, *_ in session.calls} == {"baseline"}
    with pytest.raises(RefereeError):
        Judging(Scripted(right=False), NOBODY).control()


def test_a_control_run_meets_the_values_that_the_submission_met() -> None:
    """A reference that fails on rare values fails there, too, and the submission is not blamed."""

    class Drawn(Scripted):
        def __init__(self) -> None:
            super().__init__()
            self.seeds: list[tuple[str, ...]] = []
            self._referee = cast(Any, SimpleNamespace(ask=self._drawn_so))

        def _drawn_so(self, _: str, seeds: list[str], decoys: Sequence[list[str]] = (), **more: Any) -> None:
            self.seeds += map(tuple, (*decoys, seeds))

        def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
            return Session.fill(self, config, distribution, decoys=decoys)

        def compare(self, who: str, config: int, choice: int) -> CallComparison:
            if self.seeds[-1] in unlucky and choice == SETS - 1:
                raise RefereeError("the reference is not finite")
            return super().compare(who, config, choice)

    session, unlucky = Drawn(), set[tuple[str, ...]]()
    judged(session)
    fills = session.last_fills()
    assert len(fills) >= 2
    assert [fill.seeds for fill in fills] == session.seeds[-len(fills) :]
    Judging(Drawn(), NOBODY).control(session.last_fills())
    unlucky.add(session.seeds[-2])
    Judging(Drawn(), NOBODY).control()
    with pytest.raises(RefereeError):
        Judging(Drawn(), NOBODY).control(session.last_fills())


class Compiled(Scripted):
    """torch.compile's results are wrong while `is_spoilt`."""

    def __init__(self, config: Any = CONFIG) -> None:
        super().__init__()
        self.setting.prepared.problems, self.setting.configs = (None,), [config]  # type: ignore[misc]
        self.is_spoilt, self.is_intact, self._function, self.asked = True, True, EAGER, list[tuple[str, ...]]()
        self._referee = cast(Any, SimpleNamespace(ask=lambda _, seeds, **more: self.asked.append(tuple(seeds))))

    def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
        return Session.fill(self, config, distribution, decoys=decoys)

    def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
        self._function = function
        return super()._call(who, config, choice, function=function, compared=compared)

    def compare(self, who: str, config: int, choice: int) -> CallComparison:
        is_compile = who == "baseline" and self._function == COMPILE
        told = CallComparison(not (is_compile and self.is_spoilt), "off", 0.0, 0.0, "normal")
        return replace(told, intact=self.is_intact or not is_compile)


def test_a_wrong_torch_compile_is_called_again_on_the_same_values_when_the_submission_is_gone() -> None:
    """A kernel that was left running could spoil inputs in that call alone, and the stronger baseline would go."""
    session = Compiled()
    judging = Judging(session, NOBODY)
    judging.verify()
    spoilt = session.asked[0]
    assert judging.compile_problems == ["its results are wrong: off"]
    judging.demand_wrong_compile()  # it is wrong by itself
    assert session.asked[-1] == spoilt
    session.is_spoilt = False
    with pytest.raises(Fault, match="wrong beside the submission and is right without it") as raised:
        judging.demand_wrong_compile()
    assert raised.value.verdict is Verdict.NOISY


def test_a_hidden_configuration_needs_no_baseline() -> None:
    session = Compiled(next(item for item in TASK.configs_for("cpu") if item.hidden))
    judging = Judging(session, NOBODY)
    judging.verify()
    session.is_spoilt = False
    judging.demand_wrong_compile()


def test_inputs_that_change_during_a_call_of_torch_compile_are_tampering() -> None:
    session = Compiled()
    session.is_intact = False
    with pytest.raises(Fault, match="while the submission was frozen") as raised:
        Judging(session, NOBODY).verify()
    assert raised.value.verdict is Verdict.TAMPERING


@pytest.mark.parametrize("trouble", [NotStopped("it goes on"), PermissionError("unreadable")])
def test_a_process_that_resists_the_judge_is_tampering_if_it_is_the_submissions(trouble: Exception) -> None:
    with pytest.raises(Fault) as found, faults_of("candidate"):
        raise trouble
    assert found.value.verdict is Verdict.TAMPERING
    with pytest.raises(SupervisorError), faults_of("baseline"):
        raise trouble
