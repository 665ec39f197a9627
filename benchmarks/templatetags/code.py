"""Source code with numbered, linkable lines, and logs made safe to show.

Logs and sources are hostile text: everything is escaped, terminal control sequences are dropped, length is capped.
Not covered: downloads, which carry the bytes untouched as an attachment.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape as escape_text
from itertools import groupby, islice
from operator import itemgetter

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from benchmarks.harness import LANGUAGES, literal_spans

register = template.Library()

LOG_SHOWN_CHARS = 64_000
COLOURED_CHARS_MAX = 65_536  # of a source; a longer one is plain text. All that are kept take at most 30 MB
COLOURING_S_MAX = 0.5  # the lexer takes quadratic time for texts made for it; what is left then stays plain
PIECE_CHARS = 256  # of code that the lexer sees at once: for a single token it can take quadratic time
NUMBERED_LINES_MAX = 20_000  # the rest is one block: an element for each empty line would make a page of 10 MB
KEPT = 16

# The classes of base.css. The first kind that a token is of decides; what is of none needs no mark.
_COLOURS = (
    (Comment.PreprocFile, "kt"),
    (Comment.Preproc, "k"),
    (Comment, "c"),
    (Keyword.Type, "kt"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Class, "kt"),
    (Name.Namespace, "kt"),
    (Name.Function, "nf"),
    (Name.Builtin, "nf"),
    (String, "s"),
    (Number, "m"),
)

# CSI sequences (their escape may have become a replacement mark on the way), OSC sequences with either terminator,
# then any other two-character escape.
_TERMINAL = re.compile(r"[\x1b\ufffd]\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
# Control characters, and the marks that reorder text on screen.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# A file without a folder is the submitted one; headers come with their path.
_PLACE = re.compile(r"(?<![\w/.-])[\w-]+\.(?:cpp|cu|py)(?::(\d{1,6})(?::\d{1,6})?|\((\d{1,6})\))")
_MESSAGE = re.compile(rf"{_PLACE.pattern}: (?:fatal )?(error: [^\n]{{1,300}})")


@register.simple_tag
def code_lines(text: str, language: str = "cpp", prefix: str = "L") -> SafeString:
    """Highlighted lines with ids `L1`, `L2`, ...; `prefix` keeps two listings on a page apart."""
    lines = _kept_lines(text, language) if len(text) <= COLOURED_CHARS_MAX else _plain_lines(text)
    if len(lines) > NUMBERED_LINES_MAX:
        lines = (*lines[:NUMBERED_LINES_MAX], "\n".join(lines[NUMBERED_LINES_MAX:]))
    start = f'<span class="l" id="{escape(prefix)}'
    numbered = (f'{start}{n}">{line}\n</span>' for n, line in enumerate(lines, 1))
    return mark_safe("".join(numbered))  # noqa: S308 - every line was escaped


def _lines(text: str, language: str) -> tuple[str, ...]:
    """Each line as HTML. Neighbours of one colour share a span, so that a page is not six times its source."""
    lines: list[list[str]] = [[]]
    for colour, run in groupby(_coloured(text, language), key=itemgetter(0)):
        parts = escape_text("".join(piece for _, piece in run), quote=False).split("\n")
        marked = [f'<span class="{colour}">{part}</span>' if colour and part.strip() else part for part in parts]
        lines[-1].append(marked[0])
        lines += [[part] for part in marked[1:]]
    return tuple("".join(parts) for parts in lines[:-1])  # the lexer ends every text with a line end


_kept_lines = lru_cache(KEPT)(_lines)


def _plain_lines(text: str) -> tuple[str, ...]:
    return tuple(escape_text(_visible(text), quote=False).removesuffix("\n").split("\n"))


def _visible(text: str) -> str:
    return _INVISIBLE.sub("\ufffd", text.replace("\r\n", "\n"))


def _coloured(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Pieces of the text with the class of their colour; white space takes that of the piece before."""
    lexer = get_lexer_by_name(LANGUAGES[language].lexer if language in LANGUAGES else "cpp")
    shown = _visible(text)
    shown += "" if shown.endswith("\n") else "\n"  # the last line is a line, too
    until_s, done, colour = time.monotonic() + COLOURING_S_MAX, 0, ""
    for start, end, literal in _pieces(shown, language):
        part = shown[start:end]
        tokens = () if literal else lexer.get_tokens_unprocessed(part)
        read = ((_colour(kind), piece) for _, kind, piece in tokens)
        for found, piece in [(literal, part)] if literal else read:
            colour = colour if piece.isspace() else found
            yield colour, piece
            done += len(piece)
            if time.monotonic() > until_s:
                yield "", shown[done:]
                return


def _pieces(text: str, language: str) -> Iterator[tuple[int, int, str]]:
    """Each comment and string with the class of its colour, and the code between them in short parts, by lines."""
    after = 0
    for start, end in literal_spans(text, language):
        yield from _parts(text, after, start)
        yield start, end, "c" if text[start] in "/#" else "s"
        after = end
    yield from _parts(text, after, len(text))


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    while start < end:
        after_line = text.rfind("\n", start, start + PIECE_CHARS) + 1
        stop = end if end - start <= PIECE_CHARS else after_line or start + PIECE_CHARS
        yield start, stop, ""
        start = stop


@cache
def _colour(kind: _TokenType) -> str:
    lineage = kind.split()
    return next((name for parent, name in _COLOURS if parent in lineage), "")


@register.filter
def log_text(text: str) -> SafeString:
    """A log as escaped text in which `kernel.cpp:12:5` links to line 12 of the shown source."""
    clean = plain_log(text)
    parts: list[SafeString] = []
    end = 0
    for match in _PLACE.finditer(clean):
        parts.append(escape(clean[end : match.start()]))
        parts.append(format_html('<a href="#L{}">{}</a>', match[1] or match[2], match[0]))
        end = match.end()
    parts.append(escape(clean[end:]))
    return mark_safe("".join(parts))  # noqa: S308 - every part was escaped above


@dataclass(frozen=True)
class CompilerMessage:
    """An error that a compiler reports in a line of the submitted file."""

    line: int
    text: str


def compiler_messages(log: str, limit: int = 20) -> list[CompilerMessage]:
    """The first errors of g++ (`kernel.cpp:12:5: error: ...`) and nvcc (`kernel.cu(12): error: ...`), each once."""
    found = (CompilerMessage(int(item[1] or item[2]), item[3].strip()) for item in _MESSAGE.finditer(plain_log(log)))
    return list(islice(dict.fromkeys(found), limit))


def plain_log(text: str) -> str:
    """Without terminal sequences and control characters; of a long log the end, where the error usually is."""
    clean = _INVISIBLE.sub("", _TERMINAL.sub("", text.replace("\r\n", "\n")))
    if len(clean) <= LOG_SHOWN_CHARS:
        return clean
    return f"[{len(clean) - LOG_SHOWN_CHARS} characters left out here]\n{clean[-LOG_SHOWN_CHARS:]}"
