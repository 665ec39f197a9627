"""Searches at once on a fresh site: `python -m lab.bench.first_runs [--minutes 5] [--times 2] [--tasks ...]`.

From a bare data folder: the whole site with the real judge and its examples, a run on each task at once, and what
each had found when; as many times, each on a site of its own. A run has `improved` when it has a kernel that is faster
than the stronger baseline: it begins with its template's best guess. Prints tables; everything goes to
docs/results/first_runs.json. Numbers from a busy machine are worth little: the load average stands beside them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.stack import ROOT, Stack

TASKS = ("mnist_linear_relu/forward", "mnist_cross_entropy/forward", "mnist_pool/forward")
OUT = ROOT / "docs" / "results" / "first_runs.json"
FOUND = """
    select c.judged_at_s - ?, c.score from agents_candidate c join agents_run r on r.id = c.run_id
    where r.code = ? and c.score is not null order by c.judged_at_s
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="OP/DIRECTION")
    chosen = parser.parse_args()
    measured = []
    for _ in range(chosen.times):
        measured.append(measurement(60 * chosen.minutes, chosen.tasks))
        OUT.write_text(json.dumps(measured, indent=1) + "\n")
        print("\n".join(table(measured[-1]["runs"])), flush=True)
    return 0 if all(run["improved"] for item in measured for run in item["runs"]) else 1


def measurement(seconds: float, tasks: Sequence[str]) -> dict[str, Any]:
    """What three runs have found so long after their start."""
    with tempfile.TemporaryDirectory(prefix="kb-runs-") as folder:
        stack = Stack(Path(folder), settings="kbench_site.settings")
        stack.environment["KBENCH_EXAMPLES"] = "1"
        try:
            runs = watched(stack.up(), seconds, tasks)
            return {"seconds": seconds, "machine": machine(), "runs": runs}
        finally:
            stack.down()


def watched(stack: Stack, seconds: float, tasks: Sequence[str]) -> list[dict[str, Any]]:
    token = said(stack, "create_token", "runner", "--create")
    started_s = time.time()
    codes = {task: started(stack, token, task, seconds) for task in tasks}
    time.sleep(max(0.0, started_s + seconds - time.time()))
    return [story(task, stack.rows(FOUND, started_s, code)) for task, code in codes.items()]


def said(stack: Stack, *command: str) -> str:
    argv = [sys.executable, "manage.py", *command]
    done = subprocess.run(argv, cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def started(stack: Stack, token: str, task: str, seconds: float) -> str:
    """The code of a new run, as the database writes it."""
    body = json.dumps({"task": task, "minutes": seconds / 60 + 1, "seed": 1}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/api/v1/runs", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own http address
        return str(json.load(answer)["id"]).replace("-", "")


def story(task: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    """When there was a first correct kernel, how good it was, every better one after it, and the first that gains."""
    better: list[tuple[float, float]] = []
    for at_s, score in found:
        if not better or score > better[-1][1]:
            better.append((round(at_s, 1), round(score, 3)))
    gains = next((at_s for at_s, score in better if score > 1), None)
    return {
        "task": task,
        "judged": len(found),
        "improvements": better,
        "faster_after_s": gains,
        "improved": gains is not None,
    }


def table(runs: list[dict[str, Any]]) -> list[str]:
    lines = ["| task | correct kernels judged | the first | the best |", "|---|---|---|---|"]
    for run in runs:
        ends = [f"{score:.2f}× after {at_s:.0f} s" for at_s, score in run["improvements"]] or ["none", "none"]
        lines.append(f"| {run['task']} | {run['judged']} | {ends[0]} | {ends[-1]} |")
    return lines


def machine() -> dict[str, Any]:
    return {"cores": len(os.sched_getaffinity(0)), "load_average": [round(value, 1) for value in os.getloadavg()]}


if __name__ == "__main__":
    sys.exit(main())
