"""Examines all problems of a suite on one device: `python -m lab.bench.examined FOLDER --record FILE`.

Examines the problems below a folder, of any format, as an import does, and appends one line of JSON for each to FILE.
What stands there is not examined again, so the command may be stopped and repeated. `--tables FILE` prints what FILE
holds as tables in Markdown. With `--shrink N` each whole number above N that a file of KernelBench gives as a size is
halved until it is at most N, so that what is too large for a processor can be tried, too. `--device cuda:0` examines on
a GPU; several processes with their own FILE and `--lane 0/3`, `--lane 1/3`, `--lane 2/3` share it in turns and start
beside each other. Judges nothing.
"""

import argparse
import ast
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.boards.labels import REMARKS, is_ranked
from benchmarks.harness import GPU_TASK, TOO_LARGE_FOR_A_GPU, Examined, Paths, TaskSpec
from benchmarks.importers import READERS, SUITES, Found
from benchmarks.offline import examined
from kbench_site.env import read_environment

_CPU, _GPU, _LARGE, _LONG, _REFUSED = (
    "processor",
    "GPU",
    "not examined: too large for the device",
    "not examined: takes too long on the device",
    "refused",
)


@dataclass(frozen=True)
class Fate:
    """What became of one problem. `why` is the reason of a refusal, `labels` are the filters that it trips."""

    folder: str
    format: str
    name: str
    file: str
    judged_on: str
    why: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    precision: str
    configs: int
    seconds: float

    @property
    def is_examined(self) -> bool:
        return self.judged_on in (_CPU, _GPU)

    @property
    def filters(self) -> list[str]:
        return [label for label in self.labels if label not in REMARKS]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each of the two steps of a problem")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--lane", default="0/1", help="I/N: every Nth problem, from the Ith on")
    parser.add_argument("--only", default="", help="problems whose names begin with this, such as level1_")
    parser.add_argument("--count", type=int, default=1 << 30, help="stop after so many problems")
    parser.add_argument("--shrink", type=int, default=0, help="the largest size that files of KernelBench keep")
    parser.add_argument("--record", type=Path, help="file of JSON lines to append to")
    parser.add_argument("--tables", type=Path, help="file of JSON lines to print")
    chosen = parser.parse_args()
    if chosen.tables:
        print(tables([_fate(line) for line in chosen.tables.read_text().splitlines()]))
        return 0
    lines = chosen.record.read_text().splitlines() if chosen.record.is_file() else []
    known = {(item.folder, item.format, item.file) for item in map(_fate, lines)}
    lane, lanes = map(int, chosen.lane.split("/"))
    wanted = [
        (name, found)
        for name, read in READERS.items()
        for found in read(chosen.folder, SUITES[name])
        if found.name.startswith(chosen.only)
    ]
    left = [(name, found) for name, found in wanted[lane::lanes] if (chosen.folder.name, name, found.file) not in known]
    paths = Paths(read_environment()["KBENCH_DATA_DIR"])
    for name, found in left[: chosen.count]:
        taken = shrunk(found, chosen.shrink) if chosen.shrink and name == "kernelbench" else found
        fate = fate_of(chosen.folder.name, name, taken, paths, timeout_s=chosen.timeout, device=chosen.device)
        with chosen.record.open("a") as file:
            file.write(json.dumps(asdict(fate)) + "\n")
        print(f"{found.name}: {fate.judged_on} {fate.why} {' '.join(fate.labels)}", flush=True)
    return 0 if len(left) > chosen.count else 3


def shrunk(found: Found, most: int) -> Found:
    """The same problem with smaller sizes, which no result of an import is: it tells what the operations need."""
    if found.task is None:
        return found
    tree = ast.parse(found.task.source)
    for item in tree.body:
        if isinstance(item, ast.Assign) or (isinstance(item, ast.FunctionDef) and item.name.startswith("get_")):
            for part in ast.walk(item):
                if isinstance(part, ast.Constant) and type(part.value) is int:
                    while part.value > most:
                        part.value //= 2
    return replace(found, task=replace(found.task, source=ast.unparse(tree)))


def fate_of(folder: str, form: str, found: Found, paths: Paths, *, timeout_s: float, device: str) -> Fate:
    started_s = time.monotonic()
    outcome = examined(found, paths, device=device, timeout_s=timeout_s)
    return Fate(
        folder=folder,
        format=form,
        name=found.name,
        file=found.file,
        judged_on=judged_on(outcome),
        why=outcome.problem,
        labels=outcome.labels,
        notes=outcome.notes,
        precision=outcome.task.precision.name if outcome.task else "",
        configs=_count(outcome.task),
        seconds=round(outcome.seconds or time.monotonic() - started_s, 1),
    )


def judged_on(outcome: Examined) -> str:
    if outcome.task is not None:
        return _CPU if "cpu" in outcome.task.configs else _GPU
    if outcome.problem.startswith((GPU_TASK, TOO_LARGE_FOR_A_GPU)):
        return _LARGE
    return _LONG if "took more than" in outcome.problem else _REFUSED


def _count(task: TaskSpec | None) -> int:
    return max(map(len, task.configs.values())) if task else 0


def tables(fates: Sequence[Fate]) -> str:
    """A table of counts, and one of all problems for each folder."""
    by_group: dict[str, list[Fate]] = defaultdict(list)
    for item in fates:
        level = item.name.partition("_")[0]
        by_group[f"{item.folder}, {level}" if level.startswith("level") else item.folder].append(item)
    rows = [_counted(group, items) for group, items in sorted(by_group.items())]
    head = "| suite | problems | " + " | ".join((_CPU, _GPU, _LARGE, _LONG, _REFUSED, "of the examined: ranked")) + " |"
    parts = ["\n".join([head, "|---" * head.count(" | ") + "|---|", *rows])]
    for group, items in sorted(by_group.items()):
        body = [_row(item) for item in items]
        columns = "| problem | precision | configurations | judged on | filters | remarks |\n|---|---|---|---|---|---|"
        parts.append("\n".join([f"## {group}", "", columns, *body]))
    return "\n\n".join(parts) + "\n"


def _counted(group: str, items: Sequence[Fate]) -> str:
    counts = Counter(item.judged_on for item in items)
    ranked = sum(item.is_examined and is_ranked(item.labels) for item in items)
    cells = [str(counts[kind]) for kind in (_CPU, _GPU, _LARGE, _LONG, _REFUSED)]
    return f"| {group} | {len(items)} | {' | '.join(cells)} | {ranked} |"


def _row(item: Fate) -> str:
    remark = (item.why or "; ".join(item.notes)).replace("|", " ").replace("\n", " ")[:300]
    filters = ", ".join(f"`{label}`" for label in item.filters) or ("none" if item.is_examined else "–")
    cells = (f"`{item.name}`", item.precision or "–", str(item.configs or "–"), item.judged_on, filters, remark)
    return f"| {' | '.join(cells)} |"


def _fate(line: str) -> Fate:
    data: dict[str, Any] = json.loads(line)
    return Fate(**{**data, "labels": tuple(data["labels"]), "notes": tuple(data["notes"])})


if __name__ == "__main__":
    sys.exit(main())
