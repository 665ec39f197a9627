"""What methods have spent, told by whoever knows it: a registry, so that the benchmark need not know its agents.

An app registers a provider when it starts (`AppConfig.ready`). Does NOT store costs and does NOT price anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class SearchCost:
    """The cost of all searches of a method on one suite and device kind."""

    runs: int = 0
    usd: float = 0.0
    tokens: int = 0  # read and written by language models
    judgings: int = 0
    judging_s: float = 0.0

    def __add__(self, other: "SearchCost") -> "SearchCost":
        return SearchCost(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


@dataclass(frozen=True)
class Scope:
    """Which costs are asked for, as keys of rows: methods on the tasks of one suite, on one device kind."""

    methods: tuple[int, ...]
    suite: int
    device: int


Provider = Callable[[Scope], Mapping[int, SearchCost]]
_providers: dict[str, Provider] = {}


def register(name: str, provider: Provider) -> None:
    """`provider` gives the costs by method, those it knows; registering a name again replaces it."""
    _providers[name] = provider


def costs_of(scope: Scope) -> dict[int, SearchCost]:
    """Costs by method; methods without recorded costs are missing."""
    found: dict[int, SearchCost] = {}
    for provider in _providers.values():
        for method, cost in provider(scope).items():
            found[method] = found.get(method, SearchCost()) + cost
    return found
