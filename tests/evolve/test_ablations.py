"""The comparison of levers on recorded sweeps: what a run costs there, and that the recorded table is complete."""

import json

import pytest

from agents.evolve.search import random_search
from lab.sweeps.ablations import GOALS, LEVERS, PLAIN, RESULTS, Levers, ReplayedRun, gain, load, summary, warm_start

SWEEPS = sorted((RESULTS / "sweeps").glob("*.json"))
SMALLEST = load(min(SWEEPS, key=lambda path: path.stat().st_size))


def test_a_judging_costs_one_and_a_timing_its_share() -> None:
    plain = ReplayedRun(SMALLEST, Levers(search=random_search), seed=0, cap=12)
    plain.go()
    assert plain.spent == len(plain.trials)
    assert GOALS[-1] in plain.reached or 12 <= plain.spent < 16  # the generation that reaches the cap is finished
    focused = ReplayedRun(SMALLEST, Levers(search=random_search, curriculum="headroom"), seed=0, cap=12)
    focused.go()
    shares = focused.spent * len(SMALLEST.configs)
    assert shares == pytest.approx(round(shares))
    assert focused.spent < len(focused.trials)


def test_what_is_dropped_is_known_by_its_estimate() -> None:
    run = ReplayedRun(SMALLEST, Levers(search=random_search, curriculum="headroom"), seed=1, cap=12)
    run.go()
    judged = {run.swept.recording.fitness(trial.genome) for trial in run.trials}
    assert [trial for trial in run.trials if trial.fitness not in judged]
    assert len(run.judged) < len(run.trials)


def test_the_configuration_that_counts_first_is_one_of_the_recording() -> None:
    for path in SWEEPS:
        swept = load(path)
        assert 0 <= swept.headroom(swept.guess) < len(swept.configs)
        assert [item.key for item in swept.configs] == swept.data["configs"]


def test_a_warm_start_never_sees_its_own_task() -> None:
    everything = [load(path) for path in sorted((RESULTS / "sweeps").glob("**/*.json"))]
    linear = next(item for item in everything if item.name == "cpu-mnist_linear-backward")
    told = warm_start(linear, everything)
    without = [item for item in everything if item.data["task"] != "mnist_linear/backward"]
    assert told == warm_start(linear, without)
    assert told
    assert warm_start(linear, [linear]) == []


def test_a_gain_is_a_ratio_of_means_and_a_run_without_success_counts_with_the_cap() -> None:
    before = {"space": {"cap": 8.0, "goal": [4.0, 4.0, None, None]}}
    after = {"space": {"cap": 8.0, "goal": [3.0, 3.0, 3.0, 3.0]}}
    found, low, high = gain(before, after, "goal")
    assert found == pytest.approx(2.0)
    assert 4 / 3 <= low < found < high <= 8 / 3
    assert gain(before, before, "goal") == (1.0, 1.0, 1.0)
    twice = {**before, "other": {"cap": 8.0, "goal": [6.0, 6.0]}}
    assert gain(twice, {**after, "other": {"cap": 8.0, "goal": [12.0, 12.0]}}, "goal")[0] == pytest.approx(1.0)


def test_the_recorded_table_has_every_space_and_lever_and_follows_from_the_raw_figures() -> None:
    found = json.loads((RESULTS / "ablations" / "levers.json").read_text())
    assert set(found["spaces"]) == {path.stem for path in SWEEPS}
    assert found["seeds"] == 30
    for row in found["spaces"].values():
        assert list(row["levers"]) == list(LEVERS)
        assert all(len(item["spent_to_95%"]) == 30 for item in row["levers"].values())
    assert found["summary"][0]["lever"] == PLAIN
    for shown, computed in zip(found["summary"], summary(found["spaces"]), strict=True):
        gains = {key for key in shown if key.startswith("gain_")}
        assert all(shown[key] == pytest.approx(computed[key], abs=0.002) for key in gains)
        assert {key: value for key, value in shown.items() if key not in gains} == {
            key: value for key, value in computed.items() if key not in gains
        }


def test_by_the_recorded_table_eight_percent_of_a_space_find_95_percent_of_the_best_in_nine_of_ten_runs() -> None:
    found = json.loads((RESULTS / "ablations" / "levers.json").read_text())["summary"]
    rows = [row for row in found if row["lever"] == PLAIN and row["space"] != "all"]
    assert sum(row["found_with_8%"] for row in rows) >= 0.9 * sum(row["runs"] for row in rows)
    assert all(row["found_with_15%"] >= 0.9 * row["runs"] for row in rows)
