"""C++ text as a verifier sees it: comments and string contents blanked, every place where it was.

Not covered: macros, templates and types; nothing here parses.
"""

import re

_COMMENTS_AND_STRINGS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^()\\\s"]{0,16})\(.*?(?:\)\1"|\Z)"""
    r"""|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|'(?:(?<![0-9A-Fa-f]')|(?![0-9A-Fa-f]))[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?""",
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """`text` with spaces for comments; lines and columns stay."""
    return _COMMENTS_AND_STRINGS.sub(lambda found: _spaces(found) if found.group()[0] == "/" else found.group(), text)


def code_only(text: str) -> str:
    """`text` with spaces for comments, strings and characters; lines and columns stay."""
    return _COMMENTS_AND_STRINGS.sub(_spaces, text)


def line_of(text: str, place: int) -> int:
    """The line of a place in `text`, from 1."""
    return text.count("\n", 0, place) + 1


def _spaces(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())
