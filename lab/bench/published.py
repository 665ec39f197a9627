"""Judges a folder of published kernels and prints a table: `python -m lab.bench.published FOLDER [--paper]`.

The folder has OP/DIRECTION/kernel.cu (or kernel.cpp, kernel.py) for tasks of kbench. The files go unchanged through the
same judge as any submission, hidden configurations included. Raw reports go to `--reports` as JSON lines. `--paper`
adds what arXiv 2509.14279 reports for its kernels. Not covered: fetching kernels, and their licences.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import LANGUAGE_OF_SUFFIX, Paths, TaskError, default_suites, find_task, keep_ready

from .proof import Work, judged, print_record, start_builds
from .proof_tables import PAPER, ratio

_HEAD = (
    "| task | verdict | score | over eager | over torch.compile | slowest configuration | timing | compile, judge (s) |"
)
_REASON_CHARACTERS = 160


def main() -> int:
    options = _options()
    works, unknown = published(options.folder)
    for path in unknown:
        print(f"no task of kbench is called as {path} is: skipped", file=sys.stderr)
    if not works:
        print("there is no OP/DIRECTION/kernel.* of a known task in this folder", file=sys.stderr)
        return 2
    paths, records = Paths(options.data), []
    keep_ready()
    builds = start_builds(works, paths, options)
    for work in works:
        built = builds[work].result()
        record = {**judged(work, paths, options), "build": built}
        records.append(record)
        print_record(record)
        with options.reports.open("a") as file:
            file.write(json.dumps({"what": "published", **record}) + "\n")
    print("\n".join(table(records, with_paper=options.paper)))
    return 0


def published(folder: Path) -> tuple[list[Work], list[Path]]:
    """The kernels in `folder` whose tasks exist, and the paths of those whose tasks do not."""
    works, unknown = [], []
    for path in sorted(folder.glob("*/*/kernel.*")):
        name = f"{path.parts[-3]}/{path.parts[-2]}"
        try:
            find_task(default_suites(), name)
            works.append(Work(name, path, LANGUAGE_OF_SUFFIX[path.suffix]))
        except (TaskError, KeyError):  # no such task, or no language has this suffix
            unknown.append(path.relative_to(folder))
    return works, unknown


def table(records: list[Mapping[str, Any]], *, with_paper: bool) -> Iterator[str]:
    """Markdown, one row per kernel; who got no score has the reason in its place."""
    yield _HEAD + (" reported, over eager | over torch.compile |" if with_paper else "")
    yield "|" + "---|" * (10 if with_paper else 8)
    for record in records:
        reported = PAPER.get(record["task"], (None, None)) if with_paper else ()
        cells = [record["task"], record["verdict"], *_figures(record), *(ratio(value) for value in reported)]
        yield f"| {' | '.join(cells)} |"


def _figures(record: Mapping[str, Any]) -> tuple[str, ...]:
    stages = {stage["name"]: stage["seconds"] for stage in record.get("stages", ())}
    built_s = record.get("environment", {}).get("build_seconds", stages.get("compile", 0.0))
    judged_s = sum(seconds for name, seconds in stages.items() if name not in ("static", "compile"))
    seconds = f"{built_s:.0f}, {judged_s:.0f}"
    score = record.get("score")
    if score is None:
        reason = " ".join(record["reason"].split()).replace("|", "/")[:_REASON_CHARACTERS]
        return (reason, "–", "–", "–", "–", seconds)
    low, high = score["ci95"]
    slowest = min(item["speedup"] for item in record["configs"] if item["speedup"] is not None)
    whole = f"{score['speedup']:.2f}× ({low:.2f} to {high:.2f})"
    return (
        whole,
        ratio(score["vs_eager"]),
        ratio(score["vs_compile"]),
        ratio(slowest),
        score["timing_trust"],
        seconds,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--paper", action="store_true", help="the kernels are those of arXiv 2509.14279")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var"))
    parser.add_argument("--reports", type=Path, default=Path("published.jsonl"))
    parser.add_argument("--jobs", type=int, default=6, help="compilations at a time")
    parser.set_defaults(what="published")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
