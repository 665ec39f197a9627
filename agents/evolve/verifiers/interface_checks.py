"""Whether a torch extension offers what the task calls: exported name, parameters, number and kind of results.

Not covered: types that pybind converts in ways of its own; those are doubts at most.
"""

import re
from collections.abc import Iterator

from benchmarks.harness import TaskSpec, TensorArgument, ValueArgument

from .doubts import Doubt
from .reading import Allocation, ParsedFunction, Reading, allocations, occurrences, returned, split

_NUMBERS = r"\b(?:double|float|int|long|int32_t|int64_t|size_t|bool)\b"
_OTHER_DTYPE = re.compile(
    r"\.(?:double|half|bfloat16|to\((?:torch|at)::k(?:Float64|Double|Float16|Half|BFloat16|Int\w*|Long))\(?\)\s*$"
)


def exports(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """The module must export the direction, and the function behind it must exist."""
    if task.direction not in reading.exports:
        yield from _not_exported(reading, task)
        return
    target, place = reading.exports[task.direction]
    if target is None or "::" in target:
        yield Doubt("interface", f"what is exported as {task.direction!r} is not a plain function", reading.line(place))
    elif occurrences(reading.code, target) == 1:
        yield Doubt("compile", f"there is no function {target!r} to export", reading.line(place), certain=True)
    elif reading.entry is None:
        yield Doubt("interface", f"{target!r} is not defined exactly once", reading.line(place))


def parameters(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """As many parameters as the task has arguments, of kinds that can take them."""
    entry = reading.entry
    if entry is None or any("..." in item or "=" in item or "py::" in item for item in entry.parameters):
        return
    line = reading.line(entry.place)
    if len(entry.parameters) != len(task.argument_names):
        wanted = f"{len(task.argument_names)} ({', '.join(task.argument_names)})"
        text = f"{entry.name} takes {len(entry.parameters)} arguments, the task passes {wanted}"
        yield Doubt("interface", text, line, certain=True)
        return
    for position, parameter in enumerate(entry.parameters):
        yield from _parameter(parameter, position, task, line)
    yield from _order(entry, task, line)


def results(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """As many results as the task has, with the right number of dimensions, and as float32 where they all are."""
    entry = reading.entry
    answers = returned(entry.body) if entry else []
    if entry is None or not answers:
        return
    first = next(iter(task.configs.values()))[0]
    all_float32 = all(item.dtype == "float32" for item in first.results)
    for answer, place in answers:
        line = reading.line(entry.body_place + place)
        parts = list(split(answer[1:-1])) if answer.startswith("{") and answer.endswith("}") else [answer]
        yield from _count(entry, answer, len(parts), task, line)
        if parts != list(task.result_names) and sorted(parts) == sorted(task.result_names):
            text = f"the task wants {', '.join(task.result_names)} in this order"
            yield Doubt("interface", text, line, certain=True)
        for part in parts:
            if _OTHER_DTYPE.search(part) and all_float32:
                yield Doubt("interface", f"{part!r} is not float32, the dtype of every result", line, certain=True)
    yield from _dimensions(reading, entry, task)


def _not_exported(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    names = ", ".join(repr(name) for name in reading.exports)
    if not reading.exports or reading.has_macros:
        yield Doubt("interface", f"no plain m.def of {task.direction!r} was found")
        return
    line = reading.line(next(iter(reading.exports.values()))[1])
    yield Doubt("interface", f"the module exports {names}, not {task.direction!r}", line, certain=True)


def _parameter(parameter: str, position: int, task: TaskSpec, line: int) -> Iterator[Doubt]:
    """The kinds that an argument has over all configurations against one parameter."""
    given = [config.arguments[position] for configs in task.configs.values() for config in configs]
    tensor = bool(re.search(r"\bTensor\b", parameter))
    number = bool(re.search(_NUMBERS, parameter)) and "<" not in parameter
    name = task.argument_names[position]
    if number and any(isinstance(item, TensorArgument) for item in given):
        yield Doubt("interface", f"{name} is a tensor, {parameter!r} is not", line, certain=True)
    elif tensor and "<" not in parameter and any(isinstance(item, TensorArgument) and item.packed for item in given):
        yield Doubt("interface", f"{name} comes as a tuple of one tensor, not as a tensor", line, certain=True)
    elif tensor and any(isinstance(item, ValueArgument) and item.value is not None for item in given):
        yield Doubt("interface", f"{name} is not a tensor, but {parameter!r} is", line, certain=True)
    elif re.match(r"[^<]*\bTensor\b", parameter) and any(
        isinstance(item, ValueArgument) and item.value is None for item in given
    ):
        yield Doubt("interface", f"{name} may be None", line)


def _order(entry: ParsedFunction, task: TaskSpec, line: int) -> Iterator[Doubt]:
    """Names of the task's arguments at other places than the task passes them; certain if they are the same names."""
    names = entry.parameter_names
    moved = [name for name, wanted in zip(names, task.argument_names, strict=True) if name != wanted]
    if any(name in task.argument_names for name in moved):
        text = f"the task passes {', '.join(task.argument_names)} in this order; the names here are in another"
        yield Doubt("interface", text, line, certain=sorted(map(str, names)) == sorted(task.argument_names))


def _count(entry: ParsedFunction, answer: str, count: int, task: TaskSpec, line: int) -> Iterator[Doubt]:
    wanted = len(task.result_names)
    one_tensor = bool(re.search(r"\bTensor$", entry.returns))
    listed = answer.startswith("{")
    if wanted > 1 and (one_tensor or (listed and count != wanted)):
        names = ", ".join(task.result_names)
        got = "one tensor" if one_tensor else f"{count} results"
        yield Doubt("interface", f"{got} where the task wants {wanted}: {names}", line, certain=True)
    elif wanted == 1 and listed and count > 1 and not one_tensor:
        yield Doubt("interface", f"{count} results where the task wants one", line, certain=True)


def _dimensions(reading: Reading, entry: ParsedFunction, task: TaskSpec) -> Iterator[Doubt]:
    """Of a single result that is allocated size by size and returned as it is."""
    answers = returned(entry.body)
    found = re.match(r"(\w+)(\.unsqueeze\([^()]*\)|\.flatten\(\))?$", answers[0][0]) if len(answers) == 1 else None
    made = [item for item in allocations(entry.body) if found and item.name == found[1]]
    if found is None or len(made) != 1 or len(task.result_names) != 1:
        return
    wanted = {len(config.results[0].shape) for configs in task.configs.values() for config in configs}
    have = _rank(made[0], entry, task)
    if have is None:
        return
    if found[2]:
        have = 1 if "flatten" in found[2] else have + 1
    if have not in wanted:
        line = reading.line(entry.body_place + answers[0][1])
        text = f"the result has {have} dimensions, the task wants {' or '.join(map(str, sorted(wanted)))}"
        yield Doubt("interface", text, line, certain=True)


def _rank(made: Allocation, entry: ParsedFunction, task: TaskSpec) -> int | None:
    """The number of dimensions of an allocation; that of an argument where it copies its sizes."""
    if made.sizes is not None:
        return len(made.sizes)
    model = re.match(r"(\w+)(?:\.sizes\(\))?$", made.arguments[0]) if made.arguments else None
    if model is None or model[1] not in entry.parameter_names:
        return None
    position = entry.parameter_names.index(model[1])
    given = [config.arguments[position] for configs in task.configs.values() for config in configs]
    ranks = {len(item.shape) for item in given if isinstance(item, TensorArgument) and not item.packed}
    return ranks.pop() if len(ranks) == 1 else None
