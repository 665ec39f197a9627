"""Triton submissions: nothing to compile ahead, so the text is parsed and kept beside the other builds.

Triton compiles each kernel when it is first called, in the candidate's process. Not covered: imports and names, which
only running the file can tell.
"""

import ast
import sys

from ..rules import Rules
from ..source import Source
from .toolchain import MODULE, Compilation, Workshop


class TritonSource:
    """The toolchain of Triton, which only parses the source."""

    binary = f"{MODULE}.py"

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return ("triton", sys.version)

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        (shop.folder / self.binary).write_text(source.text)
        try:
            ast.parse(source.text, self.binary)
        except SyntaxError as error:
            return Compilation(1, f"{self.binary}:{error.lineno}:{error.offset}: error: {error.msg}\n")
        except (ValueError, RecursionError, MemoryError) as error:
            return Compilation(1, f"{self.binary}:1:1: error: Python cannot parse this: {error}\n")
        return Compilation(0, "")
