"""Patterns that are often wrong, and calls for which the sandbox ends the process.

Most findings are doubts, because each pattern also occurs in some correct kernel. Not covered: data flow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.harness import TaskSpec

from .doubts import Doubt
from .reading import Reading


@dataclass(frozen=True)
class _Habit:
    fault: str
    text: str
    pattern: re.Pattern[str]
    certain: bool = False


def _habit(fault: str, text: str, pattern: str, *, certain: bool = False) -> _Habit:
    return _Habit(fault, text, re.compile(pattern, re.MULTILINE), certain)


_HABITS = (
    _habit(
        "cheating",
        "the sandbox refuses this call and ends the submission",
        r"(?<![\w.>:])(?:::|std::)?(?:fork|vfork|exec[lv][pe]{0,2}|system|popen|ptrace|socket|process_vm_\w+)\s*\(",
        certain=True,
    ),
    _habit(
        "cheating",
        "a kernel does not need this",
        r"\b(?:dlopen|dlsym|syscall|mprotect|getenv|ifstream|fopen)\b",
    ),
    _habit(
        "cheating",
        "this keeps its value between calls",
        r"^[ \t]*static (?!constexpr|const |inline|assert)[\w:<>, ]+[ &*]\w+\s*[;={]",
    ),
    _habit(
        "numerics",
        "this type has fewer than 32 bits",
        r"\b(?:BFloat16|kBFloat16|Half|kHalf|kFloat16|__half|_Float16)\b",
    ),
    _habit(
        "numerics",
        "a sum of floats is kept in an integer",
        r"\b(?:int|int64_t|long) (?:sum|acc|total|mean|squares|loss)\s*=",
    ),
    _habit(
        "numerics",
        "nothing guards against a division by zero",
        r"1(?:\.0f?)? / std::sqrt\([\w. ]+(?: / [\w.]+)?\)",
    ),
    _habit(
        "memory",
        "the loop includes its bound, one past the last element",
        r"for \([^;{}]{0,200};\s*(\w+) <= \w+;\s*(?:\+\+\1|\1\+\+)",
    ),
)
_PARALLEL = re.compile(r"#pragma omp parallel for(?![^\n]*reduction)[^\n]*\n\s*for \([^)]*\)\s*(?:\{\s*)?(\w+) [-+*]= ")


def habits(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """The first place of each habit."""
    for habit in _HABITS:
        found = habit.pattern.search(reading.code)
        if found:
            start = found.end() - len(found.group().lstrip())
            yield Doubt(habit.fault, habit.text, reading.line(start), habit.certain)


def races(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """Threads that add to one variable without a reduction clause."""
    found = _PARALLEL.search(reading.code)
    if found:
        text = f"threads add to {found[1]!r} at the same time, without a reduction"
        yield Doubt("race", text, reading.line(found.start()))


def fixed_sizes(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """A size in the entry function that is a number, and a dimension of some visible configuration."""
    entry = reading.entry
    if entry is None:
        return
    visible = [config for configs in task.configs.values() for config in configs if not config.hidden]
    sizes = {size for config in visible for item in config.tensors for size in item.shape if size > 4}
    for found in re.finditer(r"(?:(?<![<=>!+*/-])[=<]|[{,(]) ?(\d+)(?=[;,}])", entry.body):
        number = found[1]
        if int(number) in sizes:
            text = f"{number} is a size of one configuration; others have other sizes"
            yield Doubt("shape", text, reading.line(entry.body_place + found.start()))
            return
