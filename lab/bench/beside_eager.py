"""Times a C++ example kernel beside PyTorch eager in one process: `python -m lab.bench.beside_eager TASK [FILE]`.

For use while a kernel is written: medians of alternating calls, on one thread, warm, one JSON line per configuration.
It builds as the judge does and checks that the results agree. Does NOT judge, isolate or run torch.compile:
`lab.bench.proof` does.
"""

import importlib.machinery
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from benchmarks.harness import Config, Paths, Source, TaskSpec, default_rules, default_suites, find_task, processor
from benchmarks.harness.child import inputs
from benchmarks.harness.child.check import load_reference
from benchmarks.harness.compilers.builds import build

ROUNDS = 30
SETS, SETS_MAX_BYTES = 4, 1 << 20  # small arguments come from several places of the memory
AGREE = 1e-3


def main() -> int:
    torch.set_num_threads(1)
    name, *files = sys.argv[1:]
    task, folder = find_task(default_suites(), name), default_suites() / "robust_kbench" / name.split("/")[0]
    file = Path(files[0]) if files else folder / "kernels" / f"{task.direction}_cpu.cpp"
    kernel = getattr(built(file), task.direction)
    eager = getattr(load_reference(folder), task.direction)
    for line in compared(task, kernel, eager):
        print(json.dumps({"task": name, **line, "processor": processor().model, "kind": processor().kind}), flush=True)
    return 0


def built(file: Path) -> ModuleType:
    paths = Paths(Path(os.environ.get("KBENCH_DATA_DIR", "var")).resolve())
    made = build(Source(file.read_text(), "cpp"), default_rules(), paths)
    if made.binary is None:
        raise SystemExit(made.log)
    loader = importlib.machinery.ExtensionFileLoader(made.binary.stem, str(made.binary))
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(loader.name, loader, origin=loader.path))
    loader.exec_module(module)
    return module


def compared(task: TaskSpec, kernel: Callable[..., Any], eager: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    for config in task.configs_for("cpu"):
        sets = list(argument_sets(config))
        right = all(agree(kernel(*one), eager(*one)) for one in sets)
        eager_us, kernel_us = medians_us((eager, kernel), sets)
        yield {
            "config": config.key,
            "hidden": config.hidden,
            "right": right,
            "eager_us": round(eager_us, 1),
            "kernel_us": round(kernel_us, 1),
            "speedup": round(eager_us / kernel_us, 2),
        }


def argument_sets(config: Config) -> Iterator[list[Any]]:
    small = sum(item.nbytes for item in config.tensors) < SETS_MAX_BYTES
    for number in range(SETS if small else 1):
        tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in config.tensors]
        inputs.draw(config, bytes([number]) * inputs.SEED_BYTES, tensors, "normal")
        yield inputs.call_arguments(config, tensors)


def agree(mine: Any, theirs: Any) -> bool:
    pairs = zip(*(item if isinstance(item, list | tuple) else (item,) for item in (mine, theirs)), strict=True)
    return all(torch.allclose(a, b, rtol=AGREE, atol=AGREE) for a, b in pairs)


def medians_us(functions: tuple[Callable[..., Any], ...], sets: list[list[Any]]) -> list[float]:
    times: list[list[int]] = [[] for _ in functions]
    for number in range(ROUNDS):
        order = range(len(functions)) if number % 2 else reversed(range(len(functions)))
        for place in order:
            arguments, started_ns = sets[number % len(sets)], time.perf_counter_ns()
            functions[place](*arguments)
            times[place].append(time.perf_counter_ns() - started_ns)
    return [statistics.median(of) / 1e3 for of in times]


if __name__ == "__main__":
    sys.exit(main())
