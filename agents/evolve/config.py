"""The configuration of a run, written into its first event. Nothing else decides what the run does.

Not covered: which proposers and verifiers exist (`proposers/`, `verifiers/`) and how choices reach a form or a command.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .budget import Caps

CONFIRMING_SHARE = 5  # at most the fifth part of a run's judgings


class ConfigError(ValueError):
    """A run that makes no sense; the text names the setting."""


@dataclass(frozen=True)
class RunConfig:
    """The defaults are those of a run that is started with one click."""

    task: str  # [SUITE/]OP/DIRECTION
    language: str = "cpp"
    device_kind: str = "cpu"
    proposer: str = "template-evo"
    verifiers: tuple[str, ...] = ("static", "compile")
    seed: int = 1
    caps: Caps = field(default_factory=lambda: Caps(judgings=40))
    generation_size: int = 4
    concurrency: int = 4  # slots at work at a time; changes nothing but how long it takes
    judgings_at_once: int = 4  # of those; runs that share a device take turns if each has one
    islands: int = 2
    stagnation: int = 3  # generations without gain after which an island is sent an elite
    plateau: int | None = None  # generations without gain after which the run stops
    curriculum: int | None = None  # one configuration first, until so many generations gained nothing on it
    target: float | None = None  # the score at which it stops
    roofline_fraction: float | None = None  # of the slowest configuration, at which it stops
    translate_attempts: int = 5
    audit_fraction: float = 0.05  # of what verifiers reject and is judged all the same
    judging_bound_s: float = 300.0  # the longest that one judging can take
    confirmations: int = 0  # judgings of the best candidates when the run ends, at most a fifth of the cap
    options: Mapping[str, Any] = field(default_factory=dict)  # of the proposer, plain JSON

    def __post_init__(self) -> None:
        for name in (
            "generation_size",
            "concurrency",
            "judgings_at_once",
            "islands",
            "stagnation",
            "translate_attempts",
        ):
            _demand(getattr(self, name) >= 1, f"{name} must be at least 1")
        _demand(self.confirmations >= 0, "confirmations must not be below 0")
        _demand(0 <= self.audit_fraction <= 1, "audit_fraction must be between 0 and 1")
        _demand(self.judging_bound_s > 0, "judging_bound_s must be more than 0")
        for optional in ("plateau", "curriculum", "target", "roofline_fraction"):
            value = getattr(self, optional)
            _demand(value is None or value > 0, f"{optional} must be more than 0")
        screened = self.curriculum is None or "screen" in self.verifiers
        _demand(screened, "curriculum needs the verifier screen, which times one configuration")
        endless = self.plateau is None and self.caps == Caps()
        _demand(not endless, "a run needs a cap or a plateau, or it would never end")

    @property
    def held_back(self) -> int:
        """How many judgings are left for the end."""
        cap = self.caps.judgings
        return self.confirmations if cap is None else min(self.confirmations, cap // CONFIRMING_SHARE)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "caps": self.caps.to_json(), "verifiers": list(self.verifiers)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunConfig":
        """Raises ConfigError for an unknown or malformed setting."""
        unknown = set(data) - {item.name for item in fields(cls)}
        _demand(not unknown, f"there is no setting {', '.join(sorted(unknown))}")
        values = {**data, "caps": Caps.from_json(data.get("caps", {}))}
        if "verifiers" in values:
            values["verifiers"] = tuple(values["verifiers"])
        return cls(**values)


def _demand(holds: bool, text: str) -> None:
    if not holds:
        raise ConfigError(text)
