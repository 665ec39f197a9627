"""Ends a command in order when it is told to end: its folders are removed and its children are gone first.

Not covered: SIGKILL. Children end with whoever has started them, however that happens; folders stay.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise SystemExit, once, with the code that shells have for them.

    In the first thread; in others it does nothing. A signal that is ignored, as under nohup, or that somebody handles,
    is left alone.
    """
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    is_first = threading.current_thread() is threading.main_thread()
    mine = [number for number, handler in before.items() if is_first and handler is signal.SIG_DFL]

    def leave(number: int, _: FrameType | None) -> None:
        for each in mine:
            signal.signal(each, signal.SIG_IGN)  # what follows is tidying up
        raise SystemExit(128 + number)

    for number in mine:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
