"""Parses the answer of a model: NAME, THOUGHT and then either CODE in one fence or EDITS of the base kernel.

An answer with exactly one fenced block counts without the headings, too. An answer that is cut off, prose, or
ambiguous is refused, so that half a kernel is never taken for a whole one. Not covered: whether the code is any good.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import RefusalReason
from .patches import SEARCH, Edit, PatchError, parse_edits

NAME_CHARS_MAX = 80
THOUGHT_CHARS_MAX = 4_000

_HEADING = re.compile(r"^[ \t]*+[*#_]*+[ \t]*+(NAME|THOUGHT|CODE|EDITS)[ \t]*+[*_]*+:[*_]*+[ \t]*+(.*)$", re.MULTILINE)
_OPENING = re.compile(r"^(`{3,})[ \t]*([\w+.-]*)[ \t]*$")


class AnswerError(Exception):
    """Why an answer cannot be used. `reason` is one of the words of `proposal.rejected`."""

    def __init__(self, reason: RefusalReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


@dataclass(frozen=True)
class Answer:
    """Exactly one of `code` and `edits` is there."""

    name: str
    thought: str
    code: str | None
    edits: tuple[Edit, ...] | None


def parse_answer(text: str) -> Answer:
    """Raises AnswerError for whatever is not one whole answer."""
    if not text.strip():
        raise AnswerError("empty", "the answer of the model is empty")
    headings = [*_HEADING.finditer(_prose(text))]
    place = next((place for place, match in enumerate(headings) if match[1] in ("CODE", "EDITS")), len(headings))
    before, body = headings[:place], headings[place] if place < len(headings) else None
    head = text if body is None else text[: body.start()]
    name = " ".join(_section(head, before, "NAME").split())[:NAME_CHARS_MAX]
    thought = _section(head, before, "THOUGHT").strip()[:THOUGHT_CHARS_MAX]
    if body is not None and body[1] == "EDITS":
        return Answer(name, thought, None, _edits(text[body.start(2) :]))
    code = _code(text) if body is None else _code(text[body.start(2) :])
    if code.lstrip().startswith(SEARCH):
        return Answer(name, thought, None, _edits(code))
    return Answer(name, thought, code, None)


def _prose(text: str) -> str:
    """The text with its fenced blocks blanked, all places kept: a comment of a kernel is no heading."""
    lines, fence = [], ""
    for line in text.split("\n"):
        opening = _OPENING.match(line.rstrip()) if not fence else None
        fence = opening[1] if opening else fence
        lines.append(" " * len(line) if fence else line)
        fence = "" if not opening and line.rstrip() == fence else fence
    return "\n".join(lines)


def _section(head: str, headings: Sequence[re.Match[str]], heading: str) -> str:
    """The text below a heading, up to the next one; empty if the heading is missing."""
    ends = [*(match.start() for match in headings[1:]), len(head)]
    found = (head[match.start(2) : end] for match, end in zip(headings, ends, strict=False) if match[1] == heading)
    return next(found, "")


def _edits(text: str) -> tuple[Edit, ...]:
    try:
        return tuple(parse_edits(text))
    except PatchError as error:
        raise AnswerError("unparsable", str(error)) from error


def _code(text: str) -> str:
    blocks = _blocks(text)
    if not blocks:
        raise AnswerError("unparsable", f"there is no fenced block of code; the text begins with {_head(text)!r}")
    if len(blocks) > 1:
        raise AnswerError(
            "unparsable", f"there are {len(blocks)} blocks of code, and no line CODE: says which one counts"
        )
    if not blocks[0].strip():
        raise AnswerError("empty", "the block of code is empty")
    return blocks[0]


def _blocks(text: str) -> list[str]:
    """Every fenced block. Raises AnswerError if the last is not closed: then the code is cut off."""
    blocks: list[str] = []
    taken: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opening = _OPENING.match(line.rstrip()) if not fence else None
        if opening:
            fence, taken = opening[1], []
        elif fence and line.rstrip() == fence:
            blocks.append("\n".join(taken) + "\n")
            fence = ""
        elif fence:
            taken.append(line)
    if fence:
        raise AnswerError("unparsable", "the block of code is not closed: the answer is cut off")
    return blocks


def _head(text: str) -> str:
    line = text.strip().split("\n")[0]
    return line if len(line) <= 80 else f"{line[:79]}…"
