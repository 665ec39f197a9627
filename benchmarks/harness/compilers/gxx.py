"""Compiling C++ submissions with g++.

A precompiled header with a small binding (`headers/binding`) makes a build many times faster than the stock one. Where
that is not enough, a precompiled thin header with the real pybind11 (`headers/thin`) is used, then the stock header.
Not covered: CUDA (`nvcc.py`).
"""

import functools
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ..hosts.locks import file_lock
from ..rules import Rules
from ..sandbox.isolation import Room, inside
from ..source import Paths, Source
from .toolchain import (
    CONSTANT_MACROS,
    HEADERS,
    LINKING,
    MODULE,
    Compilation,
    Workshop,
    digest,
    fallback,
    headers_fingerprint,
    host_compiler,
    host_compiler_version,
    how_tools_end,
    includes,
    packages,
    told_by_gxx,
)
from .tvm_ffi import Library, tvm_ffi_fingerprint, tvm_ffi_for

TIERS = ("binding", "thin", "stock")  # of headers; all but the last are ours, precompiled
_FIRST = HEADERS / "first"  # our header as a text, which is included as it is where it could not be precompiled
_PRECOMPILED = "kbench.h.gch"
_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")
_RETRY_S = 600.0
REMARKS = "remarks"
_REMARKS_BYTES = 256 << 10
_failed_until_s: dict[Path, float] = {}
_TOO_DEEP = "error: #include nested depth"
# what the compiler says when something that the stock header brings is missing from ours
_MISSING_NAME = re.compile(
    r"not a member of ‘(?:torch|at|c10|std|py)|‘(?:torch|at|c10|std|py)::[^‘’]*’ has not been declared"
    r"|pybind11|PYBIND11|is not a namespace|is defined in header|‘[A-Z][A-Z0-9_]+’ was not declared"
    r"|in namespace ‘(?:torch|at|c10|std)"
)


class Gxx:
    """The C++ toolchain: a torch extension for the processor of this machine."""

    binary = f"{MODULE}.so"

    def __init__(self, *, tiers: tuple[str, ...] = TIERS) -> None:
        self._tiers = tiers

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (
            *_flags(rules),
            *LINKING,
            *_includes("stock"),
            headers_fingerprint(),
            *environment().values(),
            tvm_ffi_fingerprint(),
            sys.version,
        )

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        shop.give({f"{MODULE}.cpp": source.text})
        return fallback(
            [functools.partial(_attempt, shop, tier, tvm_ffi_for(source.text)) for tier in self._tiers],
            _more_headers_may_help,
        )


def environment() -> dict[str, str]:
    """What a C++ build depends on beside source and flags."""
    return {"compiler": host_compiler_version(), "torch": version("torch"), "machine": machine_fingerprint()}


def prepare_headers(rules: Rules, paths: Paths, tier: str = TIERS[0]) -> Path | None:
    """The folder of a precompiled header, built once per machine and flags; None if it cannot be built now.

    A failure may have a cause that passes, such as a full disk. It is remembered by this process only, for a while.
    """
    folder = paths.headers / digest(tier, *Gxx().fingerprint(rules))
    with file_lock(folder.with_suffix(".lock")):
        if (folder / _PRECOMPILED).is_file():
            return folder
        if time.monotonic() < _failed_until_s.get(folder, 0.0):
            return None
        if _precompile(rules, paths, tier, folder):
            return folder
        _failed_until_s[folder] = time.monotonic() + _RETRY_S
        return None


def _precompile(rules: Rules, paths: Paths, tier: str, folder: Path) -> bool:
    """Whether `folder` now holds the header. It appears whole or not at all."""
    work = Path(tempfile.mkdtemp(prefix="headers-", dir=paths.scratch)) / "work"
    try:
        made = work / "made"
        made.mkdir(parents=True)
        text = (_FIRST / "kbench.h").read_text()
        (made / "kbench.h").write_text(text)
        shop = Workshop(work, rules, paths)
        shop.give({"kbench.h": text})
        header = f"{shop.scratch}/{_PRECOMPILED}"
        use = ["-x", "c++-header", "kbench.h", "-o", header]
        room = replace(shop.room(packages()), file_bytes=2 << 30, scratch_bytes=2 << 30)
        step = [host_compiler(), *_flags(rules), *_includes(tier), *use]
        outcome = shop.make([step], header, room, made / _PRECOMPILED)
        if outcome.exit_code != 0:
            return False
        shutil.rmtree(folder, ignore_errors=True)  # one without the header, as earlier versions left behind
        made.rename(folder)
        return True
    finally:
        shutil.rmtree(work.parent)


def readable(source: Source, shop: Workshop) -> Compilation:
    """Leaves `REMARKS` in the workshop's folder: what became of each loop, MODULE.s on a line, and the assembly."""
    shop.give({f"{MODULE}.cpp": source.text})
    return fallback(
        [functools.partial(_readable, shop, tier, tvm_ffi_for(source.text)) for tier in TIERS],
        _more_headers_may_help,
    )


def _more_headers_may_help(outcome: Compilation) -> bool:
    """Not where a source includes itself for ever: each of its copies complains, also about what our header brings."""
    return _TOO_DEEP not in outcome.log and bool(_MISSING_NAME.search(outcome.log))


def _readable(shop: Workshop, tier: str, library: Library) -> Compilation:
    place = shop.scratch
    room, compiling = _compiling(shop, tier, library)
    told = [
        f"-fopt-info-vec-optimized-missed={place}/vec",
        "-fverbose-asm",
        "-S",
        f"{MODULE}.cpp",
        "-o",
        f"{place}/a.s",
    ]
    chosen = f"grep -E '^{MODULE}.cpp:' vec | head -c {_REMARKS_BYTES} > both; echo {MODULE}.s >> both; cat a.s >> both"
    steps = [[*compiling, *told], ["sh", "-c", f"cd {place}; touch vec; {chosen}"]]
    return shop.make(steps, f"{place}/both", room, shop.folder / REMARKS)


def _attempt(shop: Workshop, tier: str, library: Library) -> Compilation:
    """Compiles and links with the headers of `tier`."""
    room, compiling = _compiling(shop, tier, library)
    place, binary = shop.scratch, f"{MODULE}.so"
    steps = [
        [*compiling, "-c", f"{MODULE}.cpp", "-o", f"{place}/a.o"],
        *_hollow_libraries(place),
        [
            host_compiler(),
            *LINKING,
            f"{place}/a.o",
            "-o",
            f"{place}/{binary}",
            "-Wl,--no-as-needed",
            *(f"{place}/{name}" for name in _LIBRARIES),
            "-fopenmp",
            "-Wl,--as-needed",
            *library.linking,
        ],
    ]
    return told_by_gxx(shop.make(steps, f"{place}/{binary}", room, shop.folder / binary))


def _hollow_libraries(place: str) -> list[list[str]]:
    """Steps that leave libraries with the names of torch's in `place`, and nothing in them.

    A shared object may leave names open, so it needs of a library no more than the name. To read torch's own, with
    hundreds of thousands of names, takes the linker most of its time.
    """
    nothing, linking = f"{place}/nothing.o", [host_compiler(), "-shared", "-nostdlib"]
    made = [[*linking, f"-Wl,-soname,{name}", nothing, "-o", f"{place}/{name}"] for name in _LIBRARIES]
    return [[host_compiler(), "-c", "-x", "assembler", "/dev/null", "-o", nothing], *made]


def _compiling(shop: Workshop, tier: str, library: Library) -> tuple[Room, list[str]]:
    """A room with the headers of `tier`, and the compiler with its flags."""
    headers, use = dict[Path, str](), list[str]()
    if tier != "stock":  # a text can tell whether its header was there, so it always is
        # Precompiled it holds addresses of the process that made it, and an assembler reads any file that a text names.
        # A name that is drawn can neither be written in a text nor computed by it, as its hash can.
        folder = prepare_headers(shop.rules, shop.paths, tier) or _FIRST
        place = inside(folder, f"precompiled/{secrets.token_hex(16)}")
        headers, use = {folder: place}, ["-include", f"{place}/kbench.h"]
    room = shop.room({**packages(), **library.folders, **headers})
    return room, [host_compiler(), *how_tools_end(), *use, *_flags(shop.rules), *_includes(tier), *library.compiling]


def _flags(rules: Rules) -> list[str]:
    return [
        *rules.compile.flags,
        *CONSTANT_MACROS,
        f"-DTORCH_EXTENSION_NAME={MODULE}",
        "-fmax-errors=20",
        "-fdiagnostics-color=never",
    ]


def _includes(tier: str) -> list[str]:
    return includes() if tier == "stock" else includes(f"{inside(HEADERS, 'headers')}/{tier}")


@functools.cache
def machine_fingerprint() -> str:
    """The processor as seen by the compiler's -march=native."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    lines = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in info.splitlines()}
    return digest(platform.machine(), lines.get("model name", ""), lines.get("flags", lines.get("Features", "")))[:16]
