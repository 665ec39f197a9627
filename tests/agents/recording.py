"""Files of recorded runs for tests: the log of a search in a world without compilers."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from . import factories

CODE = "0d7f6f4a-6a5b-4b0e-9a7c-6f1c8a0c2b11"
HEADER = {
    "format": "kbench-recorded-run", "version": 1, "name": "search", "code": CODE, "about": "For a test.",
    "task": "robust-kbench/mnist_linear_relu/forward", "task_sha256": None, "device": "cpu-avx9",
    "device_title": "CPU with AVX-9", "device_class": "cpu", "machine": {"cpu": "A processor"}, "ruleset": "rk-1",
    "ruleset_sha256": None, "judgings": "full", "method_title": "Search of a test",
}  # fmt: skip

Change = Callable[[list[dict[str, Any]]], object]


@cache
def _searched(confirmations: int) -> str:
    events, log = factories.searched(confirmations=confirmations)
    named = {event.payload["source_sha256"] for event in events if event.type == "proposal.received"}
    sources = [{"source_sha256": sha256, "source": log.get_source(sha256)} for sha256 in sorted(named)]
    return json.dumps([sources, [vars(event) for event in events]])


def _timed(events: list[dict[str, Any]]) -> None:
    """The times and intervals that the judge of the tests' world leaves out."""
    for event in events:
        for config in event["payload"].get("result", {}).get("configs", ()):
            speedup = config["speedup"]
            config |= {"correct": True, "ci95": [0.9 * speedup, 1.1 * speedup]}
            config |= {"kernel_us": 100 / speedup, "eager_us": 100.0, "compile_us": None}


def run_file(
    path: Path, header: dict[str, Any] | None = None, change: Change | None = None, *, confirmations: int = 0
) -> Path:
    """`change` may do anything to the events."""
    sources, events = json.loads(_searched(confirmations))
    _timed(events)
    if change is not None:
        change(events)
    lines = [{**HEADER, "sources": len(sources), **(header or {})}, *sources, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
