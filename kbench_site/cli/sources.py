"""Reads files to judge or to submit: their text, and their language by the file name.

Does NOT check anything: bytes that are not UTF-8 become replacement characters, which the static check reports.
"""

import os
import stat
from pathlib import Path

from benchmarks.harness import LANGUAGES, is_python, language_of_file, language_of_text

from .output import WRONG_USAGE, leave

_BYTES_MAX = 16 << 20  # the rules allow less of a text, and the judge says so

__all__ = ["LANGUAGES", "language_of", "text_of"]


def language_of(file: Path, text: str = "") -> str:
    """By the name; of Python files, which several languages share, by what `text` imports."""
    language = language_of_file(file.name) or "cpp"
    return (language_of_text(text) if is_python(language) else None) or language


def text_of(file: Path) -> str:
    """Leaves with a sentence where it is a pipe or a device, which may never end, is too large or cannot be read."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                leave(f"kbench: {file} is not a regular file", WRONG_USAGE)
            data = opened.read(_BYTES_MAX + 1)
    except OSError as error:
        leave(f"kbench: {file} cannot be read: {error.strerror}", WRONG_USAGE)
    if len(data) > _BYTES_MAX:
        leave(f"kbench: {file} has more than {_BYTES_MAX >> 20} MiB", WRONG_USAGE)
    return data.decode(errors="replace")
