"""Texts that make an unbounded repeat of a regular expression read the same stretch many times.

Each is what the pattern needs before the repeat, then a pump again and again: what the repeat takes, or what may follow
it. Both are read off the parse tree. Not covered: look-aheads and back references, which add nothing to a text.
"""

from collections.abc import Callable, Iterator, Sequence
from re import _constants as ops  # type: ignore[attr-defined]
from typing import Any

VARIANTS = 2  # without and with what is optional; the first and the second of alternatives
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_MANY = 50  # repeats with a smaller bound cost a constant factor
_TRIED = "wx7 -(\n"  # for classes that say what they are not

Node = tuple[Any, Any]


def pumped(tree: Sequence[Node], size: int) -> Iterator[str]:
    """Texts of `size` characters, each once."""
    pairs = {
        (before, pump): None
        for variant in range(VARIANTS)
        for before, inner, after in _unbounded(tree, variant, "", ())
        for pump in _pumps(before, inner, after, variant)
    }
    for before, pump in pairs:
        yield (before + pump * (size // len(pump) + 1))[:size]


def _pumps(before: str, inner: Sequence[Node], after: Sequence[Node], variant: int) -> Iterator[str]:
    own, follows = sample(inner, variant), sample(after[:1], variant)
    further = sample(after[:2], variant)
    yield from (pump for pump in (own, follows, further, own + follows, before + own) if pump)


def _unbounded(
    tree: Sequence[Node], variant: int, before: str, after: Sequence[Node]
) -> Iterator[tuple[str, Sequence[Node], Sequence[Node]]]:
    """Every unbounded repeat: a text that leads to it, what it repeats and what may follow."""
    nodes = list(tree)
    for number, (op, value) in enumerate(nodes):
        follows = [*nodes[number + 1 :], *after]
        if op in _REPEATS:
            if value[1] is ops.MAXREPEAT or int(value[1]) > _MANY:
                yield before, value[2], follows
            yield from _unbounded(value[2], variant, before, follows)
        elif op is ops.BRANCH:
            for branch in value[1]:
                yield from _unbounded(branch, variant, before, follows)
        elif op is ops.SUBPATTERN:
            yield from _unbounded(value[3], variant, before, follows)
        elif op is ops.ATOMIC_GROUP:
            yield from _unbounded(value, variant, before, follows)
        before += sample([(op, value)], variant)


def sample(tree: Sequence[Node], variant: int) -> str:
    """A text that the nodes match, as far as each of them alone decides."""
    return "".join(_SAMPLES[op](value, variant) for op, value in tree if op in _SAMPLES)


def _repeated(value: Any, variant: int) -> str:
    least, most, inner = value
    return sample(inner, variant) * max(least, min(variant, int(most)))


def _looked_at(value: Any, variant: int) -> str:
    """Of a look-around only what must stand before."""
    return sample(value[1], variant) if value[0] < 0 else ""


def _of_class(items: Sequence[Node], variant: int) -> str:
    if items[0][0] is ops.NEGATE:
        return next((char for char in _TRIED if not any(_holds(item, char) for item in items[1:])), "")
    op, value = items[variant % len(items)]
    if op is ops.CATEGORY:
        return next(char for char in _TRIED if _holds((op, value), char))
    return chr(value if op is ops.LITERAL else value[0])


def _holds(item: Node, char: str) -> bool:
    op, value = item
    if op is ops.CATEGORY:
        return _CATEGORIES[value](char)
    return ord(char) == value if op is ops.LITERAL else value[0] <= ord(char) <= value[1]


_CATEGORIES = {
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    ops.CATEGORY_DIGIT: str.isdigit,
    ops.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    ops.CATEGORY_WORD: str.isalnum,
    ops.CATEGORY_NOT_WORD: lambda char: not char.isalnum(),
}
_SAMPLES: dict[Any, Callable[[Any, int], str]] = {
    ops.LITERAL: lambda value, _: chr(value),
    ops.NOT_LITERAL: lambda value, _: "y" if value == ord("x") else "x",
    ops.ANY: lambda _, __: "a",
    ops.IN: _of_class,
    ops.BRANCH: lambda value, variant: sample(value[1][variant % len(value[1])], variant),
    ops.SUBPATTERN: lambda value, variant: sample(value[3], variant),
    ops.ATOMIC_GROUP: sample,
    ops.ASSERT: _looked_at,
    **dict.fromkeys(_REPEATS, _repeated),
}
