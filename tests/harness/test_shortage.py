"""What the machine ends for want of memory is nobody's fault: a build, a candidate, or a process of the judge.

Not covered: what a group counts (`test_groups.py`), and which failures of a compiler look so (`test_builds_alike.py`).
"""

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import Paths, Report, Source, Verdict, default_rules, default_suites, find_task, judge
from benchmarks.harness.compilers import builds, python_module
from benchmarks.harness.compilers.python_module import PythonModule
from benchmarks.harness.compilers.toolchain import Compilation, Workshop
from benchmarks.harness.errors import Overloaded, ProcessLost
from benchmarks.harness.measuring.baselines import baseline_room
from benchmarks.harness.measuring.calls import Judging
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import call_fault, death
from benchmarks.harness.measuring.last_words import failed, not_awake
from benchmarks.harness.measuring.session import CpuSession
from benchmarks.harness.protocol import ProtocolError
from benchmarks.harness.sandbox import groups
from benchmarks.harness.sandbox.isolation import Child, Room, spawn

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
KILLED = "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
FULL = "/usr/bin/ld: final link failed: No space left on device\n"
# Below an error of its own g++ shows the line of the text.
SHOWN = """a.cpp:1:5: internal compiler error: Segmentation fault
    1 | int x; /* internal compiler error: Bus error */
      | ^
"""
FORKS = "g++: fatal error: Cannot fork\ncompilation terminated.\n"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many processes as it is long have been ended by the machine, as Linux tells it."""
    told: list[int] = []
    monkeypatch.setattr(groups, "ended_for_memory", lambda: len(told))
    return told


@pytest.fixture
def child(tmp_path: Path, ended: list[int]) -> Iterator[Child]:
    argv = [sys.executable, "-I", "-S", "-c", "import time; print('here', flush=True); time.sleep(60)"]
    started = spawn(argv, Room(), tmp_path / "log")
    while not (tmp_path / "log").read_text():
        assert started.wait(0.02) is None
    yield started
    started.kill()


def kill(child: Child) -> None:
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(10) == -signal.SIGKILL


def test_who_is_killed_while_the_machine_ends_processes_is_lost(child: Child, ended: list[int]) -> None:
    ended.append(1)
    kill(child)
    assert child.is_lost()
    child.kill()
    assert child.is_lost()


def test_who_is_killed_while_the_machine_has_memory_is_not(child: Child, ended: list[int]) -> None:
    kill(child)
    child.kill()
    ended.append(1)
    assert not child.is_lost()


def test_whom_we_kill_is_not(child: Child, ended: list[int]) -> None:
    ended.append(1)
    child.kill()
    assert not child.is_lost()
    assert child.met_shortage


@pytest.mark.parametrize(("lost", "verdict"), [(True, Verdict.NOISY), (False, Verdict.OUT_OF_MEMORY)])
def test_a_call_that_the_machine_ended_is_nobodys_fault(verdict: Verdict, *, lost: bool) -> None:
    fault = call_fault(CallResult(None, exit_code=-signal.SIGKILL, lost=lost))
    assert fault is not None
    assert fault.verdict is verdict


def test_who_uses_up_its_processor_time_is_told_so(tmp_path: Path) -> None:
    """And not that the system has killed it, as it does for want of memory."""
    spins = spawn([sys.executable, "-I", "-S", "-c", "while True: pass"], Room(cpu_s=1), tmp_path / "log")
    try:
        code = spins.wait(120)
    finally:
        spins.kill()
    assert "used more processor time than the rules allow" in death("in a call", code).reason


def test_processes_of_ours_may_use_all_processors_for_ten_minutes(paths: Paths) -> None:
    room = baseline_room(TASK.folder / "reference.py", paths.scratch, default_rules())
    assert room.cpu_s == 600 * len(os.sched_getaffinity(0))


@pytest.mark.parametrize("lost", [True, False])
def test_a_process_of_ours_that_the_machine_ended_tells_nothing_of_the_device(
    child: Child, ended: list[int], *, lost: bool
) -> None:
    ended += [1] * lost
    kill(child)
    for error in (failed("it failed", child), not_awake("the process", child, ProtocolError("it went away"))):
        assert isinstance(error, ProcessLost) is lost
        assert isinstance(error, Overloaded) is lost


@pytest.mark.sandbox
@pytest.mark.parametrize("who", ["referee", "baseline", "candidate"])
def test_who_the_machine_ends_before_the_submission_is_loaded_makes_it_noisy(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, ended: list[int], who: str
) -> None:
    name = "_open_referee" if who == "referee" else "_let_load"
    step = getattr(CpuSession, name)

    def killed_before(own: CpuSession, *args: Any) -> None:
        child = own._referee.child if who == "referee" else own._casts[0][who == "candidate"].child
        ended.append(1)
        kill(child)
        step(own, *args)

    monkeypatch.setattr(CpuSession, name, killed_before)
    report = judged(paths)
    assert report.verdict is Verdict.NOISY, report.reason
    assert "too little memory" in report.reason


def judged(paths: Paths, text: str = KERNEL) -> Report:
    return judge(Source(f"{text}// {uuid.uuid4()}\n", "cpp"), TASK, default_rules(), paths, quick=True)


@pytest.mark.sandbox
@pytest.mark.parametrize("is_short", [True, False])
@pytest.mark.parametrize("when", ["loading", "calls"])
def test_a_candidate_that_the_machine_ended_is_judged_again(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, ended: list[int], when: str, *, is_short: bool
) -> None:
    """If the machine has memory, it is the candidate's end as before."""
    owner, name = (CpuSession, "_await_candidate") if when == "loading" else (Judging, "verify")
    step = getattr(owner, name)

    def killing(own: Any, *args: Any) -> None:
        session = own if when == "loading" else own._session
        ended.extend([1] * is_short)
        kill(session.candidate.child)
        step(own, *args)

    monkeypatch.setattr(owner, name, killing)
    report = judged(paths)
    assert report.verdict is (Verdict.NOISY if is_short else Verdict.OUT_OF_MEMORY), report.reason


@pytest.mark.sandbox
@pytest.mark.parametrize(("is_short", "verdict"), [(True, Verdict.NOISY), (False, Verdict.RUNTIME_ERROR)])
def test_a_process_of_the_judge_that_the_machine_ended_accuses_nobody(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, ended: list[int], verdict: Verdict, *, is_short: bool
) -> None:
    """Else a judging without the submission works, as the machine has memory again, and the submission is blamed."""
    verify = Judging.verify

    def killing(own: Judging) -> None:
        ended.extend([1] * is_short)
        kill(own._session._referee.child)
        verify(own)

    monkeypatch.setattr(Judging, "verify", killing)
    report = judged(paths)
    assert report.verdict is verdict, report.reason


@pytest.mark.sandbox
@pytest.mark.usefixtures("ended")
def test_whose_own_process_was_ended_for_its_memory_is_to_blame(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its control group tells: what the machine lacked, the submission has taken."""
    verify = Judging.verify

    def killing(own: Judging) -> None:
        own._session.untrusted()[0].has_overrun = True
        kill(own._session._referee.child)
        verify(own)

    monkeypatch.setattr(Judging, "verify", killing)
    monkeypatch.setattr(Child, "is_lost", lambda own: own.exit_code() == -signal.SIGKILL)
    report = judged(paths)
    assert report.verdict is Verdict.OUT_OF_MEMORY, report.reason


@pytest.mark.parametrize(
    ("log", "by_machine", "verdict"),
    [
        (KILLED, False, Verdict.INTERNAL_ERROR),
        (FORKS, False, Verdict.INTERNAL_ERROR),
        (FULL, False, Verdict.COMPILE_ERROR),
        (FULL, True, Verdict.INTERNAL_ERROR),
        ("a.cpp:1:1: error: no\n", True, Verdict.COMPILE_ERROR),
        (SHOWN, False, Verdict.COMPILE_ERROR),
    ],
    ids=["killed", "no process", "a text fills its disk", "no memory either", "an error beside it", "words of a text"],
)
def test_a_build_that_the_machine_ended_twice_is_not_its_authors_error(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, log: str, verdict: Verdict, *, by_machine: bool
) -> None:
    """Of what g++ reads, no text makes the last line; but one may need more room than it has."""
    monkeypatch.setattr(Workshop, "make", lambda *_: Compilation(4 if log == SHOWN else 1, log, by_machine=by_machine))
    source = Source(f"{KERNEL}// {uuid.uuid4()}\n", "cpp")
    for _ in range(2):  # also as it is kept
        report = judge(source, TASK, default_rules(), paths, quick=True)
        assert report.verdict is verdict, report.reason
    kept = builds.kept(source, default_rules(), paths)
    assert kept is not None
    assert kept.by_machine == (verdict is Verdict.INTERNAL_ERROR)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_a_module_that_runs_while_it_is_built_may_have_taken_the_memory_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_grouped: bool
) -> None:
    """Its group knows; without one, the top level that kills itself must not look like a failure of the machine."""
    monkeypatch.setattr(python_module.groups, "home", lambda: tmp_path if is_grouped else None)
    monkeypatch.setattr(Workshop, "run", lambda *_, **__: Compilation(-signal.SIGKILL, "", by_machine=True))
    with builds.workshop(default_rules(), Paths(tmp_path)) as shop:
        made = PythonModule(None).compile(Source("load_inline\n", "python"), replace(shop))
    assert made.by_machine is is_grouped
