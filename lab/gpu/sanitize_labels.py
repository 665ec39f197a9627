"""Asks Compute Sanitizer about kernels whose results are right: `python -m lab.gpu.sanitize_labels --found FILE`.

A race, an access out of bounds, a wrong barrier or a read of memory that nobody wrote can leave right results, and a
judge then calls the kernel right. Here each of them runs once on small and on odd sizes under every tool. The kernels
of one extension lie in namespaces, so a finding says by its function whose it is. Appends one line per specimen and
tool to FILE as it comes, and goes on where it stopped; `fold_labels.py` writes the findings into the labels. Not
covered: races between blocks, which racecheck does not look for, and masks of shuffles (`changed_conditions.py`). The
kernels in question are also compiled without optimisation for memcheck, since nvcc drops loads that nobody uses.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.emulator import EmulatorVerdict
from lab.bench.emulated_corpus import read_words
from lab.cuda_corpus.specimens import CudaSpecimen, planned, read_labels

from .label_together import built

ROOT = Path(__file__).parents[2]
TO_SANITIZE = ROOT / "lab/cuda_corpus/to_sanitize.txt"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
DEBUG_TOOL = "memcheck-debug"  # on what was compiled without optimisation
_TOGETHER = 8
_RUN_S = 240.0
_RERUNS = 4  # after calls that ended the context
_FINDING = re.compile(
    r"^========= (?:Error: |Warning: )?(Race reported|Invalid|Potential|Barrier error|Out-of-range|Misaligned"
    r"|Uninitialized|Divergent)(.*)$"
)
_PLACE = re.compile(r"specimen(\d+)::")
_SAID = re.compile(r"^(CALL|DONE|LOST) (\d+)(?: (.*))?$")


@dataclass(frozen=True)
class ToolWord:
    """What one tool said of one kernel, a line of the file. `finding` is empty if it ran to its end without one."""

    name: str
    sha256: str
    tool: str
    finding: str
    config: str = ""  # in which the finding was


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    told = {(word.sha256, word.tool) for word in read_found(options.found)}
    jobs = [job for job in tool_jobs(options) if job.left(told)][: options.groups]
    print(f"{len(jobs)} extensions of kernels with right results", flush=True)
    deadline = time.monotonic() + options.budget_s
    options.found.parent.mkdir(parents=True, exist_ok=True)
    lock = threading.Lock()
    with options.found.open("a") as file:

        def keep(words: Iterable[ToolWord]) -> None:
            with lock:
                for word in words:
                    if (word.sha256, word.tool) not in told:
                        file.write(json.dumps(asdict(word)) + "\n")
                        told.add((word.sha256, word.tool))
                file.flush()

        for line in sanitized(jobs, options, deadline, told, keep):
            print(line, flush=True)
    return 0


@dataclass(frozen=True)
class ToolJob:
    """Kernels that are compiled together, and the tools that look at them."""

    group: tuple[CudaSpecimen, ...]
    tools: tuple[str, ...] = TOOLS
    flags: tuple[str, ...] = ()

    def left(self, told: set[tuple[str, str]]) -> bool:
        """Whether a tool has yet to say something of one of them."""
        return any((item.sha256, tool) not in told for item in self.group for tool in self.tools)


def tool_jobs(options: argparse.Namespace) -> list[ToolJob]:
    """Kernels with right labels: those named or rejected by the emulator, then the rest, mutants before seeds."""
    right = {label.sha256: label for label in read_labels() if label.correct or label.before}
    first = set(options.names.read_text().split()) if options.names else set()
    for path in options.rejected:
        first |= {word["name"] for word in read_words(path) if word["verdict"] == EmulatorVerdict.WRONG}
    known = [item for item in planned() if item.sha256 in right]
    urgent = [item for item in known if item.name in first]
    rest = [item for item in known if item.name not in first and not item.seed.heavy]
    rest.sort(key=lambda item: (right[item.sha256].fault in ("seed", "equivalent"), item.seed.task))
    jobs = [ToolJob(group) for group in _together(urgent)]
    jobs += [ToolJob(group, (DEBUG_TOOL,), ("-G",)) for group in _together(urgent)]
    return jobs if options.only_first else [*jobs, *(ToolJob(group) for group in _together(rest))]


def _together(specimens: Sequence[CudaSpecimen]) -> list[tuple[CudaSpecimen, ...]]:
    return [tuple(specimens[at : at + _TOGETHER]) for at in range(0, len(specimens), _TOGETHER)]


def sanitized(
    jobs: Sequence[ToolJob],
    options: argparse.Namespace,
    deadline: float,
    told: set[tuple[str, str]],
    keep: Callable[[Iterable[ToolWord]], None],
) -> Iterator[str]:
    """A line to print for each run of a tool that ended. Nothing is begun after the deadline."""

    def build_one(job: ToolJob) -> Path | None:
        if time.monotonic() > deadline:
            return None
        found = built(job.group, options.data, flags=job.flags, deadline=deadline)
        if found.binary is None:
            print(f"an extension was not built: {found.problem or found.log[-300:]}", file=sys.stderr, flush=True)
        return found.binary

    def run_one(tool: str, library: Path, group: Sequence[CudaSpecimen]) -> str:
        if all((item.sha256, tool) in told for item in group):
            return f"{tool}: known already"
        started = time.monotonic()
        words = run_tool(tool, library, group, deadline)
        keep(words)
        complaints = [f"{word.name}: {word.finding} ({word.config})" for word in words if word.finding]
        return f"{time.monotonic() - started:6.1f} s  {tool}: {len(words)} of {len(group)}; {'; '.join(complaints)}"

    with ThreadPoolExecutor(options.jobs) as builders, ThreadPoolExecutor(options.lanes) as lanes:
        builds = {builders.submit(build_one, job): job for job in jobs}
        runs: list[Future[str]] = []
        for future in as_completed(builds):
            library, job = future.result(), builds[future]
            if library is not None:
                runs += [lanes.submit(run_one, tool, library, job.group) for tool in job.tools]
            while runs and runs[0].done():
                yield runs.pop(0).result()
        for run in as_completed(runs):
            yield run.result()


def run_tool(tool: str, library: Path, group: Sequence[CudaSpecimen], deadline: float) -> list[ToolWord]:
    """What `tool` says of each kernel of an extension. After one that ends the context the tool is started again."""
    words: dict[int, ToolWord] = {}
    left = list(range(len(group)))
    for _ in range(_RERUNS):
        limit_s = min(_RUN_S, deadline - time.monotonic())
        if limit_s <= 0 or not left:
            break
        output = _tool_output(tool, library, [f"{number}:{group[number].seed.task}" for number in left], limit_s)
        said = Said(output)
        for number, (finding, config) in said.words().items():
            words[number] = ToolWord(group[number].name, group[number].sha256, tool, finding, config)
        if said.lost is None:
            break
        left = [number for number in left if number > said.lost]
    return list(words.values())


def _tool_output(tool: str, library: Path, called: Sequence[str], limit_s: float) -> str:
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    command = [
        sanitizer,
        "--tool",
        tool.removesuffix("-debug"),
        "--print-limit",
        "2000",
        "--destroy-on-device-error",
        "kernel",
    ]
    if tool != "initcheck":  # which has to see whoever writes
        command += ["--kernel-name", "kernel_substring=specimen"]
    command += [sys.executable, "-m", "lab.gpu.sanitize_labels_child", str(library), *called]
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
    return output.read_text(errors="replace")


class Said:
    """What a tool and the process under it printed, one after the other."""

    def __init__(self, output: str) -> None:
        self._found: dict[int, tuple[str, str]] = {}
        self._done: set[int] = set()
        self.lost: int | None = None  # the kernel that ended the context
        self._config = self._headline = ""
        for line in output.splitlines():
            self._read(line)

    def words(self) -> dict[int, tuple[str, str]]:
        """By number of the kernel the first finding and its configuration; both empty where all calls went well."""
        return dict.fromkeys(self._done, ("", "")) | self._found

    def _read(self, line: str) -> None:
        if match := _SAID.match(line):
            word, number, rest = match[1], int(match[2]), match[3] or ""
            if word == "CALL":
                self._config = rest
            elif word == "LOST":
                self.lost = number
            elif not rest:
                self._done.add(number)
        elif match := _FINDING.match(line):
            self._headline = f"{match[1]}{match[2]}".strip()[:200]
        elif line.strip() == "=========":
            self._headline = ""
        if self._headline and (place := _PLACE.search(line)):
            self._found.setdefault(int(place[1]), (self._headline, self._config))
            self._headline = ""


def read_found(path: Path) -> list[ToolWord]:
    return [ToolWord(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="python -m lab.gpu.sanitize_labels", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--found", type=Path, default=Path("sanitized.jsonl"), help="append what was found here")
    parser.add_argument("--rejected", type=Path, nargs="*", default=[], help="first whom these words reject")
    parser.add_argument("--names", type=Path, help="first the kernels that this file names, one a line")
    parser.add_argument("--only-first", action="store_true", help="and nothing else")
    parser.add_argument("--jobs", type=int, default=cores, help="compilers at a time")
    parser.add_argument("--lanes", type=int, default=12, help="processes on the GPU at a time")
    parser.add_argument("--groups", type=int, help="at most so many extensions of eight kernels")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="end every run after so many seconds")
    parser.add_argument("--data", type=Path, default=Path("var") / "label_together", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
