"""The default search: a (mu + lambda) genetic algorithm with restarts, as a function of the trials so far.

After a few random genomes, parents are drawn by tournament among the best; a child is a crossover, or one step, one
fresh value or one flip of the structure of its parent. Where nothing better came for a while, an elite is shaken in
several genes at once. No genome is asked for twice. Not covered: measuring.
"""

from collections.abc import Sequence

from ..rng import Rng
from ..templates.base import Genome, Space
from .moves import Key, Move, Trial, crossover, flip, neighbours, ranked, resample, seen, step, tried, unseen

STARTERS = 5
ELITES = 5
TOURNAMENT = 2
CROSSOVER = 0.15
PATIENCE = 4
MUTATIONS = {"step": 0.75, "resample": 0.15, "flip": 0.1}
_OPERATORS = {"step": step, "resample": resample, "flip": flip}


def evolve(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    known, best = seen(space, trials), ranked(trials)[:ELITES]
    if len(known) >= space.size:
        return None
    if len(trials) < STARTERS or not best:
        return _random(space, known, rng)
    if _stagnant(trials):
        return _restart(space, best, known, rng) or _beside(space, best, known, rng)
    if len(best) > 1 and rng.random() < CROSSOVER:
        return _crossed(space, best, known, rng) or _beside(space, best, known, rng)
    return _mutated(space, best, known, rng) or _beside(space, best, known, rng)


def _random(space: Space, known: frozenset[Key], rng: Rng) -> Move | None:
    genome = unseen(space, known, rng)
    return Move(genome, "random") if genome is not None else None


def _mutated(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    parent = _tournament(best, rng)
    operator = rng.choice(tuple(MUTATIONS), tuple(MUTATIONS.values()))
    genome = tried(lambda: _OPERATORS[operator](space, parent, rng), space, known)
    return Move(genome, operator, (parent,)) if genome is not None else None


def _crossed(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    first, second = (trial.genome for trial in rng.sample(best, 2))
    genome = tried(lambda: crossover(space, first, second, rng), space, known)
    return Move(genome, "crossover", (first, second)) if genome is not None else None


def _restart(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    """An elite with two or three genes drawn anew."""
    parent = _tournament(best, rng)
    genome = tried(lambda: _shaken(space, parent, rng), space, known)
    return Move(genome, "restart", (parent,)) if genome is not None else None


def _shaken(space: Space, genome: Genome, rng: Rng) -> Genome | None:
    result: Genome | None = genome
    for _ in range(2 + rng.integers(2)):
        result = resample(space, result, rng) if result is not None else None
    return result


def _beside(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    """An untried neighbour of the best that has one; else any untried genome."""
    for trial in best:
        near = [genome for genome in neighbours(space, trial.genome) if space.key(genome) not in known]
        if near:
            return Move(rng.choice(near), "step", (trial.genome,))
    return _random(space, known, rng)


def _tournament(best: Sequence[Trial], rng: Rng) -> Genome:
    """The best of a few drawn places; `best` is in order."""
    return best[min(rng.integers(len(best)) for _ in range(TOURNAMENT))].genome


def _stagnant(trials: Sequence[Trial]) -> bool:
    """Whether the last trials, in their order, brought nothing better; true for every second one from then on."""
    known = [trial.fitness for trial in trials if trial.fitness is not None]
    since = len(known) - 1 - known.index(max(known))
    return since >= PATIENCE and since % 2 == 0
