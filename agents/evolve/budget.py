"""The budget of a run in every currency: its caps, what is reserved and what is spent.

A `Budget` is a fold over the log: a cost is reserved before it can happen and settled when it is known. Not covered:
what things cost in dollars (`llm/prices.py`) and allowances of users and days, from which the site takes a run's caps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .events import LogEvent


@dataclass(frozen=True)
class Cost:
    """An amount in every currency. Cached tokens are in `usd` and not in `input_tokens`."""

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    judgings: int = 0
    judging_s: float = 0.0
    wall_s: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in CURRENCIES})

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(**{name: getattr(self, name) - getattr(other, name) for name in CURRENCIES})

    def to_json(self) -> dict[str, float]:
        """Only what is not 0."""
        return {name: getattr(self, name) for name in CURRENCIES if getattr(self, name)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cost":
        return cls(**data)


CURRENCIES = tuple(item.name for item in fields(Cost))


@dataclass(frozen=True)
class Caps:
    """The most that may be spent; None is no cap."""

    usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    judgings: int | None = None
    judging_s: float | None = None
    wall_s: float | None = None

    def __post_init__(self) -> None:
        for name in CURRENCIES:
            cap = getattr(self, name)
            if cap is not None and not cap >= 0:
                raise ValueError(f"a cap of {cap} {name}")

    def exceeded_by(self, cost: Cost) -> str | None:
        """The first currency in which `cost` is more than allowed."""
        for name in CURRENCIES:
            cap = getattr(self, name)
            if cap is not None and getattr(cost, name) > cap:
                return name
        return None

    def to_json(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in CURRENCIES if getattr(self, name) is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Caps":
        return cls(**data)


@dataclass
class Budget:
    """Spent and reserved so far. Folding a log gives it back; `reserve` tries one more lease without an event."""

    caps: Caps
    spent: Cost = field(default_factory=Cost)
    leases: dict[str, Cost] = field(default_factory=dict)

    @property
    def reserved(self) -> Cost:
        return sum(self.leases.values(), Cost())

    def fits(self, cost: Cost) -> str | None:
        """None if `cost` can be reserved now, else the currency that is short."""
        return self.caps.exceeded_by(self.spent + self.reserved + cost)

    def left(self) -> Caps:
        """What can still be reserved; None where there is no cap."""
        committed = self.spent + self.reserved
        left = {name: max(0, cap - getattr(committed, name)) for name, cap in self.caps.to_json().items()}
        return Caps.from_json(left)

    def apply(self, event: LogEvent) -> None:
        if event.type == "budget.reserved":
            self.reserve(event.payload["lease"], Cost.from_json(event.payload["cost"]))
        elif event.type == "budget.settled":
            self.leases.pop(event.payload["lease"])
            self.spent += Cost.from_json(event.payload["cost"])

    def reserve(self, lease: str, cost: Cost) -> None:
        if lease in self.leases:
            raise ValueError(f"the lease {lease} is open already")
        self.leases[lease] = cost

    def copy(self) -> "Budget":
        return Budget(self.caps, self.spent, dict(self.leases))
