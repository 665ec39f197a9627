"""What a genome is expected to be worth, from the trials so far.

Genes add up (backfitting, shrunk towards no effect); on top of that, what the nearest trials had beyond their sum is
taken over (kernel regression). All in logarithms of fitness, since genes multiply a speed. Trials that failed, or are
not known yet, count as the worst known, which keeps the slots of one generation apart. Not covered: which genomes are
looked at (`genetic.py`).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence

from ..templates.base import Gene, Genome, Space, Value
from .moves import Trial

SHRINKAGE = 1.0  # in trials
SWEEPS = 4
REACH = 0.7  # in whole ranges of a gene
CAUTION = 0.5  # in trials at no distance
CURIOSITY = 0.2  # for a genome far from every trial
_LEAST = 3

Known = Sequence[tuple[Genome, float]]
Worth = Callable[[Genome], float]


def surrogate(space: Space, trials: Sequence[Trial]) -> Worth | None:
    """How promising a genome is, in logarithms; None while too little is known."""
    known = [(trial.genome, math.log(trial.fitness)) for trial in trials if trial.fitness]
    if len(known) < _LEAST:
        return None
    worst = min(value for _, value in known)
    known += [(trial.genome, worst) for trial in trials if not trial.fitness]
    total = _sum_of_effects(space, known)
    left = [(_place(space, genome), value - total(genome)) for genome, value in known]

    def worth(genome: Genome) -> float:
        place = _place(space, genome)
        weights = [math.exp(-((_distance(place, other) / REACH) ** 2)) for other, _ in left]
        near = sum(weights)
        beyond = sum(weight * rest for weight, (_, rest) in zip(weights, left, strict=True)) / (near + CAUTION)
        return total(genome) + beyond + CURIOSITY / (1 + near)

    return worth


def _sum_of_effects(space: Space, known: Known) -> Worth:
    mean = statistics.fmean(value for _, value in known)
    effects: defaultdict[str, dict[Value, float]] = defaultdict(dict)

    def total(genome: Genome) -> float:
        above = 0.0
        for name, value in genome.items():  # most of the time of a search is spent here
            above += effects[name].get(value, 0.0)
        return mean + above

    for gene in (gene for _ in range(SWEEPS) for gene in space.genes):
        rests: dict[Value, list[float]] = {}
        for genome, value in known:
            choice = genome[gene.name]
            rests.setdefault(choice, []).append(value - total(genome) + effects[gene.name].get(choice, 0.0))
        effects[gene.name] |= {choice: sum(rest) / (len(rest) + SHRINKAGE) for choice, rest in rests.items()}
    return total


def _place(space: Space, genome: Genome) -> list[Value | float | None]:
    return [_coordinate(gene, genome) for gene in space.genes]


def _coordinate(gene: Gene, genome: Genome) -> Value | float | None:
    """None where the gene is idle; ordered values lie between 0 and 1."""
    if gene.idle(genome):
        return None
    if not gene.ordinal:
        return str(genome[gene.name])
    return gene.values.index(genome[gene.name]) / max(1, len(gene.values) - 1)


def _distance(one: Sequence[Value | float | None], other: Sequence[Value | float | None]) -> float:
    """In whole ranges of a gene."""
    apart = 0.0
    for a, b in zip(one, other, strict=True):
        if a != b:
            apart += abs(a - b) if isinstance(a, float) and isinstance(b, float) else 1.0
    return apart
