"""The parameters and buffers of a torch module as places that a call fills: state becomes arguments.

A task that is a module gets fresh parameters with every call, as it gets fresh inputs, so that nothing can be computed
from them ahead. Filling a place is an entry of a dictionary, hardly any time, and torch.compile sees through it.
Not covered: state that is kept anywhere but in parameters, buffers and tensor attributes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

SlotPlace = tuple[dict[str, Any], str]  # of a module's own dictionary, and the key in it


@dataclass(frozen=True)
class Slot:
    """One tensor of state: the name it has in the module, where it lies (tied parameters lie in several places)."""

    name: str
    tensor: Tensor
    places: tuple[SlotPlace, ...]
    is_parameter: bool = False


def slots_of(model: nn.Module) -> list[Slot]:
    """Every tensor of state in the order in which the module was put together; attributes become buffers."""
    _attributes_to_buffers(model)
    names: dict[int, str] = {}
    tensors: dict[int, Tensor] = {}
    places: dict[int, list[SlotPlace]] = {}
    for name, tensor, place in _places_of(model):
        names.setdefault(id(tensor), name)
        tensors[id(tensor)] = tensor
        places.setdefault(id(tensor), []).append(place)
    return [_slot(names[key], tensors[key], places[key]) for key in names]


def _slot(name: str, tensor: Tensor, places: Sequence[SlotPlace]) -> Slot:
    return Slot(name, tensor.detach(), tuple(places), isinstance(tensor, nn.Parameter))


class StatefulCall:
    """A module as a function of inputs and state. What a call changes of its state it changes in a copy."""

    def __init__(self, model: nn.Module, slots: Sequence[Slot], changed: Sequence[bool]) -> None:
        self.model = model
        self.first = -len(slots) if slots else None
        self.kept = _numbered(slots, changed, wanted=False)
        self.copied = _numbered(slots, changed, wanted=True)
        self.recurrent = [item for item in model.modules() if isinstance(item, nn.RNNBase)]

    def __call__(self, *arguments: Any) -> Any:
        if self.first is None:
            return flat(self.model(*arguments))
        state = arguments[self.first :]
        for number, place, key in self.kept:
            place[key] = state[number]
        for number, place, key in self.copied:
            place[key] = state[number].clone()
        for module in self.recurrent:  # they keep a list of their own
            module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
        return flat(self.model(*arguments[: self.first]))


def flat(results: Any) -> Any:
    """Results that lie in each other, as those of an LSTM do, one after the other; None is no result."""
    if not isinstance(results, tuple | list | dict):
        return results
    parts = results.values() if isinstance(results, dict) else results
    if all(isinstance(part, Tensor) for part in parts):
        return tuple(parts)
    found = (flat(part) for part in parts if part is not None)
    return tuple(item for part in found for item in (part if isinstance(part, tuple) else (part,)))


def _numbered(slots: Sequence[Slot], changed: Sequence[bool], *, wanted: bool) -> list[tuple[int, dict[str, Any], str]]:
    return [
        (number, place, key)
        for number, (slot, copied) in enumerate(zip(slots, changed, strict=True))
        if copied is wanted
        for place, key in slot.places
    ]


def _attributes_to_buffers(model: nn.Module) -> None:
    for module in model.modules():
        for key, value in list(vars(module).items()):
            if isinstance(value, Tensor):
                delattr(module, key)
                module.register_buffer(key, value)


def _places_of(model: nn.Module) -> Iterator[tuple[str, Tensor, SlotPlace]]:
    for prefix, module in model.named_modules():
        for group in (module._parameters, module._buffers):
            for key, tensor in group.items():
                if isinstance(tensor, Tensor):
                    yield f"{prefix}.{key}" if prefix else key, tensor, (group, key)


class SlotWatch:
    """Tells which state was written to: not every operator counts that, so values are looked at as well."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._before = [(slot, slot.tensor._version, slot.tensor.clone()) for slot in slots]

    def changed(self) -> list[str]:
        return [
            slot.name
            for slot, version, values in self._before
            if slot.tensor._version != version or not values.equal(slot.tensor)
        ]
