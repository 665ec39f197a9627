"""Measures when the search with a forecast ends by itself, and what it has found by then, on the recorded sweeps.

    python -m lab.sweeps.ends [--seeds 30]

Runs begin with random settings, by generations of 4 and of 48, and go on until the forecast expects nothing of any
setting that is left. Writes `docs/results/search-ends.json` and prints the table of the docs. Does NOT measure kernels,
and no setting of these spaces fails.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from agents.evolve.rng import Rng
from agents.evolve.search import Recording, Trial, forecasting, load_recording

RESULTS = Path(__file__).parents[2] / "docs" / "results"
GENERATION_SIZES = (4, 48)


def searched(recording: Recording, generation_size: int, seed: int) -> list[Trial]:
    """All trials of a run. None of a generation is known when the others are asked."""
    trials: list[Trial] = []
    while True:
        shown = [*trials]
        for slot in range(generation_size):
            move = forecasting(recording.space, shown, Rng(seed, "ends", len(trials), slot))
            if move is None:
                break
            shown.append(Trial(move.genome, waiting=True))
        asked = shown[len(trials) :]
        if not asked:
            return trials
        trials += [Trial(item.genome, recording.fitness(item.genome)) for item in asked]


def row(recording: Recording, name: str, generation_size: int, seeds: int) -> dict[str, Any]:
    runs = [searched(recording, generation_size, seed) for seed in range(seeds)]
    found = [max(trial.fitness or 0.0 for trial in trials) / recording.best for trials in runs]
    spent = [len(trials) / recording.space.size for trials in runs]
    return {
        "space": name,
        "settings": recording.space.size,
        "generation_size": generation_size,
        "seeds": seeds,
        "spent_share_median": round(statistics.median(spent), 4),
        "spent_share_highest": round(max(spent), 4),
        "found_share_lowest": round(min(found), 4),
        "found_the_best": sum(share == 1 for share in found),
    }


def main() -> None:
    options = argparse.ArgumentParser(description="when the search ends by itself on recorded spaces")
    options.add_argument("--seeds", type=int, default=30)
    seeds = options.parse_args().seeds
    spaces = [(path.stem, load_recording(path)) for path in sorted((RESULTS / "sweeps").glob("*.json"))]
    rows = [row(recording, name, size, seeds) for name, recording in spaces for size in GENERATION_SIZES]
    (RESULTS / "search-ends.json").write_text(json.dumps(rows, indent=1) + "\n")
    for item in rows:
        spent = f"{100 * item['spent_share_median']:.0f} % ({100 * item['spent_share_highest']:.0f} %)"
        found = f"{item['found_the_best']} of {item['seeds']} ({100 * item['found_share_lowest']:.1f} %)"
        print(f"| `{item['space']}` | {item['settings']} | {item['generation_size']} | {spent} | {found} |")


if __name__ == "__main__":
    main()
