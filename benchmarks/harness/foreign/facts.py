"""Checks the description of a foreign task that a sandboxed child returns.

The child has run an author's code, so its answer is untrusted: names, sizes and counts have limits here. Not covered:
whether the answer is true; a wrong answer makes a task that fails its admission test.
"""

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..dtypes import DTYPES
from ..errors import TaskError
from ..tasks.spec import Argument, TensorArgument, ValueArgument

_NAME = re.compile(r"[A-Za-z]\w{0,99}")
_ARGUMENTS_MAX = 1_500  # DenseNet-201 has 1,200: what children are told of all configurations is one message
_RESULTS_MAX = 16
_AXES_MAX = 8
_SIZE_MAX = 1 << 32
_NUMBER_MAX = 1 << 63  # what a kernel can be given, and what every database can keep
_TEXT_MAX = 2000
_PLAN_MAX = 20_000


# What reading JSON of a wrong form, or literals in it, can raise
SENSELESS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    SyntaxError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True)
class Form:
    """Shape and dtype of one result."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return TensorArgument("", self.shape, self.dtype, "").nbytes


@dataclass(frozen=True)
class Facts:
    """One configuration as it was found. `init` is the text of what the module is made with, `plan` of gradients."""

    arguments: tuple[Argument, ...]
    results: tuple[Form, ...]
    result_names: tuple[str, ...]
    flops: int
    seconds: float
    changed: tuple[str, ...] = ()
    init: str | None = None
    plan: tuple[Any, Any] | None = None

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.arguments)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [item.shape for item in self.arguments if isinstance(item, TensorArgument)]

    @property
    def bytes_moved(self) -> int:
        """At least. Where indices choose what is read, results and indices are all that is certain."""
        tensors = [item for item in self.arguments if isinstance(item, TensorArgument)]
        indices = [item for item in tensors if item.dtype in ("int64", "int32") and item.shape]
        return sum(item.nbytes for item in indices or tensors) + sum(item.nbytes for item in self.results)


def facts_of(data: Any) -> Facts:
    """The checked answer. Raises TaskError for one that cannot be."""
    try:
        return _facts(data)
    except SENSELESS as error:
        raise TaskError(f"its description makes no sense: {error}"[:300]) from error


def _facts(data: Mapping[str, Any]) -> Facts:
    changed = tuple(str(name)[:200] for name in data.get("changed", ()))
    arguments = tuple(_argument(item, changed) for item in _few(data["arguments"], _ARGUMENTS_MAX, "arguments"))
    results = tuple(
        Form(_shape(item["shape"]), _dtype(item["dtype"])) for item in _few(data["results"], _RESULTS_MAX, "results")
    )
    names = _result_names(data, len(results))
    if len({item.name for item in arguments}) != len(arguments) or len(set(names)) != len(names):
        raise ValueError("two arguments or two results share a name")
    return Facts(
        arguments=arguments,
        results=results,
        result_names=names,
        flops=min(max(0, int(data["flops"])), 1 << 60),
        seconds=max(0.0, float(data["seconds"])),
        changed=changed,
        init=_init(data.get("init")),
        plan=_plan(data["plan"]) if "plan" in data else None,
    )


def _argument(item: Mapping[str, Any], changed: tuple[str, ...]) -> Argument:
    name = _name(item["name"])
    if "shape" not in item:
        return ValueArgument(name, _value(item["value"]))
    limits = {key: int(_number(value)) for key, value in item["options"].items() if key in ("low", "high")}
    state = {"state": str(item["state"])[:200]} if "state" in item else {}
    written = {"changed": True} if state and state["state"] in changed else {}
    return TensorArgument(
        name=name,
        shape=_shape(item["shape"]),
        dtype=_dtype(item["dtype"]),
        draw="foreign",
        options={**limits, **state, **written},
        packed=item["packed"] is True,
    )


def _result_names(data: Mapping[str, Any], count: int) -> tuple[str, ...]:
    if "result_names" not in data:
        return ("out",) if count == 1 else tuple(f"out_{number}" for number in range(count))
    names = tuple(_name(item) for item in data["result_names"])
    if len(names) != count:
        raise ValueError("the number of names differs from the number of results")
    return names


def _few(items: Any, limit: int, what: str) -> list[Any]:
    if not isinstance(items, list) or not items:
        raise ValueError(f"it has no {what}")
    if len(items) > limit:
        raise TaskError(f"it has {len(items)} {what}, state included; at most {limit} are judged here")
    return items


def _name(text: Any) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise ValueError("a name is malformed")
    return text


def _shape(sizes: Any) -> tuple[int, ...]:
    shape = tuple(int(size) for size in sizes)
    if len(shape) > _AXES_MAX or not all(0 < size < _SIZE_MAX for size in shape):
        raise ValueError(f"the shape {shape} is not possible")
    return shape


def _dtype(text: Any) -> str:
    if text not in DTYPES:
        raise ValueError("a dtype is unknown")
    return str(text)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_number(item) for item in value[:_AXES_MAX])
    return value[:_TEXT_MAX] if isinstance(value, str) else None if value is None else _number(value)


def _number(value: Any) -> int | float | bool:
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > _NUMBER_MAX:
        raise ValueError("a value is not a number that a kernel can be given")
    return value


def _init(text: Any) -> str | None:
    """A list of literals, in the way that Python writes it."""
    if not isinstance(text, str) or len(text) > _TEXT_MAX:
        return None
    return repr(list(ast.literal_eval(text)))


def _plan(text: Any) -> tuple[Any, Any]:
    """A form and its plan: literals, which go into a file that runs in sandboxes."""
    if not isinstance(text, str) or len(text) > _PLAN_MAX:
        raise ValueError("the plan of its gradients is too long")
    form, plan = ast.literal_eval(text)
    hash(form)  # plans are kept by their form
    repr((form, plan))  # Python refuses to write out numbers of more than 4,300 digits
    return form, plan
