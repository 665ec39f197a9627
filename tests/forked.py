"""Children of a judging that are forked from a process with torch loaded (`nursery.py`), each in a sandbox of its own.

Bubblewrap makes the room as ever, with a shell in it that waits; the fork enters the shell's namespaces, takes the same
limits and filter, and runs the same code. The shell ends as the fork does, and the room takes both with it. Forks have
the libraries of their parent at the same addresses and share its memory until they write to it. Texts have the same
hashes in all of them, and sets the same order: only children that start anew show whether that matters. So tests of
time and of the sandbox itself fork nothing, nor does `make redteam`. What other processes start, such as the workers of
a whole site, is not forked either.
"""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from benchmarks.emulator import running
from benchmarks.harness.foreign import examine
from benchmarks.harness.gpu import watching
from benchmarks.harness.measuring import contestants, session
from benchmarks.harness.sandbox import isolation
from benchmarks.harness.sandbox.crowd import watch
from benchmarks.harness.sandbox.isolation import STEADY_HEAP, Child, Room, isolation_in_force

PYTHON = [sys.executable, "-I", "-B"]
STARTING = (contestants, examine, running, session, watching)  # what starts Python with torch
TURNED_OFF = os.environ.get("KBENCH_TEST_FORKS") == "0"
NURSERY = Path(__file__).with_name("nursery.py")
WAITING = "echo > /dev/fd/{ready}; read code < /dev/fd/{code} || code=1; exit $code"


def may_fork(item: pytest.Item) -> bool:
    """Not what is about time, nor what takes the fixture `sandbox` without a mark that it may."""
    is_attack = "sandbox" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("forkable")
    return not (TURNED_OFF or is_attack or item.get_closest_marker("alone") or item.get_closest_marker("gpu"))


class Nursery:
    """The process that forks; it starts with its first child and ends with this process."""

    def __init__(self) -> None:
        self._orders: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._one_thread = threading.Lock()
        self.may_fork = False
        self.is_refused = False  # by the operating system

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """What a judging starts is forked meanwhile, while it `may_fork`."""
        with pytest.MonkeyPatch.context() as patch:
            for module in STARTING:
                patch.setattr(module, "spawn", self.spawn)
            yield
        self.end()

    def spawn(
        self, argv: Sequence[str], room: Room, log: Path, *, fds: Sequence[int] = (), filter_program: bytes = b""
    ) -> Child:
        """As `isolation.spawn`, which does it where the operating system lets nobody enter a sandbox."""
        is_python = list(argv[:3]) == PYTHON and not room.devices
        if self.may_fork and is_python and isolation_in_force().strong:
            with Pipe() as ready, Pipe() as code, Pipe() as number:
                shell = ["/bin/sh", "-c", WAITING.format(ready=ready.end.fileno(), code=code.begin.fileno())]
                ours = (ready.end.fileno(), code.begin.fileno())
                child = isolation.spawn(shell, room, log, fds=ours, filter_program=filter_program)
                ready.end.close()
                code.begin.close()
                if not ready.begin.read(1) or child.pid is None:
                    return child  # its room could not be made, as the log says
                told = (number.end.fileno(), code.end.fileno())
                self._send(argv[3:], room, log, fds, filter_program, sandbox=child.pid, told=told)
                number.end.close()
                if pid := number.begin.read(20):
                    child.__dict__["pid"] = int(pid)
                    if not isolation.tasks_are_limited():
                        watch(int(pid), log, tasks=room.tasks)
                    return child
            child.kill()
            self.is_refused, self.may_fork = True, False
        return isolation.spawn(argv, room, log, fds=fds, filter_program=filter_program)

    def _send(
        self,
        arguments: Sequence[str],
        room: Room,
        log: Path,
        fds: Sequence[int],
        filter_program: bytes,
        *,
        sandbox: int,
        told: tuple[int, int],
    ) -> None:
        """Asks for a process in the sandbox of the process `sandbox`; its number and exit code come to `told`."""
        tasks = {"RLIMIT_NPROC": room.tasks} if isolation.tasks_are_limited() else {}
        order = {
            "arguments": arguments,
            "places": list(fds),
            "environment": isolation._environment(room),
            "limits": {**isolation._limits(room), **tasks},
            "cores": list(room.cores or os.sched_getaffinity(0)),
            "filter": base64.b64encode(filter_program).decode(),
        }
        with log.open("ab") as output, Pipe() as nothing, open(os.pidfd_open(sandbox), "rb") as entered:
            nothing.end.close()
            files = [entered.fileno(), *told, output.fileno(), nothing.begin.fileno(), *fds]
            socket.send_fds(self._running(), [json.dumps(order).encode()], files)

    def _running(self) -> socket.socket:
        with self._one_thread:
            if self._orders is None:
                self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._process = subprocess.Popen(
                    [*PYTHON, "-c", NURSERY.read_text(), str(theirs.fileno()), str(isolation.CHILD_FOLDER)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={**isolation._environment(Room()), **STEADY_HEAP, "OMP_WAIT_POLICY": "PASSIVE"},
                    start_new_session=True,
                )
                theirs.close()
        return self._orders

    def end(self) -> None:
        if self._orders is not None and self._process is not None:
            self._orders.close()
            self._process.wait()
        self._orders = self._process = None


class Pipe:
    """Both ends of a pipe, closed in the end at the latest."""

    def __init__(self) -> None:
        begin, end = os.pipe()
        self.begin, self.end = os.fdopen(begin, "rb", 0), os.fdopen(end, "wb", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.begin.close()
        self.end.close()
