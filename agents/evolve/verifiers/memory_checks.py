"""Checks how the entry function uses inputs and outputs: written, never written, changed, made of constants.

Only the entry function and pointers declared in it are examined; anything passed to another function is assumed to be
written.
"""

import re
from collections.abc import Iterator

from benchmarks.harness import TaskSpec, TensorArgument

from .doubts import Doubt
from .reading import (
    Allocation,
    ParsedFunction,
    Reading,
    allocations,
    pointers,
    returned,
    split,
    without_dead_variables,
)

_HARMLESS = r"\.(?:size|sizes|numel|options|dim|stride|strides|dtype|device|scalar_type|is_contiguous|defined)\("
_CONSTANT = re.compile(r"^(?:torch|at)::(?:zeros|ones|zeros_like|ones_like|empty|empty_like)\(")
_FILLED = re.compile(r"^(?:torch|at)::(?:full|full_like)\(")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]")
_IN_PLACE = (
    r"\.(?:zero|fill|add|sub|mul|div|copy|relu|clamp|clamp_min|clamp_max|neg|exp|log|sqrt|pow|normal|uniform)_\("
)


def outputs(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """A result that nothing is ever written to, or that is the same whatever comes in."""
    entry = reading.entry
    if entry is None:
        return
    live = without_dead_variables(entry.body)
    made = {item.name: item for item in allocations(entry.body)}
    for answer, place in returned(entry.body):
        line = reading.line(entry.body_place + place)
        for part in _parts(answer):
            if _is_constant(part):
                yield Doubt("cheating", f"{part!r} does not depend on the arguments", line, certain=True)
            elif part in made and not _touched(live, part, made[part]):
                text = f"{part!r} is allocated and returned, and nothing writes to it"
                yield Doubt("memory", text, reading.line(entry.body_place + made[part].place), certain=True)


def accumulation(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """`+=` into a result that was allocated and not cleared."""
    entry = reading.entry
    if entry is None:
        return
    empty = {item.name for item in allocations(entry.body) if item.kind == "empty"}
    for pointer, tensor in pointers(entry.body).items():
        added = re.search(rf"\b{pointer}\[[^\]]{{0,200}}\]\s*[-+*]=", entry.body)
        cleared = re.search(
            rf"\b{pointer}\[[^\]]{{0,200}}\]\s*=(?!=)|\b(?:fill_n|fill|memset)\(\s*{pointer}\b", entry.body
        )
        if tensor in empty and added and not cleared and not re.search(rf"\b{tensor}\.(?:zero|fill)_\(", entry.body):
            text = f"values are added to {pointer!r}, but {tensor!r} is not cleared before"
            yield Doubt("memory", text, reading.line(entry.body_place + added.start()))


def inputs(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """An input that is changed, returned as the result, or never looked at."""
    entry = reading.entry
    if entry is None or len(entry.parameters) != len(task.argument_names):
        return
    arguments = next(iter(task.configs.values()))[0].arguments
    for name, argument in zip(entry.parameter_names, arguments, strict=True):
        if name and isinstance(argument, TensorArgument):
            yield from _changed(reading, entry, name)
            if task.direction == "forward":  # a gradient often needs no more of an argument than its shape
                yield from _unused(reading, entry, name)


def _parts(answer: str) -> list[str]:
    return list(split(answer[1:-1])) if answer.startswith("{") and answer.endswith("}") else [answer]


def _is_constant(part: str) -> bool:
    """Whether it is made of constants: what `full` writes may be a name, and so a value that was computed."""
    filled = _FILLED.match(part)
    if filled is None:
        return bool(_CONSTANT.match(part))
    value = [*split(part[filled.end() : part.rfind(")")]), "", ""][1]
    return not _NAME.search(value)


def _touched(live: str, name: str, made: Allocation) -> bool:
    """Whether anything may write to `name`: any use but its allocation, its size and its return."""
    uses = [item for item in re.finditer(rf"\b{name}\b", live) if item.start() != made.place]
    return any(not _harmless(live, item) for item in uses)


def _harmless(live: str, use: re.Match[str]) -> bool:
    statement = live[max(live.rfind(char, 0, use.start()) for char in ";{}") + 1 : use.start()]
    in_return = re.search(r"\breturn\b", live[live.rfind(";", 0, use.start()) + 1 : use.start()])
    return bool(in_return or re.match(_HARMLESS, live[use.end() :])) and "=" not in statement


def _changed(reading: Reading, entry: ParsedFunction, name: str) -> Iterator[Doubt]:
    """Certain only while the parameter is still the caller's tensor: another `x = ...` may have made a copy."""
    body = re.sub(rf"(?<![\w.]){name}\s*=\s*{name}\.contiguous\(\)", lambda item: " " * len(item.group()), entry.body)
    kept = not re.search(rf"(?<![\w.]){name}\s*=(?!=)", body)
    same = {name, *re.findall(rf"\b(?:auto|Tensor)\s+(\w+)\s*=\s*{name}\s*[;,]", body)}
    found = next(_writes(body, same), None)
    if found is not None:
        text = f"{name!r} is an input and is written to; inputs belong to the caller"
        yield Doubt("memory", text, reading.line(entry.body_place + found), certain=kept)
    for alias in sorted(same - {name}):
        if any(alias in _parts(answer) for answer, _ in returned(body)):
            again = re.search(rf"[;}}{{]\s*{alias}\s*=(?!=)", body)
            text = f"{alias!r} is the input {name!r} itself, and it is returned"
            yield Doubt("memory", text, reading.line(entry.place), certain=kept and not again)


def _writes(body: str, names: set[str]) -> Iterator[int]:
    """Places that write to one of these tensors: a method in place, or through a pointer declared here."""
    aliases = [item for item, owner in pointers(body).items() if owner in names]
    patterns = [
        *(rf"(?<![\w.>]){name}{_IN_PLACE}" for name in sorted(names)),
        *(rf"(?<![\w.]){item}\[[^\]]{{0,200}}\]\s*[-+*/]?=(?!=)" for item in aliases),
    ]
    for pattern in patterns:
        yield from (item.start() for item in re.finditer(pattern, body))


def _unused(reading: Reading, entry: ParsedFunction, name: str) -> Iterator[Doubt]:
    """Its sizes may be all that is wanted of it, so this is a doubt only."""
    live = without_dead_variables(entry.body)
    uses = [item for item in re.finditer(rf"\b{name}\b", live) if not re.match(_HARMLESS, live[item.end() :])]
    if not uses:
        yield Doubt("memory", f"the values of {name!r} are never read", reading.line(entry.place))
