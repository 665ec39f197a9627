"""Memory of a GPU that sessions hold while they wait for their next submission, and how a large judging gets it.

Such a session has one of few places, as a lock that any process of the machine can see. Whoever needs the GPU's memory
for itself calls for all places, and their owners end their sessions within moments. An owner does not answer while a
submission is looked at, because any user of the machine can call. Not covered: how much memory a session takes.
"""

import fcntl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from ..errors import SupervisorError
from ..hosts.locks import open_shared, try_lock
from .discovery import Gpu

PLACES = 2
_LOOK_EVERY_S, _WAIT_S = 0.2, 30.0


class MemoryPlace:
    """A place for one session that stays.

    While others need the memory, a thread calls `leave`, which ends the session unless it is in use. The place is free
    again when `give_back` has been called.
    """

    def __init__(self, gpu: Gpu, leave: Callable[[], None]) -> None:
        self._gpu, self._leave = gpu, leave
        self._stack = ExitStack()
        self._over = threading.Event()

    def take(self) -> bool:
        """Whether there was one. Raises SupervisorError where nobody could call."""
        for name in _places(self._gpu):
            with ExitStack() as stack, ExitStack() as heard:
                if try_lock(stack.enter_context(open_shared(name))):
                    call = heard.enter_context(open_shared(_call(self._gpu)))
                    self._over = threading.Event()
                    told = (heard.pop_all(), call, self._over)
                    threading.Thread(target=self._listen, args=told, daemon=True, name="gpu-room").start()
                    self._stack = stack.pop_all()
                    return True
        return False

    def give_back(self) -> None:
        """Does nothing the second time."""
        self._over.set()
        self._stack.close()

    def _listen(self, heard: ExitStack, call: int, over: threading.Event) -> None:
        with heard:
            while not over.wait(_LOOK_EVERY_S):
                if try_lock(call, fcntl.LOCK_SH):
                    fcntl.flock(call, fcntl.LOCK_UN)
                else:
                    self._leave()


def demand_room(gpu: Gpu) -> bool:
    """Returns when no session stays on `gpu`, and whether one did. Raises SupervisorError if one does not end.

    One caller at a time, because two that both hold a place would wait for each other.
    """
    until_s = time.monotonic() + _WAIT_S
    with ExitStack() as stack:
        _lock(stack.enter_context(open_shared(_call(gpu))), until_s)  # who stays hears this
        waits = [_lock(stack.enter_context(open_shared(name)), until_s) for name in _places(gpu)]
    return any(waits)


def somebody_waits(gpu: Gpu) -> bool:
    """Whether a session stays on `gpu` now. Raises SupervisorError where nobody could tell."""
    with ExitStack() as stack:
        # whoever demands room has all places for moments
        _lock(stack.enter_context(open_shared(_call(gpu))), time.monotonic() + _WAIT_S, fcntl.LOCK_SH)
        return any(not try_lock(stack.enter_context(open_shared(name)), fcntl.LOCK_SH) for name in _places(gpu))


def _lock(file: int, until_s: float, how: int = fcntl.LOCK_EX) -> bool:
    """Whether another process had it before. Raises SupervisorError if it still has it at `until_s`."""
    waits = False
    while not try_lock(file, how):
        waits = True
        if time.monotonic() > until_s:
            told = "a session that waits for submissions, or another judging that needs it, does not release it"
            raise SupervisorError(f"the GPU's memory cannot be had: {told}")
        time.sleep(_LOOK_EVERY_S / 8)
    return waits


def _places(gpu: Gpu) -> list[str]:
    return [f"kbench-gpu-{gpu.uuid}.place{number}" for number in range(PLACES)]


def _call(gpu: Gpu) -> str:
    return f"kbench-gpu-{gpu.uuid}.call"
