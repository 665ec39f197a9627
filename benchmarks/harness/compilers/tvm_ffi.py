"""The headers and the library of TVM FFI, for sources that include them, where its package is installed.

FlashInfer Trace writes its C++ and CUDA solutions against it. A source asks for it by an include, also one that a
module puts together, so every key of a build holds the package's version (`tvm_ffi_fingerprint`). Imports nothing of
it. Not covered: headers that somebody changes without another version.
"""

import functools
import re
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..sandbox.isolation import inside

_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]tvm/ffi/", re.MULTILINE)
_PACKAGE = "apache-tvm-ffi"


@dataclass(frozen=True)
class Library:
    """What a source needs beside torch: folders for the sandbox, and flags."""

    folders: dict[Path, str] = field(default_factory=dict)
    compiling: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()


def tvm_ffi_for(text: str) -> Library:
    """Nothing for a source that does not include it, nor where it is not installed: the compiler then says so."""
    folder = _folder()
    if folder is None or not _INCLUDES.search(text):
        return Library()
    headers, library = inside(folder / "include", "tvm_ffi/include"), inside(folder / "lib", "tvm_ffi/lib")
    return Library(
        {folder / "include": headers, folder / "lib": library},
        ("-isystem", headers),
        (f"-L{library}", "-ltvm_ffi"),  # where it is installed a program does not hold: the candidate loads it first
    )


def tvm_ffi_fingerprint() -> str:
    """Of what is installed; empty without it. A build does not depend on its folder."""
    return f"TVM FFI {tvm_ffi_version()}" if _folder() else ""


@functools.cache
def tvm_ffi_version() -> str | None:
    """None where it is not installed."""
    try:
        return version(_PACKAGE) if _folder() else None
    except PackageNotFoundError:
        return None


@functools.cache
def _folder() -> Path | None:
    spec = find_spec("tvm_ffi")
    return Path(spec.origin).parent if spec and spec.origin else None
