"""A circuit breaker per model: after several failures in a row there are no calls for a while, then one trial call.

Not covered: errors caused by the request itself, which say nothing about the vendor.
"""

from collections.abc import Callable
from dataclasses import dataclass

FAILURES = 5  # in a row, after which nobody calls
COOL_S = 15.0  # doubled each time that the one call fails
COOL_MAX_S = 240.0


@dataclass
class _State:
    failures: int = 0
    closed_until_s: float = 0.0
    trying: bool = False  # one call is finding out


class Breaker:
    """`wait_s` is asked before a call; each call that it let through ends in `passed` or `failed`, or in `left`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}

    def wait_s(self, model: str) -> float:
        """0 if a call may start now. Then it counts as the one that finds out, if one has to."""
        state = self._states.setdefault(model, _State())
        if state.failures < FAILURES:
            return 0.0
        remaining_s = state.closed_until_s - self._clock()
        if remaining_s > 0 or state.trying:
            return max(remaining_s, 1.0)
        state.trying = True
        return 0.0

    def passed(self, model: str) -> None:
        self._states[model] = _State()

    def failed(self, model: str) -> None:
        state = self._states[model]
        state.failures += 1
        state.trying = False
        rounds = state.failures - FAILURES
        if rounds >= 0:
            state.closed_until_s = self._clock() + min(COOL_S * 2**rounds, COOL_MAX_S)

    def left(self, model: str) -> None:
        """The call was given up without saying anything about the vendor."""
        self._states[model].trying = False
