"""The small library that lets torch allocate in shared memory, compiled once per data folder.

It is part of kbench, so it is compiled outside of a sandbox. Not covered: what it does (`pool.cpp`).
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from ..errors import SupervisorError
from ..hosts.locks import file_lock
from ..source import Paths

_SOURCE = Path(__file__).with_name("pool.cpp")
_FLAGS = ("-O2", "-std=c++17", "-shared", "-fPIC")


def pool_library(paths: Paths) -> Path:
    """Raises SupervisorError where there is no C++ compiler."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    library = paths.headers / f"pool-{digest}.so"
    with file_lock(library.with_suffix(".lock")):
        if not library.exists():
            _compile(library)
    return library


def _compile(library: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise SupervisorError("there is no C++ compiler on this machine: install g++")
    partial = library.with_suffix(".partial")
    try:
        subprocess.run(
            [compiler, *_FLAGS, "-o", str(partial), str(_SOURCE)], check=True, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        raise SupervisorError(f"the allocator of shared memory does not compile: {error.stderr[-2000:]}") from error
    partial.replace(library)
