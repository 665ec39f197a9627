"""The forecast of the surrogate on recorded sweeps: ranks kept, and the best of its first tenth close to the best."""

import json

import pytest

from agents.evolve.search import load_recording
from lab.sweeps.ends import GENERATION_SIZES, searched
from lab.sweeps.forecast import RESULTS, forecast

SPACES = sorted(path.stem for path in (RESULTS / "sweeps").glob("*.json"))


@pytest.mark.parametrize("space", SPACES)
def test_with_fifteen_percent_known_the_others_are_ranked(space: str) -> None:
    recording = load_recording(RESULTS / "sweeps" / f"{space}.json")
    correlation, regret = forecast(recording, 0.15, seed=0)
    assert correlation >= 0.6
    assert regret <= 0.1


def test_the_recorded_table_covers_every_space() -> None:
    rows = json.loads((RESULTS / "forecast.json").read_text())
    assert {row["space"] for row in rows} == set(SPACES)
    assert {row["seeds"] for row in rows} == {30}


def test_where_the_search_ends_by_itself_it_has_found_the_best() -> None:
    recording = load_recording(min((RESULTS / "sweeps").glob("*.json"), key=lambda path: path.stat().st_size))
    found = [trial.fitness or 0.0 for trial in searched(recording, 4, seed=0)]
    assert max(found) == recording.best
    assert len(found) < 0.3 * recording.space.size


def test_the_recorded_table_of_ends_covers_every_space() -> None:
    rows = json.loads((RESULTS / "search-ends.json").read_text())
    assert {(row["space"], row["generation_size"]) for row in rows} == {
        (n, s) for n in SPACES for s in GENERATION_SIZES
    }
    assert sum(row["found_the_best"] for row in rows) >= 0.99 * sum(row["seeds"] for row in rows)
    assert all(row["spent_share_highest"] < 0.5 for row in rows)
