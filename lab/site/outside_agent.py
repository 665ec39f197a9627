"""An agent outside kbench: it posts candidates through the API and reads their results.

    KBENCH_URL=... KBENCH_TOKEN=... python -m lab.site.outside_agent layernorm/forward template.cpp 1 2 4 8

replaces `@VALUE@` in the template by each value, skips a value whose kernel is incorrect, and prints the best.
`search` is all that an agent needs; docs/user-guide.md shows it. Does NOT search cleverly.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench_site.cli.client import Client

PLACE = "@VALUE@"
Feedback = dict[str, Any]


def search(client: Client, task: str, proposals: Iterator[str]) -> Feedback | None:
    """`proposals` is a generator: it is sent the feedback on each source that it has yielded."""
    best, source = None, next(proposals, None)
    while source is not None:
        sent = client.submit({"task": task, "language": "cpp", "source": source, "judge_again": True})
        found = sent["evaluations"][0]
        while not found["finished"]:
            found = client.evaluation(found["id"], wait_s=30)
        if found["score"] and (best is None or found["score"]["speedup"] > best["score"]["speedup"]):
            best = found
        source = next_of(proposals, found)
    return best


def next_of(proposals: Iterator[str], found: Feedback) -> str | None:
    """The next source in view of the feedback; None when there is none."""
    try:
        return proposals.send(found)  # type: ignore[attr-defined]
    except StopIteration:
        return None


def one_after_another(template: str, values: list[str]) -> Iterator[str]:
    for value in values:
        found: Feedback = yield template.replace(PLACE, value)
        score = found["score"]
        told = (
            f"{score['speedup']:.2f}× ({score['ci95'][0]:.2f} to {score['ci95'][1]:.2f})" if score else found["reason"]
        )
        print(f"{value}: {found['verdict'] or found['state']} {told}", file=sys.stderr)


def main(task: str, template: str, *values: str) -> int:
    best = search(Client(), task, one_after_another(Path(template).read_text(), list(values)))
    print(json.dumps({"task": task, "best": best and {"evaluation": best["id"], "score": best["score"]}}))
    return 0 if best else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
