"""A template made from a finished kernel: the whole numbers that its text names become genes.

`constexpr int kTile = 64, kStages = 3;` at the start of a line has two of them, `#define TILE 64` one. Each may also be
half as large or twice as large, and one of 1 to 3 may be one less or one more; as many as the space has room for, the
first ones of the text, may go one step further. Constants that follow from others, such as `kWarps = kThreads / 32`,
follow them still. Many settings do not compile or compute wrong results: compiler and judge find out. Not covered:
numbers without a name, and which kernel is taken (`proposers/constants.py`).
"""

import hashlib
import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import TaskSpec

from .base import Gene, Genome, Space, Template

GENOMES_MAX = 60_000  # the search lists them all; constants further down in the text are left as they are
_TYPES = "int|unsigned|unsigned int|long|size_t|std::size_t|int32_t|int64_t|uint32_t|uint64_t"
_DECLARATION = re.compile(rf"^(?:static |inline )?const(?:expr)? (?:{_TYPES}) ([^;\n]{{1,400}});", re.MULTILINE)
_DECLARATOR = re.compile(r"(?:^|, )(\w{1,60}) = ([1-9]\d{0,8})(?=,|$)")
_MACRO = re.compile(r"^#define (\w{1,60}) ([1-9]\d{0,8})(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class Constant:
    """A number in a text and its name, with a number behind it where the name occurs again."""

    name: str
    value: int
    start: int
    end: int

    def values(self, steps: int) -> tuple[int, ...]:
        """The value with as many smaller and larger ones, as far as there are any."""
        if self.value > 3:
            factors = [2**step for step in range(1, steps + 1)]
            smaller = [self.value // factor for factor in reversed(factors) if self.value >= factor]
            return *smaller, self.value, *(self.value * factor for factor in factors)
        return tuple(range(max(1, self.value - steps), self.value + steps + 1))


@dataclass(frozen=True, kw_only=True)
class ConstantsTemplate(Template):
    """A template of one text. Its `naive` and `default` genomes are the text as it is."""

    text: str
    constants: tuple[Constant, ...]

    def render(self, genome: Genome, task: TaskSpec) -> str:
        parts, at = list[str](), 0
        for item in self.constants:
            parts += [self.text[at : item.start], str(genome[item.name])]
            at = item.end
        return "".join([*parts, self.text[at:]])


def constants_of(text: str) -> list[Constant]:
    """Every constant above zero, in the order of the text. Numbers that begin with 0 are octal and left as they are."""
    found = sorted(_numbers(text), key=lambda item: item[2])
    taken, names = {name for name, *_ in found}, set[str]()
    constants = []
    for name, value, start, end in found:
        free = (f"{name}_{number}" for number in itertools.count(2) if f"{name}_{number}" not in taken | names)
        own = next(free) if name in names else name
        names.add(own)
        constants.append(Constant(own, int(value), start, end))
    return constants


def template_of_constants(text: str, language: str, task: str, names: Collection[str] = ()) -> ConstantsTemplate | None:
    """The template over the constants called `names`, or over all, as far as the space stays small enough.

    None where the text has none of them. `task` is the one that the kernel is for, `OP/DIRECTION`.
    """
    chosen = _values_of([item for item in constants_of(text) if not names or item.name in names])
    if not chosen:
        return None
    as_it_is: Genome = {item.name: item.value for item in chosen}
    return ConstantsTemplate(
        name=f"constants-{hashlib.sha256(text.encode()).hexdigest()[:8]}",
        language=language,
        summary="the numbers that a finished kernel names",
        path=Path(),
        tasks={task: {}},
        space=Space(tuple(Gene(item.name, values) for item, values in chosen.items())),
        naive=as_it_is,
        default=as_it_is,
        text=text,
        constants=tuple(chosen),
    )


def _values_of(constants: Sequence[Constant]) -> dict[Constant, tuple[int, ...]]:
    """Of as many constants as the space has room for, the values one step away; then those two steps away."""
    chosen = dict[Constant, tuple[int, ...]]()
    for steps in (1, 2):
        for item in constants if steps == 1 else [*chosen]:
            wider = {**chosen, item: item.values(steps)}
            if math.prod(map(len, wider.values())) > GENOMES_MAX:
                break
            chosen = wider
    return chosen


def _numbers(text: str) -> Iterator[tuple[str, str, int, int]]:
    for line in _DECLARATION.finditer(text):
        for item in _DECLARATOR.finditer(line[1]):
            yield item[1], item[2], line.start(1) + item.start(2), line.start(1) + item.end(2)
    for item in _MACRO.finditer(text):
        yield item[1], item[2], item.start(2), item.end(2)
