"""Whether bubblewrap works on this machine: what it says itself counts, and no bad moment of the machine.

Not covered: what is tried, and how long an answer is kept (`isolation.py`).
"""

import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..errors import IsolationError
from ..protocol import clean_text

_LIMIT_S = 20.0
_NAMESPACES = Path("/proc/sys/user")
# Of a machine that has too little at the moment; one on which bubblewrap does not work says something else
_OUT_OF = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
_LACKS = tuple(os.strerror(number).encode() for number in _OUT_OF)
_LACKS_NAMESPACES = b"namespaces exceeded (ENOSPC)"


def tried(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Runs bubblewrap. Raises IsolationError if the machine was too busy for that to tell anything."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IsolationError(f"bubblewrap could not be tried: {error}") from error
    is_killed = done.returncode < 0 or done.returncode > 128
    said = [line for line in done.stderr.splitlines() if line.startswith(b"bwrap: ")]
    lacks = _LACKS if _forbids_namespaces() else (*_LACKS, _LACKS_NAMESPACES)
    if is_killed or any(line.endswith(lacks) for line in said):
        told = clean_text(b"; ".join(said).decode(errors="replace")) or f"it ended with {done.returncode}"
        raise IsolationError(f"bubblewrap could not be tried: {told}")
    return done


def _forbids_namespaces() -> bool:
    """Whether this machine allows none of one kind, at any time."""
    try:
        return any(int(file.read_text()) == 0 for file in _NAMESPACES.glob("max_*_namespaces"))
    except (OSError, ValueError):
        return False
