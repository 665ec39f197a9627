"""Full judgings and an audit while other processes keep sessions on the GPU: `python -m lab.gpu.sessions --out FOLDER`.

Each of `--lookers` is a process that looks at the shipped kernel of its task again and again, so that a session stays
between two looks; there are places for two, a third is judged quickly. Meanwhile the shipped kernel of `--large`, a
task that needs most of the GPU's memory, is judged in full `--rounds` times and audited. FOLDER gets `sessions.jsonl`
with a line for each look, judging and audit: when it began and ended, verdict, and the GPU's memory before it.
Exit code 0: everything was accepted. Not covered: searches (`searches.py`).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import HarnessError, Looks, Report, Watcher, audit, judge
from lab.gpu.searches import RULES, GpuSearches, prepare, told

LOOKERS = ("mnist_conv_relu_pool/backward", "mnist_pool/forward", "llama_rmsnorm/forward")
LARGE = "llama_rmsnorm/backward"
_STARTS_WITHIN_S, _POLL_S = 120.0, 0.25


def main() -> int:
    options = read_options()
    sitting = GpuSearches(options)
    if options.look:
        look_on(sitting, options.look)
        return 0
    prepare(sitting)
    stop = options.out / "stop"
    stop.unlink(missing_ok=True)
    lookers = [
        subprocess.Popen([sys.executable, "-m", "lab.gpu.sessions", *again(options, name)]) for name in looked(options)
    ]
    try:
        await_looks(sitting, 1)
        judge_beside(sitting, options.large)
        await_looks(sitting, 1 + most_looks(sitting))  # sessions that gave way come back
    finally:
        stop.touch()
        for looker in lookers:
            looker.wait(_STARTS_WITHIN_S)
    lines = sitting.known("sessions.jsonl")
    print(json.dumps(summary(lines)))
    return 0 if lines and all(line["verdict"] == "PASS" for line in lines) else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lookers", default=",".join(LOOKERS), help="tasks, with commas; empty: none")
    parser.add_argument("--large", default=LARGE, help="the task that is judged in full")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--audit", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pause-s", type=float, default=1.0, help="between two looks")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--language", default="cuda", choices=("cuda", "cpp"))
    parser.add_argument("--data", type=Path, default=Path("var/searches"), help="builds and baselines")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--look", default="", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    options.tasks = [options.look] if options.look else [*looked(options), options.large]
    options.earlier, options.budget_s = [], 0.0
    return options


def looked(options: argparse.Namespace) -> list[str]:
    return [name for name in options.lookers.split(",") if name]


def again(options: argparse.Namespace, name: str) -> list[str]:
    """The arguments of the process that looks at one task."""
    words = {"look": name, "pause-s": options.pause_s, "device": options.device, "language": options.language}
    words |= {"data": options.data, "out": options.out}
    return [part for key, value in words.items() for part in (f"--{key}", str(value))]


def look_on(sitting: GpuSearches, name: str) -> None:
    """Until somebody writes `stop`."""
    options, source = sitting.options, sitting.shipped(name)
    looks = Looks(sitting.tasks[name], RULES, sitting.paths, options.device)
    try:
        while not (options.out / "stop").exists():
            record(sitting, "look", name, lambda: looks.judge(source), broken=looks.broken)
            time.sleep(options.pause_s)
    finally:
        looks.close()


def judge_beside(sitting: GpuSearches, name: str) -> None:
    options, source, task = sitting.options, sitting.shipped(name), sitting.tasks[name]
    asked = (source, task, RULES, sitting.paths)
    busy = Watcher(others_wait=lambda: True)  # no energy
    report: Report | None = None
    for _ in range(options.rounds):
        report = record(sitting, "judging", name, lambda: judge(*asked, device=options.device, watcher=busy))
    if options.audit and report is not None and report.score is not None:
        accepted = report
        record(sitting, "audit", name, lambda: audit(*asked, report=accepted, device=options.device))


def record(
    sitting: GpuSearches, what: str, name: str, act: Callable[[], Report], *, broken: list[str] | None = None
) -> Report | None:
    """Appends a line with the outcome, an error of the judge too."""
    began, used = time.time(), used_mib(sitting.options.device)
    report: Report | None = None
    try:
        report = act()
        found = told(report, time.time() - began)
    except HarnessError as error:
        found = {"verdict": "INTERNAL_ERROR", "reason": f"{type(error).__name__}: {error}"[:1500]}
    line: dict[str, Any] = {
        "what": what,
        "task": name,
        "began": round(began, 2),
        "ended": round(time.time(), 2),
        "used_mib": used,
    }
    line |= {**found, "broken": list(broken or ())}
    if report is not None and what == "audit":
        line |= {"audit": report.audit, "gates": [gate.code for gate in report.gates]}
    sitting.keep("sessions.jsonl", line)
    print(
        f"{what} {name}: {line['verdict']} {line['reason'][:200]} {line['ended'] - began:.1f} s, {used} MiB before",
        flush=True,
    )
    return report


def used_mib(device: str) -> int | None:
    """The GPU's memory that is taken at this moment; None where no tool tells."""
    if device == "cpu":
        return None
    command = [
        "nvidia-smi",
        "-i",
        device.rpartition(":")[2],
        "--query-gpu=memory.used",
        "--format=csv,noheader,nounits",
    ]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def await_looks(sitting: GpuSearches, count: int) -> None:
    """Until each looker has so many, or too long."""
    until_s = time.monotonic() + _STARTS_WITHIN_S
    names = set(looked(sitting.options))
    while time.monotonic() < until_s:
        seen = [line["task"] for line in sitting.known("sessions.jsonl") if line["what"] == "look"]
        if all(seen.count(name) >= count for name in names):
            return
        time.sleep(_POLL_S)
    print(f"!! not all of {', '.join(sorted(names))} were looked at {count} times", flush=True)


def most_looks(sitting: GpuSearches) -> int:
    seen = [line["task"] for line in sitting.known("sessions.jsonl") if line["what"] == "look"]
    return max((seen.count(name) for name in set(seen)), default=0)


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How often each ended how, and the visits of each session in their order: a 1 is a session started anew."""
    found: dict[str, Any] = {}
    for line in lines:
        counts = found.setdefault(line["what"], {})
        counts[line["verdict"]] = counts.get(line["verdict"], 0) + 1
    visits: dict[str, list[int | None]] = {}
    for line in lines:
        if line["what"] == "look":
            visits.setdefault(line["task"], []).append(line.get("visit"))
    return {**found, "visits": visits, "broken": sum(map(len, (line["broken"] for line in lines)))}


if __name__ == "__main__":
    sys.exit(main())
