"""Plain cores of CUDA templates, compiled for a CPU by g++ against an emulation of CUDA's runtime."""

import ctypes
import os
import re
import subprocess
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType

import torch

from agents.evolve.templates import Genome, Template
from agents.evolve.templates.cuda import CALLS, plain_core
from benchmarks.harness import Config, TaskSpec, digest
from benchmarks.harness.child.inputs import call_arguments, draw
from tests.scheduling import libraries_folder

SEED = bytes(range(32))
HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O1", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")
LAUNCH = re.compile(r"([\w:]+(?:<[^<>;]*>)?)<<<(.*?)>>>\((.*?)\);", re.DOTALL)
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:alignas\(\d+\) )?(\w+) (\w+)\[\];")


def emulated(core: str) -> str:
    core = DYNAMIC_SHARED.sub(r"\1* \2 = reinterpret_cast<\1*>(emulated_shared);", core)
    core = re.sub(r"__shared__ alignas\((\d+)\)", r"alignas(\1) static", core)
    return LAUNCH.sub(r"emulate(\2, [&] { \1(\3); });", core)


def build(template: Template, genome: Genome, task: TaskSpec, folder: Path) -> ctypes.CDLL:
    """Compiled once: `folder` holds what is written here, the cache of the tests what g++ made of it."""
    text = emulated(plain_core(template, genome, task))
    library = libraries_folder(FLAGS, HERE) / f"{digest(text)}.so"
    if not library.exists():
        source, made = folder / f"{template.name}.cpp", library.with_suffix(f".{os.getpid()}")
        source.write_text(text)
        command = ["g++", *FLAGS, "-I", HERE, source, "-o", made]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        made.replace(library)
    return ctypes.CDLL(str(library))


def reference(task: TaskSpec) -> ModuleType:
    spec = util.spec_from_file_location("reference", task.folder / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(config: Config) -> list[torch.Tensor]:
    tensors = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in config.tensors]
    draw(config, SEED, tensors, "normal")
    return tensors


def expected(task: TaskSpec, config: Config, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    wide = [item.double() if item.is_floating_point() else item for item in tensors]
    results = getattr(reference(task), task.direction)(*call_arguments(config, wide))
    return list(results) if isinstance(results, tuple | list) else [results]


def called(library: ctypes.CDLL, task: TaskSpec, config: Config, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    call = CALLS[task.name]
    named = {item.name: tensor for item, tensor in zip(config.tensors, tensors, strict=True)}
    inputs = [named[name] for name in call.inputs or named]
    results = [torch.full(item.shape, float("nan")) for item in config.results]
    sizes = [ctypes.c_int(size) for size in call.sizes(config.values)]
    library.workspace_floats.restype = ctypes.c_int64
    workspace = torch.full((library.workspace_floats(*sizes),), float("nan"))
    pointers = [ctypes.c_void_p(item.data_ptr()) for item in (*inputs, *results, workspace)]
    eps = [ctypes.c_float(config.values["eps"])] if call.eps else []
    assert library.launch(*pointers, *sizes, *eps, None) == 0
    return results


def worst_errors(library: ctypes.CDLL, task: TaskSpec, config: Config) -> list[tuple[float, float]]:
    """Per result: the largest error in parts of |reference| + rms(reference), and what is allowed."""
    tensors = drawn(config)
    found = []
    for result, own, right in zip(
        config.results, called(library, task, config, tensors), expected(task, config, tensors), strict=True
    ):
        scale = right.abs() + right.square().mean().sqrt()
        error = torch.nan_to_num((own.double() - right).abs() / scale.clamp(min=1e-30), nan=float("inf"))
        found.append((float(error.max()) if error.numel() else 0.0, result.tolerance))
    return found
