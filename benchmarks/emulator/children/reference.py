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

from benchmarks.harness.child.check import compare, load_reference, reference
from benchmarks.harness.child.inputs import call_arguments, draw_for
from benchmarks.harness.child.shell import connect, set_threads, view

_NEAR = 2  # times a tolerance: an error that other roundings could make or not


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    message = link.receive()
    set_threads(1)
    module = load_reference(Path(message["task"]))
    inputs = mmap.mmap(message["inputs"], 0)
    expected: list[tuple[Tensor, ...]] = []
    for config in message["configs"]:
        try:
            expected.append(_expected(module, config, message["function"], inputs))
        except Exception as error:  # noqa: BLE001 - process edge: an imported task's reference is somebody's code
            link.send(problem=f"{type(error).__name__}: {error}"[:1000])
            return
    link.send(drawn=True)
    results = mmap.mmap(message["results"], 0, mmap.MAP_SHARED, mmap.PROT_READ)
    while True:  # until it is ended
        runs = link.receive()["runs"]
        found = [_problem(run, message["configs"], expected, results) for run in runs]
        link.send(problems=[text for text, _ in found], near=[near for _, near in found])


def _expected(module: Any, config: Mapping[str, Any], function: str, inputs: mmap.mmap) -> tuple[Tensor, ...]:
    items = [item for item in config["arguments"] if "draw" in item]
    tensors = [torch.empty(item["shape"], dtype=getattr(torch, item["dtype"])) for item in items]
    draw_for(module, config, bytes.fromhex(config["seed"]), tensors)
    for tensor, offset in zip(tensors, config["offsets"], strict=True):
        data = tensor.numpy().tobytes()
        inputs[offset : offset + len(data)] = data
    return reference(module, function, call_arguments(config, tensors))


def _problem(
    run: Mapping[str, Any], configs: Sequence[Any], expected: Sequence[tuple[Tensor, ...]], results: mmap.mmap
) -> tuple[str, bool]:
    """What is wrong with the results of one run, empty if nothing is, and whether twice the tolerance would do."""
    described = configs[run["config"]]["results"]
    for item, right, offset in zip(described, expected[run["config"]], run["offsets"], strict=True):
        values, tolerance, of_all = view(results, item, offset), item["tolerance"], item["rms_tolerance"]
        found = compare(values, right, tolerance, of_all)
        if not found.ok:
            near = compare(values, right, _NEAR * tolerance, _NEAR * of_all)
            return f"{item['name']}: {found.reason}", near.ok
    return "", False


if __name__ == "__main__":
    main(sys.argv[1:])
