"""The process that holds the GPU for `plain_cuda.py`: checks and times plain cores, one JSON line per request.

Every core is called on each visible configuration of the task and on the small odd ones meant for CPUs; its results
must lie within the task's tolerances of a float64 reference. Each timed call follows a flush of the cache, a reference
kernel and the one in question by turns. Not covered: protection from what a kernel does to this process.
"""

import ctypes
import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from agents.evolve.templates.cuda import CALLS
from benchmarks.harness import Config, TaskSpec, default_rules, default_suites, find_task
from benchmarks.harness.child.inputs import call_arguments, draw

DEVICE = torch.device("cuda:0")
SEED = bytes(range(32))
KERNEL_GATE, PYTHON_GATE = 100_000, 2_000_000  # clock cycles for which the GPU waits while launches queue up
SLOW_US = 20_000.0
Launch = Callable[[], object]


@dataclass
class CoreCase:
    """One configuration with its values on the GPU and the right results in float64."""

    config: Config
    tensors: dict[str, torch.Tensor]
    expected: list[torch.Tensor] = field(default_factory=list)
    results: list[torch.Tensor] = field(default_factory=list)


class CoreBench:
    """The cases of a task: all are checked, the first `timed` of them are timed."""

    def __init__(self, task: TaskSpec) -> None:
        self.task, self.call = task, CALLS[task.name]
        self.function = getattr(_reference_module(task), task.direction)
        self.flush_room = torch.empty(default_rules().gpu.flush_bytes, dtype=torch.uint8, device=DEVICE)
        visible = [config for config in task.configs_for("cuda") if not config.hidden]
        small = [config for config in task.configs_for("cpu") if not config.hidden]
        self.cases = [self._case(config, "published") for config in self._distinct(visible)]
        self.timed = len(self.cases)
        self.cases += [self._case(config, "normal") for config in self._distinct(small)]
        self.reference: CompiledCore | None = None

    def _distinct(self, configs: Sequence[Config]) -> list[Config]:
        """Without those that a core cannot tell apart."""
        return list({self.call.sizes(config.values): config for config in reversed(configs)}.values())[::-1]

    def _case(self, config: Config, distribution: str) -> CoreCase:
        tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype), device=DEVICE) for item in config.tensors]
        draw(config, SEED, tensors, distribution)
        names = (item.name for item in config.tensors)
        case = CoreCase(config, dict(zip(names, tensors, strict=True)))
        results = self.function(*_arguments(case, torch.float64))
        case.expected = list(results) if isinstance(results, tuple | list) else [results]
        case.results = [torch.empty(item.shape, device=DEVICE) for item in config.results]
        return case

    def measure(self, library: str, pairs: int) -> dict[str, Any]:
        kernel = CompiledCore(library, self)
        for case in self.cases:
            if failure := self._fault(kernel, case):
                return {"failure": failure}
        found = [self._time(kernel, case, pairs) for case in self.cases[: self.timed]]
        if failure := next((words for case in self.cases[: self.timed] if (words := wrong(case))), ""):
            return {"failure": f"after timing: {failure}"}
        return {"failure": "", "times_us": [own for own, _ in found], "speedups": [ratio for _, ratio in found]}

    def _fault(self, kernel: "CompiledCore", case: CoreCase) -> str:
        for result in case.results:
            result.fill_(float("nan"))
        status = kernel.bind(case)()
        torch.cuda.synchronize()
        if status != 0:
            return f"launch failed with CUDA error {status} at {case.config.key}"
        words = wrong(case)
        return f"{words} at {case.config.key}" if words else ""

    def _time(self, kernel: "CompiledCore", case: CoreCase, pairs: int) -> tuple[float, float]:
        """The median microseconds, and the median of reference / kernel. Both kernels write the same results."""
        own = kernel.bind(case)
        other = self.reference.bind(case) if self.reference is not None else own
        first_us = self.times_us([own], 1, KERNEL_GATE)[0][0]
        taken = self.times_us([other, own], 3 if first_us > SLOW_US else pairs, KERNEL_GATE)
        if own is not other:
            own()  # leaves its own results behind
            torch.cuda.synchronize()
        ratio = statistics.median(theirs / mine for theirs, mine in zip(*taken, strict=True))
        return round(statistics.median(taken[1]), 3), round(ratio, 4)

    def times_us(self, calls: Sequence[Launch], rounds: int, gate: int) -> list[list[float]]:
        """Per call its times, taken by turns with a cold cache."""
        marks: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
        for turn in range(rounds):
            places = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
            for place in places:
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                self.flush_room.zero_()
                torch.cuda._sleep(gate)
                start.record()
                calls[place]()
                end.record()
                marks[place].append((start, end))
        torch.cuda.synchronize()
        return [[1e3 * start.elapsed_time(end) for start, end in pairs] for pairs in marks]

    def baselines(self, *, compiled: bool) -> dict[str, Any]:
        found: dict[str, list[float | None]] = {"eager_us": [], "compile_us": []}
        for case in self.cases[: self.timed]:
            arguments = _arguments(case, torch.float32)
            found["eager_us"].append(self._baseline(self.function, arguments))
            if compiled:
                torch._dynamo.reset()
            found["compile_us"].append(
                self._baseline(torch.compile(self.function, dynamic=False), arguments) if compiled else None
            )
        return found

    def _baseline(self, function: Callable[..., Any], arguments: list[Any]) -> float | None:
        try:
            for _ in range(3):
                function(*arguments)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - whatever a compiler meets, the other baseline remains
            print(f"a baseline failed: {str(error)[:500]}", file=sys.stderr)
            return None
        return round(statistics.median(self.times_us([lambda: function(*arguments)], 11, PYTHON_GATE)[0]), 3)


class CompiledCore:
    """A compiled core."""

    def __init__(self, library: str, bench: CoreBench) -> None:
        self._library, self._bench = ctypes.CDLL(library), bench
        self._library.workspace_floats.restype = ctypes.c_int64

    def bind(self, case: CoreCase) -> Callable[[], int]:
        """A launch on the tensors of a case; it holds its own workspace."""
        call = self._bench.call
        names = call.inputs or tuple(item.name for item in case.config.tensors)
        sizes = [ctypes.c_int(size) for size in call.sizes(case.config.values)]
        workspace = torch.empty(max(1, self._library.workspace_floats(*sizes)), device=DEVICE)
        tensors = [*(case.tensors[name] for name in names), *case.results, workspace]
        eps = [ctypes.c_float(float(str(case.config.values["eps"])))] if call.eps else []
        pointers = [ctypes.c_void_p(item.data_ptr()) for item in tensors]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launch = self._library.launch

        def run(_held: torch.Tensor = workspace) -> int:
            return int(launch(*pointers, *sizes, *eps, stream))

        return run


def wrong(case: CoreCase) -> str:
    """Why results are wrong by the tolerances of the task; empty for right ones."""
    for got, want, rule in zip(case.results, case.expected, case.config.results, strict=True):
        size = want.square().mean().sqrt()
        error = (got.double() - want).abs()
        excess = error - rule.tolerance * (want.abs() + size)
        if not bool((excess <= 0).all()):
            return f"{rule.name} is off by {float(error.max()) / (float(size) or 1):.2g} of its size"
        off = float(error.square().mean().sqrt()) / (float(size) or 1)
        if off > rule.rms_tolerance:
            return f"{rule.name} is off by {off:.2g} of its size in the mean"
    return ""


def _arguments(case: CoreCase, dtype: torch.dtype) -> list[Any]:
    tensors = [item.to(dtype) if item.is_floating_point() else item for item in case.tensors.values()]
    return call_arguments(case.config, tensors)


def _reference_module(task: TaskSpec) -> Any:
    spec = importlib.util.spec_from_file_location("reference", task.folder / "reference.py")
    if spec is None or spec.loader is None:
        raise OSError(f"{task.name} has no reference")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def about(bench: CoreBench) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(DEVICE)
    return {
        "gpu": properties.name,
        "processors": properties.multi_processor_count,
        "torch": torch.__version__,
        "configs": [case.config.key for case in bench.cases[: bench.timed]],
        "bytes": [case.config.bytes_moved for case in bench.cases[: bench.timed]],
        "flops": [case.config.flops for case in bench.cases[: bench.timed]],
    }


def answer(bench: CoreBench, request: dict[str, Any]) -> dict[str, Any]:
    if request["what"] == "baselines":
        return bench.baselines(compiled=request["compiled"])
    if request["what"] == "measure":
        return bench.measure(request["library"], request["pairs"])
    if request["reference"]:
        bench.reference = CompiledCore(request["reference"], bench)
    return about(bench)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints, prints elsewhere
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    bench = CoreBench(find_task(default_suites(), sys.argv[1]))
    for line in sys.stdin:
        over = False
        try:
            reply = answer(bench, json.loads(line))
        except RuntimeError as error:  # what CUDA reports late; nothing more can be had of this process
            reply, over = {"failure": str(error)[:500], "over": True}, True
        except (OSError, AttributeError) as error:
            reply = {"failure": str(error)[:500]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if over:
            return


if __name__ == "__main__":
    main()
