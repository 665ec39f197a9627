"""Examines all problems of a suite on this processor: `python -m lab.bench.examined FOLDER [--timeout 20]`.

Examines every problem below a folder (KernelBench, robust-kbench) as an import does and prints a table in Markdown:
read or refused, how long it took, and why. Judges nothing. What was examined before is taken from the data folder.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.harness import GPU_TASK, Examined, Paths
from benchmarks.importers import problems_in
from benchmarks.offline import examined
from kbench_site.env import read_environment


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for each of the two steps of a problem")
    parser.add_argument("--only", default="", help="problems whose names begin with this, such as level1_")
    chosen = parser.parse_args()
    paths, counts = Paths(read_environment()["KBENCH_DATA_DIR"]), Counter[str]()
    print("| problem | here | s | remarks |\n|---|---|---|---|")
    for found in problems_in(chosen.folder):
        if not found.name.startswith(chosen.only):
            continue
        started_s = time.monotonic()
        outcome = examined(found, paths, timeout_s=chosen.timeout)
        counts[kind(outcome)] += 1
        said = outcome.problem or ", ".join(label for label in outcome.labels if label != "one-shape")
        seconds = max(outcome.seconds, time.monotonic() - started_s)
        print(f"| `{found.name}` | {kind(outcome)} | {seconds:.0f} | {said.replace('|', ' ')} |", flush=True)
    print("\n" + ", ".join(f"{count} {name}" for name, count in counts.most_common()))
    return 0


def kind(outcome: Examined) -> str:
    if outcome.task is not None:
        return "judged on a processor" if "cpu" in outcome.task.configs else "read, judged on a GPU"
    if outcome.problem.startswith(GPU_TASK):
        return "too large: a GPU task"
    return "takes too long" if "took more than" in outcome.problem else "refused"


if __name__ == "__main__":
    sys.exit(main())
