"""Reasons of a language model that name a line of a source: how it sees the lines, is asked for them, and is read.

A reason counts only on a line that exists. Not covered: what follows from a reason.
"""

from collections.abc import Mapping
from typing import Any

SURE_PERCENT = 80  # a finding counts from here on
REASONS_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"line": {"type": "integer"}, "text": {"type": "string"}},
        "required": ["line", "text"],
        "additionalProperties": False,
    },
}


def numbered(source: str) -> str:
    """Every line behind its number."""
    return "\n".join(f"{number:5}| {line}" for number, line in enumerate(source.split("\n"), 1))


def cited(reasons: Any, lines: int, most: int) -> list[tuple[int, str]]:
    """Line and text of the first `most` reasons, without those on a line that is not among the `lines` of the source.

    Raises ValueError, KeyError or TypeError for what does not have the form of `REASONS_SCHEMA`.
    """
    named = [(item["line"], str(item["text"])[:500]) for item in reasons[:most]]
    return [(line, text) for line, text in named if type(line) is int and 1 <= line <= lines]
