"""Baselines that were slower beside the submission than without it: nobody is accused, and there is no score."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.harness import Verdict, default_suites, find_task
from benchmarks.harness.gpu.alone import calls_alone, demand_quick_replays, is_as_quick
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.session import COMPILE, EAGER, NOTHING
from benchmarks.harness.measuring.tally import CANDIDATE, ConfigTally
from benchmarks.harness.protocol import Status

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
SHOWN = next(item for item in TASK.configs["cuda"] if not item.hidden)
HIDDEN = next(item for item in TASK.configs["cuda"] if item.hidden)
BASELINES = (("baseline", EAGER), ("baseline", COMPILE))
QUICK = {EAGER: 40.0, COMPILE: 20.0}


def call(us: float, **more: Any) -> CallResult:
    return CallResult(Status.OK, wall_us=us, resume_us=0.0, event_us=us, tail_us=more.pop("tail_us", 0.0), **more)


class Session:
    """After the submission has gone, each baseline takes so many microseconds a call."""

    def __init__(self, alone_us: Mapping[int, float], *, replayed: bool = True, **more: Any) -> None:
        self.alone_us, self.more, self.log = {**alone_us, NOTHING: 1.0}, more, list[str]()
        self.crew = SimpleNamespace(end_executors=lambda: self.log.append("ended"))
        told = SimpleNamespace(demand_short_nothing=lambda: self.log.append("nothing"))
        self.replay: Any = told if replayed else None
        self.is_alone = False

    def canary(self) -> None:
        self.log.append("canary")

    def turn(self, launch: int) -> None:
        self.log.append(f"launch {launch}")

    def fill(self, config: int) -> int:
        self.log.append(f"fill {config}")
        return config

    def call_baseline(self, config: int, choice: int, function: int) -> CallResult:
        self.log.append(f"call {function}")
        return call(self.alone_us[function], **self.more)


def tally(beside_us: Mapping[int, float], config: Any = SHOWN, own_us: float = 10.0, **more: Any) -> ConfigTally:
    """In launch 0; in launch 1 everybody takes as long as alone."""
    found = ConfigTally(config)
    for number in range(20):
        found.launches.append(number // 10)
        found.note_time(CANDIDATE, call(own_us))
        for who in BASELINES:
            first = number < 10
            found.note_time(who, call((beside_us if first else QUICK)[who[1]], **(more if first else {})))
    return found


def look(session: Session, *tallies: ConfigTally) -> Any:
    return calls_alone(session, SimpleNamespace(ledgers=list(tallies)))  # type: ignore[arg-type]


def test_baselines_that_are_as_quick_beside_the_submission_are_called_five_times_in_each_launch() -> None:
    session = Session(QUICK)
    found = look(session, tally({EAGER: 41.0, COMPILE: 20.5}), tally({EAGER: 1.0, COMPILE: 1.0}, HIDDEN))
    assert {key: len(calls) for key, calls in found.made.items()} == {(0, who): 10 for who in BASELINES}
    assert [item for item in session.log if item.startswith(("canary", "launch"))] == ["canary", "launch 0", "launch 1"]
    assert session.log.count("fill 0") == 10  # on values of their own, as beside the submission
    assert (session.log.count("fill 1"), found.null) == (0, [])


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("slower", [EAGER, COMPILE])
def test_a_baseline_that_was_slower_beside_the_submission_ends_the_judging(slower: int, *, replayed: bool) -> None:
    """It may be a kernel that was left running beside its calls, in one launch alone, in a second context."""
    session = Session(QUICK, replayed=replayed)
    with pytest.raises(Fault, match=r"something slowed the GPU: .* µs beside the submission") as raised:
        look(session, tally({**QUICK, slower: 1.15 * QUICK[slower]}))
    assert raised.value.verdict is Verdict.NOISY
    assert session.log.count(f"call {slower}") == 45  # enough to be sure
    assert session.log.count(f"call {NOTHING}") == (0 if replayed else 45)


def test_chance_excuses_nothing_while_calls_are_few() -> None:
    """Five calls scatter so that three standard errors of their median are more than their interquartile range."""
    times = iter([20.0, 16.0, 24.0, 18.0, 22.0] * 100)
    session = Session(QUICK)
    session.call_baseline = lambda config, choice, function: (  # type: ignore[method-assign]
        session.log.append(f"call {function}"),
        call(next(times) if function == COMPILE else QUICK[function]),
    )[1]
    look(session, tally({**QUICK, COMPILE: 21.5}))
    assert session.log.count(f"call {COMPILE}") == 45 + 5


def test_one_call_is_enough_where_calls_are_long() -> None:
    session = Session({EAGER: 40.0, COMPILE: 20_000.0})
    look(session, tally({EAGER: 40.0, COMPILE: 20_000.0}))
    assert session.log.count("call 1") == 1 + 5


def test_calls_beside_which_the_clocks_were_lowered_do_not_count() -> None:
    with pytest.raises(Fault, match="its clocks are lowered") as raised:
        look(Session(QUICK, throttled=("thermal",)), tally(QUICK))
    assert raised.value.verdict is Verdict.NOISY


@pytest.mark.parametrize(
    ("beside_us", "alone_us", "is_quick"),
    [
        ([5.2] * 9, [5.0] * 15, True),  # within 0.3 µs
        ([6.0] * 9, [5.0] * 15, False),
        ([104.0] * 9, [100.0] * 15, True),  # within 5 %
        ([106.0] * 9, [100.0] * 15, False),
        ([106.0] * 9, [95.0, 100.0, 105.0] * 5, True),  # the calls alone scatter
        ([112.0] * 9, [95.0, 100.0, 105.0] * 5, True),
        ([112.0] * 36, [95.0, 100.0, 105.0] * 15, False),  # the more calls, the less is due to chance
        ([90.0, 130.0, 110.0] * 3, [100.0] * 15, False),  # how those beside scatter counts for nothing
    ],
)
def test_what_chance_explains_is_told_by_the_calls_alone(
    beside_us: list[float], alone_us: list[float], *, is_quick: bool
) -> None:
    assert is_as_quick(np.array(beside_us), np.array(alone_us), 0.3) is is_quick


@pytest.mark.parametrize("name", ["behind_us", "tail_us", "lead_us", "start_us", "sampled_us"])
@pytest.mark.parametrize("more_us", [0.0, 400.0])
def test_what_happens_around_calls_of_baselines_was_no_later_beside_the_submission(name: str, more_us: float) -> None:
    """Lateness of the kernel's calls is held against theirs, so what is beside all of them would be seen by nobody.

    The third word is later after long calls and on a busy host, and the referee's kernel shows what it would show.
    Copying rows of results takes over 100 µs after long calls of baselines, alone as well.
    """
    session = Session(QUICK, **{name: 50.0})
    judging: Any = SimpleNamespace(ledgers=[tally(QUICK, **{name: 50.0 + more_us})])
    is_granted = name not in ("behind_us", "sampled_us")  # what nobody is granted accuses nobody
    with pytest.raises(Fault, match="something slowed the GPU") if more_us and is_granted else nullcontext():
        demand_quick_replays(session, session.replay, judging)  # type: ignore[arg-type]
    assert session.log[:2] == ["ended", "nothing"]
    assert session.is_alone


@pytest.mark.parametrize(("own_us", "is_noisy"), [(9_000.0, False), (800.0, True)])
def test_lateness_that_could_hide_little_of_a_call_is_no_noise(own_us: float, *, is_noisy: bool) -> None:
    """Of a call of 9 ms 17 µs are 0.2 %."""
    session = Session(QUICK, start_us=10.0)
    with pytest.raises(Fault, match="17 µs longer beside") if is_noisy else nullcontext():
        look(session, tally(QUICK, own_us=own_us, start_us=47.0))
