"""Streams the text that a model is writing to viewers, collected so that at most ten messages a second are sent.

Not covered: storing it; the log has the finished answer.
"""

from collections.abc import Callable

from ..events import Live

TOPIC = "proposal.delta"
PAUSE_S = 0.1


class Deltas:
    """Of one attempt. `chars` counts all of them."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        self._live, self._clock = live, clock
        self._text: dict[str, str] = {}
        self._chars = 0
        self._said_s = float("-inf")

    def say(self, kind: str, text: str) -> None:
        """`kind` is text or thinking."""
        self._text[kind] = self._text.get(kind, "") + text
        self._chars += len(text)
        if self._clock() - self._said_s >= PAUSE_S:
            self.flush()

    def flush(self) -> None:
        if self._text:
            self._live.say(TOPIC, {**self._text, "chars": self._chars})
            self._text, self._said_s = {}, self._clock()
