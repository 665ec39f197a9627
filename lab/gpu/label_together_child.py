"""The process that holds the GPU for `label_together.py`: `python -m lab.gpu.label_together_child EXTENSION DRAWS`.

Calls one kernel after the other on every configuration of its task: so many draws of inputs each, and every draw three
times, with NaN in the memory that allocations get. A result must have its shape and dtype and lie within the
tolerances of the judge's float64 reference, and inputs must stay as they were. With a third argument, `poisoned`, large
configurations are left out, the extension's own `poison` is called before each call, and only errors above twice the
tolerance count (`changed_conditions.py`). Not covered: protection from kernels.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Config, TaskSpec, Verdict, default_suites, find_task
from benchmarks.harness.child.check import as_tuple, compare, load_reference, reference
from benchmarks.harness.child.gpu.accelerator import exact_arithmetic
from benchmarks.harness.child.inputs import call_arguments, draw_for
from benchmarks.harness.compilers.toolchain import MODULE

DEVICE = torch.device("cuda:0")
DISTRIBUTIONS = ("published", "normal")
CALLS = 3
_POISON_BYTES = 256 << 20
_DOUBTED_SLACK, _DOUBTED_FLOPS = 2.0, 150e6


@dataclass(frozen=True)
class CallRules:
    """What is done before and after every call, how many times the tolerance is allowed, and up to which size.

    `after` gives the number of an error, or 0.
    """

    before: Callable[[], None] = bool
    after: Callable[[], int] = int
    slack: float = 1.0
    most_flops: float = float("inf")


def main(argv: Sequence[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a kernel prints is no answer
    exact_arithmetic()
    torch.zeros(1, device=DEVICE)
    extension, draws, poisoned = load_extension(argv[0]), int(argv[1]), "poisoned" in argv[2:]
    how = CallRules(extension.poison, extension.last_error, _DOUBTED_SLACK, _DOUBTED_FLOPS) if poisoned else CallRules()
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("what") == "begin":
            print(json.dumps({"ready": True}), file=answers, flush=True)
            continue
        task = find_task(default_suites(), request["task"])
        verdict, reason = judged(getattr(extension, request["module"]), task, draws, how)
        over = False
        try:
            torch.cuda.synchronize()
        except RuntimeError:  # the context is lost
            over = True
        print(json.dumps({"verdict": verdict, "reason": reason, "over": over}), file=answers, flush=True)


def judged(module: ModuleType, task: TaskSpec, draws: int, how: CallRules) -> tuple[Verdict, str]:
    """The verdict on results. An error of the kernel is its verdict, whatever it is."""
    kernel = getattr(module, task.direction)
    for case in (
        _kept_cases(task.name, how.most_flops)
        if draws == len(DISTRIBUTIONS)
        else _cases(task.name, draws, how.most_flops)
    ):
        for earlier_calls in range(CALLS):
            _poison()
            how.before()
            try:
                results = kernel(*call_arguments(case.config, case.tensors))
                torch.cuda.synchronize()
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                return Verdict.RUNTIME_ERROR, f"{type(error).__name__}: {error} ({case.config.key})"
            if error_number := how.after():
                return Verdict.RUNTIME_ERROR, f"CUDA error {error_number} ({case.config.key})"
            fault = _fault(as_tuple(results), case, how.slack)
            if fault is not None:
                varies = earlier_calls > 0 and fault[0] is Verdict.INCORRECT_VALUE
                return Verdict.NONDETERMINISTIC if varies else fault[0], f"{fault[1]} ({case.config.key})"
            changed = [not _same(now, then) for now, then in zip(case.tensors, case.kept, strict=True)]
            if any(changed):
                for now, then in zip(case.tensors, case.kept, strict=True):
                    now.copy_(then)
                return Verdict.INCORRECT_VALUE, f"it changed an input ({case.config.key})"
    return Verdict.PASS, ""


@dataclass(frozen=True)
class LabelCase:
    """One draw for one configuration: the inputs, a copy of them, and the right results in float64."""

    config: Config
    tensors: Sequence[Tensor]
    kept: Sequence[Tensor]
    expected: Sequence[Tensor]


@lru_cache(maxsize=1)  # specimens come by task, and the values of one task may fill much of the GPU
def _kept_cases(name: str, most_flops: float) -> list[LabelCase]:
    return list(_cases(name, len(DISTRIBUTIONS), most_flops))


def _cases(name: str, draws: int, most_flops: float) -> Iterator[LabelCase]:
    """The distributions take turns."""
    task = find_task(default_suites(), name)
    module = load_reference(task.folder)
    for config in (item for item in task.configs_for("cuda") if item.flops <= most_flops):
        for number in range(draws):
            tensors = [
                torch.empty(item.shape, dtype=getattr(torch, item.dtype), device=DEVICE) for item in config.tensors
            ]
            draw_for(module, config, bytes([number + 1]) * 32, tensors, DISTRIBUTIONS[number % len(DISTRIBUTIONS)])
            expected = reference(module, task.direction, call_arguments(config, tensors))
            yield LabelCase(config, tensors, [item.clone() for item in tensors], expected)


def _fault(results: Sequence[Any], case: LabelCase, slack: float) -> tuple[Verdict, str] | None:
    if len(results) != len(case.config.results):
        return Verdict.INCORRECT_SHAPE, f"{len(results)} results"
    for got, right, item in zip(results, case.expected, case.config.results, strict=True):
        if tuple(got.shape) != tuple(item.shape) and got.numel() * right.numel() != 1:
            return Verdict.INCORRECT_SHAPE, f"{item.name} is {tuple(got.shape)}"
        if got.dtype != getattr(torch, item.dtype) or got.device.type != "cuda":
            return Verdict.INCORRECT_DTYPE, f"{item.name} is {got.dtype} on {got.device}"
        found = compare(got.reshape(right.shape), right, slack * item.tolerance, slack * item.rms_tolerance)
        if not found.ok:
            return Verdict.INCORRECT_VALUE, f"{item.name}: {found.reason}"
    return None


def _poison() -> None:
    """NaN in what torch's allocator hands out next, small and large."""
    held = [torch.empty(_POISON_BYTES, dtype=torch.uint8, device=DEVICE).fill_(0xFF)]
    held += [torch.empty(1 << power, dtype=torch.uint8, device=DEVICE).fill_(0xFF) for power in range(9, 21)]
    torch.cuda.synchronize()
    del held


def _same(now: Tensor, then: Tensor) -> bool:
    return torch.equal(now.reshape(-1).view(torch.uint8), then.reshape(-1).view(torch.uint8))


def load_extension(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1:])
