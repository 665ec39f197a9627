"""The calling shell of candidate and baseline alike: maps the inputs, serves calls, tells where the results lie.

It runs in the same process as the code that it calls, so nothing it says is believed beyond the bytes that the
supervisor reads; it exists to make honest submissions precise. Not covered: loading the code (`candidate.py`,
`baseline.py`).
"""

import ctypes
import gc
import itertools
import mmap
import socket
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType
from typing import Any, ParamSpec, TypeVar

import torch

from ..dtypes import DTYPES
from ..protocol import Link, Status, Word, control_words

P = ParamSpec("P")
T = TypeVar("T")
TORCH_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
Function = Callable[..., Any]
MODULE = "kbench_submission"  # the name that every compiled file has for the interpreter
_numbers = itertools.count()


@dataclass(frozen=True)
class Call:
    """One configuration: the arguments of each input set, and tensors like the results."""

    sets: tuple[tuple[Any, ...], ...]
    outputs: tuple[torch.Tensor, ...]


def connect(arguments: Sequence[str]) -> Link:
    return Link(socket.socket(fileno=int(arguments[0])))


def await_leave_to_load(link: Link) -> None:
    """Until here nothing of the submission is loaded: it has no part in an end before that.

    All that is ours is done by then, the filter included. On a GPU the packages that a Python text names are imported.
    """
    link.send(ready=True)
    link.receive()


def tried(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Exception:
    """What `call` returns, or what it raised: others' code runs inside, and how it fails is an answer."""
    try:
        return call(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - process edge: the caller tells the supervisor what was raised
        return error


def set_threads(count: int) -> None:
    torch.set_num_threads(count)
    torch.set_grad_enabled(False)


def map_memory(fd: int, *, writable: bool) -> mmap.mmap:
    """Maps all of `fd`. Input memory is sealed against writing, so only a read-only map succeeds there."""
    return mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))


def view(memory: mmap.mmap, item: dict[str, Any], offset_bytes: int) -> torch.Tensor:
    """A tensor of the shape and dtype of `item` over shared memory."""
    dtype = TORCH_DTYPES[item["dtype"]]
    count = 1
    for size in item["shape"]:
        count *= size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that read-only memory is read-only
        flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset_bytes)
    return flat.view(item["shape"])


def arguments_of(config: dict[str, Any], memory: mmap.mmap, offsets: Sequence[int]) -> tuple[Any, ...]:
    """The positional arguments of one input set."""
    places = iter(offsets)
    return tuple(_argument(item, memory, places) for item in config["arguments"])


def open_calls(message: dict[str, Any]) -> tuple[Call, ...]:
    """Every configuration of an `open` message, its inputs laid over the `inputs` memory."""
    inputs = map_memory(message["inputs"], writable=False)
    return tuple(
        Call(
            sets=tuple(arguments_of(config, inputs, offsets) for offsets in config["input_offsets"]),
            outputs=tuple(torch.zeros(item["shape"], dtype=TORCH_DTYPES[item["dtype"]]) for item in config["results"]),
        )
        for config in message["configs"]
    )


def outputs_of(config: dict[str, Any], memory: mmap.mmap) -> tuple[torch.Tensor, ...]:
    pairs = zip(config["results"], config["output_offsets"], strict=True)
    return tuple(view(memory, item, offset) for item, offset in pairs)


class _TextLoader(SourceFileLoader):
    """Reads a module as the text that was checked: no comment in it says how it is encoded."""

    def source_to_code(self, data: Any, path: Any, **options: Any) -> CodeType:  # type: ignore[override]
        return super().source_to_code(data.decode() if isinstance(data, bytes) else data, path, **options)


def load_file(path: str) -> ModuleType:
    """A Python file or compiled extension as a module of its own, however many others have its name.

    Extensions are known to the interpreter by their full name, so each gets a package name that no other has.
    """
    kind = _TextLoader if path.endswith(".py") else ExtensionFileLoader
    name = f"kbench_{next(_numbers)}.{MODULE}"
    spec = spec_from_file_location(name, path, loader=kind(name, path))
    if spec is None or spec.loader is None:
        raise ImportError("the compiled file is not a Python module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def serve(
    message: dict[str, Any], functions: Sequence[Sequence[Function | None]], calls: Sequence[Call], link: Link
) -> None:
    """Answers calls until killed, in the native loop of `shell.cpp`.

    `functions[f][c]` is function f for configuration c. Between calls the supervisor stops this process, so spinning
    costs nothing while others are timed.
    """
    words = control_words(message["control"])
    described = [{"sets": list(call.sets), "results": list(call.outputs)} for call in calls]
    loop = load_file(message["shell"])

    def say(error: str, text: str) -> None:
        link.send(error=error, text=text)

    gc.collect()
    gc.freeze()
    gc.disable()
    last = words[Word.STEP]
    link.send(serving=True)
    loop.serve(
        ctypes.addressof(words),
        {item.name: int(item) for item in Word},
        {item.name: int(item) for item in Status},
        last,
        functions,
        described,
        say,
    )


def _argument(item: dict[str, Any], memory: mmap.mmap, places: Any) -> Any:
    if "value" in item:
        return tuple(item["value"]) if isinstance(item["value"], list) else item["value"]
    tensor = view(memory, item, next(places))
    return (tensor,) if item["packed"] else tensor
