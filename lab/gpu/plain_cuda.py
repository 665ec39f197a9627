"""Plain cores of CUDA templates on a GPU: compiled by nvcc, checked and timed in a process that a bad kernel may end.

For recording sweeps and quick searches over sources that kbench itself has rendered: nothing here is sandboxed, and no
verdict comes from it. `plain_cuda_child.py` is the process that holds the GPU. Not covered: what is to be measured.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from agents.evolve.templates import Genome, Template
from agents.evolve.templates.cuda import plain_core
from benchmarks.harness import TaskSpec, default_rules

from .child_process import ChildEndedError, LineChild

ROOT = Path(__file__).parents[2]
START_S, MEASURE_S, BASELINES_S = 180.0, 60.0, 300.0
COMPILE_S = 90.0


@dataclass(frozen=True)
class BuiltCore:
    """A compiled core, or what nvcc said."""

    library: Path | None
    seconds: float
    log: str = ""


@dataclass(frozen=True)
class Measured:
    """Medians per timed configuration, over pairs of neighbouring calls; `failure` says why there are none."""

    times_us: tuple[float, ...] = ()
    speedups: tuple[float, ...] = ()  # over the reference kernel
    failure: str = ""

    @property
    def score(self) -> float | None:
        return geometric_mean(self.speedups) if self.speedups else None


def nvcc() -> str:
    """The CUDA compiler. Raises SystemExit where there is none."""
    homes = [os.environ[name] + "/bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = next((path for path in [*homes, "nvcc", "/usr/local/cuda/bin/nvcc"] if shutil.which(path)), None)
    if found is None:
        raise SystemExit("there is no nvcc here")
    return found


def compile_core(source: str, folder: Path, target: str = "sm_90") -> BuiltCore:
    name = hashlib.sha256(source.encode()).hexdigest()[:16]
    text, library, started = folder / f"{name}.cu", folder / f"{name}.so", time.monotonic()
    text.write_text(source)
    number = target.removeprefix("sm_")
    code = f"-gencode=arch=compute_{number}a,code=sm_{number}a"
    command = [nvcc(), *default_rules().compile.cuda_flags, code, "-shared", "-w", str(text), "-o", str(library)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_S)
    except subprocess.TimeoutExpired:
        return BuiltCore(None, time.monotonic() - started, f"nvcc took longer than {COMPILE_S:.0f} s")
    built = library if made.returncode == 0 else None
    return BuiltCore(built, time.monotonic() - started, "" if built else (made.stdout + made.stderr)[-1500:])


class CoreBuilder:
    """Compiles the cores of one template for one task, several at a time."""

    def __init__(self, template: Template, task: TaskSpec, folder: Path, jobs: int) -> None:
        self.template, self.task, self.folder = template, task, folder
        self.pool = ThreadPoolExecutor(jobs)
        folder.mkdir(parents=True, exist_ok=True)

    def build(self, genome: Genome) -> BuiltCore:
        return compile_core(plain_core(self.template, genome, self.task), self.folder)

    def build_all(self, genomes: Sequence[Genome]) -> list[BuiltCore]:
        return list(self.pool.map(self.build, genomes))


class GpuProcess:
    """The process with the GPU, started anew when a kernel ends it or does not come back."""

    def __init__(self, task: TaskSpec, reference: Path | None = None) -> None:
        self.task, self.reference = task, reference
        self.restarts = -1
        self._child: LineChild | None = None
        self.about = self._start()

    def measure(self, library: Path, pairs: int = 7) -> Measured:
        """A failure of the kernel is an answer; a process that cannot be started again raises RuntimeError."""
        try:
            answer = self._ask({"what": "measure", "library": str(library), "pairs": pairs}, MEASURE_S)
        except ChildEndedError as error:
            self._start()
            return Measured(failure=f"ended the process: {error}")
        if answer.get("over"):
            self._start()
        if answer["failure"]:
            return Measured(failure=answer["failure"])
        return Measured(tuple(answer["times_us"]), tuple(answer["speedups"]))

    def baselines(self, *, compiled: bool) -> dict[str, Any]:
        """Microseconds per timed configuration of eager and torch.compile, None where one could not be had."""
        try:
            return self._ask({"what": "baselines", "compiled": compiled}, BASELINES_S)
        except ChildEndedError as error:
            self._start()
            return {"eager_us": None, "compile_us": None, "failure": str(error)}

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _start(self) -> dict[str, Any]:
        self.close()
        self.restarts += 1
        reference = str(self.reference) if self.reference else None
        try:
            self._child = LineChild("lab.gpu.plain_cuda_child", self.task.name)
            return self._ask({"what": "begin", "reference": reference}, START_S)
        except ChildEndedError as error:
            raise RuntimeError(f"the process with the GPU does not start: {error}") from error

    def _ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        if self._child is None:
            raise ChildEndedError("there is none")
        return self._child.ask(request, limit_s)


def machine(about: Mapping[str, Any]) -> dict[str, Any]:
    """What figures depend on, without the name of the machine."""
    release = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=False).stdout
    version = next((line.strip() for line in release.splitlines() if "release" in line), "")
    facts = {"python": platform.python_version(), "nvcc": version, "cores": os.cpu_count()}
    return {**facts, **{name: about[name] for name in ("gpu", "torch", "driver") if name in about}}
