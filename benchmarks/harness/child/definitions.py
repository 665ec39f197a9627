"""Tasks that are a definition: named inputs over named axes, and `run`, which returns the outputs in their order.

The file of such a task is the author's reference and `KBENCH_DEFINITION`, which its reader has written (FlashInfer
Trace, SOL-ExecBench). Values are drawn by rule from the referee's seed; a function of the author draws those that the
definition calls `custom`; those from files stand in it and are the same in every call. Runs only where a reference may
run.
"""

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .foreign import Arguments, Draw, Names, Seeded, device_of, fill, values_of

_FLOAT8_MAX = 2.0  # values that float8 holds with its full precision
_INTEGERS = {torch.int8: (-128, 128), torch.uint8: (0, 256)}


def definition_task(names: Names) -> tuple[Callable[..., Any], Draw]:
    """`run` as a function that gives a tuple, and how its arguments are drawn."""
    run, outputs = names["run"], list(names["KBENCH_DEFINITION"]["outputs"])

    def call(*arguments: Any) -> Any:
        results = run(*arguments)
        return tuple(results[name] for name in outputs) if isinstance(results, dict) else results

    def draw(config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
        arguments = drawn_definition(names, seed, values_of(config), device_of(out))
        return fill(config, seed, out, arguments, len(arguments))

    return call, draw


def drawn_definition(
    names: Names, seed: bytes, values: Mapping[str, Any], device: torch.device | str = "cpu"
) -> Arguments:
    """Fresh arguments of `run` for the axes and scalars in `values`. Raises ValueError where a custom one is unfit."""
    definition = names["KBENCH_DEFINITION"]
    known = {**definition["axes"], **values}
    with Seeded(seed, device):
        custom = names[definition["custom"]](dict(known), torch.device(device)) if definition["custom"] else {}
        return [_argument(name, item, known, custom, definition) for name, item in definition["inputs"].items()]


def _argument(
    name: str, item: Mapping[str, Any], known: Mapping[str, Any], custom: Mapping[str, Any], definition: Any
) -> Any:
    if item["kind"] == "scalar":
        return known[name]
    dtype = getattr(torch, item["dtype"])
    shape = tuple(known[axis] for axis in item["shape"])
    if item["kind"] == "safetensors":
        data = bytearray(zlib.decompress(base64.b64decode(definition["data"][known[name]][2])))
        return torch.frombuffer(data, dtype=dtype).reshape(shape).to(torch.get_default_device())
    if item["kind"] == "custom":
        found = custom[name]
        if not isinstance(found, Tensor) or (tuple(found.shape), found.dtype) != (shape, dtype):
            told = f"{tuple(found.shape)} {found.dtype}" if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(f"{definition['custom']} makes {name} as {told}, the definition says {shape} {dtype}")
        return found
    return _random(name, shape, dtype, is_sampling=definition["op_type"] == "sampling")


def _random(name: str, shape: tuple[int, ...], dtype: torch.dtype, *, is_sampling: bool) -> Tensor:
    """Standard normal values, or whole numbers; what has to be positive, or a probability, by its name."""
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    if not dtype.is_floating_point:
        return torch.randint(*_INTEGERS.get(dtype, (-1024, 1024)), shape).to(dtype)
    values = torch.randn(shape)
    words = name.lower().split("_")
    if is_sampling and name == "probs":
        values = torch.softmax(values, -1)
    elif {"var", "variance", "rstd"} & set(words):
        values = values.abs() + 0.1
    elif {"weight", "proj"} & set(words[-1:]) and len(shape) > 1:
        values = values / shape[-1] ** 0.5
    return (values.clamp(-_FLOAT8_MAX, _FLOAT8_MAX) if dtype.itemsize == 1 else values).to(dtype)
