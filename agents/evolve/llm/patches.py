"""Search/replace edits of a source: each must match exactly once, or the whole patch is refused with the reason.

The form is the one that merge conflicts have, which models know well. Not covered: fuzzy matching, on purpose: an
edit that was meant for another text must not be applied to this one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SEARCH = "<<<<<<< SEARCH"
DIVIDER = "======="
REPLACE = ">>>>>>> REPLACE"


class PatchError(Exception):
    """Why a patch cannot be applied; a sentence for the person."""


@dataclass(frozen=True)
class Edit:
    search: str
    replace: str


def parse_edits(text: str) -> list[Edit]:
    """The edits in `text`. Raises PatchError for a block that is open, empty or out of order."""
    edits: list[Edit] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.rstrip() == SEARCH:
            edits.append(Edit(_until(DIVIDER, lines), _until(REPLACE, lines)))
        elif line.rstrip() in (DIVIDER, REPLACE):
            raise PatchError(f"the line {line.rstrip()!r} is outside an edit")
    if not edits:
        raise PatchError("there is no edit")
    return edits


def apply_edits(source: str, edits: Sequence[Edit]) -> str:
    """`source` with all edits made one after another. Raises PatchError; then nothing was changed."""
    result = source
    for number, edit in enumerate(edits, 1):
        result = _apply(result, edit, number)
    if result == source:
        raise PatchError("the edits change nothing")
    return result


def _until(mark: str, lines: Iterator[str]) -> str:
    taken: list[str] = []
    for line in lines:
        if line.rstrip() == mark:
            return "\n".join(taken)
        if line.rstrip() in (SEARCH, DIVIDER, REPLACE):
            break
        taken.append(line)
    raise PatchError(f"an edit has no line {mark!r}: it is cut off or out of order")


def _apply(source: str, edit: Edit, number: int) -> str:
    """Whole lines are matched, so an edit never starts in the middle of one."""
    if not edit.search.strip():
        raise PatchError(f"edit {number} searches for nothing")
    text, wanted = f"\n{source}\n", f"\n{edit.search}\n"
    found = _count(text, wanted)
    if found != 1:
        raise PatchError(f"edit {number} matches {found} places and must match one: {_head(edit.search)!r}")
    replacement = f"\n{edit.replace}\n" if edit.replace else "\n"
    return text.replace(wanted, replacement)[1:-1]


def _count(text: str, wanted: str) -> int:
    """Matches may overlap, since each takes the line breaks around it."""
    return sum(text.startswith(wanted, start) for start in range(len(text)) if text[start] == "\n")


def _head(text: str) -> str:
    first = text.strip().split("\n")[0]
    return first if len(first) <= 60 else f"{first[:59]}…"
