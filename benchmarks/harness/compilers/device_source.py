"""Python sources that launch device code: nothing to compile ahead, so the text is parsed and kept as a build.

Triton, CuTe DSL, TileLang, Helion and Numba compile each kernel when it is first called, in a process of the judging.
Not covered: imports and names, which only running the file can tell.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import SupervisorError
from ..languages import LANGUAGES
from ..rules import Rules
from ..source import Source
from .nvcc import cuda_folder
from .python_syntax import limits_of_a_build, syntax_problem
from .toolchain import MODULE, Compilation, Workshop

_CALLS_NVCC = "tilelang"


class DeviceSource:
    """The toolchain of these languages, which only parses the source."""

    binary = f"{MODULE}.py"

    def __init__(self, language: str) -> None:
        self._language = language

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (self._language, sys.version, limits_of_a_build())

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        (shop.folder / self.binary).write_text(source.text)
        problem = syntax_problem(source.text)
        if problem is not None:
            return Compilation(1, f"{self.binary}:{problem.line}:{problem.column}: error: {problem.message}\n")
        return Compilation(0, "")


def missing_here(language: str) -> str:
    """What this machine lacks for judging a language, as a sentence about the machine; empty where that is nothing."""
    known = LANGUAGES.get(language)
    if known is None or known.package is None:
        return ""
    found = _places(known.package.module)
    if not found:
        return f"the package {known.package.name} is not installed on this worker, so it judges no {known.title}"
    if not any(place.is_relative_to(prefix) for place in found for prefix in (sys.prefix, sys.base_prefix)):
        # processes of a judging are started with -I, and their sandbox shows nothing else
        return (
            f"the package {known.package.name} is installed in {found[0].parent}, which a sandboxed process does not "
            f"see; it must be installed for the Python in {sys.prefix}"
        )
    if language == _CALLS_NVCC:
        try:
            cuda_folder()
        except SupervisorError as error:
            return f"{known.title} needs what is missing on this worker: {error}"
    return ""


def _places(module: str) -> list[Path]:
    """The files or folders of a module, without importing more than the package that it lies in."""
    try:
        spec = find_spec(module)
    except ImportError:
        return []
    if spec is None:
        return []
    return [Path(place) for place in (spec.submodule_search_locations or [spec.origin or ""])]
