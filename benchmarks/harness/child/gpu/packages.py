"""Imports the packages that a Python submission launches device code with, before any of its own code is there.

What they ask of the machine once, programs that they start included, they ask here. Not covered: compiling the
submission's kernels, and whether a package is installed where it is needed (`compilers/device_source.py`).
"""

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..modules import ENTRY

# by the name that a text imports: what is imported, in this order
PACKAGES = {
    "triton": (),  # a kernel of our own is run
    "cutlass": ("cutlass.cute", "cuda.bindings.driver"),
    "tilelang": ("tilelang",),
    "helion": ("helion", "helion.language"),
    "numba": ("numba.cuda",),  # a kernel of our own is run as well
}
_NEEDS = {"helion": ("triton",)}


def wake(path: str) -> Sequence[str]:
    """Imports what the Python text of a build imports, as far as it is installed; the names of what was.

    Raises what a package raises. One that a module in a folder imports is left to the module: it need not be what its
    kernels are written in.
    """
    is_module = Path(path).is_dir()
    imported = _imported(_text(path))
    named = [name for name in PACKAGES if name in imported]
    names = dict.fromkeys(one for name in named for one in (*_NEEDS.get(name, ()), name) if find_spec(one))
    if names:
        sys.dont_write_bytecode = True
    return tuple(name for name in names if _woken(name, is_optional=is_module))


def _woken(name: str, *, is_optional: bool) -> bool:
    try:
        for module in PACKAGES[name]:
            import_module(module)
        if name == "triton":
            from .triton_wake import wake as wake_triton

            wake_triton()
        if name == "numba":
            from .numba_wake import wake as wake_numba

            wake_numba()
    except Exception:
        # whatever a package that does not work on this machine raises; nothing of the submission is loaded yet
        if is_optional:
            return False
        raise
    return True


def _imported(text: str) -> set[str]:
    """The packages that a text imports anywhere. Empty if it is no Python, which loading it will say."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = {item.name for node in nodes if isinstance(node, ast.Import) for item in node.names}
    found |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in found}


def _text(path: str) -> str:
    """Empty for an extension."""
    if Path(path).is_dir():
        return (Path(path) / ENTRY).read_text(errors="replace")
    return Path(path).read_text(errors="replace") if path.endswith(".py") else ""
