"""What a child can and cannot do. Each test starts a real child in the real sandbox."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import IsolationError, isolation
from benchmarks.harness.isolation import STEADY_HEAP, Child, Isolation, Room, spawn
from benchmarks.harness.seccomp import builder_program, candidate_program

pytestmark = pytest.mark.sandbox
Run = Callable[..., tuple[int | None, str]]
HEAPS = {"as it comes": {}, "steady": STEADY_HEAP}
ROOM = Room(memory_bytes=2 << 30, file_bytes=1 << 20, scratch_bytes=8 << 20)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(code: str, room: Room = ROOM, program: bytes = b"") -> tuple[int | None, str]:
        child = spawn([sys.executable, "-I", "-c", code], room, tmp_path / "log", filter_program=program)
        try:
            return child.wait(30), child.log_tail(4000)
        finally:
            child.kill()

    return start


def install(code: str) -> str:
    """Code that locks itself in as a candidate does, then runs `code`."""
    folder = Path(isolation.__file__).parent / "child"
    load = f"import sys; sys.path.insert(0, {str(folder)!r}); import enter"
    return f"{load}\nenter.install_filter({candidate_program()!r})\n{code}"


def candidate_room() -> Room:
    folder = Path(isolation.__file__).parent / "child"
    return replace(ROOM, read_only={folder: str(folder)})


def test_this_machine_has_the_strong_sandbox_where_ci_demands_it() -> None:
    if not isolation.isolation_in_force().strong and not os.environ.get("CI"):
        pytest.skip(isolation.isolation_in_force().text)
    assert isolation.isolation_in_force().strong


def test_public_mode_refuses_a_weak_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    # the one place where another machine has to be imagined
    monkeypatch.setattr(isolation, "isolation_in_force", lambda: Isolation("limits", False, "nothing works"))
    with pytest.raises(IsolationError, match="nothing works"):
        isolation.demand_isolation(public=True)
    assert not isolation.demand_isolation(public=False).strong


def test_the_environment_of_the_parent_is_gone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SITE", "swordfish")
    code, text = run("import os; print(sorted(os.environ))")
    assert code == 0
    assert "SECRET" not in text


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/root", "/home", "/var/log"])
def test_files_of_the_machine_are_not_there(run: Run, path: str) -> None:
    _, text = run(f"import os; print(os.path.isdir({path!r}) and os.listdir({path!r}) or os.path.isfile({path!r}))")
    assert text.strip() in {"False", "[]"} or ".pyenv" in text


def test_the_system_cannot_be_written(run: Run) -> None:
    code, text = run("open('/usr/planted', 'w')")
    assert code == 1
    assert "Read-only" in text or "Permission" in text


def test_scratch_space_is_bounded(run: Run) -> None:
    code, text = run("for i in range(64): open(f'/tmp/{i}', 'wb').write(bytes(1 << 20))")
    assert code != 0
    assert "No space" in text or "too large" in text


def test_there_is_no_network(run: Run) -> None:
    code, text = run("import socket; socket.create_connection(('127.0.0.1', 80), 2)", program=builder_program())
    assert code == 1
    assert "not permitted" in text


def test_other_processes_cannot_be_seen(run: Run) -> None:
    _, text = run("import os; print([p for p in os.listdir('/proc') if p.isdigit()])")
    assert len(text.split(",")) <= 3


def test_memory_is_bounded(run: Run) -> None:
    code, text = run("bytearray(8 << 30)")
    assert code == 1
    assert "MemoryError" in text


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/usr/bin/env'])",
        "import socket; socket.socket()",
        "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
        "import ctypes; ctypes.CDLL(None).unshare(0x10000000)",
    ],
)
def test_a_candidate_dies_of_what_an_honest_kernel_never_does(run: Run, code: str) -> None:
    ended, _ = run(install(code), candidate_room())
    assert ended == -signal.SIGSYS


@pytest.mark.parametrize(
    "code",
    [
        "import threading; t = threading.Thread(target=print, args=('ran',)); t.start(); t.join()",
        "import os\ntry: os.sched_setaffinity(0, [0])\nexcept PermissionError: print('ran')",
    ],
)
def test_a_candidate_may_start_threads_and_survives_a_refused_request(run: Run, code: str) -> None:
    assert run(install(code), candidate_room()) == (0, "ran\n")


def test_hostile_output_is_made_visible(run: Run) -> None:
    _, text = run("print('a\\x1b[31mb\\x00c')")
    assert text == "a�[31mb�c\n"


@pytest.fixture
def spinner(tmp_path: Path):  # type: ignore[no-untyped-def]
    spin = "[0 for _ in iter(int, 1)]"
    code = f"import threading\nthreading.Thread(target=lambda: {spin}).start()\nprint('on', flush=True)\n{spin}"
    child = spawn([sys.executable, "-I", "-c", code], ROOM, tmp_path / "log")
    while "on" not in child.log_tail(100):
        time.sleep(0.02)
    yield child
    child.kill()


def cpu_ticks(child: Child) -> int:
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_frozen_child_does_nothing_until_it_is_resumed(spinner: Child) -> None:
    spinner.freeze()
    before = cpu_ticks(spinner)
    time.sleep(0.1)
    assert cpu_ticks(spinner) == before
    spinner.resume()
    time.sleep(0.2)
    assert cpu_ticks(spinner) > before


def test_a_killed_child_leaves_nothing(spinner: Child) -> None:
    pid = spinner.pid
    spinner.kill()
    assert spinner.exit_code() is not None
    assert isolation._state(f"/proc/{pid}/stat") in "ZX"


FAULTS = """
import ctypes, resource
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def call(size):
    block = c.malloc(size)
    ctypes.memset(block, 1, size)
    c.free(block)
sizes = [1 << 18, 1 << 22, 1 << 26]
for size in sizes: call(size)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for size in 10 * sizes: call(size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_is_timed_faults_no_memory_in_again(run: Run) -> None:
    faults = {name: int(run(FAULTS, replace(ROOM, environment=extra))[1]) for name, extra in HEAPS.items()}
    assert faults["steady"] < 100 < faults["as it comes"]
