"""The trusted side of a check: draws inputs, holds the float64 reference, compares. It never holds a submission.

    python -I reference.py LINK

Speaks over a socket. Not covered: running the submission, which a process of its own does.
"""

import mmap
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
from torch import Tensor

from benchmarks.harness.child.check import load_reference
from benchmarks.harness.child.checkers import Checker, checker_of
from benchmarks.harness.child.inputs import call_arguments, draw_for
from benchmarks.harness.child.shell import connect, set_threads, view

Case = tuple[list[Any], tuple[Tensor, ...]]  # of a configuration: the arguments of its call, and what is right
_NEAR = 2  # times a tolerance: an error that other roundings could make or not


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    message = link.receive()
    set_threads(1)
    module = load_reference(Path(message["task"]))
    inputs = mmap.mmap(message["inputs"], 0)
    checker = checker_of(module, message["function"])
    cases: list[Case] = []
    for config in message["configs"]:
        try:
            cases.append(_case(module, config, checker, inputs))
        except Exception as error:  # noqa: BLE001 - process edge: an imported task's reference is somebody's code
            link.send(problem=f"{type(error).__name__}: {error}"[:1000])
            return
    link.send(drawn=True)
    results = mmap.mmap(message["results"], 0, mmap.MAP_SHARED, mmap.PROT_READ)
    while True:  # until it is ended
        runs = link.receive()["runs"]
        found = [_problem(run, message["configs"], cases, checker, results) for run in runs]
        link.send(problems=[text for text, _ in found], near=[near for _, near in found])


def _case(module: Any, config: Mapping[str, Any], checker: Checker, inputs: mmap.mmap) -> Case:
    items = [item for item in config["arguments"] if "draw" in item]
    tensors = [torch.empty(item["shape"], dtype=getattr(torch, item["dtype"])) for item in items]
    draw_for(module, config, bytes.fromhex(config["seed"]), tensors)
    for tensor, offset in zip(tensors, config["offsets"], strict=True):
        data = tensor.view(torch.uint8).numpy().tobytes()  # numpy has not all of these dtypes
        inputs[offset : offset + len(data)] = data
    arguments = call_arguments(config, tensors)
    return arguments, checker.truth(arguments)


def _problem(
    run: Mapping[str, Any], configs: Sequence[Any], cases: Sequence[Case], checker: Checker, results: mmap.mmap
) -> tuple[str, bool]:
    """What is wrong with the results of one run, empty if nothing is, and whether twice the tolerance would do."""
    described, (arguments, truth) = configs[run["config"]]["results"], cases[run["config"]]
    values = [view(results, item, offset) for item, offset in zip(described, run["offsets"], strict=True)]
    found = checker.compare(f"run {run['config']}", arguments, values, truth, described)
    if all(item.ok for item in found):
        return "", False
    relaxed = [{**item, **{name: _NEAR * item[name] for name in ("tolerance", "rms_tolerance")}} for item in described]
    near = checker.compare(f"near {run['config']}", arguments, values, truth, relaxed)
    wrong = next(number for number, item in enumerate(found) if not item.ok)
    return f"{described[wrong]['name']}: {found[wrong].reason}", near[wrong].ok


if __name__ == "__main__":
    main(sys.argv[1:])
