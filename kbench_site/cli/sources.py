"""Files to judge or to submit: their text, and the language that their name says.

Does NOT check anything: bytes that are no UTF-8 become marks, which the static check names.
"""

from pathlib import Path

from benchmarks.harness import LANGUAGES, language_of_file

__all__ = ["LANGUAGES", "language_of", "text_of"]


def language_of(file: Path) -> str:
    return language_of_file(file.name) or "cpp"


def text_of(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")
