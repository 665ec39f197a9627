"""Tasks of other suites as functions with positional arguments, and how their arguments are drawn.

The tail of an imported `reference.py` hands over the names of the author's file and gets `forward` (or `backward`) and
`kbench_draw`. Inputs come from the author's own functions, run anew for every draw under generators that the
referee's seed sets, so two draws never repeat and nobody else can foresee them. Runs only where a reference may run:
in referee, baseline and import. Not covered: telling whether a task is any good (`admitting/examination.py`).
"""

import ast
import hashlib
import inspect
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .python.slots import Slot, StatefulCall, slots_of

_SCALE, _SHIFT, _STIR = 0.5, 0.25, 0.1
_SPREAD = 8.0  # beyond the ends of the usual clamps: 0, 1, 3 and 6

Names = dict[str, Any]
Arguments = list[Any]
Draw = Callable[[Any, bytes, Sequence[Tensor], str | None], str]


class Called(BaseException):
    """Carries the arguments of a call that is only looked at out of the code that made it."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.arguments = arguments


def model_task(names: Names, *, changed: Sequence[str] = ()) -> tuple[Callable[..., Any], Draw]:
    """`forward` of a file with `Model`, `get_inputs` and `get_init_inputs`: inputs, then the state of the module.

    `changed` names the state that a call writes to.
    """
    call, slots = _model_call(names, changed)

    def forward(*arguments: Any) -> Any:
        return call(*arguments)

    def draw(config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
        inputs, state = drawn_model(names, seed, device_of(out))
        return fill(config, seed, out, [*inputs, *(slot.tensor for slot in state)], len(inputs))

    assert len(slots) == len(slots_of(call.model))  # noqa: S101 - the module is put together the same way again
    return forward, draw


def function_task(names: Names) -> tuple[Callable[..., Any], Draw]:
    """`forward` of a file with `forward_fn`: the arguments that `Model` calls it with."""
    function: Callable[..., Any] = names["forward_fn"]

    def forward(*arguments: Any) -> Any:
        return function(*arguments)

    def draw(config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
        arguments, inputs = drawn_call(names, seed, values_of(config), device_of(out))
        return fill(config, seed, out, arguments, inputs)

    return forward, draw


def drawn_model(names: Names, seed: bytes, device: torch.device | str = "cpu") -> tuple[Arguments, list[Slot]]:
    """Fresh inputs and the state of a fresh module."""
    with Seeded(seed, device):
        inputs = names["get_inputs"]()
        model = made_model(names)
        return in_order(inputs, model.forward, "get_inputs"), slots_of(model)


def made_model(names: Names) -> Any:
    return names["Model"](*init_inputs(names))


def init_inputs(names: Names) -> Arguments:
    """What the module is made with; a file without the function makes it with nothing."""
    given = names["get_init_inputs"]() if "get_init_inputs" in names else None
    return in_order(given, names["Model"], "get_init_inputs")


def in_order(given: Any, taker: Callable[..., Any], giver: str) -> Arguments:
    """The positional arguments of `taker` from what `giver` returns: a list, one tensor, names, or a list and names."""
    if given is None or isinstance(given, Tensor):
        return [] if given is None else [given]
    listed: Sequence[Any] = given if isinstance(given, list | tuple) else []
    named: Any = {} if isinstance(given, list | tuple) else given
    if len(listed) == 2 and isinstance(listed[0], list | tuple) and isinstance(listed[1], dict):  # [[...], {...}]
        listed, named = listed
    if not isinstance(named, dict):
        raise TypeError(f"{giver} returns a {type(given).__name__}, not a list of arguments")
    return positional(taker, listed, named) if named else list(listed)


def positional(function: Callable[..., Any], listed: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """The arguments of a call in their order, with defaults where later ones are given by name."""
    bound = inspect.signature(function).bind(*listed, **named)
    if bound.kwargs:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{', '.join(bound.kwargs)} can be given by name only, but kernels take arguments by position")
    return list(bound.args)


def init_of(text: str) -> Arguments:
    """The same, from the text that stands in a configuration."""
    return list(ast.literal_eval(text))


def drawn_call(
    names: Names, seed: bytes, values: Mapping[str, Any], device: torch.device | str = "cpu"
) -> tuple[Arguments, int]:
    """The arguments of `forward_fn` for fresh inputs and a fresh module, and how many of them come first as inputs."""
    with Seeded(seed, device):
        inputs = list(names["get_inputs"](**accepted(names["get_inputs"], values)))
        model = names["Model"](**accepted(names["Model"].__init__, values))
        return list(looked_at(names, model, inputs)), len(inputs)


def looked_at(names: Names, model: Any, inputs: Arguments) -> tuple[Any, ...]:
    """What the module hands to `forward_fn`."""

    def look(*arguments: Any, **named: Any) -> None:
        raise Called(tuple(positional(function, arguments, named)))

    function = names["forward_fn"]
    try:
        if "fn" in inspect.signature(model.forward).parameters:
            model(*inputs, fn=look)
        else:
            names["forward_fn"] = look
            model(*inputs)
    except Called as call:
        return call.arguments
    finally:
        names["forward_fn"] = function
    raise TypeError("Model does not call forward_fn")


def _model_call(names: Names, changed: Sequence[str]) -> tuple[StatefulCall, list[Slot]]:
    device = "cuda" if torch.cuda.is_initialized() else "cpu"  # drawing gigabytes of weights takes a processor long
    with Seeded(bytes(32), device):
        model = made_model(names)
    slots = slots_of(model)
    call = StatefulCall(model, slots, [slot.name in changed for slot in slots])
    if device == "cuda":  # every call brings its own state: this memory is for others
        slots = [_without_memory(slot) for slot in slots]
        torch.cuda.empty_cache()
    return call, slots


def _without_memory(slot: Slot) -> Slot:
    tensor = slot.tensor.to("meta")
    for place, key in slot.places:
        place[key] = tensor
    return replace(slot, tensor=tensor)


def accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of `values` what `function` takes."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


def values_of(config: Any) -> Mapping[str, Any]:
    values: Mapping[str, Any] = config["values"] if isinstance(config, Mapping) else config.values
    return values


def device_of(out: Sequence[Tensor]) -> torch.device | str:
    return out[0].device if out else "cpu"


def fill(config: Any, seed: bytes, out: Sequence[Tensor], arguments: Arguments, inputs: int) -> str:
    """Copies what was drawn to where it belongs, in the variant of the configuration, whose name it returns."""
    variant = str(values_of(config).get("variant", "published"))
    drawn = enumerate(_tensors(arguments))
    for target, (number, (place, tensor)) in zip(out, drawn, strict=True):
        target.copy_(varied(tensor, variant, seed, number, is_input=place < inputs))
    return variant


def _tensors(arguments: Arguments) -> list[tuple[int, Tensor]]:
    """Each tensor with the place of its argument; an argument may be a tuple of one tensor."""
    unpacked = [(place, item[0] if isinstance(item, tuple) and item else item) for place, item in enumerate(arguments)]
    return [(place, item.detach()) for place, item in unpacked if isinstance(item, Tensor)]


def varied(tensor: Tensor, variant: str, seed: bytes, number: int, *, is_input: bool) -> Tensor:
    """`tensor` in a variant: inputs `scaled`, `spread` or `shifted` where they are not zero, state `stirred`.

    Zeros stay zeros, so that a triangle stays a triangle; a variance stays positive.
    """
    if not tensor.is_floating_point() or variant == "published" or is_input is (variant == "stirred"):
        return tensor
    if tensor.element_size() == 1:  # torch does not compute in float8
        tensor = tensor.float()
    if variant == "scaled":
        return tensor * _SCALE
    if variant == "spread":
        return _spread_out(tensor)
    if variant == "shifted":
        return tensor + _SHIFT * (tensor != 0)
    noise = torch.empty(tensor.shape, device=tensor.device)
    generator = torch.Generator(device=tensor.device)
    generator.manual_seed(int.from_bytes(hashlib.sha256(seed + f"stir {number}".encode()).digest()[:8], "little"))
    noise.normal_(generator=generator)
    moved = tensor * (1.0 + _STIR * noise.abs())
    return moved if bool((tensor > 0).all()) else moved + _STIR * noise * _spread(tensor)


def _spread_out(tensor: Tensor) -> Tensor:
    """The values from the least to the largest over −8 to 8; as they are where they are alike or some are infinite."""
    low, high = map(float, tensor.aminmax())
    reach = (high - low) / 2
    if not 0 < reach < math.inf:
        return tensor
    spread = (tensor - (low + reach)).mul_(_SPREAD / reach)
    return spread.masked_fill_(tensor == 0, 0.0)


def _spread(tensor: Tensor) -> Tensor:
    rms = tensor.square().mean().sqrt()
    return torch.where(rms > 0, rms, torch.ones_like(rms))


class Seeded:
    """Within it every generator that a task may use starts from `seed`; afterwards torch's is as it was before."""

    def __init__(self, seed: bytes, device: torch.device | str) -> None:
        self._key = int.from_bytes(hashlib.sha256(seed + b"foreign").digest()[:8], "little")
        self._device = torch.device(device)

    def __enter__(self) -> None:
        devices = [self._device] if self._device.type == "cuda" else []
        self._fork = torch.random.fork_rng(devices)
        self._fork.__enter__()
        torch.manual_seed(self._key)
        random.seed(self._key)
        np.random.seed(self._key % (1 << 32))
        self._default = torch.device(self._device)
        self._default.__enter__()

    def __exit__(self, *_: object) -> None:
        self._default.__exit__(None, None, None)
        self._fork.__exit__(None, None, None)
