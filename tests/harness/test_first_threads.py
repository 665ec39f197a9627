"""A process whose first thread has ended still lives: it is counted, and ended, like any other.

Linux shows the state, the mappings and the folders of the first thread as those of the process. Not covered: reading
the memory of a candidate, which fails then, so that its results count as tampering.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.harness.sandbox import crowd, isolation
from benchmarks.harness.sandbox.crowd import end_tree, is_gone, mappings_below, tasks_below, work_of
from benchmarks.harness.sandbox.isolation import Room, spawn
from benchmarks.harness.sandbox.seccomp import builder_program

HERE = """
import ctypes, mmap, os, platform, threading, time
libc = ctypes.CDLL(None)
def without_first_thread(work):
    threading.Thread(target=work, daemon=True).start()
    libc.syscall(ctypes.c_long({"x86_64": 60, "aarch64": 93}[platform.machine()]), ctypes.c_long(0))
def say(text):
    os.write(1, text.encode() + b"\\n")
"""
SLEEPS = "def work():\n    say(str(os.getpid()))\n    time.sleep(60)\n"
MAPS = """
def work():
    kept = [mmap.mmap(-1, 4096, prot=1 + 2 * (number % 2)) for number in range({mappings})]
    say(str(os.getpid()))
    kept += [open(os.devnull) for number in range(100)]
    time.sleep(60)
"""
# Each name takes a kilobyte of the kernel's memory.
NAMES = """
def work():
    for number in range(25_000):
        os.symlink("x", f"/tmp/{number}")
    say("done")
    time.sleep(60)
"""


@contextmanager
def started(code: str) -> Iterator[tuple[int, int]]:
    """A process, and the one that has said its number."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HERE + code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        inner = int(process.stdout.readline())
        try:
            until = time.monotonic() + 10
            while first_thread(inner) != "Z" and time.monotonic() < until:
                time.sleep(0.01)
            yield process.pid, inner
        finally:
            for pid in (inner, process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def first_thread(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def test_its_mappings_and_threads_are_counted() -> None:
    with started(MAPS.format(mappings=3_000) + "without_first_thread(work)") as (pid, _):
        assert first_thread(pid) == "Z"
        assert 3_000 <= mappings_below(pid, 20_000) < 4_000
        assert tasks_below(pid, 100) == 2
        assert not is_gone(pid)


def test_its_processor_time_is_counted_while_it_runs() -> None:
    busy = "def work():\n    say(str(os.getpid()))\n    while True: pass\n"
    with started(busy + "without_first_thread(work)") as (pid, _):
        until = time.monotonic() + 30
        while not (found := work_of(pid)).used_s > 0.2 and time.monotonic() < until:
            time.sleep(0.05)
        assert found.used_s > 0.2
        assert found.is_ready


def test_it_is_ended_wherever_it_has_gone() -> None:
    leaves = "if os.fork() == 0:\n    os.setsid()\n    without_first_thread(work)\ntime.sleep(60)\n"
    with started(SLEEPS + leaves) as (pid, inner):
        assert first_thread(inner) == "Z"
        assert not is_gone(inner)
        end_tree(pid)
        until = time.monotonic() + 10
        while not is_gone(inner) and time.monotonic() < until:
            time.sleep(0.01)
        assert is_gone(inner)


def test_who_has_ended_is_gone_before_anybody_has_waited_for_it() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        until = time.monotonic() + 10
        while not is_gone(process.pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert first_thread(process.pid) == "Z"
        assert is_gone(process.pid)
        assert mappings_below(process.pid, 100) == 0
    assert is_gone(process.pid)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("work", "words"),
    [(MAPS.format(mappings=25_000), "more than 20000 mappings"), (NAMES, "more than 20000 names in a folder")],
    ids=["mappings", "names"],
)
def test_a_sandbox_is_ended_for_what_it_has(tmp_path: Path, work: str, words: str) -> None:
    if "names" in words and not isolation.isolation_in_force().strong:
        pytest.skip("files of the machine have no limit of their own here")
    argv = [sys.executable, "-I", "-S", "-c", f"{HERE}{work}\nwithout_first_thread(work)"]
    child = spawn(argv, Room(), tmp_path / "log", filter_program=builder_program())
    try:
        assert child.wait(20) == -signal.SIGKILL
        assert words in child.log_tail(1000)
    finally:
        child.kill()


@pytest.mark.sandbox
def test_folders_are_found_again_when_the_thread_that_showed_them_has_ended(tmp_path: Path) -> None:
    if not isolation.isolation_in_force().strong:
        pytest.skip("there are no folders in memory here")
    code = "def work():\n    [os.symlink('x', f'/tmp/{n}') for n in range(50)]\n    say('made')\n    time.sleep(60)\n"
    child = spawn(
        [sys.executable, "-I", "-S", "-c", f"{HERE}{code}without_first_thread(work)"], Room(), tmp_path / "log"
    )
    try:
        while "made" not in child.log_tail(100):
            time.sleep(0.01)
        outer = child._process.pid
        item = crowd._Crowd(outer, 0, None, 1, None, tmp_path / "log", ends_first=False)
        item.folders = ("/proc/4194999/cwd",)  # as of a thread that has ended
        assert crowd._names_in(item) >= 50
    finally:
        child.kill()
