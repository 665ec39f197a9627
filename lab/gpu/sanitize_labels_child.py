"""Calls each kernel of an extension once on small and on hidden configurations, for `sanitize_labels.py` and its tools.

    python -m lab.gpu.sanitize_labels_child EXTENSION TASK...

Prints `DONE N` after the last call of `specimenN`. Inputs are drawn on the processor, so that no kernel but those in
question runs. Not covered: whether results are right.
"""

import sys
from collections.abc import Sequence

import torch

from benchmarks.harness import Config, TaskSpec, default_suites, find_task
from benchmarks.harness.child.check import load_reference
from benchmarks.harness.child.inputs import call_arguments, draw_for

from .label_together_child import DEVICE, load_extension

_CONFIGS = 2


def main(argv: Sequence[str]) -> None:
    extension = load_extension(argv[0])
    for number, name in enumerate(argv[1:]):
        task = find_task(default_suites(), name)
        module = load_reference(task.folder)
        kernel = getattr(getattr(extension, f"specimen{number}"), task.direction)
        trouble = ""
        for config in configs_of(task):
            tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in config.tensors]
            draw_for(module, config, bytes(32), tensors, "published")
            try:
                kernel(*call_arguments(config, [item.to(DEVICE) for item in tensors]))
                torch.cuda.synchronize()
            except RuntimeError as error:
                trouble = f" {type(error).__name__}"
        print(f"DONE {number}{trouble}", flush=True)


def configs_of(task: TaskSpec) -> list[Config]:
    """The smallest ones, then those that are hidden: their sizes are odd, so that tiles and blocks do not fill."""
    ordered = sorted(task.configs_for("cuda"), key=_size)
    return [*ordered[:_CONFIGS], *(config for config in ordered[_CONFIGS:] if config.hidden)]


def _size(config: Config) -> int:
    return sum(item.nbytes for item in config.tensors)


if __name__ == "__main__":
    main(sys.argv[1:])
