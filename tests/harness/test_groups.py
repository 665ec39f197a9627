"""Control groups of sandboxes: a real one where this machine lets us make one, and cgroup v2 as a folder of files."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness import IsolationError, Paths, Source, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.sandbox import groups, isolation
from benchmarks.harness.sandbox.isolation import Room, spawn
from benchmarks.harness.sandbox.seccomp import builder_program

MEMORY = Path("/sys/fs/cgroup/memory")
SMALL = Room(memory_bytes=128 << 20, scratch_bytes=32 << 20)  # 192 MiB in all
# Four that keep what they have until all have it, or one has ended, however slow the machine is.
PROCESSES = """
import os, time
ready, has_it = os.pipe()
ends, goes_on = os.pipe()
for number in range(4):
    if os.fork() == 0:
        os.close(goes_on)
        kept = bytearray({each} << 20)
        os.write(has_it, b"1")
        os.read(ends, 1)
        os._exit(0)
os.set_blocking(ready, False)
have = 0
while have < 4 and os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
    try:
        have += len(os.read(ready, 4))
    except BlockingIOError:
        time.sleep(0.01)
print("all have it" if have == 4 else "one has ended", flush=True)
os.close(goes_on)
for number in range(4):
    os.wait()
"""
MESSAGES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
message = ctypes.create_string_buffer(b"\\1" + bytes(7 + 8000))
for number in range(20_000):
    queue = libc.msgget(0, 0o600)
    for _ in range(2):
        if libc.msgsnd(queue, message, 8000, 0) != 0:
            raise SystemExit(f"errno {ctypes.get_errno()}")
print("all of them")
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of real groups."""
    folder = MEMORY / f"tests-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    monkeypatch.setenv("KBENCH_CGROUP", str(folder))
    for cached in (groups.home, isolation.isolation_in_force):
        cached.cache_clear()
    yield folder
    monkeypatch.undo()
    for cached in (groups.home, isolation.isolation_in_force):
        cached.cache_clear()
    folder.rmdir()  # which fails where a group was left


@pytest.fixture
def version_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which a new folder has the files of a group of cgroup v2."""
    names = ("cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "memory.oom.group", "memory.events")

    def made(self: Path, mode: int = 0o777, *, exist_ok: bool = False) -> None:
        os.makedirs(self, mode, exist_ok=exist_ok)
        for name in (*names, "pids.max", "cgroup.subtree_control"):
            (self / name).touch()

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    folder = tmp_path / "delegated"
    folder.mkdir()
    monkeypatch.setenv("KBENCH_CGROUP", str(folder))
    groups.home.cache_clear()
    return folder


def run(code: str, room: Room, log: Path, program: bytes | None = None) -> tuple[int | None, bool]:
    filter_program = builder_program() if program is None else program
    child = spawn([sys.executable, "-I", "-c", code], room, log, filter_program=filter_program)
    try:
        ended = child.wait(30)
    finally:
        child.kill()
    return ended, child.has_overrun


@pytest.mark.usefixtures("home")
def test_processes_that_take_too_much_together_are_ended(tmp_path: Path) -> None:
    code = PROCESSES.format(each=80)
    _, has_overrun = run(code, SMALL, tmp_path / "log")
    assert has_overrun
    assert "all have it" not in (tmp_path / "log").read_text()


@pytest.mark.usefixtures("home")
def test_what_stays_within_the_limit_is_left_alone(tmp_path: Path) -> None:
    assert run(PROCESSES.format(each=15), SMALL, tmp_path / "log") == (0, False)
    assert (tmp_path / "log").read_text() == "all have it\n"


@pytest.mark.usefixtures("home")
def test_memory_that_no_limit_of_a_process_counts_is_limited(tmp_path: Path) -> None:
    _, has_overrun = run(MESSAGES, SMALL, tmp_path / "log", b"")
    assert has_overrun


def test_no_group_is_left(home: Path, tmp_path: Path) -> None:
    run("print('done')", SMALL, tmp_path / "log")
    run(PROCESSES.format(each=80), SMALL, tmp_path / "log")
    assert not [item for item in home.iterdir() if item.is_dir()]


def test_groups_of_makers_that_are_gone_are_removed(home: Path) -> None:
    theirs, alive = home / "kbench-4194999-1", home / f"kbench-{os.getpid()}-1"
    theirs.mkdir()
    alive.mkdir()
    assert groups.home() == home
    assert (theirs.exists(), alive.exists()) == (False, True)
    alive.rmdir()


@pytest.mark.usefixtures("home", "sandbox")
def test_a_text_whose_compilers_take_too_much_together_is_a_compile_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not told as a failure of the machine, which would be tried again."""
    monkeypatch.setattr(Room, "all_memory_bytes", property(lambda _: 48 << 20))
    source = Source("#include <torch/extension.h>\nint f() { return 1; }\n", "cpp")
    build = builds.build(source, default_rules(), Paths(tmp_path))
    assert "it took more than 48 MiB of memory" in build.problem


@pytest.mark.usefixtures("home")
def test_reports_say_that_there_are_groups() -> None:
    isolated = isolation.isolation_in_force()
    assert not isolated.strong or isolated.text.endswith(", control groups")


def test_a_group_of_version_2_has_all_limits(version_2: Path) -> None:
    group = groups.new_group(1 << 30, tasks=300)
    assert group is not None
    values = {file.name: file.read_text() for file in group.folder.iterdir() if file.read_text()}
    assert values == {"memory.max": str(1 << 30), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "308"}
    assert group.limits_tasks
    assert (version_2 / "cgroup.subtree_control").read_text() == "+memory +pids"
    (group.folder / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n")
    assert group.has_overrun()
    group.end()
    assert not group.folder.exists()


@pytest.mark.parametrize(
    ("oom", "killed", "has_overrun"), [(1, 1, True), (0, 1, False), (1, 0, False), (0, 0, False)], ids=str
)
def test_what_the_machine_has_ended_has_not_overrun_its_group(
    version_2: Path, oom: int, killed: int, has_overrun: bool
) -> None:
    """Linux counts in `oom_kill` also whom it ended since the whole machine had no memory."""
    group = groups.new_group(1 << 30, tasks=300)
    assert group is not None
    (group.folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 3\noom {oom}\noom_kill {killed}\n")
    assert group.has_overrun() == has_overrun
    assert group.met_shortage() == (killed > 0 and not has_overrun)


@pytest.mark.parametrize("limit", ["", "max", f"{6 << 30}"])
def test_who_has_no_limit_may_have_half_of_the_memory(version_2: Path, limit: str) -> None:
    """As a process with a GPU, whose driver reserves more address space than any limit would allow."""
    if limit:  # of a group above, such as that of a container
        (version_2.parent / "memory.max").write_text(limit)
    there_is = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    room = Room(devices=(Path("/dev/null"),), memory_bytes=None)
    group = groups.new_group(room.all_memory_bytes, room.tasks)
    assert group is not None
    in_all = min(there_is, int(limit)) if limit.isdecimal() else there_is
    assert int((group.folder / "memory.max").read_text()) == in_all // 2
    assert (group.folder / "memory.swap.max").read_text() == "0"


@pytest.mark.parametrize(("most", "has_overrun"), [(1 << 30, True), (1 << 29, False)])
def test_version_1_tells_whether_the_limit_was_reached(tmp_path: Path, most: int, has_overrun: bool) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (tmp_path / "memory.max_usage_in_bytes").write_text(f"{most}\n")
    assert groups.Group(tmp_path, 1 << 30, limits_tasks=False).has_overrun() == has_overrun


def test_who_cannot_enter_its_group_ends_as_if_by_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a build is tried again, and its failure is not kept."""
    monkeypatch.setattr(groups, "new_group", lambda *_: groups.Group(tmp_path / "gone", 1 << 30, limits_tasks=False))
    ended, _ = run("print('done')", SMALL, tmp_path / "log")
    assert ended == -signal.SIGKILL
    assert "the sandbox could not be made" in (tmp_path / "log").read_text()


def test_our_own_processes_make_room_in_a_folder_of_version_2(version_2: Path) -> None:
    (version_2 / "cgroup.procs").write_text("17\n")
    assert groups.home() == version_2
    assert (version_2 / "kbench" / "cgroup.procs").read_text() == "17"


def test_without_the_setting_there_are_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBENCH_CGROUP", raising=False)
    groups.home.cache_clear()
    assert groups.new_group(1 << 30, tasks=300) is None


@pytest.mark.parametrize("named", ["/no/such/folder", "/proc/self", "ordinary"])
def test_a_folder_that_cannot_hold_groups_is_named(named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path if named == "ordinary" else Path(named)
    monkeypatch.setenv("KBENCH_CGROUP", str(folder))
    groups.home.cache_clear()
    with pytest.raises(IsolationError, match="KBENCH_CGROUP="):
        groups.home()
    groups.home.cache_clear()
