"""Reads files to judge or to submit: their text, and their language by the file name.

Does NOT check anything: bytes that are not UTF-8 become replacement characters, which the static check reports.
"""

from pathlib import Path

from benchmarks.harness import LANGUAGES, language_of_file

__all__ = ["LANGUAGES", "language_of", "text_of"]


def language_of(file: Path) -> str:
    return language_of_file(file.name) or "cpp"


def text_of(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")
