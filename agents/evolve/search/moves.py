"""Moves in a space: random genomes, one step of one gene, a fresh value, a flip of the structure, crossover.

A move never returns an invalid genome; it returns None where it found none. Genes that a move wakes up get random
values. Not covered: which move is made when (`genetic.py`, `annealing.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..rng import Rng
from ..templates.base import Gene, Genome, Space, Value

Key = tuple[Value, ...]
TRIES = 24


@dataclass(frozen=True)
class Trial:
    """A genome that was asked for, and its fitness; None where it failed, and where it is still waited for."""

    genome: Genome
    fitness: float | None = None
    waiting: bool = False


@dataclass(frozen=True)
class Move:
    """The next genome to try, what was done to get it, and from which genomes."""

    genome: Genome
    operator: str
    parents: tuple[Genome, ...] = ()


# given what was tried, what to try next; None if there is nothing left
Search = Callable[[Space, Sequence[Trial], Rng], Move | None]


def seen(space: Space, trials: Sequence[Trial]) -> frozenset[Key]:
    return frozenset(space.key(trial.genome) for trial in trials)


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Those with a fitness, the best first, the earlier of equals first."""
    return sorted((trial for trial in trials if trial.fitness is not None), key=lambda trial: -(trial.fitness or 0.0))


def unseen(space: Space, known: frozenset[Key], rng: Rng) -> Genome | None:
    """A random genome that was not tried; None if there is none."""
    for _ in range(TRIES):
        genome = space.genomes[rng.integers(space.size)]
        if space.key(genome) not in known:
            return genome
    left = [genome for genome in space.genomes if space.key(genome) not in known]
    return rng.choice(left) if left else None


def step(space: Space, genome: Genome, rng: Rng) -> Genome | None:
    """One ordinal gene to the next smaller or larger value."""
    gene = _one(rng, [gene for gene in _active(space, genome) if gene.ordinal])
    if gene is None:
        return None
    place = gene.values.index(genome[gene.name])
    near = [other for other in (place - 1, place + 1) if 0 <= other < len(gene.values)]
    return changed(space, genome, gene, gene.values[rng.choice(near)], rng)


def resample(space: Space, genome: Genome, rng: Rng) -> Genome | None:
    """One gene to any other value."""
    return _fresh(space, genome, [gene for gene in _active(space, genome) if not gene.structural], rng)


def flip(space: Space, genome: Genome, rng: Rng) -> Genome | None:
    """One structural gene to another value: a different way through the code."""
    return _fresh(space, genome, [gene for gene in _active(space, genome) if gene.structural], rng)


def crossover(space: Space, first: Genome, second: Genome, rng: Rng) -> Genome | None:
    """Each gene from either parent; one that sleeps in the chosen parent comes from the other."""
    made: dict[str, Value] = {}
    for gene in space.genes:
        one, other = (first, second) if rng.random() < 0.5 else (second, first)
        donor = other if gene.idle(one) else one
        made[gene.name] = donor[gene.name]
    child = space.settled(made)
    return child if space.valid(child) else None


def changed(space: Space, genome: Genome, gene: Gene, value: Value, rng: Rng) -> Genome | None:
    """The genome with one gene changed; genes that this wakes up are drawn."""
    new: dict[str, Value] = {**genome, gene.name: value}
    for other in space.genes:
        if other.idle(genome) and not other.idle(new):
            new[other.name] = rng.choice(other.values)
    settled = space.settled(new)
    return settled if space.valid(settled) else None


def tried(make: Callable[[], Genome | None], space: Space, known: frozenset[Key]) -> Genome | None:
    """The first of several attempts that gives a genome nobody has tried."""
    for _ in range(TRIES):
        genome = make()
        if genome is not None and space.key(genome) not in known:
            return genome
    return None


def _active(space: Space, genome: Genome) -> list[Gene]:
    return [gene for gene in space.genes if len(gene.values) > 1 and not gene.idle(genome)]


def _fresh(space: Space, genome: Genome, genes: Sequence[Gene], rng: Rng) -> Genome | None:
    gene = _one(rng, genes)
    if gene is None:
        return None
    others = [value for value in gene.values if value != genome[gene.name]]
    return changed(space, genome, gene, rng.choice(others), rng)


def _one(rng: Rng, genes: Sequence[Gene]) -> Gene | None:
    return rng.choice(genes) if genes else None
