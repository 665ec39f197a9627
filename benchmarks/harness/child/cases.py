"""Tasks of GPU MODE: `generate_input` makes one nested value, `ref_kernel` and a submission's `custom_kernel` take it.

What is judged takes the tensors and numbers of that value one by one, and `custom_kernel` gets them put together again.
A tensor that the reference only writes and returns is no argument: it is made anew for every call. Where there is no
GPU, `cuda` in the author's files means the processor. Not covered: objects of the author's own classes as inputs.
"""

import ast
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .devices import run_as_written
from .foreign import Arguments, Draw, Names, Seeded, accepted, device_of, fill, values_of

Structure = tuple[
    Any, ...
]  # ("argument", number), ("buffer", shape, dtype), ("value", x), ("tuple" | "list" | "dict", …)
_OTHERS = ("task", "utils")  # modules that a submission may import for types and helpers


class Opaque(TypeError):
    """A part of the input is neither a tensor, a plain value nor a collection of them."""


def loaded(files: Mapping[str, str]) -> Names:
    """The names of `reference.py`, which may import the others. On a machine without a GPU `cuda` is the processor."""
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)
    sys.meta_path.insert(0, _Files(files))
    names = vars(importlib.import_module("reference"))
    return {name: value for name, value in names.items() if not name.startswith("__")}


def case_task(names: Names, plans: Mapping[Any, Structure]) -> tuple[Callable[..., Any], Draw]:
    """`ref_kernel` as a function of the parts of its input. `plans` put the parts together, by the form of a call.

    The names get `kbench_check`, the author's check as a function of the parts and the results.
    """
    reference, author_check = names["ref_kernel"], names["check_implementation"]

    def forward(*arguments: Any) -> Any:
        return reference(rebuilt(plans[form_of(arguments)], arguments))

    def check(arguments: Sequence[Any], results: Sequence[Tensor]) -> Any:
        output = results[0] if len(results) == 1 else tuple(results)
        return author_check(rebuilt(plans[form_of(arguments)], arguments), output)

    def draw(config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
        values = values_of(config)
        leaves = [leaf for _, leaf in leaves_of(drawn_case(names, seed, values, device_of(out)))]
        kept = arguments_in(ast.literal_eval(values["data"]), leaves)
        return fill(config, seed, out, kept, len(kept))

    names["kbench_check"] = check
    return forward, draw


def adapted(function: Callable[..., Any], values: Mapping[str, Any]) -> Callable[..., Any]:
    """`custom_kernel` as a function of the parts of its input."""
    structure = ast.literal_eval(values["data"])
    return lambda *arguments: function(rebuilt(structure, arguments))


def drawn_case(names: Names, seed: bytes, values: Mapping[str, Any], device: torch.device | str = "cpu") -> Any:
    """What the author's function makes of the values of a case and the secret seed."""
    function = names["generate_input"]
    given = accepted(function, {**values, "seed": int.from_bytes(seed[:4], "little") >> 1})
    with Seeded(seed, device):
        return function(**given)


def leaves_of(value: Any, path: str = "data") -> list[tuple[str, Any]]:
    """Tensors and plain values, depth first, each with its path as a name. Raises Opaque."""
    if value is None or isinstance(value, Tensor | bool | int | float | str):
        return [(path, value)]
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple | list) else None
    if parts is None:
        raise Opaque(f"{path} is a {type(value).__name__}, which is neither a tensor nor a plain value")
    return [leaf for key, part in parts for leaf in leaves_of(part, f"{path}_{key}")]


def structure_of(value: Any, buffers: Sequence[int]) -> Structure:
    """How `value` is put together again; `buffers` are the numbers of leaves that are only written."""
    return _structure(value, iter(range(len(leaves_of(value)))), iter(range(len(leaves_of(value)))), buffers)


def _structure(value: Any, leaves: Iterator[int], arguments: Iterator[int], buffers: Sequence[int]) -> Structure:
    if isinstance(value, dict):
        parts = [(key, _structure(part, leaves, arguments, buffers)) for key, part in value.items()]
        return ("dict", parts)
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return (kind, [_structure(part, leaves, arguments, buffers) for part in value])
    if next(leaves) in buffers:
        return ("buffer", list(value.shape), str(value.dtype).removeprefix("torch."))
    return ("argument", next(arguments)) if _is_argument(value) else ("value", value)


def _is_argument(leaf: Any) -> bool:
    """Tensors and numbers. Texts and None are no arguments of a kernel."""
    return isinstance(leaf, Tensor | int | float)


def arguments_in(structure: Structure, leaves: Sequence[Any]) -> Arguments:
    """Of the leaves of a value those that are arguments."""
    pairs = zip(leaf_kinds(structure), leaves, strict=True)
    return [leaf for kind, leaf in pairs if kind == "argument"]


def leaf_kinds(structure: Structure) -> Iterator[str]:
    kind = structure[0]
    if kind in ("tuple", "list", "dict"):
        for part in structure[1]:
            yield from leaf_kinds(part[1] if kind == "dict" else part)
    else:
        yield kind


def rebuilt(structure: Structure, arguments: Sequence[Any]) -> Any:
    """The nested value; buffers are new memory on the device of the first tensor."""
    kind, what = structure[0], structure[1]
    if kind == "argument":
        return arguments[what]
    if kind == "value":
        return what
    if kind == "buffer":
        device = next((item.device for item in arguments if isinstance(item, Tensor)), None)
        return torch.empty(what, dtype=getattr(torch, structure[2]), device=device)
    if kind == "dict":
        return {key: rebuilt(part, arguments) for key, part in what}
    parts = [rebuilt(part, arguments) for part in what]
    return tuple(parts) if kind == "tuple" else parts


def form_of(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The same for two calls of the same shapes and numbers."""
    return tuple(tuple(item.shape) if isinstance(item, Tensor) else item for item in arguments)


def stand_in_modules() -> None:
    """Modules that a submission imports for the names of types; whatever is asked of them is None."""
    for name in _OTHERS:
        module = ModuleType(name)
        module.__getattr__ = lambda _: None  # type: ignore[method-assign]
        sys.modules.setdefault(name, module)


class _Files(MetaPathFinder, Loader):
    """Finds the author's files under their names."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if f"{fullname}.py" in self._files else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        file = f"{module.__name__}.py"
        run_as_written(self._files[file], file, vars(module))
