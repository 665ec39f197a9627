"""Judges what comes with kbench on a real device and keeps the raw reports: `python -m lab.bench.proof WHAT`.

    kernels    every example kernel, CUDA and Triton; with `--device cpu` the C++ ones, as below
    eager      torch eager as a submission, ten tasks: the score must be 1 within its interval
    repeat     six tasks from 4 µs to 20 ms judged again and again, and each audited

`--only WORD` selects by part of the name, `--times N` repeats, `--budget-s` stops in time and says what was not
reached. One JSON line per judging goes to `--reports`; the last line of stdout is a JSON summary. Not covered: attacks
(`lab/gpu/corpus.py`), the site (`lab/gpu/e2e.py`) and tables for people (`proof_tables.py`).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    LANGUAGE_OF_SUFFIX,
    HarnessError,
    Paths,
    Report,
    Source,
    audit,
    compile_source,
    default_rules,
    default_suites,
    find_task,
    judge,
    keep_ready,
)

EAGER = Path(__file__).parent / "eager"

KERNELS = {"cpu": ("cpu.cpp",), "cuda": ("cuda.cu", "triton.py")}  # by class of device
REPEATED = (
    "mnist_cross_entropy/forward",
    "mnist_pool/forward",
    "mnist_linear/forward",
    "llama_rmsnorm/forward",
    "layernorm/backward",
    "llama_ffw/forward",
)
RULES = default_rules()


@dataclass(frozen=True)
class Work:
    """One source to judge."""

    task: str
    file: Path
    language: str

    @property
    def name(self) -> str:
        return f"{self.task} {self.file.name}"

    @property
    def source(self) -> Source:
        return Source(self.file.read_text(), self.language)


def main() -> int:
    options = read_options()
    paths, deadline = Paths(options.data), time.monotonic() + options.budget_s
    words = options.only.split(",")
    works = [work for work in chosen(options.what, options.device) if any(word in work.name for word in words)]
    keep_ready()
    builds = start_builds(works, paths, options)
    reached = []
    for work in works * options.times:
        if time.monotonic() > deadline:
            break
        built = builds[work].result()
        record = {**judged(work, paths, options), "build": built}
        reached.append(record)
        print_record(record)
        with options.reports.open("a") as file:
            file.write(json.dumps({"what": options.what, **record}) + "\n")
    passed = sum(item["verdict"] == "PASS" for item in reached)
    missing = [work.name for work in (works * options.times)[len(reached) :]]
    print(json.dumps({"what": options.what, "judged": len(reached), "passed": passed, "not_reached": missing}))
    return 0 if passed == len(reached) and not missing else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("kernels", "eager", "repeat"))
    parser.add_argument("--only", default="", help="parts of the names of kernels, with commas")
    parser.add_argument("--audit", action=argparse.BooleanOptionalAction, default=True, help="repeated ones, once")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var"))
    parser.add_argument("--reports", type=Path, default=Path("proof.jsonl"))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--budget-s", type=float, default=3600.0)
    return parser.parse_args()


def chosen(what: str, device: str = "cuda:0") -> Iterator[Work]:
    suite = default_suites() / "robust_kbench"
    endings = KERNELS[device.partition(":")[0]]
    if what == "eager":  # these files hold no device code, so they are C++ as well as CUDA
        language = LANGUAGE_OF_SUFFIX[Path(endings[0]).suffix]
        yield from (Work(f"{path.stem}/forward", path, language) for path in sorted(EAGER.glob("*.cu")))
        return
    if what == "repeat":
        endings = endings[:1]
    for ending in endings:
        for path in sorted(suite.glob(f"*/kernels/*_{ending}")):
            work = Work(f"{path.parents[1].name}/{path.stem.split('_')[0]}", path, LANGUAGE_OF_SUFFIX[path.suffix])
            if what == "kernels" or work.task in REPEATED:
                yield work


def start_builds(works: Iterable[Work], paths: Paths, options: argparse.Namespace) -> dict[Work, Future[str]]:
    """Compiles everything in the background while a GPU is judging, as a site does."""

    def build(work: Work) -> str:
        task = find_task(default_suites(), work.task)
        made = compile_source(work.source, task, RULES, paths, device=options.device)
        failure = made.log[-1500:] if made.exit_code else ""
        return f"compiled in {made.seconds:.1f} s, exit code {made.exit_code} {failure}"

    pool = ThreadPoolExecutor(options.jobs)
    return {work: pool.submit(build, work) for work in dict.fromkeys(works)}


def judged(work: Work, paths: Paths, options: argparse.Namespace) -> dict[str, Any]:
    """The report as JSON, or what went wrong with the judge itself."""
    task, started = find_task(default_suites(), work.task), time.monotonic()
    try:
        report = judge(work.source, task, RULES, paths, device=options.device)
        if options.what == "repeat" and options.audit and report.score is not None:
            report = audited(work, report, paths, options)
    except HarnessError as error:
        return {"name": work.name, "task": work.task, "verdict": "INTERNAL_ERROR", "reason": str(error)[-3000:]}
    return {"name": work.name, "seconds": round(time.monotonic() - started, 2), **report.to_json()}


def audited(work: Work, report: Report, paths: Paths, options: argparse.Namespace) -> Report:
    """Once per source: the tools take longer than the judging."""
    if work in _AUDITED:
        return report
    _AUDITED.add(work)
    task = find_task(default_suites(), work.task)
    return audit(work.source, task, RULES, paths, report=report, device=options.device)


_AUDITED: set[Work] = set()


def print_record(record: dict[str, Any]) -> None:
    score = record.get("score")
    line = f"== {record['name']}: {record['verdict']} {record['reason'][-600:]}"
    print(line, f"{record.get('seconds', 0):.1f} s", flush=True)
    print("  ", record["build"])
    print("  ", [(stage["name"], round(stage["seconds"], 1)) for stage in record.get("stages", [])])
    if score:
        versus = [None if score[name] is None else round(score[name], 2) for name in ("vs_eager", "vs_compile")]
        print("  ", [round(value, 3) for value in (score["speedup"], *score["ci95"])], "eager, compile:", versus)
    for item in record.get("configs", []):
        print_config(item)


def print_config(item: dict[str, Any]) -> None:
    names = ("kernel_us", "eager_us", "compile_us", "speedup", "roofline_fraction", "excess_us")
    values = [None if item[name] is None else round(item[name], 2) for name in names]
    print("    ", item["key"][-60:], values, "copied" if item["copied"] else "", item["failure"][:200], flush=True)


if __name__ == "__main__":
    sys.exit(main())
