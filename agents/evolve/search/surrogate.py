"""What a genome is expected to be worth, from the trials so far: a Gaussian process over the genes.

In logarithms of fitness, since genes multiply a speed. Two genomes are alike by each gene alone and by all together, in
equal parts; how fast likeness falls along a gene is fitted to the trials. A trial that failed counts as the worst one,
and none counts as more than FLOOR times as slow as the best: one that is far slower says nothing about the others. One
that is waited for has no value yet and only makes its surroundings less uncertain, which keeps the slots of one
generation apart. Not covered: which genomes are looked at (`forecasting.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..templates.base import Gene, Genome, Space
from .moves import Trial

Array = np.ndarray[Any, np.dtype[np.float64]]
RATES = (0.1, 0.4, 1.2, 3.5)  # at which likeness may fall over the whole range of a gene
USUAL_RATE, RATE_SPREAD = 0.6, 1.2  # beforehand: the middle, and the standard deviation of its logarithm
NOISE = 0.02  # of the variance
PASSES = 2  # over the genes
TRIALS_MAX = 200  # the newest and the best
LEAST = 3
FLOOR = 4.0
_ELSEWHERE = 2.0  # further than the whole range of an ordered gene


@dataclass(frozen=True)
class Forecast:
    """Mean and standard deviation for each genome asked about, in logarithms of fitness."""

    mean: Array
    deviation: Array


@dataclass(frozen=True)
class Surrogate:
    """Fitted to `places` with `values`; the last `waiting` places have none."""

    space: Space
    places: Array
    values: Array
    rates: Array

    def forecast(self, places: Array) -> Forecast:
        """Of genomes given by their coordinates."""
        known = self.places[: len(self.values)]
        middle, scale = self.values.mean(), self.values.std() + 1e-9
        weights = np.linalg.solve(_covariance(known, self.rates), (self.values - middle) / scale)
        spread = np.sqrt(((self.values - middle) / scale) @ weights / len(self.values))
        mean = _likeness(places, known, self.rates) @ weights
        near = _likeness(places, self.places, self.rates)
        explained = (near * np.linalg.solve(_covariance(self.places, self.rates), near.T).T).sum(axis=1)
        return Forecast(mean * scale + middle, np.sqrt(np.maximum(1e-9, 1 - explained)) * spread * scale)


def surrogate(space: Space, trials: Sequence[Trial]) -> Surrogate | None:
    """None while too little is known, or all trials were alike."""
    measured = _kept([trial for trial in trials if not trial.waiting])
    fitness = [trial.fitness for trial in measured if trial.fitness]
    if len(fitness) < LEAST:
        return None
    worst = max(min(fitness), max(fitness) / FLOOR)
    values = np.log([max(trial.fitness or worst, worst) for trial in measured])
    if np.ptp(values) == 0:
        return None
    waiting = [trial for trial in trials if trial.waiting]
    places = coordinates(space, [trial.genome for trial in [*measured, *waiting]])
    known = places[: len(values)]
    return Surrogate(space, places, values, np.array(_rates(known.tobytes(), known.shape[1], values.tobytes())))


def coordinates(space: Space, genomes: Sequence[Genome]) -> Array:
    """A row for each genome: ordered values between 0 and 1; other values, and idle genes, far from each other."""
    columns = [[_coordinate(gene, genome) for genome in genomes] for gene in space.genes]
    return np.array(columns, dtype=np.float64).reshape(len(space.genes), -1).T


def _coordinate(gene: Gene, genome: Genome) -> float:
    if gene.idle(genome):
        return -_ELSEWHERE
    place = gene.values.index(genome[gene.name])
    return place / max(1, len(gene.values) - 1) if gene.ordinal else place * _ELSEWHERE


def _kept(measured: list[Trial]) -> list[Trial]:
    """Of very many trials half the best and half the newest, in their order."""
    if len(measured) <= TRIALS_MAX:
        return measured
    older = measured[: -TRIALS_MAX // 2]
    best = sorted(range(len(older)), key=lambda place: -(older[place].fitness or 0.0))[: TRIALS_MAX // 2]
    return [*(older[place] for place in sorted(best)), *measured[-TRIALS_MAX // 2 :]]


def _likeness(one: Array, other: Array, rates: Array) -> Array:
    apart = np.minimum(np.abs(one[:, None, :] - other[None, :, :]), 1.0) * rates
    alike: Array = 0.5 * np.exp(-apart).mean(axis=2) + 0.5 * np.exp(-apart.sum(axis=2))
    return alike


def _covariance(places: Array, rates: Array) -> Array:
    return _likeness(places, places, rates) + NOISE * np.eye(len(places))


@lru_cache(maxsize=8)
def _rates(places: bytes, genes: int, values: bytes) -> tuple[float, ...]:
    """The likeliest rates: one gene after the other, the slots of a generation ask for the same ones."""
    known, measured = np.frombuffer(places).reshape(-1, genes), np.frombuffer(values)
    scaled = (measured - measured.mean()) / (measured.std() + 1e-9)
    rates = np.full(genes, RATES[1])
    best = _evidence(known, scaled, rates)
    for gene in [gene for _ in range(PASSES) for gene in range(genes) if np.ptp(known[:, gene]) > 0]:
        for rate in RATES:
            changed = np.where(np.arange(genes) == gene, rate, rates)
            found = _evidence(known, scaled, changed)
            if found > best:
                best, rates = found, changed
    return tuple(rates.tolist())


def _evidence(places: Array, values: Array, rates: Array) -> float:
    """The logarithm of the likelihood with the likeliest variance, and of how plausible the rates are beforehand."""
    root = np.linalg.cholesky(_covariance(places, rates))
    rest = np.linalg.solve(root, values)
    beforehand = -0.5 * (np.log(rates / USUAL_RATE) / RATE_SPREAD) ** 2
    return float(
        -0.5 * len(values) * np.log(rest @ rest / len(values) + 1e-12) - np.log(np.diag(root)).sum() + beforehand.sum()
    )
