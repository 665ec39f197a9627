"""What a child can and cannot do. Each test starts a real child in the real sandbox."""

import errno
import os
import platform
import re
import signal
import sys
import threading
import time
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import IsolationError
from benchmarks.harness.errors import NotStopped
from benchmarks.harness.measuring.process_memory import MemoryReader
from benchmarks.harness.sandbox import freezer, isolation
from benchmarks.harness.sandbox.freezer import Freezer, RunSpan
from benchmarks.harness.sandbox.isolation import STEADY_HEAP, Child, Isolation, Room, spawn
from benchmarks.harness.sandbox.seccomp import builder_program, candidate_program, gpu_program
from benchmarks.harness.sandbox.system_calls import NUMBERS

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


def install(code: str, *, gpu: bool = False, before: str = "") -> str:
    """Code that runs `before`, locks itself in as a candidate does, then runs `code`."""
    folder = isolation.CHILD_FOLDER
    load = f"import sys; sys.path.insert(0, {str(folder)!r}); import enter\n{before}"
    return f"{load}\nenter.install_filter({candidate_program(gpu=gpu)!r})\n{code}"


def candidate_room() -> Room:
    folder = isolation.CHILD_FOLDER
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


def test_a_child_knows_the_name_of_its_user(run: Run) -> None:
    """torch asks for it; some machines have no entry for the user of a sandbox."""
    code = "import getpass, pwd; pwd.getpwuid = None; print(getpass.getuser())"
    assert run(code) == (0, "nobody\n")


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/root", "/home", "/var/log"])
def test_files_of_the_machine_are_not_there(run: Run, path: str) -> None:
    _, text = run(f"import os; print(os.path.isdir({path!r}) and os.listdir({path!r}) or os.path.isfile({path!r}))")
    assert text.strip() in {"False", "[]"} or ".pyenv" in text


def test_the_system_cannot_be_written(run: Run) -> None:
    code, text = run("open('/usr/planted', 'w')")
    assert code == 1
    assert "Read-only" in text or "Permission" in text


def test_devices_work_and_keep_the_rights_that_the_machine_gave_them(run: Run) -> None:
    """As root a sandboxed process owns them; it tries with the rights that they have, so that nothing is harmed."""
    code = (
        "import os\n"
        "open('/dev/null', 'w').write('x')\n"
        "print(len(open('/dev/zero', 'rb').read(3) + open('/dev/urandom', 'rb').read(3)))\n"
        "print(repr(os.read(0, 1)))\n"
        "for what in ['/dev/' + name for name in ('null', 'zero', 'random', 'urandom')] + [0]:\n"
        "    if os.stat(what).st_mode & 0o170000 == 0o20000:\n"
        "        try: os.chmod(what, os.stat(what).st_mode & 0o7777); print('changed', what)\n"
        "        except OSError: pass\n"
    )
    for program in (builder_program(), gpu_program()):
        assert run(code, program=program) == (0, "6\nb''\n")
    assert run(install(code), candidate_room()) == (0, "6\nb''\n")


OPENS_FOR_WRITING = """
import os
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print([words[4] for words in mounts if "ro" not in words[5].split(",") and "tmpfs" not in words])
for root, folders, files in os.walk("/proc"):
    others = [name for name in folders if root == "/proc" and name.isdigit() and int(name) != os.getpid()]
    folders[:] = [name for name in folders if name not in (*others, "fd", "map_files")]
    for name in files:
        try:
            os.close(os.open(f"{root}/{name}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            print(root, name)
        except OSError:
            pass
"""
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "random", "urandom")]


OPENS_DEVICES = """
import os, stat
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(sorted(words[4] for words in mounts if "nodev" not in words[5].split(",")))
found = set()
for root, folders, files in os.walk("/dev"):
    for name in folders + files:
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                fd = os.open(f"{root}/{name}", flags | os.O_NONBLOCK | os.O_NOCTTY)
            except OSError:
                continue
            if stat.S_ISCHR(os.fstat(fd).st_mode) or stat.S_ISBLK(os.fstat(fd).st_mode):
                found.add(os.path.realpath(f"{root}/{name}"))
            os.close(fd)
print(sorted(found))
try: print(os.openpty())
except OSError: print("no terminal")
"""


def test_a_candidate_opens_four_devices_and_no_terminal(run: Run) -> None:
    """The kernel keeps what is written to a terminal, and delivers it later on any core."""
    expected = (0, f"{sorted(DEVICES)}\n{sorted(DEVICES)}\nno terminal\n")
    assert run(install(OPENS_DEVICES), candidate_room()) == expected
    assert run(OPENS_DEVICES, program=builder_program()) == expected


def test_nothing_of_the_machine_opens_for_writing_but_devices(run: Run) -> None:
    """As root a sandboxed process owns the settings of the system's kernel: its core_pattern names a program to run."""
    assert run(OPENS_FOR_WRITING) == (0, f"{DEVICES}\n")


def test_where_a_gpu_is_a_process_may_write_about_itself_alone(run: Run) -> None:
    """The driver does not start with a read-only /proc."""
    code, text = run(OPENS_FOR_WRITING, Room(devices=(Path("/dev/null"),)))
    mounts, *files = text.splitlines()
    assert code == 0
    assert set(literal_eval(mounts)) == {"/proc", *DEVICES}
    assert any(line.endswith(" comm") for line in files)
    assert [line for line in files if not re.match(r"/proc/[0-9]+(/| )", line)] == []


WITHOUT_A_FILTER = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("mem", "syscall", "environ", "status"):
        try:
            text = open(f"/proc/{pid}/{name}", "rb").read(4096) if name != "mem" else open(f"/proc/{pid}/mem", "r+b")
        except OSError:
            continue
        if int(pid) != os.getpid():
            print(pid, name)
print("looked")
"""


@pytest.mark.parametrize("devices", [(), (Path("/dev/null"),)])
def test_a_candidate_reaches_no_process_that_has_no_filter(run: Run, devices: tuple[Path, ...]) -> None:
    """Code written into the first process of the sandbox would run there when the candidate ends."""
    room = replace(candidate_room(), devices=devices)
    assert run(install(WITHOUT_A_FILTER), room) == (0, "looked\n")


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


def test_what_counts_for_all_processes_of_a_user_is_bounded(run: Run) -> None:
    names = ("RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_NOFILE")
    code = f"import resource\nprint([resource.getrlimit(getattr(resource, name)) for name in {names}])"
    assert run(code) == (0, "[(256, 256), (0, 0), (256, 256)]\n")


def test_a_sandbox_ends_before_others_where_the_machine_has_no_memory(run: Run) -> None:
    assert run("print(open('/proc/self/oom_score_adj').read())")[1].strip() == "1000"


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


def test_a_thread_from_before_the_filter_obeys_it_too(run: Run) -> None:
    """A submission can write into the memory of threads that a driver has started, so choose what they call."""
    waits = "import os, threading, time\nis_in = threading.Event()\ndef work(): is_in.wait(); os.fork()\n"
    thread = f"{waits}threading.Thread(target=work).start()\n"
    for gpu in (False, True):
        ended, text = run(
            install("is_in.set(); time.sleep(5); print('lives')", gpu=gpu, before=thread), candidate_room()
        )
        assert (ended, text) == (-signal.SIGSYS, "")


SYSCALLS = "import ctypes; c = ctypes.CDLL(None, use_errno=True); call = c.syscall; call.restype = ctypes.c_long\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    "arguments",
    [
        "222, 1, None, ctypes.create_string_buffer(8)",  # timer_create
        "38, 0, ctypes.create_string_buffer(32), None",  # setitimer
        "37, 1",  # alarm
        "240, b'name', 66, 384, None",  # mq_open
        "206, 1, ctypes.create_string_buffer(8)",  # io_setup
        "283, 1, 0",  # timerfd_create
        "294, 0",  # inotify_init1
        "162",  # sync
        "28, None, 0, 12",  # madvise MADV_MERGEABLE
        "72, 0, 10, 18",  # fcntl F_SETSIG
        "72, 0, 8, 1",  # fcntl F_SETOWN
        "72, 0, 1026, 1",  # fcntl F_NOTIFY
        "16, 0, 0x5452, ctypes.byref(ctypes.c_int(1))",  # ioctl FIOASYNC
        "157, 1, 18",  # prctl PR_SET_PDEATHSIG
        "157, 4, 0",  # prctl PR_SET_DUMPABLE
        "157, 22, 2, None",  # prctl PR_SET_SECCOMP
        "317, 1, 0, None",  # seccomp
        "46, 0, None, 0",  # sendmsg
        "72, 1, 1031, 4096",  # fcntl F_SETPIPE_SZ
        "62, 0, 18",  # kill SIGCONT
        "234, c.getpid(), c.gettid(), 18 + (1 << 32)",  # tgkill, 64 bits of which 32 count
    ],
)
def test_nothing_can_wake_a_candidate_later(run: Run, arguments: str) -> None:
    tried = f"{SYSCALLS}print(call({arguments}), ctypes.get_errno() in ({errno.EPERM}, {errno.ENOSYS}))"
    assert run(install(tried), candidate_room()) == (0, "-1 True\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        "319, b'held', 0",  # memfd_create
        "447, 0",  # memfd_secret
        "29, 0, 1 << 20, 0o1600",  # shmget
        "64, 0, 100, 0o1600",  # semget
        "68, 0, 0o1600",  # msgget
        "240, b'name', 66, 384, None",  # mq_open
        "206, 1, ctypes.create_string_buffer(8)",  # io_setup
        "253",  # inotify_init
        "294, 0",  # inotify_init1
        "300, 0, 0",  # fanotify_init
    ],
)
def test_no_candidate_gets_what_no_limit_of_its_own_counts(run: Run, arguments: str, gpu: bool) -> None:
    refused = "ctypes.get_errno() in ({errno.EPERM}, {errno.ENOSYS})"
    tried = f"{SYSCALLS}print(call({arguments}), {refused.format(errno=errno)})"
    assert run(install(tried, gpu=gpu), candidate_room()) == (0, "-1 True\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
def test_a_candidate_cannot_hide_which_memory_it_touches(run: Run) -> None:
    advice = [0, 4, *(8, 14, 20, 21, 25)]  # nothing special, DONTNEED; FREE, HUGEPAGE, COLD, PAGEOUT, COLLAPSE
    tried = (
        f"{SYSCALLS}print([n for n in {advice} if call(28, None, 0, n) == 0 or ctypes.get_errno() != {errno.EPERM}])"
    )
    assert run(install(tried), candidate_room()) == (0, "[0, 4]\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
def test_a_call_that_nobody_has_listed_does_not_exist(run: Run) -> None:
    known = {number for number, _ in NUMBERS.values()}
    probes = {335, 336}  # of the kernel's tracer, which filters do not see; called by anyone else they end the process
    other = [number for number in range(600) if number not in known | probes]
    tried = f"{SYSCALLS}print([n for n in {other} if call(n, 0, 0, 0) != -1 or ctypes.get_errno() != {errno.ENOSYS}])"
    for gpu in (False, True):
        assert run(install(tried, gpu=gpu), candidate_room()) == (0, "[]\n")
    for program in (builder_program(), builder_program(gpu=True), gpu_program(), gpu_program(for_tools=True)):
        assert run(tried, program=program) == (0, "[]\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    "arguments",
    [
        "319, b'held', 0",  # memfd_create
        "447, 0",  # memfd_secret
        "29, 0, 1 << 20, 0o1600",  # shmget
        "64, 0, 100, 0o1600",  # semget
        "68, 0, 0o1600",  # msgget
        "240, b'name', 66, 384, None",  # mq_open
        "53, 1, 1, 0, ctypes.create_string_buffer(8)",  # socketpair
        "206, 1, ctypes.create_string_buffer(8)",  # io_setup
        "294, 0",  # inotify_init1
        "300, 0, 0",  # fanotify_init
        "445, 3, 1, None, 0",  # landlock_add_rule
        "237, None, 0, 0, None, 0, 0",  # mbind
        "317, 1, 0, None",  # seccomp
        "54, 1, 1, 26, None, 0",  # setsockopt SO_ATTACH_FILTER
        "41, 16, 3, 0",  # socket AF_NETLINK
        "162",  # sync
    ],
)
def test_nobody_who_starts_processes_gets_what_no_limit_counts(run: Run, arguments: str) -> None:
    tried = f"{SYSCALLS}print(call({arguments}), ctypes.get_errno() in ({errno.EPERM}, {errno.ENOSYS}))"
    for program in (builder_program(), builder_program(gpu=True), gpu_program(), gpu_program(for_tools=True)):
        assert run(tried, program=program) == (0, "-1 True\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    "arguments",
    ["444, ctypes.byref(ctypes.c_uint64(1 << 11)), 8, 0", "291, 0", "54, 1, 1, 2, None, 0"],
    ids=["landlock_create_ruleset", "epoll_create1", "setsockopt SO_REUSEADDR"],
)
def test_only_tools_that_watch_a_gpu_get_what_they_need(run: Run, arguments: str) -> None:
    tried = f"{SYSCALLS}call({arguments}); print(ctypes.get_errno() in ({errno.EPERM}, {errno.ENOSYS}))"
    for program in (builder_program(), builder_program(gpu=True), gpu_program()):
        assert run(tried, program=program) == (0, "True\n")
    assert run(tried, program=gpu_program(for_tools=True)) == (0, "False\n")


# The commands of calls that are many in one: number of the call, arguments before the command, all that are looked at.
COMMANDS = {
    "fcntl": (72, "-1", range(1100)),
    "ioctl": (16, "-1", (*range(0x5400, 0x5500), *range(0x8900, 0x8A00), 0x40049409, 0x802C542A)),
    "prctl": (157, "", (*range(100), 0x53564D41, 0x59616D61)),
    "madvise": (28, "None, 0", range(128)),
    "close_range": (436, "9998, 9999", range(8)),
}
ALLOWED_COMMANDS = {
    "fcntl": [0, 1, 2, 3, 4, 1030, 1032, 1033, 1034],
    "ioctl": [0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409, 0x802C542A],
    "prctl": [2, 3, 15, 16, 21, 23, 29, 30, 38, 39, 41, 42, 51, 64],
    "madvise": [0, 1, 2, 3, 4, 9, 10, 11, 15, 16, 17, 18, 19, 22, 23, 102, 103],
    "close_range": [0, 4],
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("name", COMMANDS)
def test_of_calls_that_are_many_in_one_only_listed_ones_are_there(run: Run, name: str) -> None:
    """Locks of files, leases, watches and filters stay with a file or a process, and no limit counts them."""
    number, before, commands = COMMANDS[name]
    given = ", ".join(filter(None, (str(number), before, "command")))
    refused = f"call({given}, 0, 0, 0) == -1 and ctypes.get_errno() == {errno.EPERM}"
    tried = f"{SYSCALLS}print([command for command in {list(commands)} if not ({refused})])"
    more = {"prctl": [1, 36], "madvise": [8, 14]}.get(name, [])
    assert literal_eval(run(install(tried), candidate_room())[1]) == ALLOWED_COMMANDS[name]
    assert literal_eval(run(tried, program=builder_program())[1]) == sorted([*ALLOWED_COMMANDS[name], *more])
    if name != "ioctl":  # a driver has commands of its own
        assert literal_eval(run(install(tried, gpu=True), candidate_room())[1]) == ALLOWED_COMMANDS[name]
        for program in (builder_program(gpu=True), gpu_program()):
            assert literal_eval(run(tried, program=program)[1]) == sorted([*ALLOWED_COMMANDS[name], *more])


def test_the_numbers_of_system_calls_are_those_of_the_kernels_headers() -> None:
    """Both architectures are compared on any machine; calls that are newer than its headers are not."""
    include = Path("/usr/include")
    x86 = next(include.glob("**/asm/unistd_64.h"), None)
    generic = include / "asm-generic/unistd.h"
    compared = 0
    for column, (file, pattern) in enumerate(
        ((x86, r"#define __NR_(\w+) (\d+)"), (generic, r"#define __NR(?:3264)?_(\w+) (\d+)"))
    ):
        if file is None or not file.exists():
            continue
        numbers = {name: int(number) for name, number in re.findall(pattern, file.read_text())}
        numbers.setdefault("newfstatat", numbers.get("fstatat", 79))
        found = {name: pair[column] for name, pair in NUMBERS.items() if name in numbers}
        assert found == {name: numbers[name] for name in found}
        compared += len(found)
    assert compared > 200 or not os.environ.get("CI")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("flags", ["0x4000 | 0x10f00", "0x10b00", "0x10d00"])
def test_a_thread_is_in_no_vfork_and_shares_descriptors_and_folders(run: Run, flags: str) -> None:
    ended, _ = run(install(f"{SYSCALLS}call(56, {flags}, None)"), candidate_room())
    assert ended == -signal.SIGSYS


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("flag", ["0x10000000", "0x40000000", "0x20000", "0x02000000"])
def test_a_compiler_starts_processes_in_no_namespace_of_their_own(run: Run, flag: str) -> None:
    """In a namespace of its own a process has every right over networks, mounts and the like there."""
    tried = f"{SYSCALLS}import os\nr = call(56, {flag} | 17, None, None, None, None)\nif r == 0: os._exit(0)\n"
    tried += "print(r, ctypes.get_errno()); print(os.fork() >= 0)"
    for program in (builder_program(), gpu_program()):
        code, text = run(tried, program=program)
        assert (code, text.splitlines()[0]) == (0, f"-1 {errno.EPERM}")
        assert "True" in text


def test_what_honest_kernels_ask_of_the_same_calls_is_allowed(run: Run) -> None:
    code = "import fcntl, os, signal; fcntl.fcntl(1, fcntl.F_GETFD); os.kill(os.getpid(), 0); print('ran')"
    assert run(install(code), candidate_room()) == (0, "ran\n")


def test_what_honest_builds_ask_of_the_same_calls_is_allowed(run: Run) -> None:
    """Programs with pipes that end with their parent, locks of caches, copies, and numpy, which places its memory."""
    code = """
import ctypes, fcntl, os, selectors, shutil, subprocess
import numpy
start = lambda: ctypes.CDLL(None).prctl(1, 9) and os._exit(1)
done = subprocess.run(["/bin/cat"], input=b"read", capture_output=True, preexec_fn=start, check=True)
fcntl.flock(open("/tmp/lock", "w"), fcntl.LOCK_EX)
shutil.copyfile("/tmp/lock", "/tmp/copy")
selectors.DefaultSelector().register(os.pipe()[0], selectors.EVENT_READ)
print(done.stdout, numpy.ones((600, 600)).dot(numpy.ones((600, 600))).sum())
"""
    assert run(code, program=builder_program()) == (0, "b'read' 216000000.0\n")


def test_hostile_output_is_made_visible(run: Run) -> None:
    _, text = run("print('a\\x1b[31mb\\x00c')")
    assert text == "a�[31mb�c\n"


def test_who_is_gone_is_not_waited_for_under_a_number_that_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import time; print('on', flush=True); time.sleep(60)"
    child = spawn([sys.executable, "-I", "-c", code], ROOM, tmp_path / "log")
    while "on" not in child.log_tail(100):
        time.sleep(0.02)
    child.kill()
    monkeypatch.setattr(isolation, "is_gone", lambda _: False)
    monkeypatch.setattr(isolation, "_KILL_WAIT_S", 0.1)
    child.kill()


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


def demand_work(child: Child) -> None:
    """Waits until the child has had 10 ms of a processor, however busy the machine is."""
    enough, deadline = cpu_ticks(child) + 2, time.monotonic() + 60
    while cpu_ticks(child) < enough:
        assert time.monotonic() < deadline, "the child did not run"
        time.sleep(0.01)


def test_waiting_for_a_processor_is_told_from_working_and_sleeping(tmp_path: Path) -> None:
    """Two busy processes on one processor: what one works, the other waits."""
    core = min(os.sched_getaffinity(0))
    busy = f"import os\nos.sched_setaffinity(0, [{core}])\nprint('on', flush=True)\nwhile True: pass"
    codes = (busy, busy, "import time; print('on', flush=True); time.sleep(60)")
    children = [spawn([sys.executable, "-I", "-c", code], ROOM, tmp_path / str(n)) for n, code in enumerate(codes)]
    try:
        first, second, sleeper = children
        while not all("on" in child.log_tail(100) for child in children):
            time.sleep(0.02)
        while min(cpu_ticks(first), cpu_ticks(second)) < 20:
            time.sleep(0.02)
        used_ns, waited_ns = first.since_resume()
        assert used_ns > 150_000_000
        assert waited_ns > 100_000_000
        assert sleeper.since_resume()[1] < waited_ns
    finally:
        for child in children:
            child.kill()


def test_a_frozen_child_does_nothing_until_it_is_resumed(spinner: Child) -> None:
    spinner.freeze()
    before = cpu_ticks(spinner)
    time.sleep(0.1)
    assert cpu_ticks(spinner) == before
    assert spinner.resume() < 1_000_000
    demand_work(spinner)


def test_what_a_thread_does_in_one_long_system_call_before_it_stops_is_counted(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    fill = "mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()"
    code = f"import mmap, os\nos.sched_setaffinity(0, [{core}])\nprint('on', flush=True)\nwhile True: {fill}"
    child = spawn([sys.executable, "-I", "-c", code], ROOM, tmp_path / "log")
    try:
        while "on" not in child.log_tail(100):
            time.sleep(0.02)
        found, deadline = child.freeze(), time.monotonic() + 60
        while found.late_ns(cores=1, others_ns=0) < 2_000_000:
            assert time.monotonic() < deadline, "no stop came late"
            child.resume()
            time.sleep(0.001)
            found = child.freeze()
    finally:
        child.kill()


def test_what_its_processors_can_give_and_what_stopping_takes_is_not_late() -> None:
    assert RunSpan(used_ns=2_050_000, ran_ns=1_000_000).late_ns(2, 0) == 0
    assert RunSpan(used_ns=2_050_400, ran_ns=1_000_000).late_ns(2, 0) == 400
    assert RunSpan(used_ns=2_050_400, ran_ns=1_000_000).late_ns(1, 0) == 1_025_400
    assert RunSpan(used_ns=2_050_400, ran_ns=1_000_000).late_ns(2, others_ns=300_000) == 300_400


def test_what_others_had_of_its_processor_is_added_to_what_a_process_used(tmp_path: Path) -> None:
    """So who works until its stop is seen on a busy machine too; who sleeps meanwhile has not."""
    core = min(os.sched_getaffinity(0))
    busy = f"import os\nos.sched_setaffinity(0, [{core}])\nprint('on', flush=True)\nwhile True: pass"
    shared = f"import threading\nthreading.Thread(target=lambda: exec('while True: pass')).start()\n{busy}"
    codes = (busy, shared, "import time; print('on', flush=True); time.sleep(60)")
    children = [spawn([sys.executable, "-I", "-c", code], ROOM, tmp_path / str(n)) for n, code in enumerate(codes)]
    try:
        while not all("on" in child.log_tail(100) for child in children):
            time.sleep(0.02)
        for child in children:
            child.freeze()
            child.resume()
        time.sleep(0.5)
        working, with_a_thread, sleeping = (child.freeze() for child in children)
        assert working.others_ns > 100_000_000
        assert abs(working.over_ns) < 50_000_000
        assert with_a_thread.over_ns < 50_000_000
        assert sleeping.over_ns < -400_000_000
    finally:
        for child in children:
            child.kill()


def test_who_runs_while_it_should_be_frozen_is_seen(spinner: Child) -> None:
    assert spinner.pid is not None
    spinner.freeze()
    os.kill(spinner.pid, signal.SIGCONT)
    demand_work(spinner)
    os.kill(spinner.pid, signal.SIGSTOP)
    assert spinner.resume() > 1_000_000


def test_what_does_not_stop_is_told(spinner: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spinner.pid is not None
    monkeypatch.setattr(freezer, "signal_quietly", lambda *_: None)  # a stop that does not arrive
    with pytest.raises(NotStopped):
        Freezer(spinner.pid).freeze(0.05)


def test_a_name_that_is_no_text_does_not_hide_a_state() -> None:
    name = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    before = name.read_bytes()
    try:
        name.write_bytes(b"\xff) T \xfe")
        assert freezer.state_of(str(name.with_name("stat"))) == "R"
    finally:
        name.write_bytes(before)


def test_a_dead_child_is_frozen(spinner: Child) -> None:
    pid = spinner.pid
    spinner.kill()
    assert pid is not None
    gone = Freezer(pid)
    gone.freeze()
    assert gone.resume() == 0


def test_the_memory_of_a_child_is_read_where_it_has_some(tmp_path: Path) -> None:
    code = "import ctypes, time\nb = ctypes.create_string_buffer(b'kbench')\nprint(ctypes.addressof(b), flush=True)\n"
    child = spawn([sys.executable, "-I", "-c", f"{code}time.sleep(60)"], ROOM, tmp_path / "log")
    try:
        while not child.log_tail(100).endswith("\n"):
            time.sleep(0.02)
        target = np.zeros(6, dtype=np.uint8)
        reader = MemoryReader(target, np.array([4, 2], dtype=np.uint64))
        address = int(child.log_tail(100))
        assert child.pid is not None
        assert reader.read(child.pid, np.array([address + 2, address], dtype=np.uint64))
        assert target.tobytes() == b"enchkb"
        assert not reader.read(child.pid, np.array([address, 0], dtype=np.uint64))
        assert not reader.read(child.pid, np.array([address, 2**64 - 1], dtype=np.uint64))
    finally:
        child.kill()
    assert not reader.read(child.pid, np.array([address, address], dtype=np.uint64))


def test_a_killed_child_leaves_nothing(spinner: Child) -> None:
    pid = spinner.pid
    spinner.kill()
    assert spinner.exit_code() is not None
    assert freezer.state_of(f"/proc/{pid}/stat") in "ZX"


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
