"""A bench for variants of CUDA kernels on a GPU: `python -m lab.gpu.kernel_lab FOLDER`.

FOLDER (`lab/gpu/variants`) holds `<op>.<direction>/<name>.cu`, each a torch extension as a submission would be.
Lines `//! TAG -DX=1 ...` in a file make one variant each, compiled with those macros. `edits.toml` beside them makes
variants of the shipped kernel: a table each, of texts and what replaces them. All are compiled side by side; then one
process per task checks every configuration, hidden ones too, against float64 and times what is right, by turns with the
shipped kernel, eager and torch.compile, each call with a cold cache. A variant that crashes or hangs is left out and
the rest goes on. Writes `kernel_lab.json` to --out and prints a table in microseconds. Not covered: sandboxing,
verdicts and intervals; for those there is `lab/bench/proof.py`.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

import torch

from benchmarks.harness import default_rules, default_suites
from benchmarks.harness.compilers.nvcc import needs, operator_headers
from benchmarks.harness.compilers.toolchain import host_compiler
from lab.gpu.plain_cuda import nvcc

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "benchmarks/harness/headers"
COMPILE_S, STEP_S = 240.0, 150.0  # one build; one answer of the process with the GPU
_SWEEP = re.compile(r"^//! (\S+)(.*)$", re.MULTILINE)
_RESOURCES = re.compile(r"(\d+) bytes spill stores|Used (\d+) registers")


@dataclass(frozen=True)
class Variant:
    """One source and the macros to compile it with."""

    task: str
    name: str
    text: str
    macros: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltVariant:
    """An extension, or what nvcc said."""

    variant: Variant
    library: Path | None
    seconds: float
    registers: int = 0
    spilled_bytes: int = 0
    log: str = ""


def main() -> int:
    options = read_options()
    variants = list(chosen(options.folder, options.only.split(",")))
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        built = list(pool.map(lambda one: build(one, Path(folder)), variants))
        report_builds(built)
        if options.build_only:
            return 0
        tasks = list(dict.fromkeys(one.task for one in variants))
        records = {}
        deadline = time.monotonic() + options.budget_s
        for task in tasks:
            if time.monotonic() > deadline:
                print(f"no time left for {task}")
                continue
            mine = [one for one in built if one.variant.task == task and one.library]
            records[task] = measured(task, mine, compiled=options.compile == "all" or task in options.compile)
            (options.out / "kernel_lab.json").write_text(json.dumps(records))
            print_table(task, records[task])
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="parts of `<op>/<direction> <name>`, with commas")
    parser.add_argument("--compile", default="", help="tasks for which torch.compile is timed too, or `all`")
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--budget-s", type=float, default=3600.0, help="after which no further task is begun")
    parser.add_argument("--build-only", action="store_true")
    return parser.parse_args()


def find_variants(folder: Path) -> Iterator[Variant]:
    """The shipped kernel of each task first, then what the folder holds for it."""
    for room in sorted(path for path in folder.iterdir() if path.is_dir() and "." in path.name):
        op, direction = room.name.split(".")
        task = f"{op}/{direction}"
        shipped = (default_suites() / f"robust_kbench/{op}/kernels/{direction}_cuda.cu").read_text()
        yield Variant(task, "shipped", shipped)
        for name, edits in read_edits(room / "edits.toml").items():
            yield Variant(task, name, edited(shipped, edits))
        for file in sorted(room.glob("*.cu")):
            text = file.read_text()
            for tag, macros in _SWEEP.findall(text) or [("", "")]:
                yield Variant(task, file.stem + (f":{tag}" if tag else ""), text, tuple(macros.split()))


def read_edits(file: Path) -> dict[str, dict[str, str]]:
    return tomllib.loads(file.read_text()) if file.exists() else {}


def edited(text: str, edits: dict[str, str]) -> str:
    """`text` with every place of each old text replaced. Raises ValueError if there is none."""
    for old, new in edits.items():
        if old not in text:
            raise ValueError(f"the shipped kernel has no {old!r}: edits.toml is older than it")
        text = text.replace(old, new)
    return text


def chosen(folder: Path, words: Sequence[str]) -> Iterator[Variant]:
    """Those whose task and name contain one of the words, in their order, and what is shipped for the same tasks."""
    found = list(find_variants(folder))
    matching = [one for word in words for one in found if word in f"{one.task} {one.name}" and one.name != "shipped"]
    for task in dict.fromkeys(one.task for one in matching):
        yield from (one for one in found if one.task == task and (one in matching or one.name == "shipped"))


def build(variant: Variant, folder: Path) -> BuiltVariant:
    """With the thinnest headers of the harness, then with the stock ones."""
    started = time.monotonic()
    room = Path(tempfile.mkdtemp(dir=folder, prefix="v"))
    (room / "kernel.cu").write_text(variant.text)
    (room / "kbench_operators.h").write_text(operator_headers(variant.text))
    (room / "kbench_needs.h").write_text(needs(variant.text))
    # a process imports one module of each name: pybind11 gives the first one again, whatever the path
    library, log = room / f"kernel_{room.name}.so", ""
    for headers in ([HEADERS / "thinnest", room], [HEADERS / "thin"], []):
        command = compile_command(variant, headers, library)
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_S)
        except subprocess.TimeoutExpired:
            return BuiltVariant(variant, None, time.monotonic() - started, log="nvcc took too long")
        log = made.stdout + made.stderr
        if made.returncode == 0:
            found = _RESOURCES.findall(log)
            registers = max((int(used) for _, used in found if used), default=0)
            spilled = max((int(bytes_) for bytes_, _ in found if bytes_), default=0)
            return BuiltVariant(variant, library, time.monotonic() - started, registers, spilled)
        if not re.search(r"has no member|is undefined|not a member|No such file|not declared|no instance", log):
            break
    return BuiltVariant(variant, None, time.monotonic() - started, log=log)


def compile_command(variant: Variant, headers: Sequence[Path], library: Path) -> list[str]:
    package = Path(torch.__file__).parent
    pip = package.parent / "nvidia"
    folders = [*headers, package / "include", package / "include/torch/csrc/api/include"]
    folders += [Path(sysconfig.get_paths()["include"]), *sorted(pip.glob("*/include")), HEADERS / "absent"]
    libraries = [f"-l{name}" for name in ("c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda", "torch_python")]
    linking = [f"-L{package / 'lib'}", *libraries] if (package / "lib/libtorch_cuda.so").exists() else []
    return [
        nvcc(), *default_rules().compile.cuda_flags, "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "-w",
        "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
        "-D__CUDA_NO_HALF2_OPERATORS__", f"-DTORCH_EXTENSION_NAME={library.stem}", *variant.macros,
        *(part for folder in folders for part in ("-isystem", str(folder))),
        "-ccbin", host_compiler(), "-shared", "-cudart=shared", str(library.parent / "kernel.cu"),
        "-o", str(library), *linking,
    ]  # fmt: skip


def report_builds(built: Sequence[BuiltVariant]) -> None:
    for one in built:
        if one.library is None:
            errors = [line for line in one.log.splitlines() if "error" in line] or one.log.splitlines()
            print(f"BUILD {one.variant.task} {one.variant.name}: {' | '.join(errors)[:300]}")
        elif one.spilled_bytes:
            print(f"spills {one.spilled_bytes} bytes: {one.variant.task} {one.variant.name}")
    print(f"built {sum(one.library is not None for one in built)} of {len(built)}", flush=True)


def measured(task: str, built: Sequence[BuiltVariant], *, compiled: bool) -> dict[str, Any]:
    """Checks one by one, starting the process anew where one ends it; then times all that are right."""
    libraries = {one.variant.name: str(one.library) for one in built}
    record: dict[str, Any] = {"registers": {one.variant.name: one.registers for one in built}, "checks": {}}
    checks = record["checks"]
    while "configs" not in record:
        left = [name for name in libraries if name not in checks]
        right = [name for name in libraries if name in checks and not checks[name]["failure"]]
        request = {"task": task, "libraries": libraries, "check": left, "right": right, "compiled": compiled}
        for line in answers(request):
            if "checked" in line:
                checks[line["checked"]] = line
            elif "configs" in line:
                record |= line
            elif line["ended"] in left:
                checks.setdefault(line["ended"], {"failure": "ended the process or hung"})
            else:  # before the first check, or while timing: again would be no better
                return record
    return record


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Lines of a process with the GPU; the last one says what it was at if it did not finish."""
    command, began = [sys.executable, "-m", "lab.gpu.kernel_lab_child", json.dumps(request)], "?"
    lines: SimpleQueue[str] = SimpleQueue()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        Thread(target=pump, args=(child.stdout, lines), daemon=True).start()
        with contextlib.suppress(Empty):
            while line := lines.get(timeout=STEP_S):
                found = json.loads(line)
                if "began" in found:
                    began = found["began"]
                    continue
                yield found
                if "configs" in found:
                    return
        child.kill()
    yield {"ended": began}


def pump(source: IO[str], lines: "SimpleQueue[str]") -> None:
    for line in source:
        lines.put(line)
    lines.put("")


def print_table(task: str, record: dict[str, Any]) -> None:
    print(f"\n== {task}")
    for name, found in record["checks"].items():
        if found["failure"]:
            print(f"WRONG {name}: {found['failure'][:160]}")
    if "configs" not in record:
        print("no times")
        return
    width = max(map(len, record["times_us"])) + 1
    keys = record["configs"]
    for place, key in enumerate(keys):
        print(f"  {place}: {re.sub(r'(batch_size|num_|features|init_method|channels)', lambda m: m[0][:2], key)}")
    print(" " * width + "".join(f"{place:>9}" for place in range(len(keys))) + "   error")
    for name, times in record["times_us"].items():
        cells = "".join(f"{value:9.1f}" if value is not None else "        -" for value in times)
        error = record["checks"].get(name, {}).get("worst")
        print(f"{name:<{width}}{cells}   {'' if error is None else f'{error:.2f}'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
