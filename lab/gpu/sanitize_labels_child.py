"""Calls kernels of an extension on small and on odd sizes, for `sanitize_labels.py` and its tools.

    python -m lab.gpu.sanitize_labels_child EXTENSION NUMBER:TASK...

Prints `CALL N CONFIGURATION` before each call of `specimenN` and `DONE N` after its last one, followed by the error
that a call ended with. An error that ends the whole context is followed by `LOST N`, and nothing more is called. Inputs
are drawn on the processor, so that no kernel but those in question runs. Not covered: whether results are right.
"""

import sys
from collections.abc import Sequence

import torch

from benchmarks.emulator.sizes import bearable, emulated_configs
from benchmarks.harness import Config, TaskSpec, default_suites, find_task
from benchmarks.harness.child.check import load_reference
from benchmarks.harness.child.inputs import call_arguments, draw_for

from .label_together_child import DEVICE, load_extension

_CONFIGS = 2
_MOST_FLOPS = 500_000_000  # of a hidden configuration: under racecheck a call takes a hundred times as long
_EMULATED = 4  # those with odd sizes come early
OF_EMULATOR = "emulator's"  # a configuration that no judging uses


def main(argv: Sequence[str]) -> None:
    extension = load_extension(argv[0])
    for number, name in (word.split(":", 1) for word in argv[1:]):
        task = find_task(default_suites(), name)
        module = load_reference(task.folder)
        kernel = getattr(getattr(extension, f"specimen{number}"), task.direction)
        own = {config.key for config in task.configs_for("cuda")}
        trouble = ""
        for config in configs_of(task):
            print(f"CALL {number} {config.key}{'' if config.key in own else f' ({OF_EMULATOR})'}", flush=True)
            tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in config.tensors]
            draw_for(module, config, bytes(32), tensors, "published")
            try:
                kernel(*call_arguments(config, [item.to(DEVICE) for item in tensors]))
                torch.cuda.synchronize()
            except RuntimeError as error:
                if "CUDA error" not in str(error):
                    continue  # it refuses this size
                trouble = f" {type(error).__name__}: {str(error).splitlines()[0][:120]}"
                if _lost():
                    print(f"DONE {number}{trouble}\nLOST {number}", flush=True)
                    return
        print(f"DONE {number}{trouble}", flush=True)


def _lost() -> bool:
    """Whether the error has ended the context, so that every other call would fail too."""
    try:
        torch.zeros(1, device=DEVICE).item()
    except RuntimeError:
        return True
    return False


def configs_of(task: TaskSpec) -> list[Config]:
    """The smallest ones, those that are hidden, whose sizes are odd, and then the small ones of the emulator."""
    ordered = sorted(task.configs_for("cuda"), key=_size)
    hidden = [config for config in ordered[_CONFIGS:] if config.hidden and config.flops <= _MOST_FLOPS]
    keys = {config.key for config in (*ordered[:_CONFIGS], *hidden)}
    emulated = [config for config in emulated_configs(task) if bearable(config) and config.key not in keys]
    return [*ordered[:_CONFIGS], *hidden, *emulated[:_EMULATED]]


def _size(config: Config) -> int:
    return sum(item.nbytes for item in config.tensors)


if __name__ == "__main__":
    main(sys.argv[1:])
