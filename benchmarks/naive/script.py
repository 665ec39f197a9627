"""The usual benchmark script, as honestly as such scripts are written: one process, one set of inputs, one mean.

    python -I script.py '{"binary": ..., "reference": ..., "function": "forward", "configs": [...], ...}'

Runs in a sandbox, in one process with the submission, and trusts it. Not covered: all protection that the judge has.
"""

import ast
import base64
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.pycache_prefix = os.environ.get("KBENCH_BYTECODE", sys.pycache_prefix)

import torch  # noqa: E402 - it may have been compiled there, where torch was installed without compiled files

MARK = "kbench-naive "
_WARM_UP_CALLS = 10
_TIMED_CALLS = 100
_BUDGET_S = 2.0  # of the timed calls of one function on one configuration
_CLOSE = {"rtol": 1e-2, "atol": 1e-2}  # what such scripts allow
_SEED = 0
Function = Callable[..., Any]


def main() -> None:
    plan = json.loads(sys.argv[1])
    torch.set_grad_enabled(False)
    torch.set_num_threads(plan["threads"])
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks.harness.child.check import load_module
    from benchmarks.harness.child.enter import install_filter
    from benchmarks.harness.child.modules import loaded_build

    torch.manual_seed(_SEED)
    if plan["filter"]:
        install_filter(base64.b64decode(plan["filter"]))
    reference = load_module(Path(plan["reference"]), "reference")
    submission = loaded_build(plan["binary"])
    agrees, speedups = True, []
    # all inputs first: each keeps its place in memory, so that the answer does not change from run to run
    for ours, theirs, inputs in [prepared(reference, submission, config, plan) for config in plan["configs"]]:
        agrees = agrees and close(theirs(*inputs), ours(*inputs))
        speedups.append(mean_s(ours, inputs, plan["device"]) / mean_s(theirs, inputs, plan["device"]))
    speedup = math.exp(sum(map(math.log, speedups)) / len(speedups))
    print(MARK + json.dumps({"agrees": agrees, "speedup": speedup}), flush=True)  # noqa: T201 - that is its answer


def prepared(
    reference: Any, submission: Any, config: dict[str, Any], plan: dict[str, Any]
) -> tuple[Function, Function, Sequence[Any]]:
    """The reference, the submission, and the inputs of one configuration: drawn once, from a fixed seed."""
    if plan["is_module"]:
        init, device = ast.literal_eval(config["values"]["init"]), plan["device"]
        ours, theirs = (seeded(made, *init).to(device) for made in (reference.Model, submission.ModelNew))
        return ours, theirs, [on_device(item, device) for item in seeded(reference.get_inputs)]
    ours, theirs = getattr(reference, plan["function"]), of_config(getattr(submission, plan["entry"]), config)
    inputs = [draw(item, plan["device"]) for item in config["arguments"]]
    if plan["is_imported"]:  # the author's own functions draw
        tensors = [item[0] if isinstance(item, tuple) else item for item in inputs]
        tensors = [item for item in tensors if isinstance(item, torch.Tensor)]
        reference.kbench_draw({"values": config["values"]}, bytes([_SEED] * 32), tensors)
    return ours, theirs, inputs


def of_config(function: Function, config: dict[str, Any]) -> Function:
    """A function that takes one nested value is called with its parts here, as the reference is."""
    from benchmarks.harness.child.cases import adapted

    return adapted(function, config["values"]) if "data" in config["values"] else function


def seeded(function: Function, *arguments: Any) -> Any:
    torch.manual_seed(_SEED)
    return function(*arguments)


def on_device(item: Any, device: str) -> Any:
    return item.to(device) if isinstance(item, torch.Tensor) else item


def draw(item: dict[str, Any], device: str) -> Any:
    """One argument of a call: normal values, or classes in their range."""
    if "value" in item:
        return item["value"]
    dtype = getattr(torch, item["dtype"])
    if not dtype.is_floating_point:
        return torch.randint(int(item["options"].get("classes", 2)), item["shape"], device=device).to(dtype)
    tensor = torch.randn(item["shape"], device=device).to(dtype)
    return (tensor,) if item["packed"] else tensor


def close(results: Any, expected: Any) -> bool:
    pairs = zip(as_tuple(results), as_tuple(expected), strict=True)
    return all(
        result.shape == right.shape and torch.allclose(result.double(), right.double(), **_CLOSE)
        for result, right in pairs
    )


def as_tuple(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)


def mean_s(function: Function, inputs: Sequence[Any], device: str) -> float:
    """Seconds for one call: the mean over a loop after a warm-up, by CUDA events on a GPU."""
    return mean_by_events_s(function, inputs) if device == "cuda" else mean_by_clock_s(function, inputs)


def mean_by_clock_s(function: Function, inputs: Sequence[Any]) -> float:
    for _ in range(_WARM_UP_CALLS):
        function(*inputs)
    started, calls = time.perf_counter(), 0
    while calls < _TIMED_CALLS and time.perf_counter() - started < _BUDGET_S:
        function(*inputs)
        calls += 1
    return (time.perf_counter() - started) / calls


def mean_by_events_s(function: Function, inputs: Sequence[Any]) -> float:
    function(*inputs)
    warm_s = loop_by_events_s(function, inputs, _WARM_UP_CALLS)
    calls = max(1, min(_TIMED_CALLS, int(_BUDGET_S * _WARM_UP_CALLS / warm_s)))
    return loop_by_events_s(function, inputs, calls) / calls


def loop_by_events_s(function: Function, inputs: Sequence[Any], calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        function(*inputs)
    end.record()
    torch.cuda.synchronize()
    return max(1e-9, float(start.elapsed_time(end)) / 1e3)


if __name__ == "__main__":
    main()
