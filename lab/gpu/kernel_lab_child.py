"""The process with the GPU for `kernel_lab.py`: one request as its argument, one JSON line per step on stdout.

Checks each extension on every configuration of a task, two distributions each, the first and the last item of the batch
against float64; then times what was right. Not covered: protection from what a kernel does to this process.
"""

import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Config, TaskSpec, default_suites, find_task
from benchmarks.harness.child.inputs import call_arguments, draw

SEED = bytes(range(32))
FLUSH_BYTES, GATE_CYCLES = 1 << 28, 2_000_000
BUDGET_MS, MIN_ROUNDS, MAX_ROUNDS = 2500.0, 7, 41
Call = Callable[..., Any]


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**words: Any) -> None:
        print(json.dumps(words), file=replies, flush=True)

    request = json.loads(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    task = find_task(default_suites(), request["task"])
    kernels = {name: load(name, path, task.direction) for name, path in request["libraries"].items()}
    right = list(request["right"])
    for name in request["check"]:
        say(began=name)
        found, over = checked(task, kernels[name])
        say(checked=name, **found)
        if over:
            return
        if not found["failure"]:
            right.append(name)
    say(began="timing")
    contestants = {"eager": reference(task), **{name: kernels[name] for name in kernels if name in right}}
    say(**timed(task, contestants, compiled=request["compiled"]))


def load(name: str, path: str, function: str) -> Call:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    call: Call = getattr(module, function)
    return call


def reference(task: TaskSpec) -> Call:
    spec = importlib.util.spec_from_file_location("reference", task.folder / "reference.py")
    if spec is None or spec.loader is None:
        raise ImportError(task.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    call: Call = getattr(module, task.direction)
    return call


def arguments(config: Config, distribution: str) -> list[Any]:
    tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype), device="cuda") for item in config.tensors]
    draw(config, SEED, tensors, distribution)
    return call_arguments(config, tensors)


def as_list(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, tuple | list) else [results]


def expected(task: TaskSpec, values: Sequence[Any]) -> tuple[list[torch.Tensor], slice]:
    """The right results in float64; of big forward passes those of the first and last item of the batch alone."""

    def double(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(double(item) for item in value)
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    places = slice(None)
    values = list(values)
    sliced = task.direction == "forward" and values[0].dim() > 2 and values[0].shape[0] > 2
    if sliced:
        places = slice(None, None, values[0].shape[0] - 1)
        values[0] = values[0][places]
    return as_list(reference(task)(*map(double, values))), places


def checked(task: TaskSpec, kernel: Call) -> tuple[dict[str, Any], bool]:
    """The largest error in parts of what is allowed; whether CUDA is beyond repair."""
    worst = 0.0
    where = ""
    try:
        for config in task.configs_for("cuda"):
            for distribution in ("mixed", "outliers"):
                where = f"{config.key} {distribution}"
                values = arguments(config, distribution)
                right, places = expected(task, values)
                for result in (torch.empty_like(item) for item in right):
                    result.fill_(float("nan"))
                found = as_list(kernel(*values))
                torch.cuda.synchronize()
                for item, result, true in zip(config.results, found, right, strict=True):
                    worst = max(worst, excess(result if places == slice(None) else result[places], true, item))
                if not worst <= 1.0:
                    return {"failure": f"{worst:.2g} times the tolerance at {where}", "worst": worst}, False
                del right, found, values
    except (RuntimeError, TypeError) as error:
        fatal = "CUDA error" in str(error) or "accelerator" in str(error)
        return {"failure": f"{where}: {str(error)[:200]}", "worst": None}, fatal
    return {"failure": "", "worst": worst}, False


def excess(result: torch.Tensor, true: torch.Tensor, item: Any) -> float:
    """The error over the tolerance; infinite where a result is no number."""
    if result.shape != true.shape:
        return float("inf")
    off, size = (result.double() - true).abs(), true.pow(2).mean().sqrt()
    if not bool(torch.isfinite(off).all()):
        return float("inf")
    if item.tolerance == 0.0:
        return 0.0 if float(off.max()) == 0.0 else float("inf")
    element = float((off / (true.abs() + size)).max()) / float(item.tolerance)
    return max(element, float(off.pow(2).mean().sqrt() / size) / float(item.rms_tolerance))


def timed(task: TaskSpec, contestants: dict[str, Call], *, compiled: bool) -> dict[str, Any]:
    configs = [config for config in task.configs_for("cuda") if not config.hidden]
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    table: dict[str, list[float | None]] = {}
    for config in configs:
        values = arguments(config, "published")
        calls = dict(contestants)
        if compiled:
            torch._dynamo.reset()
            calls["compile"] = torch.compile(contestants["eager"], dynamic=False)
        for name, us in times_us(calls, values, flush).items():
            table.setdefault(name, []).append(us)
    return {"configs": [config.key for config in configs], "times_us": table}


def times_us(calls: dict[str, Call], values: Sequence[Any], flush: torch.Tensor) -> dict[str, float | None]:
    """The median of each, in turn; a call that fails has none."""
    marks: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    warm_ms = 0.0
    for call in calls.values():
        for _ in range(2):
            call(*values)
        warm_ms += one_call(call, values, flush)
    rounds = int(max(MIN_ROUNDS, min(MAX_ROUNDS, BUDGET_MS / (warm_ms + 1.4 * len(calls)))))
    for turn in range(rounds):
        names = list(calls) if turn % 2 == 0 else list(reversed(calls))
        for name in names:
            marks[name].append(marked(calls[name], values, flush))
        torch.cuda.synchronize()
    return {
        name: round(statistics.median(1e3 * a.elapsed_time(b) for a, b in pairs), 2) for name, pairs in marks.items()
    }


def one_call(call: Call, values: Sequence[Any], flush: torch.Tensor) -> float:
    start, end = marked(call, values, flush)
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def marked(call: Call, values: Sequence[Any], flush: torch.Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Behind a flush and a gate, so that launches have queued up before the first event."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.fill_(1)
    torch.cuda._sleep(GATE_CYCLES)
    start.record()
    call(*values)
    end.record()
    return start, end


if __name__ == "__main__":
    main()
