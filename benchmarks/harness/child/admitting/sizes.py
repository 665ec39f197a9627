"""How large a task is, found before a value is drawn: its functions run on tensors that have a shape and no memory.

Not covered: what torch cannot run without values, and what an author makes without torch. Then nothing is known, and
the limits of the sandbox apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from .. import cases, definitions, foreign, gradients
from ..check import as_tuple
from ..foreign import Names
from ..python.slots import StatefulCall, slots_of
from ..shell import tried

_SEED = bytes(32)


def declared_bytes(form: str, names: Names, values: Mapping[str, Any]) -> int | None:
    """Bytes of arguments and results; of the arguments alone where the call needs values.

    None where nothing can be said. What `names` holds is not for use afterwards: it may have kept such tensors.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = tried(_MAKERS[form], names, values)
        if isinstance(made, Exception):
            return None
        call, arguments = made
        results = tried(lambda: as_tuple(call(*arguments)))
        return nbytes(arguments) + (0 if isinstance(results, Exception) else nbytes(results))


def nbytes(values: Sequence[Any]) -> int:
    """Of the tensors among `values`, which may be tuples of one tensor."""
    unpacked = [item[0] if isinstance(item, tuple) and item else item for item in values]
    return sum(item.numel() * item.element_size() for item in unpacked if isinstance(item, Tensor))


def _model(names: Names, _values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    inputs, state = foreign.drawn_model(names, _SEED)
    model = foreign.made_model(names)
    call = StatefulCall(model, slots_of(model), [True] * len(state))
    return call, [*inputs, *(slot.tensor for slot in state)]


def _function(names: Names, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    arguments, _ = foreign.drawn_call(names, _SEED, values)
    return names["forward_fn"], arguments


def _gradients(names: Names, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    """The gradients are those of the operands of the forward pass, as large as these."""
    drawn = gradients.drawn_backward(names, _SEED, values)
    return (lambda *_: tuple(drawn.operands)), drawn.arguments


def _definition(names: Names, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    call, _ = definitions.definition_task(names)
    return call, definitions.drawn_definition(names, _SEED, values)


def _case(names: Names, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    data = cases.drawn_case(names, _SEED, values)
    return (lambda *_: names["ref_kernel"](data)), [leaf for _, leaf in cases.leaves_of(data)]


_MAKERS = {"case": _case, "definition": _definition, "model": _model, "function": _function, "gradients": _gradients}
