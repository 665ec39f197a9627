"""The reasons for which a run ends by itself: target, roofline, plateau, no proposals left, provider unavailable.

Functions of the run's state.

Not covered: the budget, which ends a run when no slot of the next generation can be paid, and people.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from .model import UNPROMISING, CandidateView
from .state import Generation, RunState

GAIN = 1.01  # what counts as better for the plateau
_BARREN = 8  # generations in which nothing was judged
_GONE = 20  # generations in which the provider failed every time; with the waits between them more than an hour
_LONGEST_WAIT_S = 300.0


@dataclass(frozen=True)
class Stop:
    """Why a run ends: a word for programs, a sentence for people."""

    reason: str
    text: str


def stop_reason(state: RunState) -> Stop | None:
    return next((stop for rule in _RULES if (stop := rule(state)) is not None), None)


def provider_wait_s(state: RunState) -> float:
    """How long to wait before a provider that failed in a whole generation is asked again; 0 if it did not fail.

    After a pause there is no wait, because the person who resumes the run has fixed the cause.
    """
    failures = _provider_failures(state)
    if not failures or any(item.refusal is not None and item.refusal.pause for item in state.of(state.generations[-1])):
        return 0.0
    return min(_LONGEST_WAIT_S, float(5 << (failures - 1)))


def _target(state: RunState) -> Stop | None:
    target, best = state.config.target, state.best
    if target is None or best is None or best.counts is None or best.counts < target:
        return None
    return Stop("target", f"{best.id} reached {best.counts:.3f}×{best.counted_where}, the target was {target:g}×")


def _roofline(state: RunState) -> Stop | None:
    wanted, best = state.config.roofline_fraction, state.best
    reached = roofline_fraction(best) if best is not None else None
    if best is None or wanted is None or reached is None or reached < wanted:
        return None
    return Stop("roofline", f"{best.id} reaches {reached:.0%} of the roofline on its slowest configuration")


def roofline_fraction(candidate: CandidateView) -> float | None:
    """Of the slowest configuration; None where it is unknown for one that was timed."""
    configs = candidate.result.configs if candidate.result is not None else ()
    fractions = [item.get("roofline_fraction") for item in configs if item.get("speedup") is not None]
    known = [item for item in fractions if item is not None]
    return min(known) if known and len(known) == len(fractions) else None


def _plateau(state: RunState) -> Stop | None:
    """While one configuration counts alone, its own rule says when that is enough."""
    count, since = state.config.plateau, max(0, state.inherited - 1, state.focused - 1)
    scores = [item.best for item in state.generations[since:] if item.best is not None]
    if count is None or state.focus is not None or len(scores) <= count or scores[-1] >= scores[-1 - count] * GAIN:
        return None
    return Stop("plateau", f"no improvement of 1 % in {count} generations")


def _untranslated(state: RunState) -> Stop | None:
    own = state.generations[state.inherited :]
    attempts = [item for item in own if item.stage == "translate" and not _provider_failed(state, item)]
    if state.best is not None or len(attempts) < state.config.translate_attempts:
        return None
    return Stop("untranslated", f"no correct kernel in {len(attempts)} attempts")


def _exhausted(state: RunState) -> Stop | None:
    if state.is_unpromising:  # while one configuration counts alone, that ends it and not the run
        return Stop("exhausted", UNPROMISING) if state.focus is None else None
    barren = [*takewhile(lambda item: _barren(state, item), reversed(state.generations))]
    last = state.of(barren[0]) if barren else []
    if last and all(item.refusal is not None and item.refusal.exhausted for item in last):
        return Stop("exhausted", "no proposals left")
    if len(barren) < _BARREN or state.focus is not None:
        return None
    return Stop("exhausted", f"nothing was judged in {len(barren)} generations")


def _provider(state: RunState) -> Stop | None:
    failures = _provider_failures(state)
    return Stop("provider", f"the provider failed {failures} generations in a row") if failures >= _GONE else None


_RULES: Sequence[Callable[[RunState], Stop | None]] = (
    _target,
    _roofline,
    _plateau,
    _untranslated,
    _provider,
    _exhausted,
)


def _barren(state: RunState, generation: Generation) -> bool:
    """Every slot was refused or dropped, and not because the provider was unavailable."""
    judged = any(item.state not in ("refused", "dropped") for item in state.of(generation))
    return not judged and not _provider_failed(state, generation)


def _provider_failures(state: RunState) -> int:
    return sum(1 for _ in takewhile(lambda item: _provider_failed(state, item), reversed(state.generations)))


def _provider_failed(state: RunState, generation: Generation) -> bool:
    slots = state.of(generation)
    return bool(slots) and all(item.refusal is not None and item.refusal.reason == "provider_error" for item in slots)
