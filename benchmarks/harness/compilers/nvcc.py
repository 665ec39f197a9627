"""Compiling CUDA submissions with nvcc: one .cu file to one torch extension.

nvcc's front ends read every header twice, so headers dominate the build time. A source is compiled with the thinnest
headers (`headers/thinnest`, and of torch's operators only those that it names) and the small binding
(`headers/binding`) first, then with the thinnest headers and the real pybind11, then with thin headers, then with the
stock ones, as long as the compiler misses a name. Not covered: the driver and the GPU, which a build does not need.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ..errors import SupervisorError
from ..rules import Rules
from ..sandbox.isolation import Room, inside, isolation_in_force
from ..source import Source
from .missing_names import more_headers_may_help
from .nvcc_plan import MODULE_ID, SAID_BY_THE_ASSEMBLER, NvccPlan, plan_of
from .toolchain import (
    CONSTANT_MACROS,
    HEADERS,
    LINKING,
    MODULE,
    Compilation,
    KernelResources,
    Workshop,
    fallback,
    headers_fingerprint,
    host_compiler,
    host_compiler_version,
    includes,
    packages,
    torch_folder,
    torch_libraries,
)
from .tvm_ffi import Library, tvm_ffi_fingerprint, tvm_ffi_for

DEFAULT_TARGET = "sm_90"
TIERS = ("binding", "thinnest", "thin", "stock")  # of headers
_FIRST_WITH_OWN_INSTRUCTIONS = 90
_READABLE = ("-lineinfo", "--no-compress")  # lines for profilers; PTX stands in the binary as text
_LIBRARIES = ("c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda", "torch_python")
# torch compiles extensions with these, so that half types behave the same everywhere
_DEFINES = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    f"-DTORCH_EXTENSION_NAME={MODULE}",
)
_OPERATOR = re.compile(r"\b(?:at|torch)::(\w+)")
_UNQUALIFIED = re.compile(r"(?<![.\w>:])(\w+)\s*\(")
_NEEDS = {
    "KBENCH_NEEDS_CONTEXT": re.compile(r"\bglobalContext\b|\bat::Context\b"),
    "KBENCH_NEEDS_CUDA_LIBRARIES": re.compile(r"cublas|cusparse|cusolver|CUDABlas|CUDABLAS|CUDASparse|CUDASolver"),
    "KBENCH_NEEDS_LISTS": re.compile(
        r"\bcat\b|(?:\.|->|::)\s*\w*index(?:_put_?)?\s*\(|\bI\w*ListRef\b|::List\b|\bIValue\b"
    ),
}
_USES_NAMESPACE = re.compile(r"\busing\s+namespace\s+(?:at|torch)\b")
_NVCC_OF_PIP = ("cu13", "cu12")
_REVISION = "each front end in a sandbox of its own"  # of how builds are made: what was built otherwise is not used
_DIGITS = 12  # of the size of a file
_SAID_BYTES = 64 << 10  # by the assembler: some hundred kernels


class Nvcc:
    """The CUDA toolchain for one kind of GPU, `sm_90` and the like."""

    binary = f"{MODULE}.so"

    def __init__(
        self,
        target: str | None,
        *,
        tiers: tuple[str, ...] = TIERS,
        side_by_side: bool = True,
        readable: bool = False,
    ) -> None:
        """`readable` keeps PTX and the numbers of lines beside the same machine code."""
        self._target = target or DEFAULT_TARGET
        self._readable = readable
        self._tiers = tiers
        self._side_by_side = side_by_side

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return (
            _REVISION,
            *self._flags(rules),
            *LINKING,
            *_includes("stock"),
            headers_fingerprint(),
            *environment().values(),
            tvm_ffi_fingerprint(),
            sys.version,
        )

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        texts = {
            f"{MODULE}.cu": source.text,
            "kbench_operators.h": operator_headers(source.text),
            "kbench_needs.h": needs(source.text),
        }
        library = tvm_ffi_for(source.text)
        attempts = [functools.partial(self._attempt, shop, tier, texts, library) for tier in self._tiers]
        headers = torch_folder() / "include"
        outcome = fallback(attempts, lambda failed: more_headers_may_help(failed.log, headers))
        return _demangled(outcome, shop)

    def _attempt(self, shop: Workshop, tier: str, texts: Mapping[str, str], library: Library) -> Compilation:
        folders, place = {**packages(), **_cuda_packages(), **library.folders}, shop.scratch
        compiling = [
            "env",
            f"TMPDIR={place}",
            f"{inside(cuda_folder(), 'cuda')}/bin/nvcc",
            *self._flags(shop.rules),
            *_includes(tier),
            *library.compiling,
            "-c",
            f"{MODULE}.cu",
            "-o",
            f"{place}/a.o",
        ]
        made, target, room = f"{place}/{self.binary}", shop.folder / self.binary, shop.room(folders)
        linking = [host_compiler(), *LINKING, f"{place}/a.o", "-o", made, "-Wl,--as-needed", "-fopenmp", *_linking()]
        linking += library.linking
        if not self._side_by_side:
            shop.give(texts)
            return shop.make([compiling, linking], made, room, target)
        shop.give({f"{MODULE}.cu": ""})  # so that no source can influence the steps
        told = shop.run([*compiling, "--dryrun"], room)
        if told.exit_code != 0:
            return told
        plan = plan_of(told.log)
        shop.give({**texts, MODULE_ID: f"_{MODULE}"})
        if plan is None:
            return shop.make([compiling, linking], made, room, target)
        return _side_by_side(plan, place, linking, shop, room)

    def _flags(self, rules: Rules) -> list[str]:
        number = self._target.removeprefix("sm_").rstrip("a")
        # from 90 on, `a` gives the instructions that only this architecture has, wgmma and bulk copies among them
        number += "a" if int(number) >= _FIRST_WITH_OWN_INSTRUCTIONS else ""
        wanted = f"[sm_{number},compute_{number}]" if self._readable else f"sm_{number}"
        code = [f"-gencode=arch=compute_{number},code={wanted}", *(_READABLE if self._readable else ())]
        code.append(f"-Xcompiler={','.join(CONSTANT_MACROS)}")
        return [*rules.compile.cuda_flags, *code, *_DEFINES, "-Xptxas", "-v", "-ccbin", host_compiler()]


def _side_by_side(plan: NvccPlan, place: str, linking: list[str], shop: Workshop, room: Room) -> Compilation:
    """Both front ends at once in sandboxes of their own, and what is left in a third one with what they have made."""
    for_host, for_device = (shop.folder / name for name in ("host", "device"))
    for file in (for_host, for_device):
        file.unlink(missing_ok=True)  # made with other headers
    joined = f"{place}/joined"
    files = [*map(shlex.quote, plan.device_files), SAID_BY_THE_ASSEMBLER]
    sizes = " && ".join(f"wc -c < {file}" for file in files)
    put_together = f": >> {SAID_BY_THE_ASSEMBLER} && {sizes} && cat {' '.join(files)}"
    last_word = "code=$?; echo joining returned $code exit status >&2; exit $code"
    joining = f"{{ {put_together}; }} > {joined} || {{ {last_word}; }}"
    is_over = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        other = replace(shop, cancelled=is_over.is_set)
        running = beside.submit(other.make, [_shell(plan.host, place)], plan.host_file, room, for_host)
        try:
            device = shop.make([_shell(plan.device, place), _shell(joining, place)], joined, room, for_device)
        finally:
            if shop.cancelled():
                is_over.set()
    host = running.result()
    if host.exit_code != 0:
        return host
    log = host.log + device.log
    if device.exit_code != 0:
        return replace(device, log=log)
    parts = _parted(for_device, len(files))
    if parts is None:
        return Compilation(1, log, problem="the compiler of the device left other files than it should")
    *device_files, said = parts
    remarks, resources = resources_in(said.read_bytes()[:_SAID_BYTES].decode(errors="replace"))
    log += remarks
    if isolation_in_force().strong:  # or all have one folder
        given = dict(zip(device_files, plan.device_files, strict=True)) | {for_host: plan.host_file}
        for file in given:
            os.utime(file, (0, 0))  # which was made first is nobody's business
        room = replace(room, read_only={**room.read_only, **given})
    last = shop.make([_shell(plan.last, place), linking], f"{place}/{Nvcc.binary}", room, shop.folder / Nvcc.binary)
    return replace(last, log=log + last.log, resources=resources)


def _parted(joined: Path, count: int) -> list[Path] | None:
    """Files that were written one behind the other, with their sizes in front of them; None of anything else."""
    *sizes, data = joined.read_bytes().split(b"\n", count)
    if len(sizes) != count or not all(size.isdigit() and len(size) <= _DIGITS for size in sizes):
        return None
    if sum(map(int, sizes)) != len(data):
        return None
    files, start = [], 0
    for number, size in enumerate(map(int, sizes)):
        files.append(joined.with_name(f"device-{number}"))
        files[-1].write_bytes(data[start : start + size])
        start += size
    return files


def _shell(script: str, place: str) -> list[str]:
    return ["env", f"TMPDIR={place}", "sh", "-c", script]


def environment() -> dict[str, str]:
    """What a CUDA build depends on beside source and flags. Raises SupervisorError if there is no nvcc."""
    return {"compiler": host_compiler_version(), "nvcc": _nvcc_version(), "torch": version("torch")}


def needs(text: str) -> str:
    """The additional thinnest headers that `text` needs."""
    return "".join(f"#define {name}\n" for name, pattern in _NEEDS.items() if pattern.search(text))


def operator_headers(text: str) -> str:
    """Includes of the operators that `text` names, after torch:: or at::, or anywhere if it uses those namespaces."""
    names = set(_OPERATOR.findall(text))
    if _USES_NAMESPACE.search(text):
        names |= set(_UNQUALIFIED.findall(text))
    return "".join(f"#include <ATen/ops/{name}.h>\n" for name in sorted(names & _operators()))


@functools.cache
def _operators() -> frozenset[str]:
    """Those that have a header; a name of a source never becomes a path, which it may be too long for."""
    return frozenset(path.stem for path in (torch_folder() / "include/ATen/ops").glob("*.h"))


_QUOTES = re.compile(r"^ptxas \w+\s*: Pragma '", re.MULTILINE)  # any text, with line ends
_ENTRY = re.compile(r"Compiling entry function '([\w$.]+)'")
# no figure is longer, and Python converts no number of any length
_SPILLS = re.compile(r"\b(\d{1,12}) bytes stack frame, (\d{1,12}) bytes spill stores, (\d{1,12}) bytes spill loads")
_USED = re.compile(r"Used (\d{1,12}) registers")
_SHARED = re.compile(r"\b(\d{1,12}) bytes smem")


def resources_in(said: str) -> tuple[str, tuple[KernelResources, ...]]:
    """Of what the assembler says: what is for people, and what it tells of each kernel, unless it quotes the source."""
    if _QUOTES.search(said):
        return said, ()
    own: list[str] = []
    kept: list[str] = []
    for line in said.splitlines(keepends=True):
        (own if line.startswith("ptxas info") or _SPILLS.search(line) else kept).append(line)
    return "".join(kept), tuple(_resources(own))


def _resources(lines: list[str]) -> Iterator[KernelResources]:
    kernel, frame = None, (0, 0, 0)
    for line in lines:
        if found := _ENTRY.search(line):
            kernel = found[1]
        elif found := _SPILLS.search(line):
            frame = (int(found[1]), int(found[2]), int(found[3]))
        elif kernel is not None and (found := _USED.search(line)):
            shared = _SHARED.search(line)
            yield KernelResources(kernel, int(found[1]), *frame, int(shared[1]) if shared else 0)
            kernel, frame = None, (0, 0, 0)


def _demangled(outcome: Compilation, shop: Workshop) -> Compilation:
    """The kernels under the names that their author gave them, as far as c++filt can tell."""
    if not outcome.resources:
        return outcome
    mangled = [item.kernel for item in outcome.resources]
    names = shop.run(["c++filt", *mangled], shop.room({})).log.splitlines()
    if len(names) != len(outcome.resources):
        return outcome
    pairs = zip(names, outcome.resources, strict=True)
    return replace(outcome, resources=tuple(replace(item, kernel=name) for name, item in pairs))


@functools.cache
def cuda_folder() -> Path:
    """Where the CUDA toolkit is installed. Raises SupervisorError."""
    for nvcc in _candidates():
        folder = _toolkit_of(nvcc)
        if folder is not None:
            return folder
    raise SupervisorError("there is no CUDA compiler on this machine: install the CUDA toolkit or set CUDA_HOME")


def _candidates() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "bin/nvcc"
    found = shutil.which("nvcc")
    if found:
        yield Path(found)
    yield Path("/usr/local/cuda/bin/nvcc")
    for name in _NVCC_OF_PIP:
        yield torch_folder().parent / "nvidia" / name / "bin/nvcc"


def _toolkit_of(nvcc: Path) -> Path | None:
    """The folder above the real nvcc: what is found on PATH may be a link or a script that starts another one."""
    if not os.access(nvcc, os.X_OK):
        return None
    shown = subprocess.run([nvcc, "--dryrun", "-c", "any.cu"], capture_output=True, text=True, check=False).stderr
    top = re.search(r"^#\$ TOP=(.+)$", shown, re.MULTILINE)
    return Path(top[1]).resolve() if top else None


@functools.cache
def _nvcc_version() -> str:
    nvcc = cuda_folder() / "bin/nvcc"
    shown = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return shown.strip().splitlines()[-1]


def _cuda_packages() -> dict[Path, str]:
    """The toolkit, and NVIDIA's libraries where pip installed them."""
    pip = torch_folder().parent / "nvidia"
    return {cuda_folder(): inside(cuda_folder(), "cuda"), **({pip: inside(pip, "nvidia")} if pip.is_dir() else {})}


def _includes(tier: str) -> list[str]:
    ours = inside(HEADERS, "headers")
    thinnest = (f"{ours}/thinnest", ".")
    mine = {
        "binding": (f"{ours}/binding", *thinnest),
        "thinnest": thinnest,
        "thin": (f"{ours}/thin",),
        "stock": (),
    }[tier]
    pip = torch_folder().parent / "nvidia"
    libraries = [f"{inside(pip, 'nvidia')}/{path.parent.name}/include" for path in sorted(pip.glob("*/include"))]
    last = [part for folder in (*libraries, f"{ours}/absent") for part in ("-isystem", folder)]
    return [*includes(*mine), *last]


def _linking() -> list[str]:
    """Against torch and the CUDA runtime that torch itself uses, a shared library."""
    folders = [cuda_folder() / name for name in ("lib64", "lib")]
    found = next((path for folder in folders for path in sorted(folder.glob("libcudart.so*"))), None)
    if found is None:
        raise SupervisorError(f"the CUDA toolkit in {cuda_folder()} has no libcudart.so")
    library = f"{inside(cuda_folder(), 'cuda')}/{found.relative_to(cuda_folder())}"
    return [*torch_libraries(*_LIBRARIES), library]
