"""Assembly for reading: PTX and SASS of a CUDA build, the assembly and the vectoriser's remarks of a C++ source.

All tools run in the sandbox of a compiler. What they print, and what a build holds, can be anything: it is read line by
line, until enough is shown or too much was read. What a missing tool would have said is told as missing. Not covered:
Triton, whose kernels are compiled where they run.
"""

import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice, zip_longest
from pathlib import Path

from ..errors import SupervisorError
from ..profiles.records import Listing
from ..protocol import clean_text
from ..rules import Rules
from ..sandbox.isolation import inside
from ..source import CancelCheck, Paths, Source
from .builds import workshop
from .gxx import REMARKS, readable
from .nvcc import cuda_folder
from .toolchain import MODULE

_SHOWN_CHARS = 96 * 1024
_READ_BYTES = 32 << 20  # of a build with PTX, or of SASS
_READ_CHARS = 8 << 20  # of assembly, of which our kernels have less than one million
_LINES_MAX = 200_000  # read for one listing; our kernels have 17,000 lines of assembly
_FUNCTIONS_MAX = 10_000  # that are put in order
_REMARKS_MAX = 120
_ENCODING = re.compile(r"/\* 0x[0-9a-f]{16} \*/")
_PTX = re.compile(rb"\.version [0-9]{1,2}\.[0-9]{1,2}\r?\n\.target sm_[^\0]{1,8000000}")
_LINE = re.compile(rb"[^\n]+")
_BEGIN = re.compile(rb"^\t*(?:Function : |// \.globl)[^\n]*", re.MULTILINE)
_NOT_READ = ("\t.loc", ".global .align 1 .b8 _ZN")  # numbers of lines, and objects of headers
_FUNCTION = re.compile(r"[A-Za-z_.$][\w.$]{0,500}:")
_REMARK = re.compile(rf"{MODULE}\.cpp:(\d{{1,6}}):\d{{1,6}}: (optimized|missed): {{1,20}}(.{{1,300}})")
_TOLD_MISSES = ("couldn't vectorize loop", "not vectorized")
_INSTRUCTION = re.compile(r"\t([a-z][a-z0-9.]{0,20})\b[ \t]*([^#\n]{0,200})")
_VECTOR_FLOAT = re.compile(
    r"v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\w{0,6}|round|rsqrt\w{0,2}|rcp\w{0,2})p[sd]"
)
_SCALAR_FLOAT = re.compile(
    r"v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\w{0,6}|round|rsqrt\w{0,2}|rcp\w{0,2})s[sd]"
)


@dataclass(frozen=True)
class Listings:
    """Texts to read, counts of instructions, and what is missing with its reason."""

    listings: tuple[Listing, ...] = ()
    instructions: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def read_gpu_build(
    binary: Path, kernels: Collection[str], rules: Rules, paths: Paths, cancelled: CancelCheck
) -> Listings:
    """PTX and SASS out of a readable build, the functions called as one of `kernels` first."""
    found = {"ptx": (_ptx(binary), _own_ptx), "sass": (_sass(binary, rules, paths, cancelled), _own_sass)}
    listings, missing = [], []
    for kind, (text, own) in found.items():
        if isinstance(text, _Missing):
            missing.append(f"no {kind.upper()}: {text.reason}")
        else:
            listings.append(_listing(kind, map(own, sorted_functions(text, kernels))))
    return Listings(tuple(listings), missing=tuple(missing))


@dataclass(frozen=True)
class _Missing:
    reason: str


def _ptx(binary: Path) -> bytes | _Missing:
    """As text in a build that is not compressed."""
    with binary.open("rb") as file:
        texts = [found[0] for found in _PTX.finditer(file.read(_READ_BYTES))]
    return b"\n".join(texts) if texts else _Missing("the build holds none")


def _own_ptx(line: str) -> str | None:
    return None if line.startswith(_NOT_READ) or not line.strip() else line


def _sass(binary: Path, rules: Rules, paths: Paths, cancelled: CancelCheck) -> bytes | _Missing:
    tool = _cuobjdump()
    if tool is None:
        return _Missing("there is no cuobjdump on this machine")
    tools, library = inside(tool.parent, "tools"), inside(binary, f"job/{binary.name}")
    with workshop(rules, paths, cancelled) as shop:
        shop.give({})
        place, made = shop.scratch, shop.folder / "sass"
        command = f"PATH={tools}:$PATH {tools}/{tool.name} -sass {library} | head -c {_READ_BYTES} > {place}/sass"
        room = shop.room({tool.parent: tools, binary: library})
        outcome = shop.make([["sh", "-c", command]], f"{place}/sass", room, made)
        if outcome.exit_code != 0:
            return _Missing(f"cuobjdump failed: {outcome.log[-200:]}")
        return made.read_bytes()


def _own_sass(line: str) -> str | None:
    return _ENCODING.sub("", line).rstrip() or None


def sorted_functions(text: bytes, kernels: Collection[str]) -> Iterator[str]:
    """Lines of those of `kernels` before the others, behind what stands above all functions: a listing is cut."""
    begins = list(islice(_BEGIN.finditer(text), _FUNCTIONS_MAX))
    mangled = [f"{len(name)}{name}".encode() for name in kernels]
    blocks = [
        (not any(name in begin[0] for name in mangled), begin.start(), following.start() if following else len(text))
        for begin, following in zip_longest(begins, begins[1:])
    ]
    blocks.sort(key=lambda block: block[0])
    above = (False, 0, begins[0].start() if begins else len(text))
    for _, start, end in (above, *blocks):
        for line in _LINE.finditer(text, start, end):
            yield line[0][:_SHOWN_CHARS].decode(errors="replace")


def read_cpp_source(source: Source, rules: Rules, paths: Paths, cancelled: CancelCheck) -> Listings:
    """What g++ makes of a source with the flags of a judging."""
    with workshop(rules, paths, cancelled) as shop:
        outcome = readable(source, shop)
        if outcome.exit_code != 0:
            return Listings(missing=("no assembly: the compiler did not print it",))
        with (shop.folder / REMARKS).open(errors="replace") as file:
            told = file.read(_READ_CHARS)
    remarks, _, assembly = told.partition(f"{MODULE}.s\n")
    lines = _lines(assembly)
    own = list(_own_functions(islice(lines, _LINES_MAX)))
    is_long = len(told) == _READ_CHARS or next(lines, None) is not None
    missing = ("not all of the assembly: it is too long",) if is_long else ()
    listings = (_listing("vectorisation", _remarks(_lines(remarks))), _listing("assembly", own))
    return Listings(listings, count_instructions(own), missing)


def _lines(text: str) -> Iterator[str]:
    """Those that are not empty, one at a time."""
    return (found[0] for found in re.finditer(r"[^\n]+", text))


def count_instructions(lines: Iterable[str]) -> dict[str, int]:
    """How many instructions stand in x86 assembly: all, on vectors and on single floats, and with wide registers."""
    counts: Counter[str] = Counter()
    for line in lines:
        if found := _INSTRUCTION.match(line):
            counts["all"] += 1
            counts["vector_float"] += bool(_VECTOR_FLOAT.fullmatch(found[1]))
            counts["scalar_float"] += bool(_SCALAR_FLOAT.fullmatch(found[1]))
            counts["zmm"] += "%zmm" in found[2]
            counts["ymm"] += "%ymm" in found[2]
            counts["calls"] += found[1].startswith("call")
    return dict(counts) if counts["vector_float"] + counts["scalar_float"] else {}


def _own_functions(lines: Iterable[str]) -> Iterator[str]:
    """Functions with code of the submission itself; those of headers alone are left out.

    The compiler names the line above the instructions made from it: `# kbench_submission.cpp:12: text`.
    """
    function: list[str] = []
    own = False
    for line in lines:
        if _FUNCTION.fullmatch(line.partition("#")[0].rstrip()) and not line.startswith(".L"):
            function, own = [], False
        function.append(line)
        own = own or line.startswith(f"# {MODULE}.cpp:")
        if line.lstrip().startswith(".cfi_endproc"):
            if own:
                yield from _without_frames(function)
            function, own = [], False
    if own:  # of a text that was cut
        yield from _without_frames(function)


def _without_frames(function: Iterable[str]) -> Iterator[str]:
    return (line for line in function if not line.lstrip().startswith(".cfi_"))


def _remarks(lines: Iterable[str]) -> Iterator[str]:
    """Each remark once, by line."""
    found = dict.fromkeys(
        (int(match[1]), match[2], match[3])
        for match in map(_REMARK.match, lines)
        if match and (match[2] == "optimized" or match[3].startswith(_TOLD_MISSES))
    )
    for line, kind, text in sorted(found)[:_REMARKS_MAX]:
        yield f"line {line}: {'' if kind == 'optimized' else 'not '}vectorised: {text}"


def _listing(kind: str, lines: Iterable[str | None]) -> Listing:
    """Of lines that are not None, until enough are shown or too many were read."""
    shown, chars, is_cut = [], 0, False
    for number, line in enumerate(lines):
        if number == _LINES_MAX or chars > _SHOWN_CHARS:
            is_cut = True
            break
        if line is not None:
            shown.append(line[:_SHOWN_CHARS])
            chars += len(shown[-1]) + 1
    text = clean_text("\n".join(shown))
    return Listing(kind, text[:_SHOWN_CHARS], cut=is_cut or len(text) > _SHOWN_CHARS)


def _cuobjdump() -> Path | None:
    """Of the CUDA toolkit, or the one that comes with Triton."""
    places = [Path(found)] if (found := shutil.which("cuobjdump")) else []
    with suppress(SupervisorError):
        places.append(cuda_folder() / "bin/cuobjdump")
    triton = find_spec("triton")
    if triton is not None and triton.origin is not None:
        places.append(Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump")
    return next((place.resolve() for place in places if place.is_file()), None)
