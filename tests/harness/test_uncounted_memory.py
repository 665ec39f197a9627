"""What a sandbox can make the system's kernel hold beyond the limits of its processes and folders.

Such memory belongs to no process, so Linux, which ends whoever has most pages, ends the sandboxes of others first.
Everything runs in the real sandbox, and nothing on a GPU.
"""

import re
import signal
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.sandbox import isolation
from benchmarks.harness.sandbox.isolation import Room
from benchmarks.harness.sandbox.seccomp import builder_program, gpu_program
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
# A lock of an open file stays when its descriptor is closed, as long as a mapping holds the file open.
LOCKS = """
import fcntl, mmap, struct
held_bytes = 0
for name in "abc":
    with open(f"/tmp/{name}", "wb+") as file:
        file.write(bytes(4096))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 4096)
        for number in range(100):
            for command in (6, 37):  # F_SETLK, F_OFD_SETLK
                try:
                    fcntl.fcntl(file, command, struct.pack("hhqqi4x", 1, 0, 2 * number, 1, 0))
                    held_bytes += 1 << 20
                except OSError:
                    pass
"""
# A policy belongs to a place of a file in memory, and stays when the mapping is gone.
POLICIES = f"""{LIBC}
libc.mmap.restype, mask = ctypes.c_void_p, ctypes.c_ulong(1)
file = os.open("/tmp/x", os.O_RDWR | os.O_CREAT)
for at in range(100):
    place = ctypes.c_void_p(libc.mmap(None, 4096, 3, 1, file, ctypes.c_long(at * 8192)))
    held_bytes += (libc.syscall(237, place, 4096, 2, ctypes.byref(mask), 64, 0) == 0) << 20
    libc.munmap(place, 4096)
"""
FILTERS = f"""{LIBC}
class FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))
allow = FilterProgram(1, bytes.fromhex("060000000000ff7f"))
libc.prctl(38, 1, 0, 0, 0)
for _ in range(10):
    held_bytes += (libc.prctl(22, 2, ctypes.byref(allow), 0, 0) == 0) << 20
"""
# Who watches each descriptor at each of its numbers has the kernel hold far more watches than descriptors.
WATCHES = f"""{LIBC}
watches, pipe = [libc.epoll_create1(0) for _ in range(50)], os.pipe()[0]
for number in range(100, 200):
    os.dup2(pipe, number)
    for watch in watches:
        held_bytes += (libc.epoll_ctl(watch, 1, number, ctypes.create_string_buffer(12)) == 0) << 10
    os.close(number)
"""
# A thread with a table of its own has as many descriptors again.
TABLES = f"""{LIBC}
import threading
def work():
    global held_bytes
    held_bytes += (libc.syscall(436, 9998, 9999, 2) == 0) << 20
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
HOLDS = {
    "semaphores": SEMAPHORES,
    "messages": MESSAGES,
    "locks": LOCKS,
    "policies": POLICIES,
    "filters": FILTERS,
    "watches": WATCHES,
    "tables": TABLES,
}
# Whoever starts processes; audits and profiles may lock files and watch descriptors.
PROGRAMS = {
    "builder": builder_program(),
    "builder on a GPU": builder_program(gpu=True),
    "on a GPU": gpu_program(),
    "audit": gpu_program(for_tools=True),
}
OPEN_TO_AUDITS = ("locks", "watches")
TELLS = "print('HELD', held_bytes >> 20, flush=True)\n"


def held_mb(code: str, root: Path, program: bytes | None = None, *, gpu: bool = False) -> int:
    """By a process with this filter, or else by a candidate."""
    text, room = code + TELLS, ROOM
    if program is None:
        text, room, program = install(text, gpu=gpu), candidate_room(), gpu_program(may_install=True) if gpu else b""
    child = isolation.spawn([sys.executable, "-I", "-c", text], room, root / "log", filter_program=program)
    try:
        assert child.wait(60) is not None
    finally:
        child.kill()
    found = re.search(r"HELD (\d+)", child.log_tail(1000))
    assert found is not None, child.log_tail(1000)
    return int(found[1])


@pytest.mark.parametrize("name", [*HOLDS, "sockets"])
@pytest.mark.parametrize("who", PROGRAMS)
def test_nobody_who_starts_processes_makes_the_kernel_hold_memory(root: Path, name: str, who: str) -> None:
    held = held_mb({**HOLDS, "sockets": SOCKETS}[name], root, PROGRAMS[who])
    assert (held > 0) == (who == "audit" and name in OPEN_TO_AUDITS)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("name", HOLDS)
def test_no_candidate_makes_the_kernel_hold_memory(root: Path, name: str, gpu: bool) -> None:
    assert held_mb(HOLDS[name], root, gpu=gpu) == 0


def test_the_top_level_of_a_module_makes_the_kernel_hold_no_memory(root: Path) -> None:
    """The whole way of a submission in Python."""
    parts = "".join(f"{HOLDS[name]}{TELLS}" for name in ("semaphores", "locks", "policies"))
    text = f"# load_inline {uuid.uuid4()}\n{parts}raise SystemExit(1)\n"
    made = builds.build(Source(text, "python"), default_rules(), Paths(root))
    assert made.log.count("HELD 0\n") == 3


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


# Each mapping takes 200 bytes of the kernel's memory and more, and no page.
MAPPINGS = f"""{LIBC}
import time
for _ in range(4):
    os.fork()
for number in range(60_000):
    libc.mmap(None, ctypes.c_size_t(4096), number % 2, 0x22, -1, ctypes.c_long(0))
time.sleep(30)
"""
# A mapping keeps a file open that has no descriptor any more. A machine has so many open files in all (fs.file-max).
FILES = f"""{LIBC}
import time
open("/tmp/file", "wb").write(bytes(4096))
for _ in range({{forks}}):
    os.fork()
for _ in range({{files}}):
    fd = os.open("/tmp/file", os.O_RDONLY)
    libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
    os.close(fd)
time.sleep({{seconds}})
print("done")
"""


@pytest.mark.parametrize(
    ("who", "text"),
    [
        ("builder", FILES.format(forks=0, files=40_000, seconds=30)),
        ("builder", FILES.format(forks=4, files=3_000, seconds=30)),
        ("candidate", FILES.format(forks=0, files=40_000, seconds=30)),
        ("builder", MAPPINGS),
    ],
    ids=["files of a builder", "files of many processes", "files of a candidate", "memory of many processes"],
)
def test_a_sandbox_with_too_many_mappings_is_ended_at_once(root: Path, who: str, text: str) -> None:
    room, program = replace(ROOM, memory_bytes=1 << 30), builder_program()
    if who == "candidate":
        text, room, program = install(text), candidate_room(), b""
    child = isolation.spawn([sys.executable, "-I", "-c", text], room, root / "log", filter_program=program)
    try:
        ended = child.wait(20)
    finally:
        child.kill()
    assert (ended, "more than 20000 mappings" in child.log_tail(1000)) == (-signal.SIGKILL, True)


def test_a_sandbox_with_many_open_files_is_left_alone(root: Path) -> None:
    text = FILES.format(forks=0, files=15_000, seconds=0.5)
    child = isolation.spawn([sys.executable, "-I", "-c", text], ROOM, root / "log", filter_program=builder_program())
    try:
        assert (child.wait(30), child.log_tail(1000)) == (0, "done\n")
    finally:
        child.kill()
