"""A fork in place of a new interpreter sees, may do and ends as one that starts anew in the same room.

Beside it there is the shell that waits for it, which is not compared.
"""

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.sandbox.crowd import children_of
from benchmarks.harness.sandbox.isolation import Child, Room, child_code, spawn
from benchmarks.harness.sandbox.seccomp import builder_program
from tests.forked import PYTHON, Nursery, may_fork

pytestmark = pytest.mark.sandbox
ROOM = Room(child_code())
SEEN = """
import json, os, resource, signal, socket, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    refused = 0
except OSError as error:
    refused = error.errno
print(json.dumps({
    "arguments": sys.argv,
    "environment": {name: value for name, value in os.environ.items() if name != "PWD"},
    "files": [os.listdir(path) for path in ("/", "/kbench/benchmarks/harness", "/dev", "/tmp")],
    "mounts": [line.split()[3:6] for line in open("/proc/self/mountinfo")],
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
    "folder": os.getcwd(),
    "host": socket.gethostname(),
    "network": [line.split(":")[0] for line in open("/proc/net/dev")],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "cores": sorted(os.sched_getaffinity(0)),
    "users": [os.getuid(), os.getgid(), status["Uid"], status["Gid"]],
    "may": {name: status[name].strip() for name in status if name.startswith(("Cap", "NoNew", "Seccomp", "SigIgn"))},
    "refused": refused,
    "out_of_memory": open("/proc/self/oom_score_adj").read(),
    "modules": [name for name in ("enter", "inputs", "benchmarks", "tests") if name in sys.modules],
    "path": sys.path,
}, sort_keys=True))
"""


@pytest.fixture(scope="module")
def nursery(sandbox: None) -> Iterator[Nursery]:
    made = Nursery()
    made.may_fork = True
    yield made
    made.end()


@pytest.fixture
def fork(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def run(code: str, *arguments: str, room: Room = ROOM, **options: Any) -> Child:
        child = nursery.spawn([*PYTHON, "-c", code, *arguments], room, tmp_path / "log", **options)
        made.append(child)
        if nursery.is_refused:
            pytest.skip("nobody may enter a sandbox on this machine, so nothing is forked")
        return child

    yield run
    for child in made:
        child.kill()


def test_it_sees_and_may_do_the_same_as_what_starts_anew(fork: Callable[..., Child], tmp_path: Path) -> None:
    room = Room(child_code(), environment={"OMP_NUM_THREADS": "3"}, cores=(0,), open_files=77)
    with open(os.devnull) as given:
        options: Any = {"fds": (given.fileno(),), "filter_program": builder_program()}
        new = spawn([*PYTHON, "-c", SEEN, "one"], room, tmp_path / "new", **options)
        forked = fork(SEEN, "one", room=room, **options)
        assert (new.wait(20.0), forked.wait(20.0)) == (0, 0), new.log_tail(4000) + forked.log_tail(4000)
    assert json.loads(forked.log_tail(20_000)) == json.loads(new.log_tail(20_000))


@pytest.mark.parametrize("number", [310, 999])
def test_it_has_files_with_high_numbers(fork: Callable[..., Child], number: int) -> None:
    """A process that has run many tests has hundreds of files open."""
    with open(os.devnull) as given:
        high = fcntl.fcntl(given, fcntl.F_DUPFD, number)
    try:
        child = fork("import os, sys; os.fstat(int(sys.argv[1]))", str(high), fds=(high,))
        assert child.wait(20.0) == 0, child.log_tail(4000)
    finally:
        os.close(high)


def test_it_has_torch_loaded(fork: Callable[..., Child]) -> None:
    child = fork("import sys; print('torch' in sys.modules)")
    assert (child.wait(20.0), child.log_tail(100).strip()) == (0, "True")


def test_each_draws_other_numbers(fork: Callable[..., Child]) -> None:
    """What is drawn without a seed differs between processes, and who relies on it being the same has to fail."""
    code = "import random, torch; print(torch.initial_seed(), torch.rand(1).item(), random.random())"
    seen = []
    for _ in range(2):
        child = fork(code)
        assert child.wait(20.0) == 0, child.log_tail(4000)
        seen.append(child.log_tail(200).split())
    assert all(one != other for one, other in zip(*seen, strict=True)), seen


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import resource; bytearray(9 << 30)", 1),
    ],
)
def test_its_end_is_told(fork: Callable[..., Child], code: str, expected: int) -> None:
    assert fork(code).wait(20.0) == expected


def test_it_ends_with_its_sandbox_and_takes_with_it_what_it_started(fork: Callable[..., Child]) -> None:
    child = fork("import subprocess; subprocess.Popen(['/usr/bin/sleep', '60']).wait()")
    assert child.pid is not None
    deadline = time.monotonic() + 20
    while not (started := children_of(child.pid)):
        assert time.monotonic() < deadline
    child.kill()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (child.pid, *started))


def test_what_it_starts_is_counted_and_ended(fork: Callable[..., Child], tmp_path: Path) -> None:
    code = """
import os, time
for _ in range(500):
    if os.fork() == 0:
        if os.fork() == 0:  # whose parent is gone
            time.sleep(60)
        os._exit(0)
    os.wait()
    print("started", flush=True)
    time.sleep(0.002)
"""
    child = fork(code, room=Room(child_code(), tasks=64))
    assert child.wait(30.0) != 0
    assert 28 < child.log_tail(20_000).count("started") < 500


@pytest.mark.parametrize(
    ("marks", "fixtures", "expected"),
    [
        ([], [], True),
        ([], ["sandbox"], False),
        (["forkable"], ["sandbox"], True),
        (["alone"], [], False),
        (["forkable", "alone"], ["sandbox"], False),
    ],
)
def test_attacks_and_what_is_about_time_start_anew(marks: list[str], fixtures: list[str], expected: bool) -> None:
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name in marks, fixturenames=fixtures)
    assert may_fork(item) is expected
