"""What a model answered, read strictly: NAME, THOUGHT and then either CODE in one fence or EDITS of the base kernel.

An answer that is cut off, prose, or ambiguous is no answer: half a kernel is never taken for a whole one. Not
covered: whether the code is any good.
"""

import re
from dataclasses import dataclass

from ..model import RefusalReason
from .patches import Edit, PatchError, parse_edits

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
        raise AnswerError("empty", "the model answered with nothing")
    body = _body(text)
    head = text[: body.start()]
    name = " ".join(_section(head, "NAME").split())[:NAME_CHARS_MAX]
    thought = _section(head, "THOUGHT").strip()[:THOUGHT_CHARS_MAX]
    rest = text[body.start(2) :]
    if body[1] == "EDITS":
        return Answer(name, thought, None, _edits(rest))
    return Answer(name, thought, _code(rest), None)


def _body(text: str) -> re.Match[str]:
    """The heading that the code stands under."""
    body = next((match for match in _HEADING.finditer(text) if match[1] in ("CODE", "EDITS")), None)
    if body is None:
        raise AnswerError("unparsable", f"the answer has no line CODE: or EDITS:; it begins with {_head(text)!r}")
    return body


def _section(head: str, heading: str) -> str:
    """The text below a heading, up to the next one; empty if the heading is missing."""
    matches = list(_HEADING.finditer(head))
    ends = [*(match.start() for match in matches[1:]), len(head)]
    found = (head[match.start(2) : end] for match, end in zip(matches, ends, strict=False) if match[1] == heading)
    return next(found, "")


def _edits(text: str) -> tuple[Edit, ...]:
    try:
        return tuple(parse_edits(text))
    except PatchError as error:
        raise AnswerError("unparsable", str(error)) from error


def _code(text: str) -> str:
    blocks = _blocks(text)
    if not blocks:
        raise AnswerError("unparsable", "there is no fenced code below CODE:")
    if len(blocks) > 1:
        raise AnswerError("unparsable", f"there are {len(blocks)} blocks of code below CODE:, and it is not said which")
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
