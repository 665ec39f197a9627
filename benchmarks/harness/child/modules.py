"""Loading the file of a submission as a Python module, compiled or not, and finding its function."""

from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from ..protocol import Link
from .shell import Function

MODULE = "kbench_submission"


def load_function(path: str, direction: str, link: Link) -> Function | None:
    """The function `direction` of the submission; None if it cannot be had, which has been told then."""
    try:
        module = _module(path)
    except Exception as error:  # noqa: BLE001 - process edge: loading runs the submission's own start-up code
        link.send(load_error=f"{type(error).__name__}: {error}"[:4000])
        return None
    function: Function | None = getattr(module, direction, None)
    if function is None or not callable(function):
        exported = [name for name in dir(module) if not name.startswith("_")]
        link.send(missing=direction, exported=exported[:20])
        return None
    link.send(loaded=True)
    return function


def function_of(path: str, direction: str) -> Function:
    """As `load_function`, for nobody who listens: it raises."""
    function: Function = getattr(_module(path), direction)
    return function


def _module(path: str) -> ModuleType:
    kind = SourceFileLoader if path.endswith(".py") else ExtensionFileLoader
    spec = spec_from_file_location(MODULE, path, loader=kind(MODULE, path))
    if spec is None or spec.loader is None:
        raise ImportError("the compiled file is no Python module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
