"""Imports the packages that a Python submission launches device code with, before any of its own code is there.

What they ask of the machine once, programs that they start included, they ask here. Not covered: compiling the
submission's kernels, and whether a package is installed where it is needed (`compilers/packages.py`).
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..modules import ENTRY

# by the word that a text uses for it: what is imported, in this order
PACKAGES = {
    "triton": (),  # a kernel of our own is run
    "cutlass": ("cutlass.cute", "cuda.bindings.driver"),
    "tilelang": ("tilelang",),
    "helion": ("helion", "helion.language"),
    "numba": ("numba.cuda",),  # a kernel of our own is run as well
}
_NEEDS = {"helion": ("triton",)}


def wake(path: str) -> Sequence[str]:
    """Imports what the Python text of a build names, as far as it is installed; the names of what was."""
    text = _text(path)
    named = [name for name in PACKAGES if re.search(rf"\b{name}\b", text)]
    names = dict.fromkeys(one for name in named for one in (*_NEEDS.get(name, ()), name) if find_spec(one))
    if names:
        sys.dont_write_bytecode = True
    for name in names:
        for module in PACKAGES[name]:
            import_module(module)
    if "triton" in names:
        from .triton_wake import wake as wake_triton

        wake_triton()
    if "numba" in names:
        from .numba_wake import wake as wake_numba

        wake_numba()
    return tuple(names)


def _text(path: str) -> str:
    """Empty for an extension."""
    if Path(path).is_dir():
        return (Path(path) / ENTRY).read_text(errors="replace")
    return Path(path).read_text(errors="replace") if path.endswith(".py") else ""
