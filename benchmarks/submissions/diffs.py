"""The differences between two sources, line by line.

Does NOT colour code: a page shows a diff as text with marks.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher

CONTEXT_LINES = 3
LINES_MAX = 5000  # of either side
PAIRS_MAX = 400_000  # of equal lines; beyond it frequent lines no longer anchor a match
SECONDS_MAX = 0.4  # sources can be written so that matching them takes minutes


@dataclass(frozen=True)
class DiffLine:
    """`kind` is same, gone, new or gap; the numbers count from 1 and are None on the side that lacks the line."""

    kind: str
    text: str
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True)
class Pair:
    """One row of two columns; a side is None where it has nothing to show."""

    left: DiffLine | None
    right: DiffLine | None


class _TookTooLong(Exception):
    pass


class _Matcher(SequenceMatcher[str]):
    """A matcher that gives up in time."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        old_counts, new_counts = Counter(old), Counter(new)
        pairs = sum(count * new_counts[line] for line, count in old_counts.items())
        self._until = time.monotonic() + SECONDS_MAX
        super().__init__(None, old, new, autojunk=pairs > PAIRS_MAX)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        if time.monotonic() > self._until:
            raise _TookTooLong
        return super().find_longest_match(alo, ahi, blo, bhi)


def line_diff(before: str, after: str) -> list[DiffLine] | None:
    """Changed lines with a little around them; None where they are too many, or too alike, to compare."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > LINES_MAX:
        return None
    try:
        groups = list(_Matcher(old, new).get_grouped_opcodes(CONTEXT_LINES))
    except _TookTooLong:
        return None
    found: list[DiffLine] = []
    for place, group in enumerate(groups):
        found += [DiffLine("gap", "")] if place else []
        for tag, start, end, start_new, end_new in group:
            found += _lines(tag, old[start:end], new[start_new:end_new], start + 1, start_new + 1)
    return found


def side_by_side(lines: Sequence[DiffLine]) -> list[Pair]:
    """The same in two columns: removed lines beside the lines that replace them."""
    rows: list[Pair] = []
    gone: list[DiffLine] = []
    new: list[DiffLine] = []
    for line in [*lines, DiffLine("same", "")]:
        if line.kind in ("gone", "new"):
            (gone if line.kind == "gone" else new).append(line)
            continue
        height = max(len(gone), len(new))
        rows += [Pair(_at(gone, row), _at(new, row)) for row in range(height)]
        gone, new = [], []
        rows.append(Pair(line, line))
    return rows[:-1]


def _at(lines: Sequence[DiffLine], row: int) -> DiffLine | None:
    return lines[row] if row < len(lines) else None


def _lines(tag: str, old: list[str], new: list[str], first: int, first_new: int) -> list[DiffLine]:
    if tag == "equal":
        return [DiffLine("same", text, first + n, first_new + n) for n, text in enumerate(old)]
    gone = [DiffLine("gone", text, first + n, None) for n, text in enumerate(old)]
    return [*gone, *(DiffLine("new", text, None, first_new + n) for n, text in enumerate(new))]
