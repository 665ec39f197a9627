"""Reads exports, functions, parameters and variables from a C++ or CUDA source without compiling it.

All results are guesses from the text: "not found" means "not known". Not covered: macros, templates, overloads by type
and what names mean.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from .lexing import code_only, line_of, without_comments

_MOST_NAMES = 50
_MOST_LINKS = 10  # of variables that only serve each other
_BEFORE_CHARS = 200
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_EXPORT = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&\s*(?=\w)|(?=\w))([\w:]+)?')
_ALLOCATION = re.compile(r"\b(\w+)\s*=\s*(?:torch|at)::(empty|zeros|ones|full)(_like)?\(")
_POINTER = re.compile(r"\b(\w+)\s*=\s*(\w+)\.(?:const_|mutable_)?data_ptr(?:<[\w:]+>)?\(\)")


@dataclass(frozen=True)
class ParsedFunction:
    """One definition. Places are offsets in the text; `body` is what stands between its braces."""

    name: str
    place: int
    returns: str
    parameters: tuple[str, ...]
    body: str
    body_place: int

    @property
    def parameter_names(self) -> tuple[str | None, ...]:
        return tuple(_parameter_name(item) for item in self.parameters)


@dataclass(frozen=True)
class Allocation:
    """A tensor made by torch: `y = torch::empty({a, b}, ...)`; `sizes` is None unless they stand there one by one."""

    name: str
    kind: str  # empty, zeros, ones, full
    like: bool
    arguments: tuple[str, ...]
    place: int

    @property
    def sizes(self) -> tuple[str, ...] | None:
        first = self.arguments[0].strip() if self.arguments else ""
        if self.like or not (first.startswith("{") and first.endswith("}")):
            return None
        return tuple(split(first[1:-1]))


@dataclass(frozen=True)
class Reading:
    """A source and what was read off it."""

    text: str
    direction: str

    @cached_property
    def code(self) -> str:
        """Without comments and string contents; every place as in the text."""
        return code_only(self.text)

    @cached_property
    def has_macros(self) -> bool:
        """Then brackets and names may not be what they seem."""
        return re.search(r"^[ \t]*#[ \t]*(?:define|if)", self.code, re.MULTILINE) is not None

    @cached_property
    def exports(self) -> dict[str, tuple[str | None, int]]:
        """Exported name -> the function behind it, or None where that is no plain name, and the place."""
        found = _EXPORT.finditer(without_comments(self.text))
        return {item[1]: (item[2], item.start()) for item in found}

    @cached_property
    def entry(self) -> ParsedFunction | None:
        """The function that the judge calls; None where it is not plain which one that is."""
        target, _ = self.exports.get(self.direction, (None, 0))
        found = self.functions(target) if target else []
        return found[0] if len(found) == 1 else None

    def functions(self, name: str) -> list[ParsedFunction]:
        """Every definition of `name`; where it stands very often, of its first places only."""
        places = islice(re.finditer(rf"\b{re.escape(name)}\s*\(", self.code), _MOST_NAMES)
        made = (self._definition(name, item.start(), item.end() - 1) for item in places)
        return [item for item in made if item is not None]

    def line(self, place: int) -> int:
        return line_of(self.text, place)

    def unbalanced(self) -> tuple[str, int] | None:
        """The first bracket without its partner, and its place."""
        waiting: list[tuple[str, int]] = []
        for place, char in enumerate(self.code):
            if char in _PAIRS:
                waiting.append((char, place))
            elif char in _PAIRS.values():
                if not waiting or _PAIRS[waiting[-1][0]] != char:
                    return char, place
                waiting.pop()
        return waiting[-1] if waiting else None

    def _definition(self, name: str, place: int, opening: int) -> ParsedFunction | None:
        closing = partner(self.code, opening)
        if closing is None:
            return None
        after = re.compile(r"\s*+(?:noexcept\s*+)?(?:->[\w:<>,\s]++)?\{").match(self.code, closing + 1)
        end = partner(self.code, after.end() - 1) if after else None
        if after is None or end is None:
            return None
        start = max(self.code.rfind(char, 0, place) for char in ";}{>\n") + 1
        start = max(start, self.code.rfind("\n", 0, place) + 1)
        parameters = tuple(split(self.code[opening + 1 : closing]))
        return ParsedFunction(
            name, place, self.code[start:place].strip(), parameters, self.code[after.end() : end], after.end()
        )


def partner(code: str, opening: int) -> int | None:
    """The place of the bracket that closes the one at `opening`."""
    first, depth = code[opening], 0
    for found in re.compile(f"[{re.escape(first + _PAIRS[first])}]").finditer(code, opening):
        depth += 1 if found.group() == first else -1
        if depth == 0:
            return found.start()
    return None


def split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no bracket of any kind."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[place - 1] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()


def allocations(body: str) -> list[Allocation]:
    """Tensors that torch makes in `body`, in their order."""
    found = []
    for item in _ALLOCATION.finditer(body):
        closing = partner(body, item.end() - 1)
        inside = body[item.end() : closing] if closing else ""
        found.append(Allocation(item[1], item[2], bool(item[3]), tuple(split(inside)), item.start(1)))
    return found


def pointers(body: str) -> dict[str, str]:
    """Pointer variable -> the variable whose data it points at; of the first ones only."""
    return {item[1]: item[2] for item in islice(_POINTER.finditer(body), _MOST_NAMES)}


def returned(body: str) -> list[tuple[str, int]]:
    """What the function itself returns, lambdas in it left out: expressions and their places."""
    outer = _without_lambdas(body)
    return [(item[1].strip(), item.start()) for item in re.finditer(r"\breturn\b([^;]*);", outer)]


def occurrences(code: str, name: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", code))


def without_dead_variables(body: str) -> str:
    """`body` with spaces for what only computes a variable that nobody looks at."""
    for _ in range(_MOST_LINKS):
        words = Counter(re.findall(r"\w+", body))
        found = (item for item in _DECLARATOR.finditer(body) if words[item[1]] == 1)
        dead = [item.span() for item in found if _declares(body[max(0, item.start() - _BEFORE_CHARS) : item.start()])]
        if not dead:
            break
        for start, end in dead:
            body = body[:start] + " " * (end - start) + body[end:]
    return body


def _declares(before: str) -> bool:
    """Whether a name that follows `before` is declared there, not assigned to."""
    kept = before.rstrip(" *&\n")
    return bool(re.search(r"(?:\w|[^-]>|,)$", kept)) and not re.search(r"\b(?:return|else|do)$", kept)


_DECLARATOR = re.compile(r"(?<![.\w])(\w+)\s*=(?!=)[^;,(){}\[\]=]*(?:\([^(){};]*\)[^;,(){}\[\]=]*)*(?=[;,])")


def _without_lambdas(body: str) -> str:
    for item in re.finditer(r"\[[=&\w, ]{0,200}\]\s*+(?:\([^()]*+\)\s*+)?(?:->\s*+[\w:<>]++\s*+)?\{", body):
        closing = partner(body, item.end() - 1) if body[item.end() - 1] == "{" else None
        if closing is not None:
            body = body[: item.start()] + re.sub(r"[^\n]", " ", body[item.start() : closing + 1]) + body[closing + 1 :]
    return body


def _parameter_name(parameter: str) -> str | None:
    found = re.search(r"[\s&*](\w+)\s*(?:=.*)?$", parameter)
    return found[1] if found else None
