"""What a sandbox can make the system's kernel hold beyond the limits of its processes and folders.

Such memory belongs to no process, so Linux, which ends whoever has most pages, ends the sandboxes of others first.
Everything runs in the real sandbox. Not covered: what a process with a GPU's driver may call (`test_isolation.py`).
"""

import re
import sys
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
