"""How many processes and threads a sandbox may have, as whom the tests run and, where that is root, as another user."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness.sandbox import crowd, groups, isolation
from benchmarks.harness.sandbox.isolation import TASKS_MAX, Isolation, Room, spawn
from benchmarks.harness.sandbox.seccomp import builder_program
from tests.harness.test_isolation import candidate_room, install

pytestmark = pytest.mark.sandbox
TRIED, LIMIT = 500, 64
Run = Callable[..., tuple[int | None, int]]
STEP = """
import os, sys, threading, time
for number in range({tried}):
    {start}
    print("started", flush=True)
    time.sleep(0.002)
print("all of them", flush=True)
"""
FORKS = STEP.format(tried=TRIED, start="if os.fork() == 0: time.sleep(60); os._exit(0)")
LEAVES = STEP.format(tried=TRIED, start="if os.fork() == 0: os.setsid(); os.fork() or time.sleep(60); os._exit(0)")
THREADS = STEP.format(tried=TRIED, start="threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")


@pytest.fixture(params=["as it is here", "without bubblewrap"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "without bubblewrap":
        monkeypatch.setattr(isolation, "isolation_in_force", lambda: Isolation("seccomp", False, "no bubblewrap"))
        monkeypatch.setattr(isolation, "tasks_are_limited", lambda: False)
    return


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(code: str, room: Room, program: bytes = b"") -> tuple[int | None, int]:
        log = tmp_path / "log"
        child = spawn([sys.executable, "-I", "-c", code], room, log, filter_program=program)
        try:
            return child.wait(60), log.read_text(errors="replace").count("started")
        finally:
            child.kill()

    return start


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("code", [FORKS, LEAVES, THREADS], ids=["forks", "leaves", "threads"])
def test_a_reference_that_starts_too_many_is_ended(run: Run, tmp_path: Path, code: str) -> None:
    ended, started = run(code, Room(memory_bytes=16 << 30, tasks=LIMIT), builder_program())
    log = (tmp_path / "log").read_text()
    assert ended != 0
    assert LIMIT // 2 - 4 <= started < TRIED
    assert f"more than {LIMIT} processes and threads" in log or "unavailable" in log or "can't start" in log


@pytest.mark.usefixtures("place")
def test_a_submission_that_starts_too_many_threads_is_ended(run: Run) -> None:
    ended, started = run(install(THREADS), replace(candidate_room(), memory_bytes=16 << 30, tasks=LIMIT))
    assert ended != 0
    assert LIMIT - 8 <= started < TRIED


@pytest.mark.usefixtures("place")
def test_what_stays_within_the_limit_is_left_alone(run: Run) -> None:
    code = FORKS.replace("range(500)", "range(40)").replace("sleep(60)", "sleep(1)")
    assert run(code, Room(tasks=LIMIT), builder_program()) == (0, 40)


@pytest.mark.usefixtures("place")
def test_nothing_that_a_child_has_started_outlives_it(tmp_path: Path) -> None:
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    forks = "os.fork()\nos.fork() or os.setsid()\nos.fork()"
    code = f"import os, time\n{forks}\nprint('on', flush=True)\ntime.sleep(300)  # {mark}"
    child = spawn([sys.executable, "-I", "-c", code], Room(), tmp_path / "log")
    while child.log_tail(1000).count("on") < 8:
        time.sleep(0.01)
    assert len(running(mark)) >= 8
    child.kill()
    until = time.monotonic() + 10
    while running(mark) and time.monotonic() < until:
        time.sleep(0.01)
    assert running(mark) == []


def running(mark: str) -> list[int]:
    """The processes whose command line has `mark`; those that have ended have none."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root becomes somebody else")
def test_linux_holds_every_other_user_to_the_limit() -> None:
    """As who is not root a worker of a public site runs."""
    room = Room(python=False)
    bomb = "i=0; while [ $i -lt 500 ]; do sleep 60 & i=$((i+1)); echo started; done"
    command = [*isolation._bubblewrap(room), "--", "/usr/bin/prlimit", f"--nproc={LIMIT}", "/bin/sh", "-c", bomb]
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    done = subprocess.run(other, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    if "started" not in done.stdout:
        pytest.skip(f"another user cannot use bubblewrap here: {done.stderr[-200:]}")
    assert LIMIT // 2 < done.stdout.count("started") < LIMIT


def test_who_ends_the_process_that_watches_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    first = crowd._watcher()
    first.kill()
    first.wait()
    sleeper = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & sleep 60 & wait"], start_new_session=True)
    crowd.watch(sleeper.pid, log, tasks=1)
    assert sleeper.wait(30) == -signal.SIGKILL
    assert "more than 1 processes" in log.read_text()
    assert crowd._watcher() is not first


LOWERS = """
import os, time
{forks}
try:
    open("/proc/self/oom_score_adj", "w").write("0")
except OSError:
    print("refused", flush=True)
    raise SystemExit
print("lowered", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("forks", ["", "if os.fork(): os.wait(); os._exit(0)"], ids=["itself", "a child"])
def test_who_makes_linux_end_others_first_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: str) -> None:
    """Where a GPU is it can write that to /proc, and a machine without memory would end others first."""
    if not isolation.isolation_in_force().strong:
        pytest.skip("only with bubblewrap")
    told = iter([0, 1, 1])  # processes that Linux has ended, one of them meanwhile
    monkeypatch.setattr(groups, "ended_for_memory", lambda: next(told, 1))
    argv, room = [sys.executable, "-I", "-c", LOWERS.format(forks=forks)], Room(devices=(Path("/dev/null"),))
    child = spawn(argv, room, tmp_path / "log", filter_program=b"" if forks else builder_program())
    try:
        assert child.wait(20) is not None
        with (tmp_path / "log").open("ab") as printed:  # as who is not ended at once may
            printed.write(b"." * 10_000)
    finally:
        child.kill()
    if "refused" not in (log := (tmp_path / "log").read_text()):  # as to a worker with rights of root
        assert log.startswith("lowered\n\nended: it has lowered its oom_score_adj\n")
        assert child.exit_code() == -signal.SIGKILL
        assert not child.is_lost()


def test_who_is_killed_before_anybody_looks_has_lowered_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isolation.isolation_in_force().strong:
        pytest.skip("only with bubblewrap")
    monkeypatch.setattr(isolation, "watch", lambda *_, **__: None)
    argv = [sys.executable, "-I", "-c", LOWERS.format(forks="")]
    child = spawn(argv, Room(devices=(Path("/dev/null"),)), tmp_path / "log")
    try:
        while not (log := (tmp_path / "log").read_text()) and child.wait(0.05) is None:
            pass
    finally:
        child.kill()
    assert child.was_ended == (log == "lowered\n")


def test_who_may_not_write_that_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(isolation, "watch", lambda *_, ends_first, **__: asked.append(ends_first))
    for devices in ((), (Path("/dev/null"),)):
        spawn(["/bin/true"], Room(devices=devices), tmp_path / "log").kill()
    assert asked == [False, isolation.isolation_in_force().strong]


@pytest.mark.parametrize(("available", "is_short"), [(200, True), (300, False)])
def test_all_looks_ask_while_the_machine_has_little_memory(
    monkeypatch: pytest.MonkeyPatch, available: int, *, is_short: bool
) -> None:
    monkeypatch.setattr(crowd, "_meminfo", lambda: {"MemTotal": 1000, "MemAvailable": available})
    assert crowd._is_short_of_memory() is is_short


def test_honest_work_has_room() -> None:
    assert TASKS_MAX >= 256
