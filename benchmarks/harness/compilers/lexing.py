"""Finds the comments and strings of a source in one pass; each is searched behind the end of the one before.

An unclosed comment or string ends with its line or with the text, so no opening mark is tried twice. Not covered:
what a preprocessor makes of the text, line splices inside a token, and strings inside f-strings.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from ..languages import is_python

SPANS_MAX = 10_000  # comments and strings; what comes after so many is taken as code
_C = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^()\\\s"]{0,16})\(.*?(?:\)\1"|\Z)"""
    r"""|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|'(?:(?<![0-9A-Fa-f]')|(?![0-9A-Fa-f]))[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?""",
    re.DOTALL,
)
_PYTHON = re.compile(
    r"""#[^\n]*|"(?:"{2}[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*(?:"{3})?|[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?)"""
    r"""|'(?:'{2}[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*(?:'{3})?|[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?)""",
    re.DOTALL,
)
_BLANK = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))


def literal_spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Where comments and strings begin and end, the first SPANS_MAX of them."""
    pattern = _PYTHON if is_python(language) else _C
    return (found.span() for found in islice(pattern.finditer(text), SPANS_MAX))


@lru_cache(maxsize=2)  # whoever checks a source asks twice
def blanked(text: str, language: str) -> tuple[str, str]:
    """The text as ASCII with comments and strings as spaces, and with comments alone; lines and columns stay."""
    plain = text.encode("ascii", "replace").decode()
    code: list[str] = []
    with_strings: list[str] = []
    last = 0
    for start, end in literal_spans(plain, language):
        before, span = plain[last:start], plain[start:end]
        spaces = span.encode().translate(_BLANK).decode()
        code += before, spaces
        with_strings += before, spaces if span[0] in "/#" else span
        last = end
    rest = plain[last:]
    return "".join([*code, rest]), "".join([*with_strings, rest])
