"""How reliable GPU times are: `python -m lab.gpu.fidelity REPEAT.jsonl EAGER.jsonl REPEAT-ANOTHER-DAY.jsonl`.

Prints a page. Reads what `lab.bench.proof repeat` and `eager` have written: the same kernel judged again and again,
its event times beside those of Nsight Compute, and torch eager submitted as a kernel. Does NOT judge anything.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TIMES = ("kernel_us", "eager_us", "compile_us")
HEAD = """# Fidelity of times on an H200

Made by `python -m lab.gpu.fidelity` from the raw reports in [h200](h200).
"""
AGAIN = """
## The same kernel, judged again

Every judging in processes of its own; the score is over the stronger of eager and torch.compile, all configurations.
The last four columns are the largest over the smallest of the scores and of geometric means of times over
configurations.
Of the first four tasks the last judging was made a day after the others on a fresh machine.

| task | shortest configuration, µs | longest, µs | scores | score | kernel | eager | torch.compile |
|---|---|---|---|---|---|---|---|"""
ANOTHER_DAY = """
Below 10 µs, four times and once more on a fresh machine, where the kernels of torch.compile were tuned anew and differ;
a site prepares them once per task and keeps them.

| task | shortest configuration, µs | longest, µs | scores | score | kernel | eager | torch.compile |
|---|---|---|---|---|---|---|---|"""
PROFILED = """
## Events against Nsight Compute

Event: the median of what the judging credits, cold cache. Nsight Compute: the sum over the kernels of one call, with a
cold cache as well; it leaves out the gaps between launches and what begins and ends the events, 1 to 2 µs.

| task | configuration | kernels | event, µs | Nsight Compute, µs | event over Nsight Compute |
|---|---|---|---|---|---|"""
EAGER = """
## torch eager as a submission

Over eager the score should be 1. The last report of each task counts.

| task | over eager | furthest configuration |
|---|---|---|"""


def main() -> int:
    repeated, eager, another_day = (read(Path(name)) for name in sys.argv[1:4])
    print(HEAD + AGAIN)
    print("\n".join(again(repeated)))
    print(ANOTHER_DAY)
    print("\n".join(again(another_day)))
    print(PROFILED)
    print("\n".join([*profiled(another_day), *profiled(repeated)]))
    print(EAGER)
    print("\n".join(eager_rows(eager)))
    return 0


def read(path: Path) -> dict[str, list[Mapping[str, Any]]]:
    """The accepted reports of each task in the order of judging."""
    found = defaultdict(list)
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["verdict"] == "PASS":
            found[record["task"]].append(record)
    return dict(found)


def again(repeated: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for task, records in repeated.items():
        scores = [record["score"]["speedup"] for record in records]
        times = [item["kernel_us"] for item in records[0]["configs"] if item["kernel_us"] is not None]
        shown = ", ".join(f"{score:.3f}" for score in scores)
        spreads = [spread(scores)] + [spread(mean_us(record, name) for record in records) for name in TIMES]
        cells = " | ".join(f"{value:.3f}" for value in spreads)
        yield f"| {task} | {min(times):.1f} | {max(times):.1f} | {shown} | {cells} |"


def spread(values: Iterable[float]) -> float:
    """The largest over the smallest."""
    found = list(values)
    return max(found) / min(found)


def mean_us(record: Mapping[str, Any], name: str) -> float:
    """The geometric mean over the configurations that were timed."""
    return statistics.geometric_mean(item[name] for item in record["configs"] if item[name] is not None)


def profiled(repeated: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for task, records in repeated.items():
        audit = next((record["audit"] for record in records if record.get("audit")), None)
        for call in audit["calls"] if audit else ():
            event, summed = call["claimed_us"], call["kernel_sum_us"]
            cells = (task, call["config"], call["kernel_count"], f"{event:.1f}", f"{summed:.1f}")
            yield f"| {' | '.join(map(str, cells))} | {event / summed:.2f} |"


def eager_rows(eager: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for task in sorted(eager):
        record = eager[task][-1]
        ratios = [item["eager_us"] / item["kernel_us"] for item in record["configs"] if item["kernel_us"]]
        yield f"| {task} | {record['score']['vs_eager']:.3f} | {furthest(ratios):.3f} |"


def furthest(ratios: Iterable[float]) -> float:
    """The ratio that lies furthest from 1, up or down."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


if __name__ == "__main__":
    sys.exit(main())
