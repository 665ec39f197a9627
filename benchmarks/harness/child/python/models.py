"""A submitted module as a function of inputs and state, as the reference is one (`slots.py`).

State is matched by the names of parameters and buffers, or by their order and shapes where a parameter has another
name; a buffer that the reference lacks is the module's own. Parameters come anew with each call, so what is computed
from them belongs into `forward`. Not covered: state of another shape.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..shell import Function
from .slots import Slot, StatefulCall, slots_of

Item = Mapping[str, Any]


def model_function(model_class: Any, config: Mapping[str, Any], device: str = "cpu") -> Function:
    """`ModelNew`, made as the reference's module is, to be called with a configuration's arguments."""
    model = model_class(*ast.literal_eval(config["values"]["init"])).to(device)
    wanted = [item for item in config["arguments"] if "state" in item.get("options", {})]
    slots = _matched(slots_of(model), wanted)
    changed = [bool(item["options"].get("changed")) for item in wanted]
    call = StatefulCall(model, slots, changed)

    def function(*arguments: Any) -> Any:
        return call(*arguments)

    return function


def _matched(slots: Sequence[Slot], wanted: Sequence[Item]) -> list[Slot]:
    """A slot for each wanted tensor, one without places where the module has no such state. Raises TypeError."""
    named = {slot.name: slot for slot in slots}
    known = {item["options"]["state"] for item in wanted}
    if any(slot.is_parameter and slot.name not in known for slot in slots):
        return _in_order(slots, wanted)
    found = [named.get(item["options"]["state"]) for item in wanted]
    for item, slot in zip(wanted, found, strict=True):
        if slot is not None and list(slot.tensor.shape) != list(item["shape"]):
            raise TypeError(_other_shape(slot, item))
    return [slot or Slot(item["name"], torch.empty(0), ()) for item, slot in zip(wanted, found, strict=True)]


def _in_order(slots: Sequence[Slot], wanted: Sequence[Item]) -> list[Slot]:
    shapes = [list(item["shape"]) for item in wanted]
    for chosen in (list(slots), [slot for slot in slots if slot.is_parameter]):
        if [list(slot.tensor.shape) for slot in chosen] == shapes:
            return chosen
    mine = ", ".join(slot.name for slot in slots)
    theirs = ", ".join(item["options"]["state"] for item in wanted) or "none"
    raise TypeError(f"its state ({mine}) is not that of Model ({theirs}): keep the names, or the order and shapes")


def _other_shape(slot: Slot, item: Item) -> str:
    return f"{slot.name} has shape {list(slot.tensor.shape)}, that of Model has {list(item['shape'])}"
