"""Runs the static check for requests: one source at a time in this process, with a short limit on waiting.

A check takes milliseconds, but blocks other threads meanwhile; many at once would delay health probes and pages. Does
NOT check anything itself: the harness does.
"""

import threading

from ..harness import Rules, Source, StaticCheck, TaskSpec, check_source, source_key

WAIT_S = 5.0
RETRY_S = 10
_turn = threading.Semaphore(1)


class Busy(Exception):
    """Others are before it; the text is for the person."""

    def __init__(self) -> None:
        super().__init__(f"Too many sources are being checked now. Try again in {RETRY_S} seconds.")


def checked(source: Source, task: TaskSpec, rules: Rules) -> StaticCheck:
    """Raises Busy. The key of the source, which storing it asks for, is computed here as well and kept."""
    if not _turn.acquire(timeout=WAIT_S):
        raise Busy
    try:
        found = check_source(source, task, rules)
        if found.problem is None:
            source_key(source)
        return found
    finally:
        _turn.release()
