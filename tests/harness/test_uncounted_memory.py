"""What a sandbox can make the system's kernel hold beyond the limits of its processes and folders.

Such memory belongs to no process, so Linux, which ends whoever has most pages, ends the sandboxes of others first.
Everything runs in the real sandbox. Not covered: what a process with a GPU's driver may call (`test_isolation.py`).
"""

import re
import signal
import sys
import time
import uuid
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.sandbox import isolation
from benchmarks.harness.sandbox.isolation import Room
from benchmarks.harness.sandbox.seccomp import builder_program
from tests.harness.test_isolation import candidate_room, install

pytestmark = pytest.mark.sandbox
MEMORY_MB, SCRATCH_MB = 192, 32
ROOM = Room(memory_bytes=MEMORY_MB << 20, scratch_bytes=SCRATCH_MB << 20)

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nheld_bytes = 0\n"
# 2 MB each: Linux allows 32,000 such sets in every IPC namespace
SEMAPHORES = f"{LIBC}for _ in range(300): held_bytes += (libc.semget(0, 32000, 0o1600) >= 0) * 32000 * 64\n"
MESSAGES = f"""{LIBC}
text = ctypes.create_string_buffer(8 + 8192)
ctypes.c_long.from_buffer(text).value = 1
for _ in range(31000):
    queue = libc.msgget(0, 0o1600)
    while queue >= 0 and libc.msgsnd(queue, text, 8192, 0o4000) == 0:
        held_bytes += 8192
"""
SOCKETS = """
import socket
kept, held_bytes = [], 0
try:
    for _ in range(110):
        kept += socket.socketpair()
        for end in kept[-2:]:
            end.setblocking(False)
            try:
                while True:
                    held_bytes += end.send(4096 * b"x")
            except BlockingIOError:
                pass
except OSError:
    pass
"""
TELLS = "print('HELD', held_bytes >> 20, flush=True)\n"


def held_mb(code: str, root: Path, candidate_on: str = "") -> int:
    """By a builder, or by a candidate."""
    text, room, program = code + TELLS, ROOM, builder_program()
    if candidate_on:
        text, room, program = install(text, gpu=candidate_on == "gpu"), candidate_room(), b""
    child = isolation.spawn([sys.executable, "-I", "-c", text], room, root / "log", filter_program=program)
    try:
        assert child.wait(60) is not None
    finally:
        child.kill()
    found = re.search(r"HELD (\d+)", child.log_tail(1000))
    assert found is not None, child.log_tail(1000)
    return int(found[1])


@pytest.mark.parametrize("code", [SEMAPHORES, MESSAGES, SOCKETS], ids=["semaphores", "messages", "sockets"])
def test_no_builder_makes_the_kernel_hold_memory(root: Path, code: str) -> None:
    assert held_mb(code, root) == 0


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("code", [SEMAPHORES, MESSAGES], ids=["semaphores", "messages"])
def test_no_candidate_makes_the_kernel_hold_memory(root: Path, code: str, device: str) -> None:
    assert held_mb(code, root, device) == 0


def test_the_top_level_of_a_module_makes_the_kernel_hold_no_memory(root: Path) -> None:
    """The whole way of a submission in Python."""
    text = f"# load_inline {uuid.uuid4()}\n{SEMAPHORES}{TELLS}raise SystemExit(1)\n"
    made = builds.build(Source(text, "python"), default_rules(), Paths(root))
    assert "HELD 0\n" in made.log


# 700,000 symbolic links took 653 MB that cannot be reclaimed: they have no page, and a folder in memory counts pages
NAMES = """
import os
for _ in range({processes}):
    os.fork()
os.chdir({folder!r})
at = 0
while True:
    at += 1
    os.mkdir(f"{{os.getpid()}}.{{at}}")
    fd = os.open(f"{{os.getpid()}}.{{at}}", os.O_RDONLY)
    for name in range(1000):
        os.{make}
    os.close(fd)
"""
WAYS = {
    "links": ('symlink(120 * "x", str(name), dir_fd=fd)', 0),
    "links of many": ('symlink(120 * "x", str(name), dir_fd=fd)', 2),
    "folders": ("mkdir(str(name), dir_fd=fd)", 0),
    "files": ("close(os.open(str(name), os.O_WRONLY | os.O_CREAT, dir_fd=fd))", 0),
}


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])  # noqa: S108
@pytest.mark.parametrize("way", WAYS)
def test_a_sandbox_with_too_many_names_is_ended_at_once(root: Path, way: str, folder: str) -> None:
    if not isolation.isolation_in_force().strong:
        pytest.skip("files of the machine have no limit of their own here")
    make, processes = WAYS[way]
    code = NAMES.format(processes=processes, folder=folder, make=make)
    child = isolation.spawn([sys.executable, "-I", "-c", code], ROOM, root / "log", filter_program=builder_program())
    try:
        ended = child.wait(30)
    finally:
        started = time.monotonic()
        child.kill()
        taken_s = time.monotonic() - started
    assert (ended, "more than 20000 names in a folder" in child.log_tail(1000)) == (-signal.SIGKILL, True)
    assert taken_s < 1


def test_a_sandbox_with_many_names_is_left_alone(root: Path) -> None:
    code = "import os, time\nfor name in range(15_000): os.symlink('x', f'/tmp/{name}')\ntime.sleep(0.5)\nprint('done')"
    child = isolation.spawn([sys.executable, "-I", "-c", code], ROOM, root / "log", filter_program=builder_program())
    try:
        assert (child.wait(30), child.log_tail(1000)) == (0, "done\n")
    finally:
        child.kill()
