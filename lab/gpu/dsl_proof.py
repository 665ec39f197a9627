"""Judges the RMS norm in each language whose package compiles it: `python -m lab.gpu.dsl_proof --out FOLDER`.

Says first what is installed. Then for each language: a probe without a judge (`dsl_probe.py`), a quick judging and, if
that was accepted, a full one. Each runs in a process of its own within `--limit-s`, and a failure ends nothing. The
folder gets the reports as JSON and everything that was printed, logs of the sandboxes too; the end of the logs of a
failure is also shown. The last line of stdout is a JSON summary. Not covered: other tasks.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import LANGUAGES, HarnessError, Paths, Source, default_rules, default_suites, find_task, judge
from benchmarks.harness.compilers.device_source import missing_here
from benchmarks.harness.compilers.nvcc import cuda_folder
from benchmarks.harness.gpu.crew import Crew
from benchmarks.harness.sandbox.isolation import isolation_in_force

TASK = "llama_rmsnorm/forward"
KERNELS = default_suites() / "robust_kbench/llama_rmsnorm/kernels"
_PACKAGES = ("torch", "triton", "nvidia-cutlass-dsl", "tilelang", "helion", "numba-cuda", "numba", "cuda-bindings")
_MORE = ("apache-tvm-ffi", "z3-solver", "numpy", "nvidia-cuda-cupti")
_SHOWN_CHARACTERS = 6000


def main() -> int:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.judge:
        return judge_one(options)
    tell_machine()
    summary = []
    for language in options.only.split(","):
        summary.append(prove(language, options))
        print("##", json.dumps(summary[-1]), flush=True)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary))
    return 0 if all(item.get("full", {}).get("verdict") == "PASS" for item in summary) else 1


def read_options() -> argparse.Namespace:
    every = [item.name for item in LANGUAGES.values() if item.launches_from_python]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(name for name in every if kernel_of(name).exists()))
    parser.add_argument("--limit-s", type=float, default=170.0, help="for each probe and each judging")
    parser.add_argument("--quick", action="store_true", help="no full judgings")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var"))
    parser.add_argument("--judge", default="", help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--in-full", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def kernel_of(language: str) -> Path:
    return KERNELS / f"forward_{language}.py"


def tell_machine() -> None:
    for name in (*_PACKAGES, *_MORE):
        try:
            print(f"{name:20} {version(name)}")
        except PackageNotFoundError:
            print(f"{name:20} not installed")
    for module in ("cutlass", "tilelang", "helion", "numba", "triton", "cuda", "tvm_ffi", "z3"):
        spec = find_spec(module)
        print(f"{module:20} {spec.origin or list(spec.submodule_search_locations or ()) if spec else 'no such module'}")
    for name in ("libcupti.so.13", "libcupti.so.12"):
        print(f"{name:20} {loadable(name)}")
    try:
        print("CUDA toolkit        ", cuda_folder())
    except HarnessError as error:
        print("CUDA toolkit        ", error)
    print("isolation           ", isolation_in_force().text)
    print("python              ", sys.executable, sys.prefix, sys.base_prefix, flush=True)


def loadable(name: str) -> str:
    try:
        ctypes.CDLL(name)
    except OSError:
        after_torch = f"import torch, ctypes; ctypes.CDLL({name!r})"
        done = subprocess.run([sys.executable, "-c", after_torch], capture_output=True, text=True, check=False)
        return "found once torch is imported" if done.returncode == 0 else f"not found: {done.stderr[-200:]}"
    return "found"


def prove(language: str, options: argparse.Namespace) -> dict[str, Any]:
    """A probe, a quick judging, a full one."""
    print(f"\n===== {language}", flush=True)
    missing = missing_here(language)
    if missing:
        return {"language": language, "missing": missing}
    found: dict[str, Any] = {"language": language}
    found["probe"] = ran(f"{language}.probe", probe_command(language), options, environment=probe_environment())
    found["quick"] = judged(language, options, in_full=False)
    if found["quick"]["verdict"] == "PASS" and not options.quick:
        found["full"] = judged(language, options, in_full=True)
    return found


def probe_command(language: str) -> list[str]:
    return [sys.executable, "-m", "lab.gpu.dsl_probe", str(kernel_of(language))]


def probe_environment() -> dict[str, str]:
    folder = tempfile.mkdtemp(prefix="dsl-probe-")
    caches = ("TRITON_CACHE_DIR", "TILELANG_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "CUTE_DSL_DUMP_DIR", "NUMBA_CACHE_DIR")
    return {**dict.fromkeys(caches, folder), "CUTE_DSL_KEEP": "cubin"}


def judged(language: str, options: argparse.Namespace, *, in_full: bool) -> dict[str, Any]:
    name = f"{language}.{'full' if in_full else 'quick'}"
    command = [sys.executable, "-m", "lab.gpu.dsl_proof", "--judge", language, "--device", options.device]
    command += ["--out", str(options.out), "--data", str(options.data), *(["--in-full"] if in_full else [])]
    outcome = ran(name, command, options)
    report = options.out / f"{name}.json"
    if not report.exists():
        return {"verdict": "no report", "ended": outcome}
    data = json.loads(report.read_text())
    environment = data.get("environment", {})
    score = data.get("score") or {}
    return {
        "verdict": data["verdict"],
        "reason": data["reason"][:600],
        "timing_trust": score.get("timing_trust"),
        "not_replayed": environment.get("not_replayed"),
        "speedup": score.get("speedup"),
        "ci95": score.get("ci95"),
        "vs": {name: score.get(name) for name in ("vs_eager", "vs_compile")},
        "us": {item["key"][-40:]: item["kernel_us"] for item in data.get("configs", [])},
        "stages": {item["name"]: round(item["seconds"], 1) for item in data.get("stages", [])},
    }


def ran(
    name: str, command: list[str], options: argparse.Namespace, *, environment: dict[str, str] | None = None
) -> str:
    """How it ended; all that it printed is kept, and shown if it failed or was a probe."""
    log, started = options.out / f"{name}.log", time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
        try:
            ended = f"exit code {process.wait(options.limit_s)}"
        except subprocess.TimeoutExpired:
            process.kill()
            ended = f"killed after {options.limit_s:g} s, exit code {process.wait()}"
    ended = f"{ended} after {time.monotonic() - started:.1f} s"
    print(f"--- {name}: {ended}", flush=True)
    if not ended.startswith("exit code 0") or name.endswith(".probe"):
        print(log.read_text(errors="replace")[-_SHOWN_CHARACTERS:], flush=True)
        for more in sorted(options.out.glob(f"{name}-*.log")):
            print(f"--- {more.name}\n{more.read_text(errors='replace')[-_SHOWN_CHARACTERS // 2 :]}", flush=True)
    return ended


def judge_one(options: argparse.Namespace) -> int:
    """One judging in this process; the logs of its sandboxes are copied before they go."""
    language, name = options.judge, f"{options.judge}.{'full' if options.in_full else 'quick'}"
    real = Crew.kill

    def kept(crew: Crew) -> None:
        for log in crew.folder.glob("*.log"):
            shutil.copy(log, options.out / f"{name}-{log.name}")
        real(crew)

    Crew.kill = kept  # type: ignore[method-assign]
    source = Source(kernel_of(language).read_text(), language)
    task, rules = find_task(default_suites(), TASK), default_rules()
    try:
        report = judge(source, task, rules, Paths(options.data), device=options.device, quick=not options.in_full)
        data = report.to_json()
    except HarnessError as error:
        data = {"verdict": "INTERNAL_ERROR", "reason": f"{type(error).__name__}: {error}"[-3000:]}
    (options.out / f"{name}.json").write_text(json.dumps(data, indent=1))
    print(data["verdict"], data["reason"])
    print(json.dumps(data.get("environment", {}), indent=1, default=str))
    for stage in data.get("stages", []):
        print("stage", stage["name"], round(stage["seconds"], 1), stage.get("log", "")[-2000:])
    return 0 if data["verdict"] == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
