"""How long a baseline or a build may take: by the clock, and where others have the processors, by what it gets of them.

Not covered: what torch.compile makes (`test_judge.py`).
"""

import subprocess
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness.measuring.baselines import CpuPreparation
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork, end_tree, work_of
from benchmarks.harness.source import NOBODY

LIMIT_S = 100.0


class Compiling:
    """A child that answers after `answers_s`; `work` says what it has done until a moment."""

    def __init__(self, answers_s: float, work: Callable[[float], TreeWork]) -> None:
        self.now_s, self._answers_s = 0.0, answers_s
        self.child = SimpleNamespace(work=lambda: work(self.now_s))

    def receive(self, timeout_s: float) -> dict[str, Any]:
        self.now_s += timeout_s
        if self.now_s < self._answers_s:
            raise TimeoutError
        return {"problem": None}


def answered_s(monkeypatch: pytest.MonkeyPatch, answers_s: float, work: Callable[[float], TreeWork]) -> float | None:
    """When the answer was taken; None if nobody waited for it."""
    child = Compiling(answers_s, work)
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: child.now_s)
    try:
        CpuPreparation._receive(cast(Any, SimpleNamespace(watcher=NOBODY)), cast(Any, child), LIMIT_S)
    except TimeoutError:
        assert child.now_s >= LIMIT_S - 1
        return None
    return child.now_s


def test_who_gets_no_processor_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a build that keeps all processors busy leaves the task without this baseline on this machine."""

    def held_up(now_s: float) -> TreeWork:
        return TreeWork(now_s / 50 if now_s < 180 else now_s - 176.4, is_ready=True)

    assert answered_s(monkeypatch, 230.0, held_up) == pytest.approx(230.0, abs=1)
    assert answered_s(monkeypatch, 270.0, held_up) == pytest.approx(270.0, abs=1)
    assert answered_s(monkeypatch, 290.0, held_up) is None  # it has had as much as anybody


def test_who_works_or_sleeps_has_the_time_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_s(monkeypatch, 90.0, lambda now_s: TreeWork(now_s, is_ready=True)) is not None
    assert answered_s(monkeypatch, 110.0, lambda now_s: TreeWork(now_s, is_ready=True)) is None
    assert answered_s(monkeypatch, 110.0, lambda _: TreeWork(0.0, is_ready=False)) is None


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_s(monkeypatch, 390.0, lambda _: TreeWork(0.0, is_ready=True)) is not None
    assert answered_s(monkeypatch, 410.0, lambda _: TreeWork(0.0, is_ready=True)) is None


def test_the_work_of_all_below_a_process_counts() -> None:
    loop = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    busy = subprocess.Popen(["/bin/sh", "-c", f"({loop}); while :; do :; done & wait"], start_new_session=True)
    idle = subprocess.Popen(["sleep", "60"])
    try:
        until = time.monotonic() + 30
        while not (found := work_of(busy.pid)).used_s > 0.05 and time.monotonic() < until:
            time.sleep(0.01)
        assert found.is_ready
        assert work_of(idle.pid) == TreeWork(0.0, is_ready=False)
    finally:
        end_tree(busy.pid)
        idle.kill()
        busy.wait()
        idle.wait()
    assert work_of(idle.pid) == TreeWork(0.0, is_ready=False)
