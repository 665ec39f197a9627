"""Builds a source in a sandbox and caches the result under the hash of everything that it depends on.

Compilation is deterministic, so failures are cached as well, except time-outs. What the machine did to a compiler lets
it run once more; that failure is then cached for some minutes. Not covered: how each language is compiled (`gxx.py`,
`nvcc.py`, `device_source.py`) and loading the result, which only a candidate process does.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..languages import LANGUAGES, device_classes
from ..protocol import clean_text
from ..report import clean_log
from ..rules import Rules
from ..sandbox.deadlines import FairTotal
from ..shelf import Shelf, pack, unpack
from ..source import CancelCheck, Paths, Source, never_cancelled
from . import gxx, nvcc
from .device_source import DeviceSource
from .gxx import Gxx
from .nvcc import Nvcc
from .pruning import make_room, note_use
from .python_module import PythonModule
from .toolchain import TOO_LARGE, KernelResources, Toolchain, Workshop, digest, is_of_the_machine

_DOUBTFUL_KEPT_S = 600.0
_RECORD = "build.json"


@dataclass(frozen=True)
class Build:
    """The outcome of one compilation; `binary` is None if there is none, and `log` then says why."""

    binary: Path | None
    log: str
    seconds: float
    cached: bool
    exit_code: int | None  # None: it ran out of time
    problem: str = ""  # what is wrong beside what the compiler says
    resources: tuple[KernelResources, ...] = ()  # of each kernel, where the compiler tells
    by_machine: bool = False  # it failed, also when repeated, and the machine did that
    is_starved: bool = False  # it ran out of time because others had the processors

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", clean_log(self.log))  # it quotes the source
        object.__setattr__(self, "problem", clean_text(self.problem))

    def is_kept(self) -> bool:
        """Whether its file is still there. If so, it stays for as long as a judging takes."""
        if self.binary is None:
            return True
        note_use(self.binary.parent)
        return self.binary.exists()


def build(
    source: Source,
    rules: Rules,
    paths: Paths,
    *,
    target: str | None = None,
    cancelled: CancelCheck = never_cancelled,
) -> Build:
    """The build of `source` under `rules`, from the cache if it was done before.

    `target` is the architecture of the GPU, `sm_90` and the like. Raises SupervisorError if there is no compiler.
    """
    return build_with(_toolchain(source.language, target), source, rules, paths, cancelled)


def build_readable(
    source: Source,
    rules: Rules,
    paths: Paths,
    *,
    target: str | None = None,
    cancelled: CancelCheck = never_cancelled,
) -> Build:
    """The same machine code with what a profiler reads beside it: PTX and numbers of lines, where that is CUDA."""
    if source.language == "cuda":
        return build_with(Nvcc(target, readable=True), source, rules, paths, cancelled)
    return build(source, rules, paths, target=target, cancelled=cancelled)


def build_with(
    toolchain: Toolchain, source: Source, rules: Rules, paths: Paths, cancelled: CancelCheck = never_cancelled
) -> Build:
    """The same by any toolchain, for example one that compiles for something else than a judging."""
    folder = paths.builds / _key(source, rules, toolchain)
    found = _found(folder, toolchain, paths.shelf)
    if found is not None:
        return found
    result = Build(None, "", 0.0, cached=False, exit_code=None)
    taken = FairTotal()
    for _ in range(2):  # once more after a failure of the machine
        with workshop(rules, paths, cancelled) as shop:
            made = _compile(source, replace(shop, taken=taken), toolchain)
            result = replace(made, seconds=result.seconds + made.seconds)
            if result.exit_code is None:
                return result
            if not is_of_the_machine(result):
                return _shared(_keep(result, folder, toolchain), folder, toolchain, paths.shelf)
    shutil.rmtree(_doubtful(folder), ignore_errors=True)
    return _keep(result, _doubtful(folder), toolchain)


def kept(source: Source, rules: Rules, paths: Paths, *, target: str | None = None) -> Build | None:
    """The build as it was made before, here or on another machine of the same kind."""
    toolchain = _toolchain(source.language, target)
    folder = paths.builds / _key(source, rules, toolchain)
    return _found(folder, toolchain, paths.shelf)


def compiler_environment(language: str = "cpp") -> dict[str, str]:
    """What a build depends on beside source and flags; recorded in reports."""
    return nvcc.environment() if language == "cuda" else gxx.environment()


def _toolchain(language: str, target: str | None) -> Toolchain:
    device_classes(language)  # refuses what nobody knows
    toolchains: dict[str, Toolchain] = {
        "cpp": Gxx(),
        "cuda": Nvcc(target),
        **{item.name: DeviceSource(item.name) for item in LANGUAGES.values() if item.launches_from_python},
        "python": PythonModule(target),
    }
    return toolchains[language]


def _compile(source: Source, shop: Workshop, toolchain: Toolchain) -> Build:
    """With the binary in the workshop, where there is one."""
    started = time.monotonic()
    outcome = toolchain.compile(source, shop)
    seconds = time.monotonic() - started
    made = shop.folder / toolchain.binary
    if outcome.exit_code != 0:
        failed = Build(None, outcome.log, seconds, False, outcome.exit_code, outcome.problem)
        by_machine = outcome.by_machine and is_of_the_machine(outcome)
        return replace(failed, by_machine=by_machine, is_starved=outcome.is_starved)
    if _size_bytes(made) > shop.rules.compile.binary_max_bytes:
        return Build(None, outcome.log, seconds, cached=False, exit_code=1, problem=TOO_LARGE)
    return Build(made, outcome.log, seconds, False, 0, resources=outcome.resources)


def _doubtful(folder: Path) -> Path:
    """Where a failure that may be the machine's is kept, so that asking at once does not build again."""
    return folder.with_suffix(".doubtful")


def _found(folder: Path, toolchain: Toolchain, shelf: Shelf | None) -> Build | None:
    note_use(folder)
    found = _read(folder, toolchain) or _fetched(folder, toolchain, shelf)
    if found is not None:
        return found
    doubtful = _doubtful(folder)
    try:
        age_s = time.time() - (doubtful / _RECORD).stat().st_mtime
    except FileNotFoundError:
        return None
    return _read(doubtful, toolchain) if age_s < _DOUBTFUL_KEPT_S else None


def _size_bytes(made: Path) -> int:
    """The size of a file, or of all files of a folder."""
    return sum(path.stat().st_size for path in (made.rglob("*") if made.is_dir() else (made,)))


def _key(source: Source, rules: Rules, toolchain: Toolchain) -> str:
    return digest(source.language, source.text, str(rules.compile), *toolchain.fingerprint(rules))


def _fetched(folder: Path, toolchain: Toolchain, shelf: Shelf | None) -> Build | None:
    """The build as another machine of the same kind has made it."""
    packed = shelf.get(folder.name) if shelf is not None else None
    if packed is None:
        return None
    unpack(packed, folder)
    make_room(folder.parent)
    return _read(folder, toolchain)


def _read(folder: Path, toolchain: Toolchain) -> Build | None:
    try:
        data = json.loads((folder / _RECORD).read_text())
    except (OSError, ValueError):
        return None
    binary = folder / toolchain.binary if data["exit_code"] == 0 else None
    if binary is not None and not binary.exists():
        return None
    resources = tuple(KernelResources(**item) for item in data["resources"])
    known = (binary, data["log"], data["seconds"], True, data["exit_code"], data["problem"], resources)
    return Build(*known, by_machine=data.get("by_machine", False))


def _keep(result: Build, folder: Path, toolchain: Toolchain) -> Build:
    """What is kept as `folder` now: this build, or that of another process which was ready first.

    The record and the binary get there in one step: one text may be built twice at the same time, to other results.
    """
    shown = ("exit_code", "log", "seconds", "problem", "by_machine")
    data = {name: getattr(result, name) for name in shown}
    data["resources"] = [asdict(item) for item in result.resources]
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        (made / _RECORD).write_text(json.dumps(data))
        if result.binary is not None:
            result.binary.rename(made / toolchain.binary)
        if folder.exists() and _read(folder, toolchain) is None:
            shutil.rmtree(folder, ignore_errors=True)  # no build: a disk that was full, or an earlier version of kbench
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        first = _read(folder, toolchain)
        if first is None:
            raise
        return first
    make_room(folder.parent)
    return replace(result, binary=folder / toolchain.binary if result.binary is not None else None)


def _shared(build: Build, folder: Path, toolchain: Toolchain, shelf: Shelf | None) -> Build:
    if shelf is not None and not build.cached:
        shelf.put(folder.name, pack(folder, (toolchain.binary, _RECORD)))
    return build


@contextmanager
def workshop(rules: Rules, paths: Paths, cancelled: CancelCheck = never_cancelled) -> Iterator[Workshop]:
    """A folder for tools in sandboxes, gone afterwards."""
    outer = Path(tempfile.mkdtemp(prefix="build-", dir=paths.scratch))
    work = outer / "work"
    work.mkdir()
    try:
        yield Workshop(work, rules, paths, cancelled)
    finally:
        shutil.rmtree(outer, ignore_errors=True)
