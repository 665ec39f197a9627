"""Files around all folders of the judge that nothing may change, compared before and after a hostile case.

A change of content, kind, mode, links or time of change counts, and so does anything new beside them. Not covered:
files elsewhere on the machine, which a sandbox cannot name.
"""

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("kernel.cpp", "kbench_submission.so", "requests.json", "a.o", "log", "extension0")
_BESIDE = "beside"  # a folder that holds canaries alone


@dataclass(frozen=True)
class Look:
    """One entry as `lstat` and reading it give it."""

    kind: int
    mode: int
    links: int
    size_bytes: int
    changed_ns: int
    content: bytes


class Canaries:
    """Plants files in `folders` (made if missing) and beside them, under names that builds and judgings use too."""

    def __init__(self, *folders: Path) -> None:
        self._alone = [_made(folder / _BESIDE) for folder in folders]
        self._planted = [path for folder in self._alone for path in _planted(folder)]
        self._before = self._look()

    def touched(self) -> list[str]:
        """What is not as it was planted, by name; afterwards the present state is what counts."""
        now = self._look()
        found = sorted(
            str(path) for path in self._before.keys() | now.keys() if self._before.get(path) != now.get(path)
        )
        self._before = now
        return found

    def _look(self) -> dict[Path, Look | None]:
        present = {path for folder in self._alone for path in folder.rglob("*")}
        return {path: _look_at(path) for path in present | set(self._planted) | set(self._alone)}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _planted(folder: Path) -> list[Path]:
    paths = [folder / name for name in _NAMES]
    for path in paths:
        path.unlink(missing_ok=True)
        path.write_text(secrets.token_hex(16))
    return paths


def _look_at(path: Path) -> Look | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else os.fsencode(_target(path))
    times_ns = found.st_mtime_ns
    return Look(stat.S_IFMT(found.st_mode), found.st_mode, found.st_nlink, found.st_size, times_ns, content)


def _target(path: Path) -> str:
    return os.readlink(path) if path.is_symlink() else ""
