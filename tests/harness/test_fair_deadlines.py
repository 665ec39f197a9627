"""How much more time than its limit whoever waits for a processor has, and when that has been too little.

Not covered: what waits in the judge for whom (`test_baselines.py`, `test_gpu_warming.py`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork, work_of
from benchmarks.harness.sandbox.deadlines import FairDeadline, FairTotal
from benchmarks.harness.sandbox.groups import Group
from benchmarks.harness.sandbox.isolation import Child, Room, spawn
from benchmarks.harness.sandbox.seccomp import builder_program

LIMIT_S = 100.0
# Nobody waits for these children, so nobody gets their time.
HIDES_ITS_TIME = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork() == 0:
        until = time.process_time() + 0.1
        while time.process_time() < until: pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"""


def ended(monkeypatch: pytest.MonkeyPatch, work: Callable[[float], TreeWork]) -> tuple[float, bool]:
    """When a child is given up that does `work` until a moment, and whether it is said to have starved."""
    now_s = 0.0
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now_s)
    deadline = FairDeadline(lambda: work(now_s), LIMIT_S)
    while not deadline.is_over():
        now_s += 1
    return now_s, deadline.is_starved


@pytest.mark.parametrize(
    ("spare_share", "end_s"), [(0.0, 200), (0.9, 112), (30.0, 100)], ids=["none", "one of two", "30 of 32"]
)
def test_who_may_hide_its_time_has_more_while_no_processor_has_time_to_spare(
    monkeypatch: pytest.MonkeyPatch, spare_share: float, end_s: float
) -> None:
    def hides(now_s: float) -> TreeWork:
        return TreeWork(0.0, is_ready=True, spare_s=7000 + spare_share * now_s, counts_all=False)

    assert ended(monkeypatch, hides) == (pytest.approx(end_s, abs=1), spare_share == 0.0)


def test_only_the_time_counts_in_which_others_had_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits_later(now_s: float) -> TreeWork:
        return TreeWork(min(now_s, 60.0), is_ready=True, spare_s=min(now_s, 60.0), counts_all=False)

    assert ended(monkeypatch, waits_later) == (pytest.approx(200, abs=1), True)

    def waited_first(now_s: float) -> TreeWork:
        return TreeWork(max(0.0, now_s - 80), is_ready=True, spare_s=max(0.0, now_s - 80), counts_all=False)

    assert ended(monkeypatch, waited_first) == (pytest.approx(180, abs=1), False)


def test_who_hides_nothing_and_gets_nothing_has_four_times_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, lambda _: TreeWork(0.0, is_ready=True)) == (pytest.approx(400, abs=1), True)
    assert ended(monkeypatch, lambda now_s: TreeWork(now_s, is_ready=True)) == (pytest.approx(100, abs=1), False)


def test_who_works_only_when_it_is_looked_at_has_not_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends a message, works for a moment while that is read, and sleeps; one of two processors is idle."""
    found = ended(monkeypatch, lambda now_s: TreeWork(0.0, is_ready=True, spare_s=0.9 * now_s))
    assert found == (pytest.approx(112, abs=1), False)


def test_looks_at_one_moment_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now_s)
    deadline = FairDeadline(lambda: TreeWork(0.0, is_ready=False), LIMIT_S)
    now_s = LIMIT_S + 1
    assert not any(deadline.is_over() for _ in range(10))


def test_who_sleeps_when_time_is_up_has_not_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, lambda _: TreeWork(0.0, is_ready=False)) == (pytest.approx(102, abs=1), False)
    at_one_look = ended(monkeypatch, lambda now_s: TreeWork(0.0, is_ready=now_s != 100))
    assert at_one_look == (pytest.approx(400, abs=1), True)


def test_a_total_is_charged_with_what_each_has_had_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without others it is the time by the clock, and even beside them it comes to an end."""

    def total_of(work: Callable[[float], TreeWork]) -> FairTotal:
        clock, total = [0.0], FairTotal()
        monkeypatch.setattr(deadlines.time, "monotonic", lambda: clock[0])
        for _ in range(2):
            deadline = FairDeadline(lambda: work(clock[0]), LIMIT_S)
            for _ in range(80):
                clock[0] += 1
                deadline.look()
            total.charge(deadline)
        return total

    works = total_of(lambda now_s: TreeWork(now_s, is_ready=True))
    sleeps = total_of(lambda now_s: TreeWork(0.0, is_ready=False, spare_s=7000 + now_s))
    waits = total_of(lambda now_s: TreeWork(0.1 * now_s, is_ready=True))
    hides = total_of(lambda _: TreeWork(0.0, is_ready=True, counts_all=False))
    naps = total_of(lambda now_s: TreeWork(0.0, is_ready=now_s % 4 == 0))
    assert [round(total.charged_s) for total in (works, sleeps, waits, hides, naps)] == [160, 160, 40, 80, 120]
    assert [total.is_starved(40.0) for total in (works, sleeps, waits, hides)] == [False, False, True, True]
    assert not naps.is_starved(120.0)
    assert not waits.is_starved(50.0)


@pytest.mark.sandbox
def test_time_of_children_that_nobody_waits_for_gives_twice_the_limit_at_most(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", "-c", HIDES_ITS_TIME]
    child = spawn(argv, Room(), tmp_path / "log", filter_program=builder_program())
    try:
        started_s, deadline = time.monotonic(), FairDeadline(child.work, 1.5)
        while not deadline.is_over():
            assert child.wait(0.05) is None
        assert time.monotonic() - started_s < 1.5 * 2.5
    finally:
        child.kill()


def test_a_group_counts_what_all_have_used(tmp_path: Path) -> None:
    group = Group(tmp_path, None, limits_tasks=True)
    assert group.used_s() is None
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    assert group.used_s() == 2.5
    with subprocess.Popen(["/bin/true"]) as process:
        found = Child(process, tmp_path / "log", wrapped=False, group=group).work()
    assert (found.used_s, found.counts_all) == (2.5, True)


def test_processors_spare_no_more_time_than_they_have() -> None:
    before, began_s, count = work_of(os.getpid()), time.monotonic(), len(os.sched_getaffinity(0))
    time.sleep(0.5)
    spared_s, taken_s = work_of(os.getpid()).spare_s - before.spare_s, time.monotonic() - began_s
    assert not before.counts_all
    assert -0.1 * count * (taken_s + 0.1) <= spared_s <= count * (taken_s + 0.1)
