"""The default search: a (mu + lambda) genetic algorithm with a surrogate, as a function of the trials so far.

After a few random genomes, parents are drawn by tournament among the best; a child is a crossover, or one step, one
fresh value or one flip of the structure of its parent. Among many children, a few elites shaken in several genes and a
few strangers, the one that the surrogate expects most of is tried; now and then a stranger is, whatever it expects. No
genome is asked for twice. Not covered: measuring.
"""

from collections.abc import Sequence

from ..rng import Rng
from ..templates.base import Genome, Space
from .moves import Key, Move, Trial, crossover, flip, ranked, resample, seen, step, tried, unseen
from .surrogate import surrogate

STARTERS = 5
ELITES = 5
TOURNAMENT = 2
CROSSOVER = 0.15
CHILDREN, SHAKEN, STRANGERS = 16, 4, 4
DARING = 0.1
MUTATIONS = {"step": 0.75, "resample": 0.15, "flip": 0.1}
_OPERATORS = {"step": step, "resample": resample, "flip": flip}


def evolve(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    known, best = seen(space, trials), ranked(trials)[:ELITES]
    if len(known) >= space.size:
        return None
    worth = surrogate(space, trials)
    if len(trials) < STARTERS or worth is None or rng.random() < DARING:
        return _random(space, known, rng)
    pool = [
        *(_child(space, best, known, rng) for _ in range(CHILDREN)),
        *(_restart(space, best, known, rng) for _ in range(SHAKEN)),
        *(_random(space, known, rng) for _ in range(STRANGERS)),
    ]
    moves = [move for move in pool if move is not None]
    return max(moves, key=lambda move: worth(move.genome), default=None)


def _child(space: Space, best: Sequence[Trial], known: frozenset[Key], rng: Rng) -> Move | None:
    if len(best) > 1 and rng.random() < CROSSOVER:
        return _crossed(space, best, known, rng)
    return _mutated(space, best, known, rng)


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


def _tournament(best: Sequence[Trial], rng: Rng) -> Genome:
    """The best of a few drawn places; `best` is in order."""
    return best[min(rng.integers(len(best)) for _ in range(TOURNAMENT))].genome
