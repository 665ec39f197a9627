"""A search that begins at a kernel that works: first every genome that differs from it in one value.

Where most genomes are useless, random ones teach the forecast nothing. The first trial is where it begins. After the
neighbours another search goes on, by default the one with a forecast. Not covered: measuring.
"""

from collections.abc import Iterator, Sequence

from ..rng import Rng
from ..templates.base import Genome, Space
from .forecasting import forecasting
from .moves import Move, Search, Trial, seen


def around(space: Space, trials: Sequence[Trial], rng: Rng, then: Search = forecasting) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    known = seen(space, trials)
    for genome in neighbours(space, trials[0].genome) if trials else ():
        if space.key(genome) not in known:
            return Move(genome, "step", (trials[0].genome,))
    return then(space, trials, rng)


def neighbours(space: Space, genome: Genome) -> Iterator[Genome]:
    """Valid genomes with the next smaller or larger value of one gene, in the order of the genes."""
    for gene in space.genes:
        place = gene.values.index(genome[gene.name])
        for value in (*gene.values[max(0, place - 1) : place], *gene.values[place + 1 : place + 2]):
            changed = space.settled({**genome, gene.name: value})
            if space.valid(changed):
                yield changed
