"""The whole site end to end on one machine, used and measured from outside: `python -m lab.gpu.e2e`.

Starts `manage.py up` in a scratch folder (embedded Redis, SQLite) with the workers of `--device`, makes a token,
submits kernels through the HTTP API, follows them on the event stream and waits for their verdicts. By default: the
example kernels of three tasks in every language of the device, and a wrong kernel per language. `--device` may be a
kind, such as nvidia-h100: then every GPU of that kind has a judge of its own. `--rounds 2` submits everything once more
when all have their verdicts, so that nothing but sources is left to compile, and `--idle` then one CUDA kernel alone.
Prints a table and one JSON line for each round. Exit code 0: all as expected and in time, 1: not, 3: the site failed.

Needs torch and a compiler (nvcc for a GPU), and the packages that `wheels.txt` beside this file names with their
versions; on a machine without a package registry they travel as wheels:

    pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -d .whl -r lab/gpu/wheels.txt
    python3 -m pip install --no-index --no-deps --target /tmp/site .whl/*.whl; export PYTHONPATH=/tmp/site
"""

import argparse
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "benchmarks" / "suites" / "robust_kbench"
TASKS = ("mnist_linear_relu/forward", "llama_rmsnorm/forward", "layernorm/forward")
FILES = {"cpp": "cpu.cpp", "cuda": "cuda.cu", "triton": "triton.py"}
SUFFIXES = {".cpp": "cpp", ".cu": "cuda", ".py": "triton"}
WRONG_TASK = "mnist_linear_relu/forward"
WRONG_VERDICTS = {"INCORRECT_VALUE", "NONDETERMINISTIC"}
_WRONG_EXTENSION = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return torch::zeros({x.size(0), weights.size(0)}, x.options());
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
_WRONG_TRITON = """import torch


def forward(x, weights, biases):
    return torch.zeros((x.shape[0], weights.shape[0]), device=x.device, dtype=x.dtype)
"""
WRONG = {"cpp": _WRONG_EXTENSION, "cuda": _WRONG_EXTENSION, "triton": _WRONG_TRITON}
ON_DEVICE = ("prepare", "load", "verify", "time", "audit")
TOPICS_PER_STREAM = 20
PARTS = ("load_s", "bursts_s", "energy_s", "crew_waited_s")  # of a judging on a GPU, as its report tells them


class SiteFailed(Exception):
    """The site did not start, died or did not answer; the text says what it printed."""


@dataclass
class SubmittedKernel:
    """One source to submit and the verdicts that are right for it."""

    task: str
    language: str
    text: str
    expected: set[str]
    name: str


@dataclass
class Followed:
    """One submission on its way: what the event stream told, and how it ended."""

    kernel: SubmittedKernel
    code: str
    posted_at: float
    moments: list[tuple[float, str, str, str]] = field(default_factory=list)  # when, kind, what, state of a stage
    final: dict[str, Any] = field(default_factory=dict)
    given_up_at: float = 0.0

    @property
    def ended_at(self) -> float:
        """Of one that has not ended: when nobody waited any longer."""
        return _seconds(self.final["finished"]) if self.final["finished"] else self.given_up_at

    @property
    def as_expected(self) -> bool:
        return self.final.get("verdict") in self.kernel.expected

    def states(self) -> dict[str, float]:
        """Seconds waiting for a compiler, compiling, waiting for the device, and judging."""
        spent = dict.fromkeys(("wait_compiler_s", "compile_s", "wait_device_s", "judge_s"), 0.0)
        moves = [(self.posted_at, "queued"), *((when, what) for when, kind, what, _ in self.moments if kind == "state")]
        built = _seconds(self.final["built"]) if self.final.get("built") else float("inf")
        for (begin, state), (end, _) in pairwise(moves):
            waits, compiling = state == "queued", begin < built - 0.001
            name = (
                ("wait_compiler_s" if waits else "compile_s")
                if compiling
                else ("wait_device_s" if waits else "judge_s")
            )
            spent[name] += max(0.0, min(end, self.ended_at) - begin)  # its last event is written after it has ended
        return spent

    def on_device(self) -> list[tuple[float, float]]:
        """The intervals of the stages that need the device."""
        begun: dict[str, float] = {}
        intervals = []
        for when, kind, stage, state in self.moments:
            if kind != "progress" or stage not in ON_DEVICE:
                continue
            if state == "started":
                begun[stage] = when
            elif state == "finished" and stage in begun:
                intervals.append((begun.pop(stage), when))
        return intervals

    def row(self) -> dict[str, Any]:
        report = self.final.get("report") or {}
        score = self.final.get("score") or {}
        return {
            "kernel": self.kernel.name,
            "task": self.kernel.task,
            "language": self.kernel.language,
            "verdict": self.final.get("verdict") or self.final.get("state"),
            "as_expected": self.as_expected,
            "reason": self.final.get("reason"),
            "speedup": score.get("speedup"),
            "timing_trust": score.get("timing_trust"),
            "total_s": round(self.ended_at - self.posted_at, 3),
            **{name: round(seconds, 3) for name, seconds in self.states().items()},
            "stages_s": {stage["name"]: round(stage["seconds"], 3) for stage in report.get("stages", [])},
            "parts": {name: value for name, value in report.get("environment", {}).items() if name in PARTS},
            "attempt": self.final.get("attempt"),
            "evaluation": self.code,
        }


class Api:
    """The HTTP API with a token."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def get(self, path: str, timeout_s: float = 90) -> Any:
        with self.open(f"/api/v1{path}", timeout_s=timeout_s) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        with self.open(f"/api/v1{path}", json.dumps(body).encode()) as answer:
            return json.load(answer)

    def open(self, path: str, data: bytes | None = None, *, timeout_s: float = 90, **headers: str) -> Any:
        headers |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - our own http address
        try:
            return urllib.request.urlopen(request, timeout=timeout_s)  # noqa: S310 - same
        except urllib.error.HTTPError as error:
            raise SiteFailed(f"{path} answered {error.code}: {error.read().decode(errors='replace')[:500]}") from error


class Stream(threading.Thread):
    """Follows up to TOPICS_PER_STREAM evaluations on one event stream until all have ended; resumes where it broke."""

    def __init__(self, api: Api, followed: list[Followed]) -> None:
        super().__init__(daemon=True, name="events")
        self.api = api
        self.by_topic = {f"evaluation:{item.code}": item for item in followed}
        self.last_id = "0"
        self.over = False

    def run(self) -> None:
        while not self.over:
            try:
                self._read()
            except (SiteFailed, OSError, HTTPException):
                time.sleep(0.5)

    def _read(self) -> None:
        path = f"/events/?topics={','.join(self.by_topic)}&after={self.last_id}"
        event: dict[str, str] = {}
        with self.api.open(path, timeout_s=60) as answer:
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif event:
                    self._take(event)
                    event = {}

    def _take(self, event: dict[str, str]) -> None:
        self.over = self.over or event.get("event") == "end"
        self.last_id = event.get("id", self.last_id)
        data = json.loads(event.get("data", "{}"))
        if data.get("topic") not in self.by_topic:
            return
        kind, when = event["event"].partition("-")[2], _seconds(data["at"])
        moments = self.by_topic[data["topic"]].moments
        if kind == "state":
            moments.append((when, kind, data["state"], ""))
        if "stage" in data:  # a stage that moves the evaluation on is told with its state
            moments.append((when, "progress", data["stage"], "started" if kind == "state" else data["state"]))


def main(argv: list[str]) -> int:
    options = _options(argv)
    options.deadline = time.monotonic() + options.budget_s
    results = []
    try:
        with _folder(options.data_dir) as folder, _site(folder, options) as api:
            workers = await_judges(api, options)
            for result in rounds(api, options):
                results.append(result | {"judges": workers})
                _tell(results[-1], options)
    except SiteFailed as error:
        print(f"the site failed: {error}", file=sys.stderr)
        return 3
    return 0 if results and all(row["as_expected"] for result in results for row in result["submissions"]) else 1


def rounds(api: Api, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for number in range(options.rounds):
        if time.monotonic() < options.deadline:
            yield {"round": number + 1, **measure(api, options)}
    if options.idle and time.monotonic() < options.deadline:
        alone = argparse.Namespace(**{**vars(options), "kernel": [], "submissions": 1, "language": ["cuda"]})
        yield {"round": "alone on an idle site", **measure(api, alone)}


def await_judges(api: Api, options: argparse.Namespace) -> int:
    """How many judges take work, once all that have been started have passed their self-tests."""
    deadline = time.monotonic() + options.start_timeout_s
    while True:
        judges = [item for item in api.get("/status")["workers"] if item["role"] == "judge"]
        ready = [item for item in judges if item["alive"]]
        if judges and len(ready) == len(judges):
            return len(ready)
        if time.monotonic() > deadline:
            states = [f"{item['name']} {item['state']} {item['state_text']}" for item in judges]
            raise SiteFailed(f"not every judge takes work: {'; '.join(states)}")
        time.sleep(0.5)


def _tell(result: dict[str, Any], options: argparse.Namespace) -> None:
    _print(result)
    text = json.dumps(result)
    if options.json:
        with Path(options.json).open("a") as file:
            file.write(text + "\n")
    print(text, flush=True)


def measure(api: Api, options: argparse.Namespace) -> dict[str, Any]:
    kernels = chosen_kernels(options)
    if not kernels:
        raise SiteFailed("there is no kernel to submit for this device")
    count = options.submissions or len(kernels)
    begun = time.time()
    followed = [_submit(api, kernel, number) for number, kernel in enumerate(islice(cycle(kernels), count))]
    submitted_s = time.time() - begun
    streams = [Stream(api, followed[place:][:TOPICS_PER_STREAM]) for place in range(0, count, TOPICS_PER_STREAM)]
    for stream in streams:
        stream.start()
    deadline = min(time.monotonic() + options.timeout_s, options.deadline)
    for number, item in enumerate(followed, 1):
        item.final = _await_end(api, item, deadline)
        print(f"{number}/{count} {item.kernel.name}: {item.final['verdict'] or item.final['state']}", file=sys.stderr)
    for stream in streams:
        stream.join(10)
    pages_ms = {name: _page_ms(api, path) for name, path in _pages(followed[0]).items()}
    return {**summary(followed), "submitting_s": round(submitted_s, 3), "pages_ms": pages_ms,
            "device": options.device, "status": api.get("/status"),
            "environment": (followed[0].final.get("report") or {}).get("environment"),
            "submissions": [item.row() for item in followed]}  # fmt: skip


def summary(followed: list[Followed]) -> dict[str, Any]:
    """Figures over all submissions; judgings per hour are of those that have ended in time.

    The share of judging counts from the first stage on the device to the last end.
    """
    first, last = min(item.posted_at for item in followed), max(item.ended_at for item in followed)
    busy = _union(interval for item in followed for interval in item.on_device())
    totals = [item.ended_at - item.posted_at for item in followed]
    ends = sorted(item.ended_at for item in followed if item.final["finished"])
    window_s = last - busy[0][0] if busy else None
    busy_s = sum(end - begin for begin, end in busy)
    return {
        "count": len(followed),
        "as_expected": sum(item.as_expected for item in followed),
        "makespan_s": round(last - first, 3),
        "ended": len(ends),
        "judgings_per_hour": round(3600 * len(ends) / (last - first), 1),
        "steady_judgings_per_hour": round(3600 * (len(ends) - 1) / (ends[-1] - ends[0]), 1) if len(ends) > 1 else None,
        "total_s": {"median": round(statistics.median(totals), 3), "max": round(max(totals), 3)},
        "device_busy_s": round(busy_s, 3),
        "device_judging_share": round(busy_s / window_s, 4) if window_s else None,
        "device_judging_share_of_makespan": round(busy_s / (last - first), 4),
    }


def chosen_kernels(options: argparse.Namespace) -> list[SubmittedKernel]:
    languages = options.language or (["cpp"] if options.device == "cpu" else ["cuda", "triton"])
    named = [_named_kernel(text) for text in options.kernel]
    if named:
        return named
    examples = [_example(task, language) for task in options.task or TASKS for language in languages]
    wrong = [SubmittedKernel(WRONG_TASK, name, WRONG[name], WRONG_VERDICTS, f"wrong {name}") for name in languages]
    return [*filter(None, examples), *([] if options.no_wrong else wrong)]


def _example(task: str, language: str) -> SubmittedKernel | None:
    op, direction = task.split("/")
    path = KERNELS / op / "kernels" / f"{direction}_{FILES[language]}"
    return SubmittedKernel(task, language, path.read_text(), {"PASS"}, f"{op} {path.name}") if path.is_file() else None


def _named_kernel(text: str) -> SubmittedKernel:
    """TASK=FILE or TASK=FILE=VERDICT."""
    task, name, *verdict = text.split("=")
    path = Path(name)
    return SubmittedKernel(task, SUFFIXES[path.suffix], path.read_text(), set(verdict) or {"PASS"}, path.name)


def _submit(api: Api, kernel: SubmittedKernel, number: int) -> Followed:
    """Each source is made unique, so that each is compiled."""
    mark = "#" if kernel.language == "triton" else "//"
    source = f"{kernel.text}\n{mark} submission {number} of {time.time_ns()}\n"
    body = {"task": kernel.task, "language": kernel.language, "source": source, "title": kernel.name}
    posted_at = time.time()
    answer = api.post("/submissions", body)
    return Followed(kernel, answer["evaluations"][0]["id"], posted_at)


def _await_end(api: Api, item: Followed, deadline: float) -> dict[str, Any]:
    while True:
        left_s = max(0.0, min(20.0, deadline - time.monotonic()))
        found: dict[str, Any] = api.get(f"/evaluations/{item.code}?wait={left_s:.1f}")
        item.given_up_at = time.time()
        if found["finished"] or not left_s:
            return found


def _pages(item: Followed) -> dict[str, str]:
    op, direction = item.kernel.task.split("/")[-2:]
    board = f"/leaderboards/robust-kbench/{op}/{direction}/{item.final['device']}/"
    return {"home": "/", "evaluation": item.final["url"], "leaderboard": board, "status": "/status/"}


def _page_ms(api: Api, path: str) -> float:
    begun = time.perf_counter()
    with api.open(path) as answer:
        answer.read()
    return round(1000 * (time.perf_counter() - begun), 1)


@contextmanager
def _folder(given: str | None) -> Iterator[Path]:
    if given:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="kbench-e2e-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _site(folder: Path, options: argparse.Namespace) -> Iterator[Api]:
    """The running site and a token for it."""
    folder.mkdir(parents=True, exist_ok=True)
    port, output = _free_port(), folder / "up.out"
    environment = {
        **{"DJANGO_SETTINGS_MODULE": "kbench_site.settings", "KBENCH_EXAMPLES": "0", "KBENCH_IN_FLIGHT_MAX": "0"},
        **os.environ,
        **{"KBENCH_DATA_DIR": str(folder), "PORT": str(port)},
    }
    argv = [sys.executable, "manage.py", "up", "--device", options.device]
    argv += ["--compile", str(options.compile)] if options.compile else []
    with output.open("w") as log:
        process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        begun = time.monotonic()
        _await(lambda: "workers: " in output.read_text(), process, output, options.start_timeout_s)
        print(f"ready after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        if "takes no work" in output.read_text():
            raise SiteFailed("a worker takes no work")
        yield Api(f"http://127.0.0.1:{port}", _token(environment))
    except SiteFailed as error:
        raise SiteFailed(f"{error}\n{_tail(folder)}") from error
    finally:
        _stop(process)
        if options.logs:
            Path(options.logs).write_text(_tail(folder, lines=2000))


def _token(environment: dict[str, str]) -> str:
    argv = [sys.executable, "manage.py", "create_token", "e2e", "--create"]
    made = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise SiteFailed(made.stderr)
    return made.stdout.split()[-1]


def _await(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", output: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SiteFailed(f"it was not ready after {seconds:g} s:\n{output.read_text()}")
        time.sleep(0.2)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()


def _tail(folder: Path, lines: int = 25) -> str:
    """The end of every log."""
    logs = [folder / "up.out", *sorted((folder / "log").glob("*.log"))]
    parts = [f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) for log in logs]
    return "\n".join(parts)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


def _union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _print(result: dict[str, Any]) -> None:
    columns = ("total_s", "wait_compiler_s", "compile_s", "wait_device_s", "judge_s")
    print(f"{'kernel':44} {'verdict':18} {'speedup':>8} {'trust':>9}", *(f"{name:>15}" for name in columns))
    for row in result["submissions"]:
        speedup = "" if row["speedup"] is None else f"{row['speedup']:.3f}"
        verdict = row["verdict"] + ("" if row["as_expected"] else " !")
        words = f"{row['kernel'][:44]:44} {verdict:18} {speedup:>8} {row['timing_trust'] or '':>9}"
        print(words, *(f"{row[name]:15.2f}" for name in columns))
        print(
            f"    {json.dumps({**row['stages_s'], **row['parts']})}"
            + ("" if row["as_expected"] else f" {row['reason']}")
        )
    for name, value in result.items():
        if name not in ("submissions", "status", "environment"):
            print(f"{name}: {value}")


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The whole site end to end, measured from outside.")
    add = parser.add_argument
    add("--device", default="cuda:0", help="cuda:0 (the default), cpu, or a kind: all GPUs of that kind")
    add("--rounds", type=int, default=1, help="how often everything is submitted, once more when all are judged")
    add("--idle", action="store_true", help="and then one CUDA kernel on the idle site")
    add("--submissions", type=int, help="how many to queue; the kernels are repeated; default: each once")
    add("--task", action="append", help="OP/DIRECTION whose examples are submitted; may be repeated")
    add("--language", action="append", choices=sorted(FILES), help="may be repeated")
    add("--kernel", action="append", default=[], help="TASK=FILE or TASK=FILE=VERDICT instead of the examples")
    add("--no-wrong", action="store_true", help="leave the wrong kernels out")
    add("--compile", type=int, help="how many are compiled at a time")
    add("--timeout-s", type=float, default=540, help="until every verdict is there")
    add("--budget-s", type=float, default=math.inf, help="for everything but stopping the site")
    add("--start-timeout-s", type=float, default=300, help="until the site is ready, self-tests included")
    add("--data-dir", help="folder of the site, kept afterwards with its caches; default: a scratch folder")
    add("--json", help="file to which the JSON lines are added")
    add("--logs", help="file for the logs of all processes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
