"""Measures how well the surrogate of a search ranks unmeasured settings, on the recorded sweeps.

    python -m lab.sweeps.forecast [--seeds 30]

For each space and share of it, that share of random settings is known and the surrogate ranks the others. Reported are
Spearman's rank correlation with the measured fitness, and the gap between the best setting in the first tenth of the
ranking and the best of all ranked settings. Writes `docs/results/forecast.json` and prints the table of the docs. Does
NOT measure kernels.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from agents.evolve.search import Recording, Trial, load_recording
from agents.evolve.search.surrogate import coordinates, surrogate

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SHARES = (0.04, 0.08, 0.15)
TOP = 0.1


def forecast(recording: Recording, share: float, seed: int) -> tuple[float, float]:
    """Rank correlation, and the regret of the top tenth as a part of the best."""
    genomes = [dict(zip(recording.space.names, key, strict=True)) for key in recording.fitnesses]
    order = [genomes[place] for place in np.random.default_rng(seed).permutation(len(genomes))]
    known = order[: max(4, round(share * len(genomes)))]
    rest = [genome for genome in order[len(known) :] if recording.fitness(genome) is not None]
    fitted = surrogate(recording.space, [Trial(genome, recording.fitness(genome)) for genome in known])
    if fitted is None:
        raise ValueError(f"{len(known)} settings of {recording.name} say nothing")
    expected = fitted.forecast(coordinates(recording.space, rest)).mean
    return _scores(expected.tolist(), [recording.fitness(genome) or 0.0 for genome in rest])


def _scores(expected: list[float], found: list[float]) -> tuple[float, float]:
    first = np.argsort(expected)[::-1][: max(1, round(TOP * len(found)))]
    regret = 1 - max(found[place] for place in first) / max(found)
    return float(np.corrcoef(_ranks(expected), _ranks(found))[0, 1]), regret


def _ranks(values: list[float]) -> Any:
    """Equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def table(seeds: int) -> list[dict[str, Any]]:
    rows = []
    for path in sorted((RESULTS / "sweeps").glob("*.json")):
        recording = load_recording(path)
        for share in SHARES:
            found = [forecast(recording, share, seed) for seed in range(seeds)]
            correlations, regrets = zip(*found, strict=True)
            rows.append(
                {
                    "space": path.stem,
                    "settings": len(recording.fitnesses),
                    "known_share": share,
                    "seeds": seeds,
                    "rank_correlation_median": round(statistics.median(correlations), 3),
                    "rank_correlation_lowest": round(min(correlations), 3),
                    "regret_median": round(statistics.median(regrets), 4),
                    "regret_highest": round(max(regrets), 4),
                    "within_10_percent": sum(regret <= 0.1 for regret in regrets),
                }
            )
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description="rank recorded settings by the surrogate")
    options.add_argument("--seeds", type=int, default=30)
    rows = table(options.parse_args().seeds)
    (RESULTS / "forecast.json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        correlation = f"{row['rank_correlation_median']:.2f} ({row['rank_correlation_lowest']:.2f})"
        regret = f"{100 * row['regret_median']:.1f} % ({100 * row['regret_highest']:.1f} %)"
        within = f"{row['within_10_percent']} of {row['seeds']}"
        print(f"| `{row['space']}` | {row['known_share']:.0%} | {correlation} | {regret} | {within} |")


if __name__ == "__main__":
    main()
