"""The usual benchmark script, as honestly as such scripts are written: one process, one set of inputs, one mean.

    python -I script.py '{"binary": ..., "reference": ..., "function": "forward", "configs": [...], ...}'

Runs in a sandbox beside the submission that it times, and believes it. Not covered: everything that the judge is for.
"""

import base64
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

MARK = "kbench-naive "
_WARM_UP_CALLS = 10
_TIMED_CALLS = 100
_BUDGET_S = 2.0  # of the timed calls of one function on one configuration
_CLOSE = {"rtol": 1e-2, "atol": 1e-2}  # what such scripts allow in float32
Function = Callable[..., Any]


def main() -> None:
    plan = json.loads(sys.argv[1])
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.set_num_threads(plan["threads"])
    reference = load(plan["reference"], plan["function"], "reference")
    if plan["filter"]:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from benchmarks.harness.child.enter import install_filter

        install_filter(base64.b64decode(plan["filter"]))
    submission = load(plan["binary"], plan["function"], "kbench_submission")
    agrees, speedups = True, []
    for arguments in plan["configs"]:
        inputs = [draw(item) for item in arguments]
        agrees = agrees and close(submission(*inputs), reference(*inputs))
        speedups.append(mean_s(reference, inputs) / mean_s(submission, inputs))
    speedup = math.exp(sum(map(math.log, speedups)) / len(speedups))
    print(MARK + json.dumps({"agrees": agrees, "speedup": speedup}), flush=True)  # noqa: T201 - that is its answer


def load(path: str, function: str, name: str) -> Function:
    kind = SourceFileLoader if path.endswith(".py") else ExtensionFileLoader
    spec = spec_from_file_location(name, path, loader=kind(name, path))
    assert spec is not None  # noqa: S101 - a script
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Function = getattr(module, function)
    return found


def draw(item: dict[str, Any]) -> Any:
    """One argument of a call: normal values, or classes in their range."""
    if "value" in item:
        return item["value"]
    if item["dtype"] == "int64":
        return torch.randint(int(item["options"].get("classes", 2)), item["shape"])
    tensor = torch.randn(item["shape"])
    return (tensor,) if item["packed"] else tensor


def close(results: Any, expected: Any) -> bool:
    pairs = zip(as_tuple(results), as_tuple(expected), strict=True)
    return all(torch.allclose(result, right, **_CLOSE) for result, right in pairs)


def as_tuple(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)


def mean_s(function: Function, inputs: Sequence[Any]) -> float:
    """Seconds for one call: the mean over a loop after a warm-up."""
    for _ in range(_WARM_UP_CALLS):
        function(*inputs)
    started, calls = time.perf_counter(), 0
    while calls < _TIMED_CALLS and time.perf_counter() - started < _BUDGET_S:
        function(*inputs)
        calls += 1
    return (time.perf_counter() - started) / calls


if __name__ == "__main__":
    main()
