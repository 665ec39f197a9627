"""The numeric filters of the paper: signs that a task asks for less work than it seems to.

A filter that trips becomes a label of the task, shown to everybody. Looked at: the float64 results on the headline
configurations under the published initialiser, over several seeds, and what each operand does to them. A gradient is
looked at in unit size: it is as large as the gradient that it is given. Not covered: whether the reference is
redundant or slow, which needs a reader.
"""

import itertools
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.harness.tasks.spec import Config, TaskSpec

from ..check import reference
from ..inputs import SEED_BYTES, call_arguments, draw_for

SEEDS = 6
SMALL = 0.01
_SINGLY_S = 10.0  # of exchanging operands one by one
_MOVED_MAX = 0.05  # a change of this share of a result is one in every precision


@dataclass(frozen=True)
class Filtered:
    """Labels of filters that tripped, and remarks on filters that do not apply."""

    labels: tuple[str, ...]
    notes: tuple[str, ...]


def filtered(
    task: TaskSpec,
    module: ModuleType,
    device_class: str = "cpu",
    idle: Collection[str] | None = None,
    device: torch.device | str = "cpu",
) -> Filtered:
    """`idle` are the operands without effect, where somebody has looked for them."""
    configs = [config for config in task.configs_for(device_class) if config.group == "single"]
    stacks = [stack for config in configs for stack in _stacks(task, config, module, device)]
    if idle is None:
        idle = sorted({name for config in configs for name in idle_operands(task, config, module, device=device)})
    notes = [f"{item.name} is a scalar and has no axes" for item in configs[0].results if not item.shape]
    if task.direction == "forward":
        return Filtered((*_tripped(stacks), *(f"no-effect:{name}" for name in idle)), tuple(notes))
    if _small_output(stacks):
        notes.append(f"all gradients are below {SMALL}: they scale with grad_output, so this shows nothing")
    # Admission proves the gradients equal to those of autograd, so there is nothing that they leave out.
    notes += [f"no gradient depends on {name}" for name in idle]
    return Filtered(_tripped([stack / stack.square().mean().sqrt() for stack in stacks]), tuple(notes))


def _tripped(stacks: Sequence[Tensor]) -> tuple[str, ...]:
    """At most one: the first implies the others, which are about the spread of values."""
    return tuple(label for label, trips in _TRIPS.items() if trips(stacks))[:1]


def _small_output(stacks: Sequence[Tensor]) -> bool:
    return all(float(stack.abs().max()) < SMALL for stack in stacks)


def _same_over_seeds(stacks: Sequence[Tensor]) -> bool:
    return any(float(stack.std(0).mean()) < SMALL for stack in stacks)


def _flat_axis(stacks: Sequence[Tensor]) -> bool:
    axes = ((stack, axis) for stack in stacks for axis in range(1, stack.dim()) if stack.shape[axis] > 1)
    return any(float(stack.std(axis).mean()) < SMALL for stack, axis in axes)


_TRIPS = {"small-output": _small_output, "same-over-seeds": _same_over_seeds, "flat-axis": _flat_axis}


def tensors_of(config: Config, device: torch.device | str = "cpu") -> list[Tensor]:
    """Room for the tensor arguments of `config`."""
    return [torch.empty(item.shape, dtype=getattr(torch, item.dtype), device=device) for item in config.tensors]


def _stacks(task: TaskSpec, config: Config, module: ModuleType, device: torch.device | str) -> list[Tensor]:
    """Of each result those of all seeds, one behind the other."""
    drawn = _draws(config, module, device)
    runs = [reference(module, task.direction, call_arguments(config, tensors)) for tensors in drawn]
    return [torch.stack(same) for same in zip(*runs, strict=True)]


def _draws(config: Config, module: ModuleType, device: torch.device | str) -> Iterator[list[Tensor]]:
    for number in range(SEEDS):
        tensors = tensors_of(config, device)
        draw_for(module, config, number.to_bytes(SEED_BYTES, "big"), tensors, "published")
        yield tensors


def idle_operands(
    task: TaskSpec,
    config: Config,
    module: ModuleType,
    among: Collection[str] | None = None,
    *,
    device: torch.device | str = "cpu",
    singly_s: float | None = None,
) -> list[str]:
    """Operands that can be exchanged for another draw without moving a result well beyond its tolerance.

    Where the network has so many that one after the other would take too long, they are exchanged together.
    """
    first, second = itertools.islice(_draws(config, module, device), 2)
    started_s = time.perf_counter()
    expected = reference(module, task.direction, call_arguments(config, first))
    if expected[0].is_cuda:
        torch.cuda.synchronize()
    call_s = time.perf_counter() - started_s
    places = [(place, item.name) for place, item in enumerate(config.tensors) if among is None or item.name in among]
    groups = (
        [[pair] for pair in places]
        if len(places) * call_s < (_SINGLY_S if singly_s is None else singly_s)
        else [places]
    )
    idle = []
    for group in groups:
        exchanged = {place for place, _ in group}
        changed = [second[place] if place in exchanged else item for place, item in enumerate(first)]
        results = reference(module, task.direction, call_arguments(config, changed))
        if not any(map(_moved, results, expected, (result.rms_tolerance for result in config.results))):
            idle += [name for _, name in group]
    return idle


def _moved(result: Tensor, expected: Tensor, rms_tolerance: float) -> bool:
    least = min(100 * rms_tolerance, max(_MOVED_MAX, 2 * rms_tolerance))
    return float((result - expected).norm()) > least * float(expected.norm())
