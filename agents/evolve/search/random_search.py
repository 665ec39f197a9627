"""Random search without repetition: what every other search has to beat."""

from collections.abc import Sequence

from ..rng import Rng
from ..templates.base import Space
from .moves import Move, Trial, seen, unseen


def random_search(space: Space, trials: Sequence[Trial], rng: Rng) -> Move | None:
    """The next genome to try; None if the space is exhausted."""
    genome = unseen(space, seen(space, trials), rng)
    return Move(genome, "random") if genome is not None else None
