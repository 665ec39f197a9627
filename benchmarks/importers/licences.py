"""Where the files of a foreign suite come from and under which licence, in one line each, for pages and exports.

The licence is that of the nearest licence file above a task, inside the folder; the address is that of the clone. Both
can be given instead. Does NOT say what a licence allows.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from ..harness import NotTaken, read_file

_LINE_MAX, _FILE_MAX, _FILE_BYTES_MAX = 180, 40, 256 << 10
_FILES = re.compile(r"(?:licen[cs]e|copying)(?:[.-]\w{1,20})?", re.IGNORECASE | re.ASCII)
_KNOWN = (
    ("Apache-2.0", ("Apache License", "Version 2.0")),
    ("MIT", ("Permission is hereby granted, free of charge",)),
    ("BSD-3-Clause", ("Redistribution and use in source and binary forms", "endorse or promote")),
    ("BSD-2-Clause", ("Redistribution and use in source and binary forms",)),
    ("CC-BY-4.0", ("Creative Commons Attribution 4.0",)),
)
_HOLDER = re.compile(r"^\W{0,9}(copyright\b[^\n\[]{0,120}\b\d{4}\b[^\n\[]{0,120})$", re.IGNORECASE | re.MULTILINE)
_URL = re.compile(r"^[ \t]{0,20}url[ \t]{0,9}=[ \t]{0,9}(\S{1,300})$", re.MULTILINE)
_SSH = re.compile(r"[\w.-]{1,60}@([\w.-]{1,200}):([\w./~-]{1,200})", re.ASCII)


@dataclass(frozen=True)
class SuiteOrigin:
    """One folder of a suite. `address` and `licence` are what somebody has given in place of what is found there."""

    folder: Path
    address: str = ""
    licence: str = ""

    def of_task(self, file: str) -> str:
        """Where a task comes from: the address of the suite, or the folder's name, and the file."""
        return _printable(f"{self.of_suite()}: {file}")[: 2 * _LINE_MAX]

    def of_suite(self) -> str:
        return _printable(self.address or clone_address(self.folder) or self.folder.name)[:_LINE_MAX]

    def licence_of(self, file: str) -> str:
        """One line for a file of the folder; empty where no licence file lies beside it or above."""
        if self.licence:
            return _printable(self.licence)[:_LINE_MAX]
        above = (self.folder / place for place in PurePosixPath(file).parents)
        return next((line for place in above if (line := licence_in(place, self.folder))), "")


def licence_in(place: Path, folder: Path) -> str:
    """The licence in one folder, in one line; empty where there is none."""
    try:
        names = sorted(path.name for path in place.iterdir() if _FILES.fullmatch(path.name) and path.is_file())
        name = names[0] if names else ""
        data = read_file(folder, str((place / name).relative_to(folder)), _FILE_BYTES_MAX) if name else b""
    except (OSError, NotTaken):
        return ""
    return licence_line(data.decode(errors="replace"), name) if name else ""


def licence_line(text: str, file: str) -> str:
    """The licence by its usual name, or by the first line of its text, and who holds the rights."""
    words = " ".join(text.split())
    known = next((name for name, parts in _KNOWN if all(part in words for part in parts)), "")
    first = next((line.strip(" #*=-\t") for line in text.splitlines() if line.strip(" #*=-\t")), "no text")
    holder = _HOLDER.search(text)
    parts = [known or first, *([" ".join(holder[1].split())] if holder else [])]
    return f"{_printable('; '.join(parts))[:_LINE_MAX]} ({file[:_FILE_MAX]})"


def _printable(text: str) -> str:
    """Names of files may hold bytes that are no text."""
    return "".join(char for char in text if char.isprintable())


def clone_address(folder: Path) -> str:
    """The address that a folder was cloned from, without names and passwords in it; empty where it is no clone."""
    try:
        text = read_file(folder, ".git/config", _FILE_BYTES_MAX).decode(errors="replace")
    except NotTaken:
        return ""
    found = _URL.search(text)
    return web_address(found[1]) if found else ""


def web_address(text: str) -> str:
    """`https://HOST/PATH` of an address in either of Git's usual forms; empty for any other."""
    if secure := _SSH.fullmatch(text):
        return f"https://{secure[1]}/{secure[2].removesuffix('.git')}"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return ""
    is_plain = parts.scheme in ("http", "https") and re.fullmatch(r"[\w.-]{1,200}", host, re.ASCII)
    path = parts.path.removesuffix(".git")
    return f"https://{host}{path}" if is_plain and re.fullmatch(r"[\w./~-]{1,200}", path, re.ASCII) else ""
