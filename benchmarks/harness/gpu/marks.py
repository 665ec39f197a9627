"""Notes that all workers of a machine see: what has lately lacked memory of a GPU, and how often.

A note has a name and a count, and is forgotten after an hour. It lies in the temporary folder, where any user of the
machine can write it; looking for one creates none. Files of submissions share 256 names, so that notes never fill a
disk. Which file has which name depends on a secret of the user: else an author could choose a name. Not covered: what
follows from a note (`lack.py`).
"""

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..errors import SupervisorError
from ..hosts.locks import open_shared, read_shared
from ..tasks.spec import TaskSpec

CROWDED_S = 3600.0
_PREFIX = "kbench-crowded-"
_DIGITS = 9
COUNT_MAX = 10**_DIGITS - 1
_SECRET_BYTES = 32


def noted(name: str) -> int:
    """The count that was noted under this name during the last hour, 0 if none was. Raises SupervisorError."""
    content, written_s = read_shared(_file(name), _DIGITS)
    is_recent = time.time() - written_s < CROWDED_S
    return int(content) if is_recent and content.isdigit() else 0


def note(name: str, count: int = COUNT_MAX) -> None:
    """Remembers `count` for an hour, unless the disk is full. Raises SupervisorError."""
    with open_shared(_file(name)) as file, suppress(OSError):
        os.pwrite(file, f"{min(count, COUNT_MAX):0{_DIGITS}}".encode(), 0)


def forget(name: str) -> None:
    """Raises SupervisorError."""
    if noted(name):
        with open_shared(_file(name)) as file, suppress(OSError):
            os.ftruncate(file, 0)


def mark_of(binary: Path) -> str:
    """The name under which a judging of the file `binary` is noted, one of 256. Raises SupervisorError."""
    secret = _secret(Path(tempfile.gettempdir()) / f"{_PREFIX}secret-{os.getuid()}")
    return f"file {hmac.digest(secret, str(binary).encode(), 'sha256')[0]}"


def mark_of_task(task: TaskSpec) -> str:
    """The name under which a judging of `task` is noted. Its suite and content belong to it, as other suites have
    tasks that are called the same, which may be imported and of any size.
    """
    return f"task {task.suite} {task.name} {task.content_sha256}"


def _file(name: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@cache
def _secret(path: Path) -> bytes:
    """Of this user on this machine, made when it is first asked for. Nobody ever sees a part of it."""
    try:
        if not path.is_symlink() and not path.exists():
            _create(path)
        return _read(path)
    except OSError as error:
        raise SupervisorError(f"the file {path} cannot be used: {error.strerror}") from error


def _create(path: Path) -> None:
    fd, new = tempfile.mkstemp(prefix=f"{path.name}-", dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
        with suppress(FileExistsError):  # another worker was first
            os.link(new, path)
    finally:
        os.unlink(new)


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(fd)
        secret = os.read(fd, _SECRET_BYTES)
    finally:
        os.close(fd)
    is_mine = stat.S_ISREG(state.st_mode) and state.st_uid == os.getuid() and stat.S_IMODE(state.st_mode) == 0o600
    if not is_mine or len(secret) != _SECRET_BYTES:
        raise SupervisorError(f"the file {path} is not a secret of this user: another one may have put it there")
    return secret
