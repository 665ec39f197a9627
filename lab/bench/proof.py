"""Judges what comes with kbench on a real device and keeps the raw reports: `python -m lab.bench.proof WHAT`.

    kernels    every example kernel, CUDA and Triton; with `--device cpu` the C++ ones, as below
    eager      torch eager as a submission, ten tasks: the score must be 1 within its interval
    repeat     six tasks from 4 µs to 20 ms judged again and again, and each audited

`--suite low_precision` takes the kernels of another suite than robust_kbench; names then begin with the suite.
`--only WORD` selects by part of the name, `--times N` repeats. One JSON line per judging goes to `--reports`. Names
that stand there with a score count as judged, so an interrupted run goes on where it stopped, and `repeat` counts what
`kernels` has judged. Nothing begins that would not end within `--budget-s`, by what it took before. `--ahead` compiles
all sources and all baselines first, side by side, so that nothing runs beside a judging on a GPU. The last line of
stdout is a JSON summary that names what was not reached. Not covered: attacks (`lab/gpu/corpus.py`), the site
(`lab/gpu/e2e.py`) and tables for people (`proof_tables.py`).
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    TaskSpec,
    audit,
    compile_source,
    default_rules,
    default_suites,
    find_task,
    judge,
    keep_ready,
    prepare_side_by_side,
)

EAGER = Path(__file__).parent / "eager"
SUITE = "robust_kbench"
_USUAL_S = 30.0  # a judging, where nothing is known

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
    candidates = chosen(options.what, options.device, options.suite)
    works = [work for work in candidates if any(word in work.name for word in words)]
    before = read_reports(options.reports)
    missing = left(works, options.times, Counter(record["name"] for record in before if record.get("score")))
    builds = start_builds(missing, paths, options)
    if options.ahead:
        prepare(missing, paths, options)
        for build in builds.values():
            build.result()
    keep_ready()
    seconds = {record["name"]: record["seconds"] for record in before if record.get("score")}
    reached, not_reached = [], []
    for work in missing:
        if time.monotonic() + seconds.get(work.name, _USUAL_S) > deadline:
            not_reached.append(work.name)
            continue
        built = builds[work].result()
        record = {**judged(work, paths, options), "build": built}
        reached.append(record)
        seconds[work.name] = record.get("seconds", _USUAL_S)
        print_record(record)
        with options.reports.open("a") as file:
            file.write(json.dumps({"what": options.what, **record}) + "\n")
    passed = sum(item["verdict"] == "PASS" for item in reached)
    replayed = sum((item.get("score") or {}).get("timing_trust") == "replayed" for item in reached)
    found = {"what": options.what, "judged": len(reached), "passed": passed, "replayed": replayed}
    print(json.dumps({**found, "not_reached": not_reached}))
    return 0 if passed == len(reached) and not not_reached else 1


def read_reports(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def left(works: Sequence[Work], times: int, judged_before: Mapping[str, int]) -> list[Work]:
    """What is still to be judged, in rounds over all works, so that none is judged twice before all were once."""
    rounds = range(times)
    return [work for number in rounds for work in works if judged_before.get(work.name, 0) <= number]


def prepare(works: Sequence[Work], paths: Paths, options: argparse.Namespace) -> None:
    """Compiles the baselines of all tasks, those with the most configurations first."""
    tasks = {work.task: find_task(default_suites(), work.task) for work in works}
    by_size = sorted(tasks.values(), key=lambda task: -len(task.configs_for("cuda")))

    def one(task: TaskSpec) -> str:
        try:
            return f"{prepare_side_by_side(task, RULES, paths, device=options.device):.1f} s"
        except HarnessError as error:
            return f"{type(error).__name__}: {error}"[:600]

    began = time.monotonic()
    with ThreadPoolExecutor(options.prepare_jobs) as pool:
        for task, told in zip(by_size, pool.map(one, by_size), strict=True):
            print(f"-- baselines of {task.name}: {told}", flush=True)
    print(f"-- {len(by_size)} tasks prepared in {time.monotonic() - began:.1f} s", flush=True)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("kernels", "eager", "repeat"))
    parser.add_argument("--only", default="", help="parts of the names of kernels, with commas")
    parser.add_argument("--audit", action=argparse.BooleanOptionalAction, default=True, help="repeated ones, once")
    parser.add_argument("--suite", default=SUITE, help="a folder of benchmarks/suites")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var"))
    parser.add_argument("--reports", type=Path, default=Path("proof.jsonl"))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=6, help="sources compiled at a time")
    parser.add_argument("--ahead", action="store_true", help="compile everything first, baselines of a GPU too")
    parser.add_argument("--prepare-jobs", type=int, default=12, help="tasks whose baselines are compiled at a time")
    parser.add_argument("--budget-s", type=float, default=3600.0)
    options = parser.parse_args()
    if options.suite != SUITE and options.what != "kernels":
        parser.error(f"only kernels of {SUITE} are judged in other ways")
    if not (default_suites() / options.suite).is_dir():
        parser.error(f"there is no suite {options.suite}")
    return options


def chosen(what: str, device: str = "cuda:0", suite: str = SUITE) -> Iterator[Work]:
    """`suite` is the name of its folder; tasks of another one than robust_kbench are named with it."""
    prefix = "" if suite == SUITE else f"{suite.replace('_', '-')}/"
    endings = KERNELS[device.partition(":")[0]]
    if what == "eager":  # these files hold no device code, so they are C++ as well as CUDA
        language = LANGUAGE_OF_SUFFIX[Path(endings[0]).suffix]
        yield from (Work(f"{path.stem}/forward", path, language) for path in sorted(EAGER.glob("*.cu")))
        return
    if what == "repeat":
        endings = endings[:1]
    for ending in endings:
        for path in sorted((default_suites() / suite).glob(f"*/kernels/*_{ending}")):
            task = f"{prefix}{path.parents[1].name}/{path.stem.split('_')[0]}"
            work = Work(task, path, LANGUAGE_OF_SUFFIX[path.suffix])
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
