"""Seconds of the parts of something long, for the report: where the time of a judging went."""

import time


class Laps:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last_s = time.monotonic()

    def end(self, part: str) -> None:
        """What passed since the last part ended belongs to `part`."""
        now_s = time.monotonic()
        self.seconds[part] = round(self.seconds.get(part, 0.0) + now_s - self._last_s, 2)
        self._last_s = now_s
