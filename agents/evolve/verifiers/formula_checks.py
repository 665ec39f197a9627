"""Looks for parts of the task's formula that the source lacks: a root, an exponential, a relu, an argument like eps.

Each can be written in another way, so all findings are doubts. Not covered: whether the operations that are there are
right.
"""

import re
from collections.abc import Iterator

from benchmarks.harness import TaskSpec, ValueArgument

from .doubts import Doubt
from .reading import Reading, occurrences

_NEEDS = (
    ("a relu", r"max\(0|> 0\]", r"max|relu|clamp|[<>]=?\s*0\b|\b0(?:\.0?f?)?\s*[<>]|\?|signbit"),
    ("a square root", r"sqrt|rstd", r"sqrt|pow|norm"),
    ("an exponential", r"\bexp\(|softmax|silu", r"exp|softmax|cross_entropy|silu|sigmoid|tanh"),
)


def operations(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """Nothing in the code looks like an operation of the formula."""
    for name, asked, given in _NEEDS:
        if re.search(asked, task.formula) and not re.search(given, reading.code):
            yield Doubt("numerics", f"the formula has {name}, but nothing here looks like one")


def values(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """A number that the task passes and the entry function does not look at; sizes may be read off tensors instead."""
    entry = reading.entry
    if entry is None or len(entry.parameters) != len(task.argument_names):
        return
    arguments = next(iter(task.configs.values()))[0].arguments
    for name, argument in zip(entry.parameter_names, arguments, strict=True):
        number = isinstance(argument, ValueArgument) and isinstance(argument.value, float)
        if number and name and not occurrences(entry.body, name):
            yield Doubt("numerics", f"the value of {name!r} is never used", reading.line(entry.place))
