"""One doubt about a source: certain ones reject it, the others only make a verifier abstain."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Doubt:
    fault: str  # compile, interface, memory, race, shape, numerics, cheating
    text: str
    line: int | None = None
    certain: bool = False
