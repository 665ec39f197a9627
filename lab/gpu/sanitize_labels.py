"""Asks Compute Sanitizer about kernels whose results are right: `python -m lab.gpu.sanitize_labels --found FILE`.

A race, an access out of bounds or a wrong barrier can leave right results, and a judge then calls the kernel right.
Here each of them runs once on the two smallest configurations and on the hidden ones, whose sizes are odd, under
memcheck, racecheck and synccheck. The kernels of one extension lie in namespaces, so a finding says by its function
whose it is. Appends one line per specimen to FILE: what each tool said, or why it said nothing. With `--merge FILE` it
writes the findings into the labels instead. Not covered: reads of uninitialised memory, and races between blocks,
which racecheck does not look for.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from benchmarks.emulator import EmulatorVerdict
from benchmarks.harness import Verdict
from lab.bench.emulated_corpus import read_words
from lab.cuda_corpus.specimens import LABELS, CudaSpecimen, label_line, planned, read_labels

from .label_together import built

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck")
_TOGETHER = 8
_RUN_S = 240.0
_FINDING = re.compile(
    r"^========= (?:Error: |Warning: )?(Race reported|Invalid|Barrier error|Out-of-range|Misaligned)(.*)$"
)
_PLACE = re.compile(r"specimen(\d+)::")
_DONE = re.compile(r"^DONE (\d+)(.*)$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if options.merge:
        return merge(options.merge)
    right = {label.sha256: label for label in read_labels() if label.correct}
    todo = [item for item in planned() if item.sha256 in right and not item.seed.heavy]
    if options.names:
        named = options.names.read_text().split()
        todo = [item for item in planned() if item.sha256 in right and item.name in named]
    if options.rejected:
        rejected = {word["sha256"] for word in read_words(options.rejected) if word["verdict"] == EmulatorVerdict.WRONG}
        todo = [item for item in todo if item.sha256 in rejected]
    todo.sort(key=lambda item: (right[item.sha256].fault in ("seed", "equivalent"), item.seed.task))
    groups = [todo[at : at + _TOGETHER] for at in range(0, len(todo), _TOGETHER)][: options.groups]
    print(f"{len(todo)} kernels with right results, {len(groups)} extensions", flush=True)
    deadline = time.monotonic() + options.budget_s
    options.found.parent.mkdir(parents=True, exist_ok=True)
    with options.found.open("a") as file:
        for name, words in sanitized(groups, options, deadline):
            file.write(json.dumps({"name": name, **words}) + "\n")
            file.flush()
            print(f"{name}: {words}", flush=True)
    return 0


def sanitized(
    groups: Sequence[Sequence[CudaSpecimen]], options: argparse.Namespace, deadline: float
) -> Iterator[tuple[str, dict[str, str]]]:
    """Per specimen what each tool found: empty for nothing, absent where it did not come to an end."""
    with ThreadPoolExecutor(options.jobs) as builders, ThreadPoolExecutor(options.lanes) as lanes:
        builds = {builders.submit(built, group, options.data): group for group in groups}
        runs = {}
        for future in as_completed(builds):
            library = future.result().binary
            if library is None:
                print(f"an extension was not built: {future.result().problem[:300]}", file=sys.stderr)
                continue
            for tool in TOOLS:
                runs[lanes.submit(run_tool, tool, library, builds[future], deadline)] = (tool, builds[future])
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for run in as_completed(runs):
            tool, group = runs[run]
            for number, words in run.result().items():
                found[group[number].name][tool] = words
    yield from found.items()


def run_tool(tool: str, library: Path, group: Sequence[CudaSpecimen], deadline: float) -> dict[int, str]:
    limit_s = min(_RUN_S, deadline - time.monotonic())
    if limit_s <= 0:
        return {}
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    kept = [
        "--kernel-name",
        "kernel_substring=specimen",
        "--print-limit",
        "2000",
        "--destroy-on-device-error",
        "kernel",
    ]
    child = [sys.executable, "-m", "lab.gpu.sanitize_labels_child", str(library), *(item.seed.task for item in group)]
    command = [sanitizer, "--tool", tool, *kept, *child]
    output = library.parent / f"{tool}.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},  # or memcheck takes a neighbour for one tensor
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return said(output.read_text(errors="replace"))


def said(output: str) -> dict[int, str]:
    """The first finding about each specimen that was called; a specimen without one has an empty text."""
    found = {int(match[1]): "" for match in _DONE.finditer(output)}
    for finding, number in findings(output.splitlines()):
        found[number] = found.get(number) or finding
    return found


def findings(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each finding with the number of the specimen whose function stands in it or in the lines that explain it."""
    headline = ""
    for line in lines:
        if match := _FINDING.match(line):
            headline = f"{match[1]}{match[2]}".strip()
        elif line.strip() == "=========":
            headline = ""
        if headline and (place := _PLACE.search(line)):
            yield headline[:200], int(place[1])
            headline = ""


def merge(found: Path) -> int:
    """A kernel that a tool complains of is wrong, whatever its results are."""
    complaints = {
        line["name"]: f"{tool}: {line[tool]}"
        for line in map(json.loads, found.read_text().splitlines())
        for tool in TOOLS
        if line.get(tool)
    }
    labels = [
        replace(
            label,
            correct=False,
            verdict=str(Verdict.RUNTIME_ERROR),
            reason=complaints[label.name],
            labelled_by="sanitizer",
        )
        if label.correct and label.name in complaints
        else label
        for label in read_labels()
    ]
    LABELS.write_text("".join(map(label_line, labels)))
    print(f"{sum(label.labelled_by == 'sanitizer' for label in labels)} labels are the sanitizer's")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="python -m lab.gpu.sanitize_labels", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--found", type=Path, default=Path("sanitized.jsonl"), help="append what was found here")
    parser.add_argument("--merge", type=Path, help="write these findings into the labels")
    parser.add_argument("--rejected", type=Path, help="only those that the emulator rejects by this file of its words")
    parser.add_argument("--names", type=Path, help="only the kernels that this file names, one a line")
    parser.add_argument("--jobs", type=int, default=cores, help="compilers at a time")
    parser.add_argument("--lanes", type=int, default=12, help="processes on the GPU at a time")
    parser.add_argument("--groups", type=int, help="at most so many extensions of eight kernels")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="end every run after so many seconds")
    parser.add_argument("--data", type=Path, default=Path("var") / "label_together", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
