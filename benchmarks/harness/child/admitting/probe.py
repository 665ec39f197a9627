"""What a foreign task is like: arguments, results and state, found by running the author's file in a sandbox.

Gets the source, its form and the wanted configurations, and answers one by one. The process that asked never runs a
line of the file, and takes nothing of the answer that does not fit its own limits.
Not covered: whether the checker can judge the task (`examination.py`).
"""

import ast
import faulthandler
import inspect
import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ...protocol import Link
from .. import cases, definitions, foreign, gradients
from ..check import load_module, pieces
from ..foreign import Names
from ..python.slots import SlotWatch, StatefulCall, slots_of
from ..shell import TORCH_DTYPES, tried
from .place import PROCESSOR, ExaminationPlace
from .sizes import declared_bytes
from .watch import AUTHORS_FILES, LineWatch, at_line

_SEED = bytes(range(32))
_DTYPES = {dtype: name for name, dtype in TORCH_DTYPES.items()}
_RESERVED = frozenset(  # words of C++ that a Python argument may be called
    ("auto", "char", "const", "default", "delete", "double", "enum", "float", "int", "long", "new", "operator", "this")
)


Probe = Callable[[Names, Mapping[str, Any], ExaminationPlace], dict[str, Any]]


class Unfit(Exception):
    """The task cannot be judged here; the text says why."""


def describe(message: Mapping[str, Any], link: Link, place: ExaminationPlace) -> None:
    """Answers one configuration after the other; what is larger than `bytes_max` is not drawn."""
    faulthandler.dump_traceback_later(message["traceback_s"])
    file = Path(message["file"])
    try:
        names = vars(load_module(file, "foreign_task"))
    except BaseException as error:  # noqa: BLE001 - process edge: running the file runs whatever it holds
        link.send(problem=f"running the file failed: {told(error)}")
        return
    copy = tried(load_module, file, "foreign_task_copy")  # for sizes alone: it may keep tensors without memory
    for values in message["configs"]:
        faulthandler.dump_traceback_later(message["traceback_s"])
        size_bytes = None if isinstance(copy, Exception) else declared_bytes(message["form"], vars(copy), values)
        if size_bytes is not None and size_bytes > message["bytes_max"]:
            link.send(size_bytes=size_bytes)
        else:
            link.send(**answered(_PROBES[message["form"]], names, values, place))
        place.free()


def answered(probe: Probe, names: Names, values: Any, place: ExaminationPlace = PROCESSOR) -> dict[str, Any]:
    found = tried(probe, names, values, place)
    if isinstance(found, Unfit):
        return {"problem": str(found)}
    if isinstance(found, Exception):
        problem = f"calling the task failed: {told(found)}"
        return {"problem": place.no_memory(found) or problem}
    return {"facts": found}


def told(error: BaseException) -> str:
    """The last frame in the author's file, if any, and the error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(AUTHORS_FILES)]
    return f"{type(error).__name__}: {error}"[:600] + at_line(lines[-1] if lines else None)


def probe_model(names: Names, values: Mapping[str, Any], place: ExaminationPlace) -> dict[str, Any]:
    """A file with `Model`, `get_inputs` and, if the module is made with anything, `get_init_inputs`."""
    inputs, state = foreign.drawn_model(names, _SEED, place.device)
    with place.device:
        model = foreign.made_model(names)
    call = StatefulCall(model, slots_of(model), [True] * len(state))
    arguments = [*inputs, *(slot.tensor for slot in state)]
    facts = _called(lambda: call(*arguments), inputs, place=place)
    taken = _parameter_names(model.forward, len(inputs))
    described = _arguments(inputs, taken)
    known = {item["name"] for item in described}
    for slot in state:
        described.append({**_argument(slot.tensor, _identifier(slot.name, known)), "state": slot.name})
    changed = _changed(names, inputs, place)
    return {**facts, "arguments": described, "changed": changed, "init": _literal(foreign.init_inputs(names))}


def probe_function(names: Names, values: Mapping[str, Any], place: ExaminationPlace) -> dict[str, Any]:
    """A file with `forward_fn`, the module that calls it, and `get_inputs`."""
    arguments, _ = foreign.drawn_call(names, _SEED, values, place.device)
    function = names["forward_fn"]
    described = _arguments(arguments, _parameter_names(function, len(arguments)))
    return {**_called(lambda: function(*arguments), place=place), "arguments": described}


def probe_gradients(names: Names, values: Mapping[str, Any], place: ExaminationPlace) -> dict[str, Any]:
    """A file with `forward_fn` and `AutogradFunction`, whose backward hands over to `backward_fn`."""
    drawn = gradients.drawn_backward(names, _SEED, values, place.device)
    plan = gradients.plan_of(drawn)
    form = gradients.form_of(drawn.arguments)
    backward, _ = gradients.backward_task(names, {form: plan})
    operands = _parameter_names(names["forward_fn"], len(drawn.operands))
    taken = [""] * len(drawn.arguments)
    for name, operand in zip(operands, plan["operands"], strict=True):
        if "argument" in operand:
            taken[operand["argument"]] = name
    taken[plan["gradient"]] = "grad_output"
    taken = [name or f"argument_{number}" for number, name in enumerate(taken)]
    results = [f"grad_{name}" for name, item in zip(operands, drawn.operands, strict=True) if _is_differentiable(item)]
    facts = _called(lambda: backward(*drawn.arguments), place=place)
    return {
        **facts,
        "arguments": _arguments(drawn.arguments, taken),
        "result_names": results,
        "plan": repr((form, plan)),
    }


def probe_definition(names: Names, values: Mapping[str, Any], place: ExaminationPlace) -> dict[str, Any]:
    """A file with `run` and `KBENCH_DEFINITION`; its outputs must be what the definition says."""
    outputs, known = names["KBENCH_DEFINITION"]["outputs"], {**names["KBENCH_DEFINITION"]["axes"], **values}
    arguments = definitions.drawn_definition(names, _SEED, values, place.device)
    call, _ = definitions.definition_task(names)
    copies = [item.clone() if isinstance(item, Tensor) else item for item in arguments]
    facts = _called(lambda: call(*arguments), arguments, place=place)
    if any(
        isinstance(item, Tensor) and not torch.equal(item, copy) for item, copy in zip(arguments, copies, strict=True)
    ):
        raise Unfit("it writes into its inputs")
    found = [(item["dtype"], item["shape"]) for item in facts["results"]]
    wanted = [(item["dtype"], [known[axis] for axis in item["shape"]]) for item in outputs.values()]
    if found != wanted:
        raise Unfit(f"run returns {_told_forms(found)}, the definition says {_told_forms(wanted)}")
    known_names: set[str] = set()
    return {
        **facts,
        "arguments": _arguments(arguments, list(names["KBENCH_DEFINITION"]["inputs"])),
        "result_names": [_identifier(name, known_names) for name in outputs],
    }


def probe_case(names: Names, values: Mapping[str, Any], place: ExaminationPlace) -> dict[str, Any]:
    """Files with `generate_input` and `ref_kernel`; what is only written is found by writing something else there."""
    try:
        leaves = cases.leaves_of(cases.drawn_case(names, _SEED, values, place.device))
    except cases.Opaque as error:
        raise Unfit(str(error)) from error
    kernel = names["ref_kernel"]
    used, other = (cases.drawn_case(names, _SEED, values, place.device) for _ in range(2))
    expected = _results(kernel(used))
    places = {item.data_ptr() for item in expected}
    buffers = []
    for number, (name, before) in enumerate(leaves):
        if not isinstance(before, Tensor):
            continue
        after, changed = (cases.leaves_of(data)[number][1] for data in (used, other))
        if after.data_ptr() in places:
            buffers.append(number)
            changed.copy_(torch.where(before.double() != 0, 0.0, 1.0))
        elif not torch.equal(after, before):
            raise Unfit(f"it writes into its input {name}")
    if not all(map(_alike, expected, _results(kernel(other)))):
        raise Unfit("it changes its input in place")
    structure = cases.structure_of(other, buffers)
    kept = [leaves[number] for number, kind in enumerate(cases.leaf_kinds(structure)) if kind == "argument"]
    arguments = [leaf for _, leaf in kept]
    form = cases.form_of(arguments)
    forward, _ = cases.case_task(names, {form: structure})
    return {
        **_called(lambda: forward(*arguments), place=place),
        "arguments": _arguments(arguments, [name for name, _ in kept]),
        "plan": repr((form, structure)),
    }


def _told_forms(forms: Sequence[tuple[str, Sequence[int]]]) -> str:
    return ", ".join(f"{dtype} {list(shape)}" for dtype, shape in forms)


_PROBES: Mapping[str, Probe] = {
    "case": probe_case,
    "definition": probe_definition,
    "model": probe_model,
    "function": probe_function,
    "gradients": probe_gradients,
}


def _called(call: Callable[[], Any], inputs: Sequence[Any] = (), place: ExaminationPlace = PROCESSOR) -> dict[str, Any]:
    """Results, how long a call takes, and the operations that torch counts. Nothing may be written to `inputs`."""
    watch, counter = LineWatch(inputs), FlopCounterMode(display=False)
    with watch, counter:
        first = _results(call())
    if watch.written is not None:
        raise Unfit(f"it writes into its inputs{at_line(watch.written)}")
    seconds, second = math.inf, None
    for _ in range(2):
        second = None  # before the next call needs memory
        started_s = place.now_s()
        second = _results(call())
        seconds = min(seconds, place.now_s() - started_s)
    assert second is not None  # noqa: S101 - a call has ended
    if any(not torch.isfinite(part.double()).all() for item in first for part in pieces(item)):
        raise Unfit("its results are not finite (inf or NaN)")
    if not all(map(_alike, first, second)):
        drawn = "" if watch.random is None else f"; it draws at random{at_line(watch.random)}"
        raise Unfit(f"it is not deterministic: two calls on the same input differ{drawn}")
    results = [{"shape": list(item.shape), "dtype": _dtype(item)} for item in first]
    return {"results": results, "seconds": seconds, "flops": _least_flops(counter.get_flop_counts().get("Global", {}))}


def _least_flops(counts: Mapping[Any, int]) -> int:
    """Operations by operator, of convolutions a quarter: that many are left after Winograd, F(4×4, 3×3)."""
    return sum(int(count) // (4 if "convolution" in str(operator) else 1) for operator, count in counts.items())


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and all(
        torch.allclose(left.double(), right.double(), rtol=1e-3, atol=1e-5)
        for left, right in zip(pieces(one), pieces(other), strict=True)
    )


def _results(value: Any) -> tuple[Tensor, ...]:
    results = (value,) if isinstance(value, Tensor) else tuple(value) if isinstance(value, tuple | list) else ()
    if not results or not all(isinstance(item, Tensor) for item in results):
        raise Unfit(f"it returns {type(value).__name__}, which is neither a tensor nor a tuple of tensors")
    if any(item.numel() == 0 for item in results):
        raise Unfit("a result has no elements")
    return results


def _arguments(values: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    known: set[str] = set()
    return [_argument(value, _identifier(name, known)) for value, name in zip(values, names, strict=True)]


def _argument(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], Tensor):
        return {**_argument(value[0], name), "packed": True}
    if isinstance(value, Tensor):
        limits = {} if value.is_floating_point() else {"low": int(value.min()), "high": int(value.max())}
        return {"name": name, "shape": list(value.shape), "dtype": _dtype(value), "options": limits, "packed": False}
    if value is None or isinstance(value, bool | int | float | str):
        return {"name": name, "value": value}
    if isinstance(value, tuple | list) and all(isinstance(item, bool | int | float) for item in value):
        return {"name": name, "value": list(value)}
    raise Unfit(f"argument {name!r} is a {type(value).__name__}, which cannot be passed to a kernel")


def _dtype(tensor: Tensor) -> str:
    if tensor.dtype not in _DTYPES or tensor.layout is not torch.strided:
        raise Unfit(f"{str(tensor.dtype)[6:]} tensors are not judged here; only these are: {', '.join(TORCH_DTYPES)}")
    if tensor.numel() == 0:
        raise Unfit("an argument has no elements")
    return _DTYPES[tensor.dtype]


def _identifier(text: str, known: set[str]) -> str:
    """A name that C++ and Python take, and that no other argument has."""
    name = re.sub(r"\W", "_", text).strip("_") or "argument"
    name = f"{name}_" if name in _RESERVED or name[0].isdigit() else name
    while name in known:
        name += "_"
    known.add(name)
    return name


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [item.name for item in inspect.signature(function).parameters.values() if item.kind in kinds]
    return [names[number] if number < len(names) else f"input_{number}" for number in range(count)]


def _changed(names: Names, inputs: Sequence[Any], place: ExaminationPlace) -> list[str]:
    """The state that a call writes to, the statistics of a batch norm in training for example."""
    with place.device:
        model = foreign.made_model(names)
    watch = SlotWatch(slots_of(model))
    copies = [item.clone() if isinstance(item, Tensor) else item for item in inputs]
    model(*copies)
    for copy, item in zip(copies, inputs, strict=True):
        if isinstance(item, Tensor) and not torch.equal(copy, item):
            raise Unfit("it writes into its inputs")
    return watch.changed()


def _literal(values: Sequence[Any]) -> str | None:
    """The text of what the module is made with; None if it is more than numbers, texts, tuples and lists of them."""
    try:
        text = repr(list(values))
        return text if ast.literal_eval(text) == list(values) and len(text) < 2000 else None
    except (ValueError, SyntaxError):
        return None


def _is_differentiable(item: Any) -> bool:
    return isinstance(item, Tensor) and item.is_floating_point()
