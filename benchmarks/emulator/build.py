"""Compiles a translated source in the judge's sandbox, against headers and a runtime that are built once per machine.

The compiler calls a hook for every load and store (-fsanitize=thread), and the runtime defines these hooks itself. Not
covered: running the result (`running.py`).
"""

import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ..harness import (
    Build,
    CancelCheck,
    Compilation,
    Paths,
    Rules,
    Source,
    SupervisorError,
    Workshop,
    build_with,
    digest,
    file_lock,
    host_compiler,
    host_compiler_version,
    inside,
    machine_fingerprint,
    never_cancelled,
    torch_folder,
    workshop,
)
from .translate import OutOfTime, translated

HERE = Path(__file__).parent
SOURCE = "kbench_submission.cu"  # the name that a source has in messages and line tables
_PARTS = (
    "scheduler",
    "barriers",
    "streams",
    "memory",
    "accesses",
    "hooks",
    "findings",
    "ptx",
    "ptx_plain",
    "ptx_matrix",
    "runner",
)
_COMMON = ("-std=c++20", "-fPIC", "-fvisibility=hidden", "-march=native", "-fdiagnostics-color=never")
_WATCHED = (
    "-O1",
    "-g1",
    "-fsanitize=thread,alignment",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=0",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-aggressive-loop-optimizations",
    "-Wuninitialized",
    "-Wmaybe-uninitialized",
    "-fmax-errors=5",
    "-DTORCH_EXTENSION_NAME=kbench_submission",
)
_PREPARED_BYTES = 2 << 30
_FRAME = re.compile(rf"(?:^|/){re.escape(SOURCE)}:(\d{{1,9}})(?!\d)", re.MULTILINE)
_UNSET = re.compile(rf"{re.escape(SOURCE)}:(\d{{1,9}}):\d+: warning: ([^\n]{{1,120}}) used uninitialized \[-W")
_MARK_ABOVE = 1 << 62  # no module has code there


class EmulatedCuda:
    """The toolchain that makes a module for the emulator out of a CUDA source."""

    binary = "kbench_emulated.so"

    def __init__(self, prepared: Path) -> None:
        self._prepared = prepared

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (*_fingerprint(rules), (HERE / "translate.py").read_text())

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        overdue_s = time.monotonic() + shop.rules.compile.timeout_s
        try:
            text = translated(source.text, lambda: shop.cancelled() or time.monotonic() > overdue_s)
        except OutOfTime:
            return Compilation(None, "")
        shop.give({"translated.cpp": f'#line 1 "{SOURCE}"\n{text}\n'})
        place, ready = shop.scratch, inside(self._prepared, "prepared")
        room = shop.room({**_folders(), self._prepared: ready})
        include = ["-include", f"{ready}/kbench_emulator.h"]
        steps = [
            [
                host_compiler(),
                *include,
                *_COMMON,
                *_WATCHED,
                *_includes(),
                "-S",
                "translated.cpp",
                "-o",
                f"{place}/a.s",
            ],
            ["sh", "-c", f"awk -f {inside(HERE / 'runtime', 'emulator/runtime')}/shared.awk {place}/a.s > {place}/b.s"],
            [host_compiler(), "-c", f"{place}/b.s", "-o", f"{place}/b.o"],
            [
                *(
                    host_compiler(),
                    "-shared",
                    "-fno-lto",
                    f"{ready}/runtime.o",
                    f"{place}/b.o",
                    "-o",
                    f"{place}/{self.binary}",
                ),
                *(f"-L{_torch_libraries()}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{_torch_libraries()}"),
                "-Wl,-z,defs",
            ],
        ]
        return shop.make(steps, f"{place}/{self.binary}", room, shop.folder / self.binary)


def emulated_build(source: Source, rules: Rules, paths: Paths, cancelled: CancelCheck = never_cancelled) -> Build:
    """The module of `source`, from the cache if it was built before. Raises NotTranslated, SupervisorError."""
    return build_with(EmulatedCuda(prepare(rules, paths)), source, rules, paths, cancelled)


def prepare(rules: Rules, paths: Paths) -> Path:
    """The folder with headers, runtime and launcher, built once per machine: half a minute."""
    folder = paths.headers / f"emulator-{digest(*_fingerprint(rules))}"
    with file_lock(folder.with_suffix(".lock")):
        if not folder.exists():
            _prepare(rules, paths, folder)
    return folder


def lines_of(binary: Path, sites: Collection[int], rules: Rules, paths: Paths) -> dict[int, int]:
    """The lines of the source that places in the code belong to, as far as the debugger's tables tell."""
    wanted = sorted({site for site in sites if 0 < site < 1 << 30})
    if not wanted:
        return {}
    module, mark = inside(binary, "module.so"), _MARK_ABOVE | secrets.randbits(48)
    places = [hex(place) for site in wanted for place in (site - 1, mark)]  # of the call, not behind it
    with workshop(rules, paths) as shop:
        shop.give({})
        log = shop.run(["addr2line", "-a", "-i", "-e", module, *places], shop.room({binary: module})).log
    return answered_lines(log, wanted, mark)


def answered_lines(log: str, wanted: Sequence[int], mark: int) -> dict[int, int]:
    """The answers for `wanted` in their order, each followed by the one for `mark`, a place that no source can know.

    File names in it are the submission's and may hold new lines, so nothing but the mark divides answers.
    """
    answers = log.split(f"{mark:#018x}\n")
    if len(answers) != len(wanted) + 1:
        return {}
    frames = {site: _FRAME.search(answer) for site, answer in zip(wanted, answers[:-1], strict=True)}
    return {site: int(frame[1]) for site, frame in frames.items() if frame is not None}


def unset_variable(log: str) -> tuple[str, int] | None:
    """The first local variable that is or may be read before it has a value, and the line; `log` is the compiler's."""
    found = _UNSET.search(log)
    return (found[2], int(found[1])) if found else None


def plain_names(names: Sequence[str], rules: Rules, paths: Paths) -> list[str]:
    """The names of variables as their author wrote them."""
    if not names:
        return []
    with workshop(rules, paths) as shop:
        shop.give({})
        shown = shop.run(["c++filt", *names], shop.room({})).log.splitlines()
    return shown if len(shown) == len(names) else list(names)


def _prepare(rules: Rules, paths: Paths, folder: Path) -> None:
    limits = replace(rules.compile, timeout_s=max(rules.compile.timeout_s, 600.0))
    work = Path(tempfile.mkdtemp(prefix="emulator-", dir=paths.scratch)) / "work"
    try:
        made = work / "made"
        made.mkdir(parents=True)
        shop = Workshop(work, replace(rules, compile=limits), paths)
        text = '#include "headers/kbench_emulator.h"\n'
        shop.give({"kbench_emulator.h": text})
        (made / "kbench_emulator.h").write_text(text)
        compiler, place, runtime = host_compiler(), shop.scratch, inside(HERE / "runtime", "emulator/runtime")
        room = replace(shop.room(_folders()), file_bytes=_PREPARED_BYTES, scratch_bytes=_PREPARED_BYTES)
        header = f"{place}/kbench_emulator.h.gch"
        optimised = [compiler, "-O2", "-g1", *_COMMON, *_includes()]
        objects = [f"{place}/{name}.o" for name in _PARTS]
        products = {
            "kbench_emulator.h.gch": (
                header,
                [[compiler, *_COMMON, *_WATCHED, *_includes(), "-x", "c++-header", "kbench_emulator.h", "-o", header]],
            ),
            "runtime.o": (
                f"{place}/runtime.o",
                [
                    *([*optimised, "-c", f"{runtime}/{name}.cpp", "-o", f"{place}/{name}.o"] for name in _PARTS),
                    [compiler, "-r", "-nostdlib", *objects, "-o", f"{place}/runtime.o"],
                ],
            ),
            "launcher": (
                f"{place}/launcher",
                [[compiler, "-O1", "-std=c++20", f"{runtime}/launcher.cpp", "-o", f"{place}/launcher", "-ldl"]],
            ),
        }
        for name, (product, steps) in products.items():
            outcome = shop.make(steps, product, room, made / name)
            if outcome.exit_code != 0:
                raise SupervisorError(f"the emulator cannot be built on this machine: {outcome.log[-2000:]}")
        made.rename(folder)
    finally:
        shutil.rmtree(work.parent)


def _fingerprint(rules: Rules) -> tuple[str, ...]:
    files = sorted(path for name in ("headers", "runtime") for path in (HERE / name).rglob("*") if path.is_file())
    own = digest(*(text for path in files for text in (path.name, path.read_text())))
    flags = (*_COMMON, *_WATCHED, str(rules.compile.timeout_s))
    return (own, *flags, host_compiler_version(), version("torch"), machine_fingerprint(), sys.version)


def _folders() -> dict[Path, str]:
    folders = {
        HERE / "headers": "emulator/headers",
        HERE / "runtime": "emulator/runtime",
        torch_folder() / "include": "torch/include",
        torch_folder() / "lib": "torch/lib",
    }
    return {path: inside(path, name) for path, name in folders.items()}


def _includes() -> list[str]:
    own = str(Path(inside(HERE / "headers", "emulator/headers")).parent)
    torch = inside(torch_folder() / "include", "torch/include")
    return [part for folder in (own, torch, f"{torch}/torch/csrc/api/include") for part in ("-isystem", folder)]


def _torch_libraries() -> str:
    return inside(torch_folder() / "lib", "torch/lib")
