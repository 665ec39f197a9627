"""The calling shell of candidate and baseline alike: maps the shared memory, serves calls, copies results out.

It runs in the same process as the code that it calls, so nothing it says is believed beyond the bytes in the output
memory; it exists to make honest submissions precise. Not covered: loading the code (`candidate.py`, `baseline.py`).
"""

import ctypes
import gc
import mmap
import socket
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol import CONTROL_BYTES, Link, Status, Word

_DTYPES = {"float32": torch.float32, "int64": torch.int64}
Function = Callable[..., Any]


@dataclass(frozen=True)
class Call:
    """One configuration: the arguments of each input set, and where results go."""

    sets: tuple[tuple[Any, ...], ...]
    outputs: tuple[torch.Tensor, ...]


def connect(arguments: Sequence[str]) -> Link:
    return Link(socket.socket(fileno=int(arguments[0])))


def set_threads(count: int) -> None:
    torch.set_num_threads(count)
    torch.set_grad_enabled(False)


def map_memory(fd: int, *, writable: bool) -> mmap.mmap:
    """Maps all of `fd`. Input memory is sealed against writing, so only a read-only map succeeds there."""
    return mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))


def view(memory: mmap.mmap, item: dict[str, Any], offset_bytes: int) -> torch.Tensor:
    """A tensor of the shape and dtype of `item` over shared memory."""
    dtype = _DTYPES[item["dtype"]]
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
    """Every configuration of an `open` message, laid over its `inputs` and `outputs` memory."""
    inputs = map_memory(message["inputs"], writable=False)
    outputs = map_memory(message["outputs"], writable=True)
    return tuple(
        Call(
            sets=tuple(arguments_of(config, inputs, offsets) for offsets in config["input_offsets"]),
            outputs=outputs_of(config, outputs),
        )
        for config in message["configs"]
    )


def outputs_of(config: dict[str, Any], memory: mmap.mmap) -> tuple[torch.Tensor, ...]:
    pairs = zip(config["results"], config["output_offsets"], strict=True)
    return tuple(view(memory, item, offset) for item, offset in pairs)


def serve(control_fd: int, functions: Sequence[Sequence[Function | None]], calls: Sequence[Call], link: Link) -> None:
    """Answers calls until killed. `functions[f][c]` is function f for configuration c.

    Between calls the supervisor stops this process, so spinning costs nothing while others are timed.
    """
    page = map_memory(control_fd, writable=True)
    words = (ctypes.c_uint64 * (CONTROL_BYTES // 8)).from_buffer(page)
    gc.collect()
    gc.freeze()
    gc.disable()
    last = words[Word.STEP]
    link.send(serving=True)
    while True:
        while words[Word.STEP] == last:
            pass
        last = step = words[Word.STEP]
        function = functions[words[Word.FUNCTION]][words[Word.CONFIG]]
        call = calls[words[Word.CONFIG]]
        words[Word.READY] = step
        while words[Word.GO] != step:
            pass
        words[Word.STATUS] = _answer(function, call.sets[words[Word.CHOICE]], call.outputs, link)
        words[Word.DONE] = step


def _answer(
    function: Function | None, arguments: tuple[Any, ...], outputs: tuple[torch.Tensor, ...], link: Link
) -> Status:
    try:
        results = function(*arguments)  # type: ignore[misc]
        if type(results) is not tuple:
            results = tuple(results) if isinstance(results, list) else (results,)
        return _copy_out(results, outputs, link)
    except Exception as error:  # noqa: BLE001 - process edge: whatever the called code raised is the answer
        link.send(error=type(error).__name__, text=str(error)[:4000])
        return Status.RAISED


def _copy_out(results: tuple[Any, ...], outputs: tuple[torch.Tensor, ...], link: Link) -> Status:
    if len(results) != len(outputs):
        link.send(text=f"{len(results)} results where the task asks for {len(outputs)}")
        return Status.WRONG_COUNT
    for number, (result, output) in enumerate(zip(results, outputs, strict=True)):
        if not isinstance(result, torch.Tensor):
            link.send(text=f"result {number} is a {type(result).__name__}, not a tensor")
            return Status.WRONG_TYPE
        if result.shape != output.shape:
            link.send(text=f"result {number} has shape {tuple(result.shape)}, the task asks for {tuple(output.shape)}")
            return Status.WRONG_SHAPE
        if result.dtype != output.dtype:
            link.send(text=f"result {number} has dtype {result.dtype}, the task asks for {output.dtype}")
            return Status.WRONG_DTYPE
        output.copy_(result)
    return Status.OK


def _argument(item: dict[str, Any], memory: mmap.mmap, places: Any) -> Any:
    if "value" in item:
        return tuple(item["value"]) if isinstance(item["value"], list) else item["value"]
    tensor = view(memory, item, next(places))
    return (tensor,) if item["packed"] else tensor
