"""The default search and its forecast: what is expected and how uncertainly, and that of large spaces a part counts."""

import math

import numpy as np
import pytest

from agents.evolve.rng import Rng
from agents.evolve.search import Trial, forecasting
from agents.evolve.search.forecasting import LOOKED_AT_MAX, expected_gain
from agents.evolve.search.surrogate import FLOOR, TRIALS_MAX, Forecast, coordinates, surrogate
from agents.evolve.templates import Gene, Genome, Space

SPACE = Space(
    (
        Gene("KIND", ("plain", "tiled"), ordinal=False, structural=True),
        Gene("WIDE", (1, 2, 4, 8)),
        Gene("DEEP", (1, 2, 3, 4, 5), only=("KIND", ("tiled",))),
        Gene("GRAIN", (10, 20, 30)),
    )
)
LARGE = Space(tuple(Gene(f"GENE{place}", (1, 2, 3, 4, 5, 6)) for place in range(5)))


def fitness(genome: Genome) -> float:
    return int(genome["WIDE"]) * (2.0 if genome["KIND"] == "tiled" else 1.0) * (1 + int(genome["DEEP"]) / 10)


def known(count: int, *, seed: int = 0) -> list[Trial]:
    drawn = np.random.default_rng(seed).permutation(SPACE.size)[:count]
    return [Trial(SPACE.genomes[place], fitness(SPACE.genomes[place])) for place in drawn]


def test_idle_genes_and_words_are_far_from_everything_else() -> None:
    plain, shallow, deep = coordinates(
        SPACE,
        [
            {"KIND": "plain", "WIDE": 1, "DEEP": 1, "GRAIN": 10},
            {"KIND": "tiled", "WIDE": 8, "DEEP": 1, "GRAIN": 20},
            {"KIND": "tiled", "WIDE": 8, "DEEP": 5, "GRAIN": 30},
        ],
    )
    assert abs(plain[0] - shallow[0]) > 1
    assert (plain[1], shallow[1]) == (0, 1)
    assert abs(plain[2] - shallow[2]) > 1
    assert abs(plain[2] - deep[2]) > 1
    assert deep[3] == 1


def test_what_is_known_is_expected_and_the_rest_is_uncertain() -> None:
    trials = known(20)
    fitted = surrogate(SPACE, trials)
    assert fitted is not None
    here = fitted.forecast(coordinates(SPACE, [trial.genome for trial in trials]))
    unknown = [genome for genome in SPACE.genomes if genome not in [trial.genome for trial in trials]]
    there = fitted.forecast(coordinates(SPACE, unknown))
    assert np.abs(here.mean - np.log([counting(trial, trials) for trial in trials])).max() < 0.2
    assert here.deviation.mean() < there.deviation.mean()
    truth = [math.log(counting(Trial(genome, fitness(genome)), trials)) for genome in unknown]
    assert np.corrcoef(there.mean, truth)[0, 1] > 0.9


def test_a_trial_that_is_waited_for_is_less_uncertain_and_expected_the_same() -> None:
    trials, asked = known(12), SPACE.genomes[0]
    trials = [trial for trial in trials if trial.genome != asked]
    before, after = surrogate(SPACE, trials), surrogate(SPACE, [*trials, Trial(asked, waiting=True)])
    assert before is not None
    assert after is not None
    places = coordinates(SPACE, [asked])
    assert after.forecast(places).mean == pytest.approx(before.forecast(places).mean)
    assert after.forecast(places).deviation < 0.5 * before.forecast(places).deviation


def test_a_failure_counts_as_the_worst_known() -> None:
    trials = known(12)
    failed = next(genome for genome in SPACE.genomes if genome["WIDE"] == 8 and genome["KIND"] == "tiled")
    trials = [trial for trial in trials if trial.genome != failed]
    fitted = surrogate(SPACE, [*trials, Trial(failed, None)])
    assert fitted is not None
    worst = min(counting(trial, trials) for trial in trials)
    assert fitted.values[-1] == pytest.approx(math.log(worst))
    assert surrogate(SPACE, [Trial(failed, None)] * 5) is None


def test_one_very_slow_trial_does_not_make_everything_promising() -> None:
    """A kernel that was 40 times as slow once filled a generation with settings that had promised nothing before."""
    trials = known(12)
    slow = next(genome for genome in SPACE.genomes if genome not in [trial.genome for trial in trials])
    best = max(trial.fitness or 0.0 for trial in trials)
    fitted = [surrogate(SPACE, [*trials, Trial(slow, best / times)]) for times in (FLOOR, 50)]
    places = coordinates(SPACE, SPACE.genomes)
    least, least_by_far = (item.forecast(places) for item in fitted if item)
    assert least_by_far.deviation == pytest.approx(least.deviation)
    assert least_by_far.mean == pytest.approx(least.mean)


def counting(trial: Trial, trials: list[Trial]) -> float:
    """What a trial counts as in a forecast: none is worse than a quarter of the best."""
    best = max(item.fitness or 0.0 for item in trials)
    return max(trial.fitness or 0.0, best / FLOOR)


def test_expected_gain_grows_with_the_mean_and_with_the_uncertainty() -> None:
    found = expected_gain(Forecast(np.array([0.0, 0.5, 0.0]), np.array([0.1, 0.1, 0.5])), best=0.4)
    assert found[0] < found[1]
    assert found[0] < found[2]
    assert (found > 0).all()
    certain = expected_gain(Forecast(np.array([1.0]), np.array([1e-4])), best=0.4)
    assert certain[0] == pytest.approx(0.6)


def test_of_a_large_space_a_part_is_looked_at_and_the_best_is_neared() -> None:
    assert LARGE.size > 3 * LOOKED_AT_MAX

    def worth(genome: Genome) -> float:
        return math.exp(-sum((int(value) - 4) ** 2 for value in genome.values()) / 10)

    trials: list[Trial] = []
    for place in range(48):
        move = forecasting(LARGE, trials, Rng(3, "large", place))
        assert move is not None
        assert move.genome not in [trial.genome for trial in trials]
        trials.append(Trial(move.genome, worth(move.genome)))
    assert max(trial.fitness or 0.0 for trial in trials) > 0.8


def test_a_move_names_its_parent_and_what_it_changed() -> None:
    trials = known(10)
    for seed in range(10):
        move = forecasting(SPACE, trials, Rng(seed, "names"))
        assert move is not None
        (parent,) = move.parents
        assert parent in [trial.genome for trial in trials]
        changed = [name for name in SPACE.names if parent[name] != move.genome[name]]
        assert (move.operator == "flip") == ("KIND" in changed)
        assert move.operator in ("flip", "step", "resample", "restart")


def test_of_very_many_trials_the_best_and_the_newest_are_kept() -> None:
    genomes = [LARGE.genomes[place] for place in np.random.default_rng(1).permutation(LARGE.size)[: 3 * TRIALS_MAX]]
    trials = [Trial(genome, 1.0 + place) for place, genome in enumerate(reversed(genomes))]
    fitted = surrogate(LARGE, [Trial(genomes[0], 10_000.0), *trials[1:]])
    assert fitted is not None
    assert len(fitted.values) == TRIALS_MAX
    assert fitted.values.max() == pytest.approx(math.log(10_000))
