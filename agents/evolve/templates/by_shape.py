"""One source with two settings of a template: a size of an argument decides in each call which of them runs.

`best_split` finds, from the speedups that were judged, where two settings would be faster than the best one alone;
`render_by_shape` writes them into one file, each in a namespace of its own. Not covered: when a run tries it
(`proposers/template_evo.py`).
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Config, TaskSpec, starter_code

from .base import Genome, Template

_HEADER = re.compile(r"^#include <[^>\n]+>\n", re.MULTILINE)
_MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
_BINDING = re.compile(r"^PYBIND11_MODULE\(.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class ShapeRule:
    """The first setting runs where the argument has fewer than `below` entries along the axis."""

    argument: str
    axis: int
    below: int

    def __str__(self) -> str:
        return f"{self.argument}.size({self.axis}) < {self.below}"


@dataclass(frozen=True)
class Split:
    """Places in the list of settings, and how many times as fast as the best one alone both together should be."""

    rule: ShapeRule
    small: int
    large: int
    gain: float


def best_split(configs: Sequence[Config], speedups: Sequence[Mapping[str, float]]) -> Split | None:
    """The most promising rule; None where no argument differs in size. `speedups`: of each setting by configuration."""
    logs = np.array([[math.log(found[config.key]) for config in configs] for found in speedups])
    if not logs.size:
        return None
    alone, splits = logs.mean(axis=1).max(), list[Split]()
    for rule, is_small in rules(configs):
        small, large = logs[:, is_small].sum(axis=1), logs[:, ~is_small].sum(axis=1)
        together = (small.max() + large.max()) / len(configs)
        splits.append(Split(rule, int(small.argmax()), int(large.argmax()), math.exp(together - alone)))
    return max(splits, key=lambda split: split.gain, default=None)


def rules(configs: Sequence[Config]) -> Iterator[tuple[ShapeRule, "np.ndarray[tuple[int], np.dtype[np.bool]]"]]:
    """Every way to divide the configurations by one size, halfway between two sizes that occur."""
    shapes = [{item.name: item.shape for item in config.tensors if not item.packed} for config in configs]
    for name, shape in shapes[0].items():
        if not all(len(other.get(name, ())) == len(shape) for other in shapes):
            continue
        for axis in range(len(shape)):
            sizes = np.array([other[name][axis] for other in shapes])
            known = sorted(set(sizes.tolist()))
            for lower, upper in itertools.pairwise(known):
                below = math.isqrt(lower * upper) + 1
                yield ShapeRule(name, axis, below), sizes < below


def render_by_shape(template: Template, task: TaskSpec, rule: ShapeRule, small: Genome, large: Genome) -> str:
    """The source. Both settings must be valid and the task one of those served."""
    parts = {"small_shapes": template.render(small, task), "large_shapes": template.render(large, task)}
    headers = "".join(dict.fromkeys(line for text in parts.values() for line in _HEADER.findall(text)))
    bodies = "\n".join(_in_namespace(name, text) for name, text in parts.items())
    return (
        f"// Two settings of one kernel: the first where {rule}.\n{headers}\n{bodies}\n{_choice(template, task, rule)}"
    )


def _in_namespace(name: str, text: str) -> str:
    """Headers and macros have no namespace: the headers stand at the top, the macros end with the part."""
    body = _BINDING.sub("", _HEADER.sub("", text)).replace('extern "C" ', "").strip("\n")
    ends = "".join(f"#undef {macro}\n" for macro in dict.fromkeys(_MACRO.findall(text)))
    return f"namespace {name} {{\n\n{body}\n\n}}  // namespace {name}\n\n{ends}"


def _choice(template: Template, task: TaskSpec, rule: ShapeRule) -> str:
    lines = starter_code(task, template.language).splitlines()
    (signature,) = (line.removesuffix(" {") for line in lines if f" {task.direction}(" in line and line.endswith(" {"))
    passed = f"{task.direction}({', '.join(task.argument_names)})"
    return (
        f"{signature} {{\n    if ({rule}) return small_shapes::{passed};\n    return large_shapes::{passed};\n}}\n\n"
        f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{task.direction}", &{task.direction}); }}\n'
    )
