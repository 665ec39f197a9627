"""Benchmarks of the system itself: `python -m lab.bench [judging] [repeat] [pages]`, all of them by default.

judging   seconds by stage for three tasks, cold and warm, beside a plain cpp_extension.load of the same file
repeat    one kernel judged ten times, and the eager implementation submitted as a kernel
pages     time and queries of the heaviest pages at 10,000 submissions

Prints tables, then one JSON line with everything; the same goes to docs/results/bench.json. Numbers from a busy machine
are worth nothing: the load average stands in the output.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Paths, Report, Source, TaskSpec, default_rules, default_suites, find_task, judge

ROOT = Path(__file__).parents[2]
TASKS = ("mnist_linear_relu/forward", "layernorm/forward", "mnist_conv_relu_pool/forward")
REPEATS = 10
EAGER = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return at::relu(at::linear(x, weights, biases));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
STOCK = """
import sys, time, torch
from torch.utils.cpp_extension import load
started = time.monotonic()
load("stock", [sys.argv[1]], build_directory=sys.argv[2], extra_cflags=sys.argv[3:])
print(time.monotonic() - started)
"""
PAGES = """
import os, statistics, sys, time, json
os.environ["KBENCH_TEST_DATA_DIR"] = sys.argv[1]
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django; django.setup()
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
call_command("migrate", verbosity=0)
from benchmarks.catalogue import folders
from benchmarks.models import Evaluation
folders.tasks_sync()
from tests.web import factories
factories.many_entries(10_000)
one = Evaluation.objects.order_by("pk")[5000].code
task = "/tasks/robust-kbench/mnist_linear_relu/forward/"
result = {}
pages = {"task": task, "leaderboard": f"/leaderboards/robust-kbench/mnist_linear_relu/forward/cpu-avx2/",
         "evaluation": f"/evaluations/{one}/", "home": "/", "tasks": "/tasks/"}
for name, url in pages.items():
    client = Client()
    assert client.get(url, headers={"host": "localhost"}).status_code == 200, url
    times = []
    for _ in range(60):
        started = time.perf_counter()
        response = client.get(url, headers={"host": "localhost"})
        times.append(1000 * (time.perf_counter() - started))
    with CaptureQueriesContext(connection) as queries:
        client.get(url, headers={"host": "localhost"})
    times.sort()
    result[name] = {"median_ms": statistics.median(times), "p95_ms": times[int(0.95 * len(times))],
                    "queries": len(queries), "page_bytes": len(response.content)}
print(json.dumps(result))
"""


def main(wanted: list[str]) -> None:
    parts: dict[str, Callable[[], Any]] = {"judging": bench_judging, "repeat": bench_repeat, "pages": bench_pages}
    result: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()}
    for name in wanted or list(parts):
        result[name] = parts[name]()
    result["load_after"] = os.getloadavg()
    path = ROOT / "docs" / "results" / "bench.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(kept | result, indent=1) + "\n")
    print(json.dumps(result))


def bench_judging() -> list[dict[str, Any]]:
    """The stock build, then a judging with empty caches and one with warm caches but a source never seen."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="kbench-bench-") as folder:
        paths = Paths(Path(folder))
        for name in TASKS:
            task = find_task(default_suites(), name)
            text = (task.folder / "kernels" / f"{task.direction}_cpu.cpp").read_text()
            stock_s = _stock_seconds(text)
            cold = _judge(task, text, paths)
            warm_build = _judge(task, text + "\n// the same kernel, another source\n", paths)
            warm = _judge(task, text, paths)
            rows.append(
                {
                    "task": name,
                    "stock_compile_s": stock_s,
                    "cold": cold,
                    "warm_caches_new_source": warm_build,
                    "warm": warm,
                }
            )
    _print_judging(rows)
    return rows


def bench_repeat() -> dict[str, Any]:
    """The shipped kernel of mnist_linear_relu/forward ten times; eager as a kernel."""
    task = find_task(default_suites(), TASKS[0])
    kernel = (task.folder / "kernels" / "forward_cpu.cpp").read_text()
    with tempfile.TemporaryDirectory(prefix="kbench-bench-") as folder:
        paths = Paths(Path(folder))
        judge(Source(kernel, "cpp"), task, default_rules(), paths, quick=True)
        kernels = [_scored(task, kernel, paths) for _ in range(REPEATS)]
        eager = [_scored(task, EAGER, paths) for _ in range(3)]
    speedups = [row["speedup"] for row in kernels if row["speedup"]]
    result = {
        "kernel": kernels,
        "max_over_min": max(speedups) / min(speedups) if speedups else None,
        "eager_as_kernel": eager,
    }
    print(f"{len(speedups)} of {REPEATS} accepted, max/min {result['max_over_min']}")
    for row in (*kernels, *eager):
        print(row)
    return result


def bench_pages() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kbench-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-c", PAGES, folder], cwd=ROOT, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{'page':12} {'median ms':>10} {'p95 ms':>10} {'queries':>8} {'bytes':>8}")
    for name, row in result.items():
        print(f"{name:12} {row['median_ms']:10.1f} {row['p95_ms']:10.1f} {row['queries']:8} {row['page_bytes']:8}")
    return result


def _stock_seconds(text: str) -> float:
    with tempfile.TemporaryDirectory(prefix="kbench-stock-") as folder:
        source = Path(folder) / "kernel.cpp"
        source.write_text(text)
        flags = [flag for flag in default_rules().compile.flags if flag != "-fPIC"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [sys.executable, "-c", STOCK, str(source), folder, *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.splitlines()[-1])


def _judge(task: TaskSpec, text: str, paths: Paths) -> dict[str, Any]:
    started = time.monotonic()
    report = judge(Source(text, "cpp"), task, default_rules(), paths)
    total_s = time.monotonic() - started
    stages = {f"{item.name}_s": item.seconds for item in report.stages}
    return {"total_s": total_s, **stages, **_outcome(report)}


def _scored(task: TaskSpec, text: str, paths: Paths) -> dict[str, Any]:
    return _outcome(judge(Source(text, "cpp"), task, default_rules(), paths))


def _outcome(report: Report) -> dict[str, Any]:
    score = report.score
    return {
        "verdict": str(report.verdict),
        "speedup": None if score is None else score.speedup,
        "ci95": None if score is None else score.ci95,
    }


def _print_judging(rows: list[dict[str, Any]]) -> None:
    head = ("compile_s", "prepare_s", "load_s", "verify_s", "time_s", "total_s")
    print(f"{'task':32} {'caches':24}" + "".join(f"{name:>11}" for name in head) + f"{'stock_s':>10}")
    for row in rows:
        for kind in ("cold", "warm_caches_new_source", "warm"):
            figures = "".join(f"{row[kind].get(name) or 0:11.2f}" for name in head)
            print(f"{row['task']:32} {kind:24}{figures}{row['stock_compile_s']:10.2f}")
    ratios = [row["warm_caches_new_source"]["compile_s"] / row["stock_compile_s"] for row in rows]
    print(f"compile over stock, median of {len(ratios)}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
