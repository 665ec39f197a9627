"""The process that holds a submission. It sees inputs and its own output memory, never a reference.

The system call filter is in force before a byte of the submission is mapped. Not covered: any decision.
"""

import base64
import signal
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from ..protocol import Link
from .enter import install_filter
from .shell import Function, connect, open_calls, serve, set_threads

MODULE = "kbench_submission"


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    message = link.receive()
    set_threads(message["threads"])
    calls = open_calls(message)
    # Python ignores the signal for a file that grows too large, which would turn endless output into endless time
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if message["filter"]:
        install_filter(base64.b64decode(message["filter"]))
    function = _load(message["binary"], message["direction"], link)
    if function is not None:
        serve(message["control"], [[function] * len(calls)], calls, link)


def _load(path: str, direction: str, link: Link) -> Function | None:
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


def _module(path: str) -> ModuleType:
    spec = spec_from_file_location(MODULE, path, loader=ExtensionFileLoader(MODULE, path))
    if spec is None or spec.loader is None:
        raise ImportError("the compiled file is no Python module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
