"""Child processes that end with their parent.

Each child has a session of its own, so that a signal reaches it with everything that it started, and it is killed by
the operating system when its parent is gone. A child that dies is restarted, up to a limit. Does NOT know what the
children do: `management/commands/up.py` lists them.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
RESTARTS_MAX = 6
RESTARTS_WINDOW_S = 60.0
STOP_S = 8.0
LOG_MAX_BYTES = 10 * 1024 * 1024
_LIBC = ctypes.CDLL(None, use_errno=True)


class GivenUp(Exception):
    """A child that the whole cannot do without dies again and again."""


@dataclass
class SiteProcess:
    """One process: how it is started, and since when it died how often. `essential`: nothing works without it."""

    name: str
    argv: Sequence[str]
    log: Path
    essential: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))
    given_up: bool = False

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        _rotate(self.log)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - this process has a single thread
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """To the child and to everything in its session that did not leave its group."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def tail(self, lines: int = 15) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class Family:
    """The children of this process. For one thread only: the kernel ties a child to the thread that started it."""

    def __init__(self, children: Sequence[SiteProcess]) -> None:
        self.children = list(children)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def add(self, children: Sequence[SiteProcess]) -> None:
        """Start more of them."""
        self.children += children
        for child in children:
            child.start()

    def tend(self) -> list[str]:
        """Start what has died again; what happened, as sentences. Raises GivenUp."""
        return [self._revive(child) for child in self.children if not child.running and not child.given_up]

    def _revive(self, child: SiteProcess) -> str:
        child.signal(signal.SIGKILL)  # what the dead one left behind in its session
        now = time.monotonic()
        if len(child.deaths) == RESTARTS_MAX and now - child.deaths[0] < RESTARTS_WINDOW_S:
            child.given_up = True
            if child.essential:
                raise GivenUp(f"{child.name} died {RESTARTS_MAX} times; the last lines of {child.log}:\n{child.tail()}")
            return f"{child.name} died {RESTARTS_MAX} times and is not started again; see {child.log}"
        child.deaths.append(now)
        code = child.process.returncode if child.process else None
        child.start()
        return f"{child.name} ended with {code} and was restarted"

    def stop(self) -> None:
        """Ask all to end and kill what does not; the one that was started first, which the others use, comes last."""
        *first, last = reversed(self.children)
        for group in (first, [last]):
            for child in group:
                child.signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_S
            while any(child.running for child in group) and time.monotonic() < deadline:
                time.sleep(0.05)
            for child in group:
                child.signal(signal.SIGKILL)
                if child.process is not None:
                    child.process.wait()


def die_with(parent: int) -> Callable[[], None]:
    def ask_kernel() -> None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it was asked
            os._exit(1)

    return ask_kernel


def _rotate(path: Path) -> None:
    if path.exists() and path.stat().st_size > LOG_MAX_BYTES:
        path.replace(path.with_suffix(".log.1"))
