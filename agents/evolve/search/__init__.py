"""Searches over the genomes of a template: given what was tried, what to try next.

A search is a pure function of the space, the trials and a keyed `Rng`. Not covered: rendering, judging, and who asks
(`proposers/template_evo.py`).
"""

from .annealing import anneal
from .around import around
from .forecasting import forecasting
from .genetic import genetic
from .moves import Move, Search, Trial
from .random_search import random_search
from .recorded import Recording, load_recording

__all__ = [
    "Move",
    "Recording",
    "Search",
    "Trial",
    "anneal",
    "around",
    "forecasting",
    "genetic",
    "load_recording",
    "random_search",
]
