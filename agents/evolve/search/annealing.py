"""Annealing without dice: threshold accepting (Dueck and Scheuer, 1990), as a function of the trials so far.

A walk of single moves; a worse genome becomes the place to go on from if it is worse by less than a threshold that
shrinks with every trial. So where the walk stands follows from the trials alone. Kept as something to compare with.
"""

from collections.abc import Sequence

from ..rng import Rng
from ..templates.base import Genome, Space
from .moves import Move, Trial, flip, resample, seen, step, tried, unseen

START_THRESHOLD = 0.3  # of the fitness
COOLING = 0.97  # per trial
MOVES = {"step": 0.7, "resample": 0.2, "flip": 0.1}
_OPERATORS = {"step": step, "resample": resample, "flip": flip}


def anneal(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    known, here = seen(space, trials), _standing(trials)
    if here is not None:
        operator = rng.choice(tuple(MOVES), tuple(MOVES.values()))
        genome = tried(lambda: _OPERATORS[operator](space, here, rng), space, known)
        if genome is not None:
            return Move(genome, operator, (here,))
    fresh = unseen(space, known, rng)
    return Move(fresh, "random") if fresh is not None else None


def _standing(trials: Sequence[Trial]) -> Genome | None:
    """Where the walk stands after all trials."""
    here: Trial | None = None
    threshold = START_THRESHOLD
    for trial in trials:
        threshold *= COOLING
        if trial.fitness is not None and (here is None or trial.fitness >= (here.fitness or 0.0) * (1 - threshold)):
            here = trial
    return here.genome if here is not None else None
