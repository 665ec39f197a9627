"""Compiles Python files of torch and of packages for kernels once per data folder, if torch came without compiled ones.

Otherwise each process of a judging would spend seconds on it. Python's own tool compiles them without running them; a
process that holds untrusted code, even a reference, could plant something else.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..compilers.toolchain import digest, torch_folder
from ..hosts.locks import file_lock
from ..languages import LANGUAGES
from ..sandbox.isolation import bytecode_missing
from ..source import Paths


def bytecode_folder(paths: Paths) -> Path | None:
    """The folder of compiled files that children may only read; None if torch has its own."""
    if not bytecode_missing():
        return None
    sources = [torch_folder(), *_package_folders()]
    folder = paths.bytecode / digest(sys.version, *(f"{path} {path.stat().st_mtime_ns}" for path in sources))[:24]
    with file_lock(folder.with_suffix(".lock")):
        if not folder.exists():
            _compile(sources, folder)
    return folder


def _package_folders() -> list[Path]:
    """Of Triton and of what languages name, as far as it is installed."""
    named = (item.package.module.partition(".")[0] for item in LANGUAGES.values() if item.package)
    specs = (find_spec(name) for name in ("triton", *named))
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


def _compile(sources: list[Path], folder: Path) -> None:
    """Files that cannot be compiled are skipped, because they cannot be imported either."""
    made = Path(tempfile.mkdtemp(prefix="bytecode-", dir=folder.parent))
    command = [sys.executable, "-m", "compileall", "-qq", "-j", "0", *map(str, sources)]
    subprocess.run(command, env={**os.environ, "PYTHONPYCACHEPREFIX": str(made)}, capture_output=True, check=False)
    made.rename(folder)
