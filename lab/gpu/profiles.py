"""Profiles the CUDA kernels that come with kbench on a real GPU: `python -m lab.gpu.profiles --out FILE`.

    --only WORD        kernels with this part in their name
    --triton           those in Triton too
    --budget-s 900     what is not reached by then is told
    --jobs 6           builds at a time; the GPU profiles one at a time
    --device cuda:0, --data FOLDER

Each profile is one JSON line in FILE, with the seconds that it took; one that failed has `problem` instead. What the
tools themselves printed goes to FILE.raw.jsonl.gz, one line per profile, for tests of how it is read. The last line of
stdout is a JSON summary; exit code 0: all profiled, 1: some not. Not covered: judging them (`lab/bench/proof.py`).
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    LANGUAGE_OF_SUFFIX,
    HarnessError,
    Paths,
    Source,
    Watcher,
    default_rules,
    default_suites,
    find_task,
    load_suite,
    profile,
)

ROOT = default_suites() / "robust_kbench"


def main() -> int:
    options = read_options()
    paths, started = Paths(options.data), time.monotonic()
    deadline = started + options.budget_s
    works = [work for work in kernels(triton=options.triton) if options.only in f"{work[0]} {work[1].name}"]
    print(json.dumps({"machine": machine(), "kernels": len(works)}), flush=True)
    problems = {}
    with (
        options.out.open("a") as file,
        gzip.open(f"{options.out}.raw.jsonl.gz", "at") as raw_file,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        futures = [pool.submit(profiled, task, path, paths, options.device, deadline) for task, path in works]
        for future in as_completed(futures):
            record, raw = future.result()
            file.write(json.dumps(record) + "\n")
            raw_file.write(json.dumps({"task": record["task"], "file": record["file"], "raw": raw}) + "\n")
            file.flush()
            name = f"{record['task']} {record['file']}"
            if "problem" in record:
                problems[name] = record["problem"]
            print(f"{name}: {record.get('problem') or record['text']}\n", flush=True)
    took_s = round(time.monotonic() - started, 1)
    print(
        json.dumps({"profiled": len(works) - len(problems), "of": len(works), "took_s": took_s, "problems": problems})
    )
    return 1 if problems else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--budget-s", type=float, default=900)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var/profiles"))
    return parser.parse_args()


def kernels(*, triton: bool) -> list[tuple[str, Path]]:
    """Each task with its example kernel in CUDA, and in Triton where there is one."""
    names = ("cuda.cu", "triton.py") if triton else ("cuda.cu",)
    tasks = load_suite(ROOT)
    found = [(task.name, ROOT / task.op / "kernels" / f"{task.direction}_{name}") for task in tasks for name in names]
    return [(task, path) for task, path in found if path.is_file()]


def profiled(
    name: str, path: Path, paths: Paths, device: str, deadline: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """The record of one kernel, and what the tools printed."""
    began = time.monotonic()
    record: dict[str, Any] = {"task": name, "file": path.name}
    if began > deadline:
        return {**record, "problem": "not reached in time"}, {}
    source = Source(path.read_text(), LANGUAGE_OF_SUFFIX[path.suffix])
    watcher = Watcher(cancelled=lambda: time.monotonic() > deadline)
    try:
        found = profile(
            source, find_task(default_suites(), name), default_rules(), paths, device=device, watcher=watcher
        )
    except HarnessError as error:
        printed = "\n".join(getattr(error, "__notes__", ()))
        return {**record, "problem": f"{type(error).__name__}: {error}"}, {"printed": printed}
    seconds = round(time.monotonic() - began, 1)
    return {**found.to_json(), **record, "seconds": seconds}, dict(found.raw)


def machine() -> dict[str, str | None]:
    """The tools that are here, for reading the results later."""
    tools = {name: shutil.which(name) for name in ("ncu", "nvcc", "cuobjdump", "nvdisasm", "perf")}
    shown = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False) if tools["ncu"] else None
    return {**tools, "ncu_version": shown.stdout.strip().split("\n")[-1] if shown else None}


if __name__ == "__main__":
    sys.exit(main())
