"""Replayed times beside Nsight Compute's and those of CUDA events: `python -m lab.gpu.beside_profiler REPORTS.jsonl`.

REPORTS are raw reports of `lab.bench.proof kernels`. One call on the headline configuration of every CUDA kernel that
was accepted there, with a cold cache, several times: under Nsight Compute, whose times of the kernels of a call are
added up, and between two CUDA events while the launches queue up behind a gate, as many benchmark scripts do it. All
kernels share one process, since starting the tool takes longer than a call; one that fails there gets a process of
its own. Prints a table in microseconds; one JSON line for each kernel goes to --out. About 40 s for 19 kernels. The
kernels are ours: nothing is sandboxed here. Not covered: judging (`lab/bench/proof.py`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import (
    HarnessError,
    Paths,
    Source,
    compile_source,
    default_rules,
    default_suites,
    find_task,
)
from benchmarks.harness.gpu.profiler import MARK
from benchmarks.harness.measuring.memory import describe, overlay
from benchmarks.harness.profiles.ncu_tables import Launch, launches
from lab.bench.proof_tables import latest

ROOT = Path(__file__).parents[2]
CHILD = "lab.gpu.beside_profiler_child"
DURATION = "gpu__time_duration.sum"
REPEATS_PROFILED, REPEATS_BY_EVENTS = 5, 31
HEAD = """| kernel | configuration | launches | replayed, µs | Nsight Compute, µs | events, µs | replayed over both |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class JudgedKernel:
    """A kernel that was accepted, and what the judge says of its headline configuration."""

    name: str
    task: str
    key: str
    replayed_us: float


def main() -> int:
    options = read_options()
    deadline_s = time.monotonic() + options.budget_s
    kernels = list(accepted(latest(options.reports)))
    plans = [plan_of(kernel, Paths(options.data), options.device) for kernel in kernels]
    by_events = asked(plans, deadline_s, options.device, profiled=False)
    profiled = asked(plans, deadline_s, options.device, profiled=True)
    rows = [
        {**vars(kernel), "events": by_events.get(kernel.name), "profiled": profiled.get(kernel.name)}
        for kernel in kernels
    ]
    with options.out.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(HEAD)
    print("\n".join(map(line, rows)))
    known = sum(bool(row["profiled"] and row["profiled"].get("us")) for row in rows)
    print(json.dumps({"kernels": len(rows), "profiled": known}))
    return 0 if rows and known == len(rows) else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("beside_profiler.jsonl"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var"))
    parser.add_argument("--budget-s", type=float, default=300.0)
    return parser.parse_args()


def accepted(records: Iterable[Mapping[str, Any]]) -> Iterator[JudgedKernel]:
    """The CUDA kernels with a score."""
    for record in records:
        if record.get("score") and record["language"] == "cuda":
            headline = next(item for item in record["configs"] if item["group"] == "single")
            yield JudgedKernel(record["name"], record["task"], headline["key"], headline["kernel_us"])


def plan_of(kernel: JudgedKernel, paths: Paths, device: str) -> dict[str, Any]:
    """What the child needs to make the call. Raises HarnessError."""
    task = find_task(default_suites(), kernel.task)
    config = next(item for item in task.configs_for("cuda") if item.key == kernel.key)
    file = task.folder / "kernels" / kernel.name.split()[-1]
    build = compile_source(Source(file.read_text(), "cuda"), task, default_rules(), paths, device=device)
    if build.binary is None:
        raise HarnessError(f"{kernel.name} does not compile: {build.log[-500:]}")
    configs = describe([config], overlay([config], [1]))
    binary = str(build.binary.resolve())
    return {"name": kernel.name, "binary": binary, "direction": task.direction, "configs": configs}


def asked(
    plans: Sequence[Mapping[str, Any]], deadline_s: float, device: str, *, profiled: bool
) -> dict[str, dict[str, Any]]:
    """Per kernel: the times of its calls in microseconds, or why there are none."""
    found = measured(plans, deadline_s, device, profiled=profiled)
    for plan in plans:
        if "us" not in found.get(plan["name"], {}) and time.monotonic() < deadline_s:
            found |= measured([plan], deadline_s, device, profiled=profiled)
    return found


def measured(
    plans: Sequence[Mapping[str, Any]], deadline_s: float, device: str, *, profiled: bool
) -> dict[str, dict[str, Any]]:
    """The same with one process for all of `plans`."""
    with tempfile.TemporaryDirectory(prefix="beside-") as place:
        folder = Path(place)
        repeats = REPEATS_PROFILED if profiled else REPEATS_BY_EVENTS
        flush_bytes = default_rules().gpu.flush_bytes
        request = {"kernels": list(plans), "profiled": profiled, "repeats": repeats, "flush_bytes": flush_bytes}
        (folder / "request.json").write_text(json.dumps(request))
        argv = [sys.executable, "-m", CHILD, str(folder / "request.json"), str(folder / "answers.jsonl")]
        if profiled:
            argv = [*profiler(folder / "report.csv"), *argv]
        environment = {**os.environ, "HOME": str(folder), "CUDA_VISIBLE_DEVICES": device.partition(":")[2] or "0"}
        try:
            limit_s = max(1.0, deadline_s - time.monotonic())
            done = subprocess.run(
                argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
            problem = f"exit code {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
        except subprocess.TimeoutExpired:
            problem = "it took too long"
        answers = [json.loads(text) for text in read(folder / "answers.jsonl").splitlines()]
        calls = between_marks(launches(read(folder / "report.csv"))) if profiled else []
    return told(plans, answers, calls, problem, repeats)


def told(
    plans: Sequence[Mapping[str, Any]],
    answers: Sequence[Mapping[str, Any]],
    calls: Sequence[Sequence[Launch]],
    problem: str,
    repeats: int,
) -> dict[str, dict[str, Any]]:
    """`answers` stand in the order of the calls, `repeats` of which belong to each that was made."""
    found: dict[str, dict[str, Any]] = {plan["name"]: {"problem": problem} for plan in plans}
    called = [answer["name"] for answer in answers if "called" in answer]
    for answer in answers:
        found[answer["name"]] = {name: value for name, value in answer.items() if name != "name"}
    if len(calls) != repeats * len(called):
        reason = f"{len(calls)} calls in the tool's report instead of {repeats} of each of {len(called)} kernels"
        return found | {name: {"problem": f"{reason}; {problem}"} for name in called}
    for number, name in enumerate(called):
        own = calls[number * repeats : (number + 1) * repeats]
        sums_us = [sum(launch.values[DURATION] for launch in call) for call in own]
        found[name] = {"us": sums_us, "kernels": [launch.name.split("(")[0] for launch in own[0]]}
    return found


def between_marks(found: Iterable[Launch]) -> list[list[Launch]]:
    """The launches of each call: a known kernel runs behind each."""
    calls: list[list[Launch]] = [[]]
    for launch in found:
        if MARK in launch.name:
            calls.append([])
        else:
            calls[-1].append(launch)
    return calls[:-1]


def profiler(report: Path) -> list[str]:
    options = ("--target-processes", "all", "--profile-from-start", "off", "--clock-control", "none")
    metrics = ("--cache-control", "none", "--metrics", DURATION, "--csv", "--page", "raw", "--print-units", "base")
    return ["ncu", *options, *metrics, "--log-file", str(report)]


def read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def line(row: Mapping[str, Any]) -> str:
    events, profiled, replayed_us = row["events"] or {}, row["profiled"] or {}, row["replayed_us"]
    event_us, sum_us = (median(item["us"]) if item.get("us") else None for item in (events, profiled))
    ratios = [f"{replayed_us / us:.3f}" if us else "–" for us in (sum_us, event_us)]
    shown = [f"{us:.2f}" if us else "–" for us in (replayed_us, sum_us, event_us)]
    count = str(len(profiled["kernels"])) if profiled.get("kernels") else "–"
    problems = "; ".join(str(item["problem"])[:160] for item in (profiled, events) if item.get("problem"))
    return f"| {' | '.join((row['name'], row['key'], count, *shown, ', '.join(ratios)))} |{problems and ' ' + problems}"


if __name__ == "__main__":
    sys.exit(main())
