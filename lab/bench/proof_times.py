"""How long judgings take and how well they agree: `python -m lab.bench.proof_times RAW.jsonl ...`.

Reads the raw reports of `proof.py` and prints two tables: the seconds of the first accepted judging of each kernel by
stage, and the scores of kernels that were judged more than once. Not covered: scores and times (`proof_tables.py`).
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from lab.gpu.fidelity import TIMES, mean_us, spread

STAGES = ("load", "verify", "time")
SHORT_US = 500.0  # a call up to here is short
SECONDS = """| kernel | timing | configurations | longest, µs | load | verify | time | bursts and energy | seconds |
|---|---|---|---|---|---|---|---|---|"""
AGAIN = """| kernel | judged | longest, µs | shortest, µs | scores | largest over least | kernel | eager | compile |
|---|---|---|---|---|---|---|---|---|"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", type=Path, nargs="+")
    records = accepted(parser.parse_args().reports)
    print(SECONDS)
    print("\n".join(seconds_row(found[0]) for found in records.values()))
    print("\n" + summary([found[0] for found in records.values()]))
    if again := [found for found in records.values() if len(found) > 1]:
        print("\n" + AGAIN)
        print("\n".join(map(again_row, again)))
    return 0


def accepted(files: Iterable[Path]) -> dict[str, list[Mapping[str, Any]]]:
    """The reports with a score by name, in the order of judging."""
    found = defaultdict(list)
    for file in files:
        for text in file.read_text().splitlines():
            record = json.loads(text)
            if record.get("score"):
                found[record["name"]].append(record)
    return dict(sorted(found.items()))


def judging_s(record: Mapping[str, Any]) -> float:
    """Without what is compiled once per source and per task."""
    spent = {stage["name"]: float(stage["seconds"]) for stage in record["stages"]}
    return float(record["seconds"]) - sum(spent.get(name, 0.0) for name in ("compile", "prepare", "audit"))


def times_us(record: Mapping[str, Any]) -> list[float]:
    return [item["kernel_us"] for item in record["configs"] if item["kernel_us"] is not None]


def seconds_row(record: Mapping[str, Any]) -> str:
    spent = {stage["name"]: float(stage["seconds"]) for stage in record["stages"]}
    stages, whole = [spent.get(name, 0.0) for name in STAGES], judging_s(record)
    figures = (f"{value:.1f}" for value in (max(times_us(record)), *stages, whole - sum(stages), whole))
    return f"| {record['name']} | {record['score']['timing_trust']} | {len(times_us(record))} | {' | '.join(figures)} |"


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """One line of JSON: how many are replayed, and the seconds of kernels with short calls."""
    replayed = sum(record["score"]["timing_trust"] == "replayed" for record in records)
    short = list(short_s(records))
    told = {"longest": round(max(short), 1), "median": round(median(short), 1)} if short else {}
    return json.dumps({"accepted": len(records), "replayed": replayed, "cuda_up_to_500_us": len(short), **told})


def short_s(records: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    for record in records:
        if record["language"] == "cuda" and max(times_us(record)) <= SHORT_US:
            yield judging_s(record)


def again_row(records: Sequence[Mapping[str, Any]]) -> str:
    scores = [record["score"]["speedup"] for record in records]
    compared = [name for name in TIMES if all(item[name] for item in records[0]["configs"] if item["kernel_us"])]
    spreads = [spread(mean_us(record, name) for record in records) if name in compared else None for name in TIMES]
    cells = (f"{value:.3f}" if value else "–" for value in (spread(scores), *spreads))
    times = times_us(records[0])
    shown = ", ".join(f"{score:.3f}" for score in scores)
    name, count = records[0]["name"], len(records)
    return f"| {name} | {count} | {max(times):.1f} | {min(times):.1f} | {shown} | {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
