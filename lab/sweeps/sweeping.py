"""Kernels of C++ templates without torch: compiled against a stand-in header, called and timed in this process.

For recording sweeps of sources that kbench itself has rendered; nothing is sandboxed, and no verdict comes from it.
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.harness import Config, TaskSpec, TensorArgument, default_rules

HEADERS = Path(__file__).parent / "headers"
DTYPES = {"float32": (np.float32, ctypes.c_float), "int64": (np.int64, ctypes.c_int64)}


class _Argument(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dims", ctypes.c_int64),
        ("shape", ctypes.c_int64 * 8),
        ("number", ctypes.c_double),
        ("present", ctypes.c_int64),
    )


@dataclass(frozen=True)
class SweepCase:
    """One configuration with values drawn for it and the results that are right, in float64."""

    config: Config
    values: tuple[object, ...]
    expected: tuple[np.ndarray, ...]

    @functools.cached_property
    def arguments(self) -> "ctypes.Array[_Argument]":
        return (_Argument * len(self.values))(*(_argument(value) for value in self.values))


class SweepKernel:
    """A compiled template source."""

    def __init__(self, library: Path) -> None:
        self._call = ctypes.CDLL(str(library)).kbench_call
        self._call.restype = ctypes.c_int64

    def call(self, case: SweepCase) -> tuple[float, list[np.ndarray]]:
        """Microseconds of one call, and its results."""
        outputs = (ctypes.c_void_p * 8)()
        time_us = self._call(case.arguments, outputs) / 1e3
        return time_us, [_array(outputs[place], result.shape) for place, result in enumerate(case.config.results)]

    def time_us(self, case: SweepCase) -> float:
        return float(self._call(case.arguments, (ctypes.c_void_p * 8)())) / 1e3


def precompiled_headers(folder: Path) -> Path:
    """The stand-in header compiled once, for many kernels: each then takes half the time."""
    header = folder / "torch" / "extension.h"
    header.parent.mkdir()
    header.write_text((HEADERS / "torch" / "extension.h").read_text())
    command = ["g++", *default_rules().compile.flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


def compile_kernel(source: str, folder: Path, headers: Path = HEADERS) -> SweepKernel:
    """Compiled once per folder. Raises subprocess.CalledProcessError with what g++ said."""
    name = hashlib.sha256(source.encode()).hexdigest()[:16]
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    if library.exists():
        return SweepKernel(library)
    text.write_text(source)
    made = library.with_suffix(f".{os.getpid()}")
    command = ["g++", *default_rules().compile.flags, "-shared", f"-I{headers}", str(text), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    made.replace(library)  # in one step: others may share the folder
    return SweepKernel(library)


def draw(task: TaskSpec, config: Config, seed: int) -> SweepCase:
    """Values as a kernel meets them: normal ones, weights scaled by their fan-in, class numbers in range."""
    rng = np.random.default_rng(seed)
    values = tuple(
        _tensor(rng, item, config) if isinstance(item, TensorArgument) else item.value for item in config.arguments
    )
    return SweepCase(config, values, _expected(task, config, values))


def fault(results: Sequence[np.ndarray], case: SweepCase) -> str | None:
    """Why results are wrong by the tolerances of the task; None for right ones."""
    for got, want, rule in zip(results, case.expected, case.config.results, strict=True):
        size = float(np.sqrt(np.mean(want**2)))
        error = np.abs(got.astype(np.float64) - want)
        if not np.all(error <= rule.tolerance * (np.abs(want) + size)):
            return f"{rule.name} is off by {np.nanmax(error) / (size or 1):.2g} of its size"
        if float(np.sqrt(np.mean(error**2))) > rule.rms_tolerance * size:
            return f"{rule.name} is off by {np.sqrt(np.mean(error**2)) / (size or 1):.2g} in the mean"
    return None


def _argument(value: object) -> _Argument:
    if isinstance(value, np.ndarray):
        return _Argument(value.ctypes.data, value.ndim, value.shape, 0, 1)
    if isinstance(value, tuple):
        return _Argument(None, len(value), value, 0, 1)
    return _Argument(None, 0, (), float(value or 0), value is not None)  # type: ignore[arg-type]


def _array(address: int | None, shape: tuple[int, ...]) -> np.ndarray:
    pointer = ctypes.cast(address or 0, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, shape or (1,)).reshape(shape)


def _tensor(rng: np.random.Generator, item: TensorArgument, config: Config) -> np.ndarray:
    if item.dtype == "int64":
        classes = next(one.shape[1] for one in config.tensors if len(one.shape) > 1)
        return _aligned(rng.integers(0, classes, item.shape))
    values = rng.standard_normal(item.shape)
    if item.draw == "weight":
        values /= np.sqrt(np.prod(item.shape[1:]))
    if item.draw == "variance":
        values = np.abs(values) + 0.5
    return _aligned(values.astype(np.float32))


def _aligned(values: np.ndarray) -> np.ndarray:
    """A copy that starts where torch's tensors start: at a multiple of 64 bytes."""
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    place = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    place[...] = values
    return place


def _expected(task: TaskSpec, config: Config, values: Sequence[object]) -> tuple[np.ndarray, ...]:
    arguments = [_as_torch(value, item) for value, item in zip(values, config.arguments, strict=True)]
    made = getattr(_reference_at(task.folder / "reference.py"), task.direction)(*arguments)
    return tuple(one.numpy() for one in (made if isinstance(made, tuple) else (made,)))


def _as_torch(value: object, item: object) -> object:
    if not isinstance(value, np.ndarray) or not isinstance(item, TensorArgument):
        return value
    tensor = torch.from_numpy(value if item.dtype == "int64" else value.astype(np.float64))
    return (tensor,) if item.packed else tensor


@functools.cache
def _reference_at(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"reference_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
