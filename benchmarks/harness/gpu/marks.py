"""Notes that all workers of a machine see: what has lately lacked memory of a GPU, and how often.

A note has a name and a count, and is forgotten after an hour. It lies in the temporary folder, where any user of the
machine can write it; looking for one creates none. Files of submissions share 256 names, so that notes never fill a
disk. Not covered: what follows from a note (`lack.py`).
"""

import hashlib
import os
import time
from pathlib import Path

from ..hosts.locks import open_shared, read_shared

CROWDED_S = 3600.0
_PREFIX = "kbench-crowded-"
_DIGITS = 9
COUNT_MAX = 10**_DIGITS - 1


def noted(name: str) -> int:
    """The count that was noted under this name during the last hour, 0 if none was. Raises SupervisorError."""
    content, written_s = read_shared(_file(name), _DIGITS)
    is_recent = time.time() - written_s < CROWDED_S
    return int(content) if is_recent and content.isdigit() else 0


def note(name: str, count: int = COUNT_MAX) -> None:
    """Remembers `count` for an hour. Raises SupervisorError."""
    with open_shared(_file(name)) as file:
        os.pwrite(file, f"{min(count, COUNT_MAX):0{_DIGITS}}".encode(), 0)


def forget(name: str) -> None:
    """Raises SupervisorError."""
    if noted(name):
        with open_shared(_file(name)) as file:
            os.ftruncate(file, 0)


def mark_of(binary: Path) -> str:
    """The name under which a judging of the file `binary` is noted, one of 256."""
    return f"file {hashlib.sha256(str(binary).encode()).digest()[0]}"


def _file(name: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(name.encode()).hexdigest()[:16]}"
