"""Compiling C++ submissions with g++.

A precompiled thin header (`headers/thin`) makes a build several times faster than the stock one; where it is not
enough the stock header is used. Not covered: CUDA (`nvcc.py`).
"""

import functools
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ..hosts.locks import file_lock
from ..rules import Rules
from ..sandbox.isolation import inside
from ..source import Paths, Source
from .toolchain import (
    HEADERS,
    MODULE,
    Compilation,
    Workshop,
    digest,
    fallback,
    headers_fingerprint,
    host_compiler,
    host_compiler_version,
    includes,
    packages,
    torch_libraries,
)

# what the compiler says when a name that the stock header brings is missing from the thin one
_MISSING_NAME = re.compile(
    r"not a member of ‘(?:torch|at|c10|std|pybind11)|‘(?:torch|at|c10|std|pybind11)::[^’]*’ has not been declared"
    r"|is not a namespace|is defined in header|‘[A-Z][A-Z0-9_]+’ was not declared|in namespace ‘(?:torch|at|c10|std)"
)


class Gxx:
    """The C++ toolchain: a torch extension for the processor of this machine."""

    binary = f"{MODULE}.so"

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (*_flags(rules), *_includes(thin=True), headers_fingerprint(), *environment().values(), sys.version)

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        headers = prepare_headers(shop.rules, shop.paths)
        shop.give({f"{MODULE}.cpp": source.text})
        tiers = [headers, None] if headers else [None]
        return fallback(
            [functools.partial(_attempt, shop, tier) for tier in tiers],
            lambda outcome: bool(_MISSING_NAME.search(outcome.log)),
        )


def environment() -> dict[str, str]:
    """What a C++ build depends on beside source and flags."""
    return {"compiler": host_compiler_version(), "torch": version("torch"), "machine": machine_fingerprint()}


def prepare_headers(rules: Rules, paths: Paths) -> Path | None:
    """The folder of the precompiled header, built once per machine and flags; None if it cannot be built."""
    folder = paths.headers / digest(*Gxx().fingerprint(rules))
    with file_lock(folder.with_suffix(".lock")):
        if not folder.exists():
            _precompile(rules, paths, folder)
    return folder if (folder / "kbench.h.gch").exists() else None


def _precompile(rules: Rules, paths: Paths, folder: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="headers-", dir=paths.scratch)) / "work"
    try:
        made = work / "made"
        made.mkdir(parents=True)
        text = '#include "torch/extension.h"\n'
        (made / "kbench.h").write_text(text)
        shop = Workshop(work, rules, paths)
        shop.give({"kbench.h": text})
        header = f"{shop.scratch}/kbench.h.gch"
        use = ["-x", "c++-header", "kbench.h", "-o", header]
        room = replace(shop.room(packages()), file_bytes=2 << 30, scratch_bytes=2 << 30)
        step = [host_compiler(), *_flags(rules), *_includes(thin=True), *use]
        shop.make([step], header, room, made / "kbench.h.gch")
        made.rename(folder)
    finally:
        shutil.rmtree(work.parent)


def _attempt(shop: Workshop, headers: Path | None) -> Compilation:
    """Compiles and links; with `headers` against the thin precompiled header, else against the stock one."""
    room = shop.room(packages())
    use = ["-include", f"{inside(headers, 'precompiled')}/kbench.h"] if headers else []
    if headers:
        room = replace(room, read_only={**room.read_only, headers: "/kbench/precompiled"})
    flags = [*_flags(shop.rules), *_includes(thin=headers is not None)]
    place, binary = shop.scratch, f"{MODULE}.so"
    steps = [
        [host_compiler(), *use, *flags, "-c", f"{MODULE}.cpp", "-o", f"{place}/a.o"],
        [host_compiler(), "-shared", f"{place}/a.o", "-o", f"{place}/{binary}", *_linking()],
    ]
    return shop.make(steps, f"{place}/{binary}", room, shop.folder / binary)


def _flags(rules: Rules) -> list[str]:
    return [*rules.compile.flags, f"-DTORCH_EXTENSION_NAME={MODULE}", "-fmax-errors=20", "-fdiagnostics-color=never"]


def _includes(*, thin: bool) -> list[str]:
    return includes(f"{inside(HEADERS, 'headers')}/thin") if thin else includes()


def _linking() -> list[str]:
    return [*torch_libraries("c10", "torch", "torch_cpu", "torch_python"), "-fopenmp", "-Wl,--as-needed"]


@functools.cache
def machine_fingerprint() -> str:
    """The processor as seen by the compiler's -march=native."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    lines = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in info.splitlines()}
    return digest(platform.machine(), lines.get("model name", ""), lines.get("flags", lines.get("Features", "")))[:16]
