"""Loading the file of a submission as a Python module, compiled or not, and finding its function.

A folder is a Python submission: its module and the extensions that were built for it. It defines the function that the
task names, or `ModelNew`, which is made once for each configuration and whose parameters are arguments of each call.
"""

import ctypes
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..protocol import Link
from .cases import adapted, stand_in_modules
from .python.inline import prepared, stand_in
from .python.models import model_function
from .shell import Function, load_file, tried

CLASS = "ModelNew"
ENTRY, EXTENSIONS = "module.py", "extensions.json"
_TVM_FFI = "libtvm_ffi.so"
_FOR_GPUS = ("triton", "cutlass", "tilelang", "helion", "cupy")


def load_functions(path: str, message: Mapping[str, Any], link: Link, device: str = "cpu") -> list[Function] | None:
    """What to call for each configuration of `message`; None if it cannot be had, which has been told then."""
    module = tried(loaded_build, path)  # loading runs the submission's own start-up code
    if isinstance(module, Exception):
        link.send(load_error=why_not_loaded(module, device)[:4000])
        return None
    name = _wanted(path, message)
    found: Function | None = getattr(module, name, None)
    if found is None or not callable(found):
        exported = [name for name in dir(module) if not name.startswith("_")]
        link.send(missing=name, exported=exported[:20])
        return None
    functions = tried(_for_each, path, found, message["configs"], device)  # and so does making a module
    if isinstance(functions, Exception):
        link.send(load_error=f"{name} cannot be made: {type(functions).__name__}: {functions}"[:4000])
        return None
    link.send(loaded=True)
    return functions


def why_not_loaded(error: Exception, device: str) -> str:
    """The error, and for a package that compiles kernels for GPUs why it is not here."""
    said = f"{type(error).__name__}: {error}"
    package = str(getattr(error, "name", "")).partition(".")[0]
    if device != "cpu" or package not in _FOR_GPUS or not isinstance(error, ModuleNotFoundError):
        return said
    return f"{said}. Its kernels run on a GPU; this was judged on a processor"


def functions_of(path: str, message: Mapping[str, Any], device: str = "cpu") -> list[Function]:
    """As `load_functions`, for nobody who listens: it raises."""
    return _for_each(path, getattr(loaded_build(path), _wanted(path, message)), message["configs"], device)


def _wanted(path: str, message: Mapping[str, Any]) -> str:
    """The name of the class or function that is called."""
    entry = message["configs"][0]["values"].get("entry", CLASS)
    return str(entry if Path(path).is_dir() else message["direction"])


def _for_each(path: str, found: Any, configs: Sequence[Any], device: str) -> list[Function]:
    if not Path(path).is_dir():
        return [found] * len(configs)
    return [_function(found, config, device) for config in configs]


def _function(found: Any, config: Mapping[str, Any], device: str) -> Function:
    values = config["values"]
    if "data" in values:
        return adapted(found, values)
    return found if "entry" in values else model_function(found, config, device)


def loaded_build(path: str) -> ModuleType:
    """The module of a compiled file, or of a folder with the extensions that it asks for."""
    folder = Path(path)
    if not folder.is_dir():
        return _extension(path)
    stand_in_modules()
    files: dict[str, str] = json.loads((folder / EXTENSIONS).read_text())
    stand_in(prepared({key: _extension(str(folder / name)) for key, name in files.items()}))
    return load_file(str(folder / ENTRY))


def _extension(path: str) -> ModuleType:
    """A compiled file, behind the library of TVM FFI if it needs that: it does not say where this is installed."""
    spec = find_spec("tvm_ffi") if _TVM_FFI.encode() in Path(path).read_bytes() else None
    if spec and spec.origin:
        ctypes.CDLL(str(Path(spec.origin).parent / "lib" / _TVM_FFI))
    return load_file(path)
