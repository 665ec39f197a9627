"""Plain cores of CUDA templates, compiled for a CPU by g++ against an emulation of CUDA's runtime."""

import ctypes
import re
import subprocess
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from agents.evolve.templates import Genome, Template
from agents.evolve.templates.cuda import CALLS, plain_core
from benchmarks.harness import Config, TaskSpec, TensorArgument

HERE = Path(__file__).parent
LAUNCH = re.compile(r"([\w:]+(?:<[^<>;]*>)?)<<<(.*?)>>>\((.*?)\);", re.DOTALL)
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:alignas\(\d+\) )?(\w+) (\w+)\[\];")


def emulated(core: str) -> str:
    core = DYNAMIC_SHARED.sub(r"\1* \2 = reinterpret_cast<\1*>(emulated_shared);", core)
    core = re.sub(r"__shared__ alignas\((\d+)\)", r"alignas(\1) static", core)
    return LAUNCH.sub(r"emulate(\2, [&] { \1(\3); });", core)


def build(template: Template, genome: Genome, task: TaskSpec, folder: Path) -> ctypes.CDLL:
    source, library = folder / f"{template.name}.cpp", folder / f"{template.name}.so"
    source.write_text(emulated(plain_core(template, genome, task)))
    flags = ["-std=c++20", "-O1", "-fno-strict-aliasing", "-fPIC", "-shared", "-w"]
    made = subprocess.run(["g++", *flags, "-I", HERE, source, "-o", library], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    return ctypes.CDLL(str(library))


def reference(task: TaskSpec) -> ModuleType:
    spec = util.spec_from_file_location("reference", task.folder / "reference.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(config: Config) -> dict[str, Any]:
    """Every argument by name; a tensor of class numbers is drawn within the classes."""
    generator = torch.Generator().manual_seed(1)
    values: dict[str, Any] = {}
    for item in config.arguments:
        if not isinstance(item, TensorArgument):
            values[item.name] = item.value
        elif item.dtype == "int64":
            values[item.name] = torch.randint(config.values["num_classes"], item.shape, generator=generator)
        else:
            values[item.name] = torch.randn(item.shape, generator=generator)
    return values


def expected(task: TaskSpec, config: Config, values: Mapping[str, Any]) -> list[torch.Tensor]:
    def wide(item: Any) -> Any:
        return item.double() if isinstance(item, torch.Tensor) and item.dtype == torch.float32 else item

    packed = {item.name for item in config.tensors if item.packed}
    arguments = [(wide(value),) if name in packed else wide(value) for name, value in values.items()]
    results = getattr(reference(task), task.direction)(*arguments)
    return list(results) if isinstance(results, tuple | list) else [results]


def called(library: ctypes.CDLL, task: TaskSpec, config: Config, values: Mapping[str, Any]) -> list[torch.Tensor]:
    call = CALLS[task.name]
    names = call.inputs or tuple(item.name for item in config.tensors)
    inputs = [values[name].contiguous() for name in names]
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
    values = drawn(config)
    found = []
    for result, own, right in zip(
        config.results, called(library, task, config, values), expected(task, config, values), strict=True
    ):
        scale = right.abs() + right.square().mean().sqrt()
        error = torch.nan_to_num((own.double() - right).abs() / scale.clamp(min=1e-30), nan=float("inf"))
        found.append((float(error.max()) if error.numel() else 0.0, result.tolerance))
    return found
