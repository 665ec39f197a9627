"""The default search: of all genomes that were not tried, the one that promises most by the forecast.

After a few random genomes a surrogate forecasts fitness and how uncertain it is; asked for is the genome with the
largest expected gain over the best one (Jones et al., 1998). Where the largest is next to nothing, none is asked for:
on recorded spaces the best setting is then known. In a large space a random part of it and everything one gene away
from the best genomes is looked at. A function of the trials so far. Not covered: measuring.
"""

import math
import threading
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from ..rng import Rng
from ..templates.base import Genome, Space
from .moves import Key, Move, Trial, ranked, seen, unseen
from .surrogate import Array, Forecast, coordinates, surrogate

STARTERS = 4
ELITES = 5
LOOKED_AT_MAX = 2048
LEAST_GAIN = 1e-7  # relative to the best: expected of a genome 4 % below it with a standard deviation of 1 %
_erf = np.vectorize(math.erf, otypes=[np.float64])


_threads, _one_at_a_time = ThreadpoolController(), threading.Lock()


def forecasting(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted, or promises nothing as far as the trials say."""
    # Beside compilers, several threads took 50 times as long. The limit is that of the process.
    with _one_at_a_time, _threads.limit(limits=1, user_api="blas"):
        return _most_promising(space, trials, rng)


def _most_promising(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    known = seen(space, trials)
    if len(known) >= space.size:
        return None
    fitted = surrogate(space, trials) if len(trials) >= STARTERS else None
    if fitted is None:
        genome = unseen(space, known, rng)
        return Move(genome, "random") if genome is not None else None
    best = ranked(trials)
    places = _looked_at(space, known, best[:ELITES], rng)
    if not places:  # of a large space everything that was drawn is known
        places = [next(place for place, item in enumerate(space.genomes) if space.key(item) not in known)]
    gain = expected_gain(fitted.forecast(_everything(space)[places]), math.log(best[0].fitness or 1.0))
    if gain.max() < LEAST_GAIN:
        return None
    return _move(space, space.genomes[places[int(gain.argmax())]], best[:ELITES])


def expected_gain(found: Forecast, best: float) -> Array:
    """By how much each genome is expected to be better than the best, where it is."""
    deviation = np.maximum(found.deviation, 1e-12)  # zero where all trials were alike
    ahead = (found.mean - best) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    gain: Array = deviation * (ahead * 0.5 * (1 + _erf(ahead / math.sqrt(2))) + density)
    return gain


def _looked_at(space: Space, known: frozenset[Key], best: Sequence[Trial], rng: Rng) -> list[int]:
    chosen: Sequence[int] = range(space.size)
    if space.size > LOOKED_AT_MAX:
        everything = _everything(space)
        near = [(everything != coordinates(space, [trial.genome])).sum(axis=1) == 1 for trial in best]
        drawn = (rng.integers(space.size) for _ in range(LOOKED_AT_MAX))
        chosen = sorted({*drawn, *np.flatnonzero(np.any(near, axis=0)).tolist()})
    return [place for place in chosen if space.key(space.genomes[place]) not in known]


@lru_cache(maxsize=4)
def _everything(space: Space) -> Array:
    return coordinates(space, space.genomes)


def _move(space: Space, genome: Genome, best: Sequence[Trial]) -> Move:
    """Named after its difference to the nearest of the best genomes, which is its parent."""

    def changed(trial: Trial) -> list[str]:
        return [name for name in space.names if trial.genome[name] != genome[name]]

    parent = min(best, key=lambda trial: len(changed(trial)))
    return Move(genome, _operator(space, parent.genome, genome, changed(parent)), (parent.genome,))


def _operator(space: Space, parent: Genome, genome: Genome, changed: Sequence[str]) -> str:
    genes = [gene for gene in space.genes if gene.name in changed]
    if any(gene.structural for gene in genes):
        return "flip"
    if len(genes) > 1:
        return "restart"
    values = genes[0].values
    apart = abs(values.index(genome[genes[0].name]) - values.index(parent[genes[0].name]))
    return "step" if genes[0].ordinal and apart == 1 else "resample"
