"""Gradients of a foreign `forward_fn` as a function of the arguments that the author's backward kernel gets.

In float64 autograd gives the truth. In float32 the baseline is the graph that autograd makes, without what no gradient
needs: a forward pass that a kernel need not make is not in its time either. Not covered: a backward kernel that is
handed what is neither an operand of `forward_fn` nor the gradient of its result.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from .foreign import Arguments, Called, Draw, Names, Seeded, accepted, device_of, fill, looked_at, values_of

GradientForm = tuple[Any, ...]  # of arguments: the shape of each tensor, and the other values
Plan = Mapping[str, Any]  # how operands come from arguments, by the form of the arguments; see `plan_of`


def backward_task(names: Names, plans: Mapping[GradientForm, Plan]) -> tuple[Callable[..., Any], Draw]:
    """`backward` of a file with `forward_fn` and `AutogradFunction`. `plans` say by form what every operand is."""
    graphs = {form: _graph(names["forward_fn"], plan) for form, plan in plans.items()}

    def backward(*arguments: Any) -> Any:
        form = form_of(arguments)
        if _first_tensor(arguments).dtype == torch.float64:
            return _gradients(names["forward_fn"], plans[form], arguments)
        return graphs[form](*(item[0] if isinstance(item, tuple) else item for item in arguments if _has_tensor(item)))

    def draw(config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
        drawn = drawn_backward(names, seed, values_of(config), device_of(out))
        return fill(config, seed, out, drawn.arguments, len(drawn.arguments))

    return backward, draw


class DrawnBackward:
    """One call of a backward kernel: its arguments, the operands of `forward_fn`, and the gradient of its result."""

    def __init__(self, arguments: Arguments, operands: Arguments, gradient: Tensor) -> None:
        self.arguments, self.operands, self.gradient = arguments, operands, gradient


def drawn_backward(
    names: Names, seed: bytes, values: Mapping[str, Any], device: torch.device | str = "cpu"
) -> DrawnBackward:
    """What the author's own functions hand to the backward kernel for fresh inputs, module and gradient."""
    with Seeded(seed, device), torch.enable_grad():
        inputs = list(names["get_inputs"](**accepted(names["get_inputs"], values)))
        model = names["Model"](**accepted(names["Model"].__init__, values))
        operands = list(looked_at(names, model, inputs))
        for item in inputs:
            if isinstance(item, Tensor) and item.is_floating_point():
                item.requires_grad_()
        return _looked_at_backward(names, model, inputs, operands)


def _looked_at_backward(names: Names, model: Any, inputs: Arguments, operands: Arguments) -> DrawnBackward:
    function, gradient = names["AutogradFunction"], torch.empty(0)

    def look(*arguments: Any) -> None:
        raise Called(arguments)

    before = getattr(function, "backward_fn", None)
    function.backward_fn = staticmethod(look)
    try:
        result = model(*inputs, **_own_function(model, function))
        gradient = torch.randn_like(result)
        result.backward(gradient)
    except Called as call:
        return DrawnBackward(list(call.arguments), operands, gradient)
    finally:
        function.backward_fn = before
    raise TypeError("AutogradFunction does not call backward_fn")


def _own_function(model: Any, function: Any) -> dict[str, Any]:
    return {"fn": function.apply} if "fn" in inspect.signature(model.forward).parameters else {}


def plan_of(drawn: DrawnBackward) -> Plan:
    """Where each operand of `forward_fn` is among the arguments. Raises TypeError for an argument that is neither."""
    places = [_place(item, drawn.arguments) for item in drawn.operands]
    gradient = _place(drawn.gradient, drawn.arguments)
    known = {place for place in (*places, gradient) if place is not None}
    for number, item in enumerate(drawn.arguments):
        if _has_tensor(item) and number not in known:
            raise TypeError(f"argument {number} of the backward kernel is neither an operand nor the gradient")
    if gradient is None:
        raise TypeError("the backward kernel does not get the gradient of the result")
    operands = [_operand(item, place) for item, place in zip(drawn.operands, places, strict=True)]
    shapes = [list(_tensor(item).shape) if _has_tensor(item) else None for item in drawn.arguments]
    dtypes = [str(_tensor(item).dtype)[6:] if _has_tensor(item) else None for item in drawn.arguments]
    return {"gradient": gradient, "operands": operands, "shapes": shapes, "dtypes": dtypes}


def form_of(arguments: Sequence[Any]) -> GradientForm:
    """The same for two calls of the same shapes and values."""
    return tuple(tuple(_tensor(item).shape) if _has_tensor(item) else item for item in arguments)


def _operand(item: Any, place: int | None) -> dict[str, Any]:
    if place is not None:
        return {"argument": place}
    return {"zeros": list(item.shape)} if isinstance(item, Tensor) else {"value": item}


def _place(item: Any, arguments: Arguments) -> int | None:
    """The place of the same memory, or else of the same values: what is handed over may be a copy."""
    if not isinstance(item, Tensor):
        return None
    others = [(number, _tensor(other)) for number, other in enumerate(arguments) if _has_tensor(other)]
    alike = [pair for pair in others if pair[1].shape == item.shape and pair[1].dtype == item.dtype]
    itself = [number for number, other in alike if other.data_ptr() == item.data_ptr()]
    return next(iter(itself or [number for number, other in alike if torch.equal(other, item)]), None)


def _gradients(function: Callable[..., Any], plan: Plan, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    gradient = _tensor(arguments[plan["gradient"]])
    with torch.enable_grad():
        operands = [_leaf(item, arguments, gradient) for item in plan["operands"]]
        result = function(*operands)
        leaves = [item for item in operands if isinstance(item, Tensor) and item.requires_grad]
    return tuple(torch.autograd.grad(result, leaves, gradient, materialize_grads=True))


def _leaf(item: Mapping[str, Any], arguments: Sequence[Any], like: Tensor) -> Any:
    if "value" in item:
        return item["value"]
    if "zeros" in item:
        return like.new_zeros(item["zeros"]).requires_grad_()
    tensor = _tensor(arguments[item["argument"]]).detach()
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def _graph(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = zip(plan["shapes"], plan["dtypes"], strict=True)
    example = [torch.zeros(shape, dtype=getattr(torch, dtype), device=device) for shape, dtype in sizes if dtype]
    places = [number for number, dtype in enumerate(plan["dtypes"]) if dtype]

    def gradients(*tensors: Tensor) -> tuple[Tensor, ...]:
        arguments: list[Any] = [None] * len(plan["dtypes"])
        for number, tensor in zip(places, tensors, strict=True):
            arguments[number] = tensor
        return _gradients(function, plan, arguments)

    graph = make_fx(gradients, tracing_mode="fake")(*example)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    traced: Callable[..., Any] = graph
    return traced


def _has_tensor(item: Any) -> bool:
    return isinstance(item, Tensor) or (isinstance(item, tuple) and len(item) == 1 and isinstance(item[0], Tensor))


def _tensor(item: Any) -> Tensor:
    return item[0] if isinstance(item, tuple) else item


def _first_tensor(arguments: Sequence[Any]) -> Tensor:
    return next(_tensor(item) for item in arguments if _has_tensor(item) and _tensor(item).is_floating_point())
