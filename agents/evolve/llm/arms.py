"""Chooses model, effort and hint for each request: a bandit on gain per dollar.

An arm's state is a fold over the archive and its choice is keyed, so a run that is resumed chooses the same. A refused
answer counts as one without gain; its arm is found by repeating the choice as it was made then. Not covered: arms that
change during a run.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..config import ConfigError
from ..model import ArchiveView, CandidateView
from ..rng import Rng
from .prices import PriceError, PriceTable, Usage
from .prompts import hints

EFFORTS = ("low", "medium", "high", "xhigh", "max")
FIRST_CORRECT_GAIN = math.log(2)  # a first correct kernel counts like a doubling
CURIOSITY = 0.5
TEMPERATURE = 0.25
_TYPICAL = Usage(input_tokens=4_000, cache_read_tokens=8_000, output_tokens=6_000)
_TYPICAL_GAIN = 0.05
_LEAST_USD = 1e-6  # an operator may have a model for nothing
_NOT_OF_AN_ARM = ("budget", "duplicate", "template_error", "no_parent", "wrong_task")


@dataclass(frozen=True)
class Arm:
    """One way to ask. `max_tokens` includes what the model thinks."""

    model: str
    effort: str = "medium"
    hint: str = "free"
    max_tokens: int = 32_000

    @property
    def name(self) -> str:
        return f"{self.model} {self.effort} {self.hint}"


DEFAULT_ARMS = (
    Arm("claude-haiku-5-5", "medium", "free"),
    Arm("claude-haiku-5-5", "medium", "memory"),
    Arm("claude-haiku-5-5", "high", "overhead"),
    Arm("claude-sonnet-5-5", "low", "parallelism"),
    Arm("claude-sonnet-5-5", "medium", "arithmetic"),
    Arm("claude-opus-5-5", "medium", "algorithm"),
)


@dataclass
class ArmRecord:
    """What an arm has brought and cost, with one play at the start that was never made: nothing is divided by 0."""

    plays: int
    gain: float
    usd: float

    @property
    def gain_per_usd(self) -> float:
        return self.gain / self.usd

    def play(self, gain: float, usd: float) -> None:
        self.plays += 1
        self.gain += gain
        self.usd += usd


def read_arms(data: Any, prices: PriceTable) -> tuple[Arm, ...]:
    """The arms of a run's options, or the default ones. Raises ConfigError, for a model without a price too."""
    arms = DEFAULT_ARMS if data is None else tuple(_arm(item) for item in data)
    if not arms:
        raise ConfigError("a run needs at least one arm")
    if len({arm.name for arm in arms}) < len(arms):
        raise ConfigError("two arms are the same")
    for arm in arms:
        _check(arm, prices)
    return arms


@dataclass(frozen=True)
class Bandit:
    """The arms of a run. The price of a typical answer stands for an arm that was never played."""

    arms: tuple[Arm, ...]
    prices: PriceTable

    def choose(self, view: ArchiveView, rng: Rng) -> Arm:
        """The arm of the slot that `rng` belongs to, from the generations before it."""
        before = [item for item in view.candidates.values() if item.generation < rng.generation]
        return self._drawn(self.standings(before, rng.seed), rng)

    def standings(self, candidates: Iterable[CandidateView], seed: int) -> dict[str, ArmRecord]:
        """How the arms stand after `candidates`, which are in the order of their generations."""
        stands = {arm.name: self._start(arm) for arm in self.arms}
        scores: dict[str, float] = {}
        for _, group in groupby(candidates, key=lambda item: item.generation):
            members = list(group)
            names = [item.arm or self._asked(item, stands, seed) for item in members]
            for candidate, name in zip(members, names, strict=True):
                if name in stands:
                    stands[name].play(_gain(candidate, scores), candidate.cost.usd)
            scores.update({item.id: item.counts for item in members if item.counts is not None})
        return stands

    def _asked(self, item: CandidateView, stands: Mapping[str, ArmRecord], seed: int) -> str | None:
        """Who gave an answer that came to nothing: the choice of then, made again."""
        if item.refusal is None or item.refusal.reason in _NOT_OF_AN_ARM:
            return None
        return self._drawn(stands, Rng(seed, "propose", item.generation, item.slot)).name

    def _drawn(self, stands: Mapping[str, ArmRecord], rng: Rng) -> Arm:
        chances = probabilities(stands)
        return rng.child("arm").choice(self.arms, [chances[arm.name] for arm in self.arms])

    def _start(self, arm: Arm) -> ArmRecord:
        return ArmRecord(plays=0, gain=_TYPICAL_GAIN, usd=max(float(self.prices.usd(arm.model, _TYPICAL)), _LEAST_USD))


def probabilities(stands: Mapping[str, ArmRecord]) -> dict[str, float]:
    """Softmax over gain per dollar, relative to the best arm, and a bonus for what was seldom tried."""
    best = max(item.gain_per_usd for item in stands.values()) or 1.0
    total = sum(item.plays for item in stands.values())
    heights = {
        name: item.gain_per_usd / best + CURIOSITY * math.sqrt(math.log(2 + total) / (1 + item.plays))
        for name, item in stands.items()
    }
    top = max(heights.values())
    weights = {name: math.exp((height - top) / TEMPERATURE) for name, height in heights.items()}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def _gain(candidate: CandidateView, scores: Mapping[str, float]) -> float:
    """Log of the speedup over the best parent; a loss counts as nothing."""
    if candidate.counts is None:
        return 0.0
    parents = [scores[name] for name in candidate.parents if name in scores]
    if not parents:
        return FIRST_CORRECT_GAIN
    return max(0.0, math.log(candidate.counts / max(parents)))


def _arm(item: Any) -> Arm:
    if not isinstance(item, Mapping):
        raise ConfigError(f"an arm is a table with model, effort, hint and max_tokens, not {item!r}")
    unknown = set(item) - set(Arm.__dataclass_fields__)
    if unknown or "model" not in item:
        raise ConfigError(f"an arm needs a model and knows no {', '.join(sorted(unknown)) or 'other word'}")
    return Arm(**item)


def _check(arm: Arm, prices: PriceTable) -> None:
    try:
        model = prices.model(arm.model)
    except PriceError as error:
        raise ConfigError(str(error)) from error
    if arm.effort not in EFFORTS:
        raise ConfigError(f"there is no effort {arm.effort!r}; known: {', '.join(EFFORTS)}")
    if arm.hint not in hints():
        raise ConfigError(f"there is no hint {arm.hint!r}; known: {', '.join(hints())}")
    if not isinstance(arm.max_tokens, int) or not 0 < arm.max_tokens <= model.max_output_tokens:
        raise ConfigError(f"max_tokens of {arm.model} lies between 1 and {model.max_output_tokens}")
