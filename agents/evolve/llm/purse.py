"""A meter without a log, for calls whose cost is part of a verdict and has no events of its own.

Not covered: a crash, after which the whole reservation counts as spent.
"""

from collections.abc import Mapping
from typing import Any

from ..budget import CURRENCIES, Cost


class Purse:
    """One call at a time. `total` is what has been spent, an open call with the most that it can cost."""

    def __init__(self, reserved: Cost) -> None:
        self._reserved, self._spent, self._open = reserved, Cost(), Cost()

    @property
    def left(self) -> Cost:
        return self._reserved - self.total

    @property
    def total(self) -> Cost:
        return self._spent + self._open

    def open(self, bound: Cost) -> None:
        if any(getattr(bound, name) > getattr(self.left, name) for name in CURRENCIES):
            raise ValueError(f"a call of up to {bound} exceeds what is left of the budget, {self.left}")
        self._open = bound

    def attempt(
        self, role: str, model: str, status: int | None, text: str = "", retry_after_s: float | None = None
    ) -> None:
        """Not written down."""

    def free(self) -> None:
        self._open = Cost()

    def tool(self, said: Mapping[str, Any], source: str | None, cost: Cost) -> None:
        """Not written down."""
        self._open = Cost()
        self._spent += cost

    def usage(self, role: str, model: str, usage: Mapping[str, Any], cost: Cost) -> None:
        self._open = Cost()
        self._spent += cost
