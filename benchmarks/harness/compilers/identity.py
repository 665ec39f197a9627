"""Recognises sources that are the same program, by their tokens (without comments and layout) or their compiled code.

Tokens are read without a compiler, so an attacker can write a different program with the same `source_key`; that key
therefore joins only submissions of one owner. `object_key` is computed from the compiled code, so renaming a variable
does not change it. Not covered: different code that computes the same.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..languages import is_python
from ..source import Source
from .builds import Build

_C = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?(?:\*/|\Z)|[^\S\n]+)|(?P<line>\n)"""
    r"""|(?:u8|[uUL])?R"([^()\\\s"]{0,16})\(.*?(?:\)\3"|\Z)"""
    r"""|(?:u8|[uUL])?(?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?)"""
    r"""|(?P<named>\#[ \t]*(?:define[ \t]+\w+\(?|include\b[ \t]*(?:<[^>\n]*>?)?))|\.?\d(?:[eEpP][+-]|'?[\w.])*+|\w+"""
    r"""|\+\+|--|->|&&|\|\||<<=?|<=|[-+*/%&|^!=]=|::|\#\#|.""",
    re.DOTALL,
)
_PYTHON = re.compile(
    r"""(?P<skip>\#[^\n]*|\\\r?\n|[^\S\n]+)|(?P<line>\n[ \t\f]*)"""
    r"""|"(?:"{2}[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*(?:"{3})?|[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?)"""
    r"""|'(?:'{2}[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*(?:'{3})?|[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?)"""
    r"""|\.?\d(?:[eE][+-]|[\w.])*+|\w+|[*/<>]{2}=?|->|:=|[-+*/%&|^@!=<>]=|.""",
    re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t]*+\r?\n")
# Rare spellings of splices, of # and of headers' names: such a text is its own, as is one with splices and raw strings.
_ODD = re.compile(
    r"""\?\?[/=]|%:|\*/[ \t]*+include\b|\#[ \t]*+(?:import|include_next)\b|include[ \t]*+/|__has_include"""
)
_TAB = 8
_DEPTHS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@lru_cache(maxsize=2)  # who checks a source asks before the one who stores it
def source_key(source: Source) -> str:
    """The same for texts that differ in comments and layout alone; of a text without any token it is the text's own."""
    python = is_python(source.language)
    tokens = list(_python_tokens(source.text) if python else _c_tokens(source.text))
    words = tokens if any(not token.isspace() for token in tokens) else [source.text]
    kind = "python" if python else "c"
    return hashlib.sha256("\x1f".join([kind, *words]).encode(errors="surrogatepass")).hexdigest()


def object_key(source: Source, build: Build) -> str | None:
    """The same for what was compiled to the same code; None where nothing was compiled."""
    if build.binary is None:
        return None
    if is_python(source.language):
        return _module_key(source.text, build.binary)
    if build.binary.is_symlink() or not build.binary.is_file():
        return None
    return _file_key(build.binary)


def _c_tokens(text: str) -> Iterator[str]:
    """A new line counts where it ends what a preprocessor reads, a space where it tells a macro from a function."""
    joined = _SPLICE.sub("", text)
    if _ODD.search(joined) or (joined != text and 'R"' in joined):
        yield text
        return
    directive, begins = False, True
    for found in _C.finditer(joined):
        kind, token = found.lastgroup, found.group()
        if kind == "skip":
            continue
        if kind == "line":
            if directive:
                yield "\n"
            directive, begins = False, True
        elif begins and token[0] == "#":
            directive, begins = True, False
            head, opened, header = token.partition("<")  # the spaces in a header's name are part of it
            yield from ("\n", "".join(head.split()) + opened + header if kind == "named" else token)
        else:
            begins = False
            yield token


def _python_tokens(text: str) -> Iterator[str]:
    """Of indentation only whether it is more or less than before counts; within brackets lines do not."""
    depth, width, levels = 0, 0, [0]
    new_line = True
    for found in _PYTHON.finditer(text):
        kind, token = found.lastgroup, found.group()
        if kind == "line":
            width, new_line = len(token[1:].expandtabs(_TAB)), new_line or depth == 0
        elif kind != "skip":
            if new_line:
                yield from _indented(width, levels)
                new_line = False
            depth = max(0, depth + _DEPTHS.get(token, 0))
            yield token


def _indented(width: int, levels: list[int]) -> Iterator[str]:
    yield "\n"
    if width > levels[-1]:
        levels.append(width)
        yield "\t"
    while width < levels[-1]:
        levels.pop()
        yield "\v"


def _module_key(text: str, made: Path) -> str:
    """Of its text, of which a program can read each byte, of the extensions that it asked for, and by which names."""
    extensions = sorted(made.glob("extension*")) if made.is_dir() and not made.is_symlink() else []
    keys = [_file_key(path) for path in extensions if path.is_file() and not path.is_symlink()]
    own = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return hashlib.sha256("".join([own, *keys]).encode()).hexdigest()


def _file_key(path: Path) -> str:
    """Of all that it holds, as a program can read its own file. The linker leaves names and its id of the build out."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
