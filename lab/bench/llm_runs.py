"""A thousand runs against the hostile Messages server: caps, reservations and dollars, added up independently.

    python -m lab.bench.llm_runs [COUNT] [--out docs/results/llm_runs.json]

The server, the runs and the calculator are those of the tests; the suite does a hundred of them.
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from tests.evolve.llm_runs import expected_usd_of, problems, simulate


async def measure(count: int) -> dict[str, Any]:
    started_s = time.monotonic()
    events, ends, refusals, attempts = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    wrong: dict[int, list[str]] = {}
    usd, requests = 0.0, 0
    for seed in range(count):
        run = await simulate(seed)
        if found := problems(run):
            wrong[seed] = found
        requests += len(run.served)
        usd += sum(map(expected_usd_of, run.served))
        for event in run.events:
            events[event.type] += 1
            if event.type == "proposal.rejected":
                refusals[event.payload["reason"]] += 1
            if event.type == "llm.attempt":
                attempts[str(event.payload["status"])] += 1
        ends[str(run.events[-1].payload.get("reason", "paused"))] += 1
    return {
        "runs": count,
        "requests_served": requests,
        "attempts_by_status": dict(sorted(attempts.items())),
        "runs_with_a_problem": wrong,
        "usd_by_the_calculator": round(usd, 6),
        "tolerance_usd_per_run": 1e-6,
        "ends": dict(ends.most_common()),
        "refusals": dict(refusals.most_common()),
        "events": dict(events.most_common()),
        "wall_s": round(time.monotonic() - started_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result = json.dumps(asyncio.run(measure(arguments.count)), indent=1)
    if arguments.out:
        arguments.out.write_text(result + "\n")
    print(result)


if __name__ == "__main__":
    main()
