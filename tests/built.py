"""Builds with one choice of headers, kept from run to run in the cache of the tests.

The judge's own key leaves out the code that calls a compiler, and that is what these tests are about: a change there
builds anew here. Does NOT choose headers: the toolchains do.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.harness import Rules, Source
from benchmarks.harness.compilers import builds
from benchmarks.harness.compilers.toolchain import Compilation, Toolchain, Workshop, digest


@dataclass(frozen=True)
class Kept:
    """A toolchain whose builds have a key of their own: `choice` tells it apart from others with the same flags."""

    toolchain: Toolchain
    choice: tuple[str, ...]

    @property
    def binary(self) -> str:
        return self.toolchain.binary

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (*self.toolchain.fingerprint(rules), *self.choice, _calling_code())

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        return self.toolchain.compile(source, shop)


@cache
def _calling_code() -> str:
    files = sorted(Path(builds.__file__).parent.glob("*.py"))
    return digest(*(text for file in files for text in (file.name, file.read_text())))
