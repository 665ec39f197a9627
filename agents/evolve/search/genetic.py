"""A (mu + lambda) genetic algorithm, as a function of the trials so far. Kept as something to compare with.

After a few random genomes, parents are drawn by tournament among the best; a child is a crossover, or one step, one
fresh value or one flip of the structure of its parent. Now and then a stranger is tried. No genome is asked for twice.
"""

from collections.abc import Sequence

from ..rng import Rng
from ..templates.base import Genome, Space
from .moves import Key, Move, Trial, crossover, flip, ranked, resample, seen, step, tried, unseen

STARTERS = 5
ELITES = 5
TOURNAMENT = 2
CROSSOVER = 0.15
DARING = 0.1
MUTATIONS = {"step": 0.75, "resample": 0.15, "flip": 0.1}
_OPERATORS = {"step": step, "resample": resample, "flip": flip}


def genetic(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    known, best = seen(space, trials), ranked(trials)[:ELITES]
    child = None
    if len(trials) >= STARTERS and best and rng.random() >= DARING:
        crosses = len(best) > 1 and rng.random() < CROSSOVER
        child = _crossed(space, best, known, rng) if crosses else _mutated(space, best, known, rng)
    if child is not None:
        return child
    stranger = unseen(space, known, rng)
    return Move(stranger, "random") if stranger is not None else None


def _mutated(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    parent = _tournament(best, rng)
    operator = rng.choice(tuple(MUTATIONS), tuple(MUTATIONS.values()))
    genome = tried(lambda: _OPERATORS[operator](space, parent, rng), space, known)
    return Move(genome, operator, (parent,)) if genome is not None else None


def _crossed(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    first, second = (trial.genome for trial in rng.sample(best, 2))
    genome = tried(lambda: crossover(space, first, second, rng), space, known)
    return Move(genome, "crossover", (first, second)) if genome is not None else None


def _tournament(best: Sequence[Trial], rng: Rng) -> Genome:
    """The best of a few drawn places; `best` is in order."""
    return best[min(rng.integers(len(best)) for _ in range(TOURNAMENT))].genome
