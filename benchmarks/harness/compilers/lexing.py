"""Finds the comments and strings of a source in one pass; each is searched behind the end of the one before.

An unclosed comment or string ends with its line or with the text, so no opening mark is tried twice. Not covered:
what a preprocessor makes of the text, line splices inside a token, and strings inside f-strings.
"""

import re
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
    r"""#[^\n]*|"(?:"{2}[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:"{3})?|[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?)"""
    r"""|'(?:'{2}[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+(?:'{3})?|[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?)""",
    re.DOTALL,
)
_BLANK = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))


@lru_cache(maxsize=2)  # whoever checks a source asks twice
def blanked(text: str, language: str) -> tuple[str, str]:
    """The text as ASCII with comments and strings as spaces, and with comments alone; lines and columns stay."""
    plain = text.encode("ascii", "replace").decode()
    code: list[str] = []
    with_strings: list[str] = []
    last = 0
    for found in islice((_PYTHON if is_python(language) else _C).finditer(plain), SPANS_MAX):
        before, span = plain[last : found.start()], found.group()
        spaces = span.encode().translate(_BLANK).decode()
        code += before, spaces
        with_strings += before, spaces if span[0] in "/#" else span
        last = found.end()
    rest = plain[last:]
    return "".join([*code, rest]), "".join([*with_strings, rest])
