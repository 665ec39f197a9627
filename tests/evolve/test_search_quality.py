"""The searches on recorded sweeps: every setting was measured once, so a run of a search takes milliseconds.

Each space is checked apart. The best settings of a recording were measured again in later rounds, so that luck does not
set the mark. As in a run, the slots of one generation are asked before any of them is known. One machine recorded those
of each kind: they say that the search works, not by how much it wins elsewhere.
"""

import statistics
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import pytest

from agents.evolve.rng import Rng
from agents.evolve.search import Recording, Search, Trial, forecasting, load_recording, random_search

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "sweeps"
SEEDS = range(30)
SLOTS = 4
SPACES = sorted(path.stem for path in FOLDER.glob("*.json"))


def curve(recording: Recording, search: Search, seed: int) -> list[float]:
    """The best fitness so far, in parts of the space's best, for 15 % of the space's evaluations."""
    trials: list[Trial] = []
    share = int(0.15 * recording.space.size)
    for place in range(share):
        if trials and trials[-1].fitness == recording.best:  # nothing better can follow
            break
        before = place - place % SLOTS
        shown = [*trials[:before], *(Trial(trial.genome, waiting=True) for trial in trials[before:])]
        move = search(recording.space, shown, Rng(seed, "quality", place // SLOTS, place % SLOTS))
        assert move is not None
        trials.append(Trial(move.genome, recording.fitness(move.genome)))
    found = [best / recording.best for best in accumulate((trial.fitness or 0.0 for trial in trials), max)]
    return [*found, *[found[-1]] * (share - len(found))]


def area(points: Iterable[float]) -> float:
    return statistics.fmean(points)


@pytest.fixture(scope="module", params=SPACES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return load_recording(FOLDER / f"{request.param}.json")


@pytest.fixture(scope="module")
def evolved(recording: Recording) -> list[list[float]]:
    return [curve(recording, forecasting, seed) for seed in SEEDS]


@pytest.mark.parametrize(("kind", "at_least"), [("cpu-", 3), ("h200-", 2)])
def test_large_spaces_are_recorded_on_each_kind_of_device(kind: str, at_least: int) -> None:
    sizes = [load_recording(FOLDER / f"{name}.json").space.size for name in SPACES if name.startswith(kind)]
    assert sum(size >= 200 for size in sizes) >= at_least


def test_a_recording_holds_the_whole_space(recording: Recording) -> None:
    assert recording.space.size == len(recording.fitnesses)


def test_the_default_search_finds_95_percent_of_the_best_in_nine_of_ten_runs(evolved: list[list[float]]) -> None:
    assert sum(points[-1] >= 0.95 for points in evolved) >= 0.9 * len(SEEDS)


def test_the_default_search_beats_random_search(recording: Recording, evolved: list[list[float]]) -> None:
    randomly = [curve(recording, random_search, seed) for seed in SEEDS]
    gains = [area(mine) - area(theirs) for mine, theirs in zip(evolved, randomly, strict=True)]
    assert statistics.median(gains) > 0
    assert sum(gain > 0 for gain in gains) >= 22  # of 30: p < 0.01 if the two were alike
