"""CUDA kernels: limits that a launch breaks for sure, and shared memory without a barrier.

Numbers are those of every GPU since Volta. Not covered: sizes that are not written as numbers, and indices.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod

from benchmarks.harness import TaskSpec

from .doubts import Doubt
from .reading import ParsedFunction, Reading

_STATIC_SHARED_MAX_BYTES = 48 * 1024
_DYNAMIC_SHARED_MAX_BYTES = 227 * 1024
_BLOCK_MAX_THREADS = 1024
_SIZES_BYTES = {
    "float": 4,
    "int": 4,
    "unsigned": 4,
    "double": 8,
    "float2": 8,
    "float4": 16,
    "int64_t": 8,
    "half": 2,
    "__half": 2,
    "char": 1,
}
_SHARED = re.compile(r"(?<!extern )\b__shared__\s+(?:__align__\(\d+\)\s*)?(\w+)\s+(\w+)((?:\[[^\]]+\])+)\s*;")
_LAUNCH = re.compile(r"\b(\w+)(?:<[^<>;]*>)?\s*<<<(.{0,500}?)>>>", re.DOTALL)
_BARRIER = re.compile(r"__syncthreads|__syncwarp|\.sync\(|\bsync\(|barrier|bar\.sync|__shfl|cooperative_groups|\bcg::")


def static_shared(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """More static shared memory in one kernel than a kernel can have."""
    for kernel in _kernels(reading):
        arrays = [(item, _bytes(item, _constants(reading.code))) for item in _SHARED.finditer(kernel.body)]
        total = sum(size for _, size in arrays if size is not None)
        if total > _STATIC_SHARED_MAX_BYTES:
            text = f"{kernel.name} has {total} bytes of static shared memory, {_STATIC_SHARED_MAX_BYTES} are allowed"
            line = reading.line(kernel.body_place + arrays[0][0].start())
            yield Doubt("compile", text, line, certain=not reading.has_macros)


def launches(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """Blocks and dynamic shared memory over the limits, or over what the kernel itself declares."""
    constants = _constants(reading.code)
    bounds = {item.name: _launch_bound(item, reading.code, constants) for item in _kernels(reading)}
    raised = "MaxDynamicSharedMemorySize" in reading.code
    for found in _LAUNCH.finditer(reading.code):
        parts = [part.strip() for part in found[2].split(",")]
        line = reading.line(found.start())
        threads = _number(parts[1], constants) if len(parts) > 1 and "(" not in found[2] else None
        shared = _number(parts[2], constants) if len(parts) > 2 and "(" not in found[2] else None
        limit = min(bounds.get(found[1]) or _BLOCK_MAX_THREADS, _BLOCK_MAX_THREADS)
        if threads is not None and threads > limit:
            yield Doubt("memory", f"blocks of {threads} threads, {limit} are allowed", line, certain=True)
        allowed = _DYNAMIC_SHARED_MAX_BYTES if raised else _STATIC_SHARED_MAX_BYTES
        if shared is not None and shared > allowed:
            yield Doubt("memory", f"{shared} bytes of dynamic shared memory, {allowed} are allowed", line, certain=True)


def barriers(reading: Reading, task: TaskSpec) -> Iterator[Doubt]:
    """Shared memory that is written and read with no barrier in the file: right within one warp at most."""
    if _BARRIER.search(reading.text):
        return
    for kernel in _kernels(reading):
        for name in re.findall(r"\b__shared__\b[^;\[]{0,100}?(\w+)\s*\[", kernel.body):
            written = re.search(rf"\b{name}(?:\[[^\]]{{0,200}}\]){{1,4}}\s*[-+*]?=(?!=)", kernel.body)
            if written and len(re.findall(rf"\b{name}\b", kernel.body)) > 2:
                line = reading.line(kernel.body_place + written.start())
                yield Doubt("race", f"no barrier between writing and reading the shared {name!r}", line)


def _kernels(reading: Reading) -> list[ParsedFunction]:
    found = re.finditer(r"\b__global__\b[^;{]{0,500}?\b(\w+)\s*\((?!\d)", reading.code)
    names = dict.fromkeys(item[1] for item in found if item[1] != "__launch_bounds__")
    return [kernel for name in names for kernel in reading.functions(name)]


def _launch_bound(kernel: ParsedFunction, code: str, constants: Mapping[str, int]) -> int | None:
    found = re.search(rf"__launch_bounds__\(\s*+(\w+)\b[^)]{{0,200}}\)\s*+(?:void\s+)?{kernel.name}\b", code)
    return _number(found[1], constants) if found else None


def _constants(code: str) -> dict[str, int]:
    """Names that stand for one number in the whole file."""
    found: dict[str, set[str]] = {}
    for name, value in re.findall(
        r"\b(?:constexpr|const)\s+(?:int|unsigned|size_t|int64_t)\s+(\w+)\s*=\s*([^;,]+)", code
    ):
        found.setdefault(name, set()).add(value.strip())
    return {name: int(min(values)) for name, values in found.items() if len(values) == 1 and min(values).isdigit()}


def _number(text: str, constants: Mapping[str, int]) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else constants.get(text)


def _bytes(array: re.Match[str], constants: Mapping[str, int]) -> int | None:
    """The size of a shared array; None where a size or the type is not known."""
    sizes = [_number(item, constants) for item in re.findall(r"\[([^\[\]]+)\]", array[3])]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes) or array[1] not in _SIZES_BYTES:
        return None
    return _SIZES_BYTES[array[1]] * prod(known)
