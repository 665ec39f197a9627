"""Source code with numbered, linkable lines, and logs made safe to show.

Logs and sources are hostile text: everything is escaped, terminal control sequences are dropped, length is capped.
Not covered: downloads, which carry the bytes untouched as an attachment.
"""

import re

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from benchmarks.harness import LANGUAGES

register = template.Library()

LOG_SHOWN_CHARS = 64_000

# CSI sequences (their escape may have become a replacement mark on the way), OSC sequences with either terminator,
# then any other two-character escape.
_TERMINAL = re.compile(r"[\x1b\ufffd]\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
# Control characters, and the marks that reorder text on screen.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# A file without a folder is the submitted one; headers come with their path.
_PLACE = re.compile(r"(?<![\w/.-])[\w-]+\.(?:cpp|cu|py):(\d{1,6})(?::\d{1,6})?")


@register.simple_tag
def code_lines(text: str, language: str = "cpp", prefix: str = "L") -> SafeString:
    """Highlighted lines with ids `L1`, `L2`, ...; `prefix` keeps two listings on a page apart."""
    lexer = get_lexer_by_name(LANGUAGES[language].lexer if language in LANGUAGES else "cpp", stripnl=False)
    html = highlight(_INVISIBLE.sub("\ufffd", text.replace("\r\n", "\n")), lexer, HtmlFormatter(nowrap=True))
    lines = html.removesuffix("\n").split("\n")
    # Pygments has escaped the text and closes its spans at each line end.
    numbered = (
        f'<span class="l" id="{escape(prefix)}{n}" data-n="{n}">{line}\n</span>' for n, line in enumerate(lines, 1)
    )
    return mark_safe("".join(numbered))  # noqa: S308


@register.filter
def log_text(text: str) -> SafeString:
    """A log as escaped text in which `kernel.cpp:12:5` links to line 12 of the shown source."""
    clean = plain_log(text)
    parts: list[SafeString] = []
    end = 0
    for match in _PLACE.finditer(clean):
        parts.append(escape(clean[end : match.start()]))
        parts.append(format_html('<a href="#L{}">{}</a>', match[1], match[0]))
        end = match.end()
    parts.append(escape(clean[end:]))
    return mark_safe("".join(parts))  # noqa: S308 - every part was escaped above


def plain_log(text: str) -> str:
    """Without terminal sequences and control characters; of a long log the end, where the error usually is."""
    clean = _INVISIBLE.sub("", _TERMINAL.sub("", text.replace("\r\n", "\n")))
    if len(clean) <= LOG_SHOWN_CHARS:
        return clean
    return f"[{len(clean) - LOG_SHOWN_CHARS} characters left out here]\n{clean[-LOG_SHOWN_CHARS:]}"
