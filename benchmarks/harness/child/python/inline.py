"""Extensions that a Python submission compiles from strings: asked for when it is compiled, handed over when it runs.

`load_inline` never compiles in a process that is timed. In the compile stage a stand-in notes what it is called with
(`record_inline.py`), the judge's own compilers build that, and in the candidate another stand-in hands the built
modules over. Both find the same extension by the hash of the same arguments. Nothing here imports torch's own module.
Not covered: `load` from files, which a submission of one file does not have.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

NAME = "torch.utils.cpp_extension"

Request = dict[str, Any]


class NotPrepared(RuntimeError):
    """An extension that the compile stage has not seen."""


def request_of(name: str, cpp_sources: Any, cuda_sources: Any = None, functions: Any = None, **rest: Any) -> Request:
    """The arguments of a call of `load_inline` in one form."""
    return {
        "name": str(name),
        "cpp": _texts(cpp_sources),
        "cuda": _texts(cuda_sources),
        "functions": _named(functions),
        "flags": [str(flag) for key in ("extra_cflags", "extra_cuda_cflags") for flag in rest.get(key) or ()],
    }


def key_of(request: Request) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


def stand_in(load_inline: Callable[..., Any]) -> None:
    """Puts a module in the place of torch's, with this function."""
    import torch.utils

    def load(*_: Any, **__: Any) -> None:
        raise NotPrepared("load needs files, which a submission cannot have: use load_inline")

    module = ModuleType(NAME)
    vars(module).update(load_inline=load_inline, load=load, CUDA_HOME=None, ROCM_HOME=None)
    sys.modules[NAME] = module
    torch.utils.cpp_extension = module


def prepared(modules: Mapping[str, Any]) -> Callable[..., Any]:
    """`load_inline` that hands over what was built, by the key of the request."""

    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, functions: Any = None, **rest: Any) -> Any:
        key = key_of(request_of(name, cpp_sources, cuda_sources, functions, **rest))
        if key not in modules:
            raise NotPrepared(f"load_inline({name!r}) was not built beforehand: call it at the top level of the file")
        return modules[key]

    return load_inline


def recording(requests: list[Request]) -> Callable[..., Any]:
    """`load_inline` that notes its arguments and gives something that can be passed around."""

    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, functions: Any = None, **rest: Any) -> Any:
        requests.append(request_of(name, cpp_sources, cuda_sources, functions, **rest))
        return _NotBuiltYet(name)

    return load_inline


class _NotBuiltYet:
    """Any attribute of it is a function that must not be called yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> None:
            raise NotPrepared(f"{self._name}.{attribute} is called while the file is imported")

        return call


def _texts(sources: Any) -> list[str]:
    return [sources] if isinstance(sources, str) else [str(item) for item in sources or ()]


def _named(functions: Any) -> dict[str, str]:
    """Names of exported functions with what they are described by."""
    if isinstance(functions, Mapping):
        return {str(name): str(text) for name, text in functions.items()}
    names: Sequence[Any] = [functions] if isinstance(functions, str) else list(functions or ())
    return {str(name): str(name) for name in names}
