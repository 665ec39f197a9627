"""What changed from one source or genome to another, line by line and setting by setting.

Does NOT colour code: the page shows a diff as text with marks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

CONTEXT_LINES = 3
LINES_MAX = 4000  # of either side: beyond that a comparison takes too long for a page


@dataclass(frozen=True)
class Line:
    """`kind` is same, gone, new or gap."""

    kind: str
    text: str


@dataclass(frozen=True)
class Gene:
    """A setting that differs; None where one side has none."""

    name: str
    before: Any
    after: Any


def line_diff(before: str, after: str) -> list[Line] | None:
    """Changed lines with a little around them; None where a side is too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > LINES_MAX:
        return None
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    found: list[Line] = []
    for place, group in enumerate(groups):
        found += [Line("gap", "")] if place else []
        for tag, start, end, start_new, end_new in group:
            found += _lines(tag, old[start:end], new[start_new:end_new])
    return found


def _lines(tag: str, old: list[str], new: list[str]) -> list[Line]:
    if tag == "equal":
        return [Line("same", text) for text in old]
    return [*(Line("gone", text) for text in old), *(Line("new", text) for text in new)]


def gene_diff(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Gene]:
    old, new = before or {}, after or {}
    names = dict.fromkeys([*old, *new])
    return [Gene(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
