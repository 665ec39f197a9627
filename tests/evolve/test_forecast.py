"""The forecast of the surrogate on recorded sweeps: ranks kept, and the best of its first tenth close to the best."""

import json

import pytest

from agents.evolve.search import load_recording
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
