"""The trusted process that runs a task as torch eager and as torch.compile on a GPU, in the same way as the candidate.

Also compiles the baselines ahead of a judging and measures what this GPU can do at most. Its results are
copied to shared memory only in calls whose results are compared, which are not timed.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ...protocol import Link, control_words
from ..baseline import compiled_copy, without_precompiled_headers
from ..check import load_reference
from ..inputs import call_arguments
from ..shell import Call, Function, connect
from .accelerator import Accelerator, exact_arithmetic
from .asleep import sleep_until_called
from .replayer import Replayer, count_lacks
from .shell import Server, open_calls, receive_memory, start_device
from .tuning import tune_by_cold_calls
from .warm import drawn_tensors

_COPY_SIZES_BYTES = tuple(1 << power for power in range(20, 31, 2))
_GEMM_SIZE = 4096
_FLUSH_BYTES = 256 << 20
_WARM_CALLS = 2


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    exact_arithmetic()
    if "compile" in arguments:
        import_module("torch._inductor.compile_fx")  # takes seconds
        without_precompiled_headers()
    sleep_until_called(link, arguments)
    device = start_device(arguments[1])
    link.send(awake=True)
    message = link.receive()
    if (
        message["prepare"] and message["instead"] == "peaks"
    ):  # they count for every task: no reference is loaded beside them
        link.send(peaks=measure_peaks(device))
        return
    eager: Function = getattr(load_reference(Path(message["task"])), message["direction"])
    if message["prepare"]:
        without_precompiled_headers()
        if device.device.type == "cuda":
            tune_by_cold_calls(device)
        with in_turns(link, device) if message["in_turns"] else nullcontext():
            _prepare(message, eager, device, link)
        return
    memory = receive_memory(link, device)
    page = control_words(message["control"])
    if device.device.type == "cuda":
        count_lacks(page)  # libraries choose their kernels in the first calls, and keep them
    calls = open_calls(message, memory)
    started_s = time.monotonic()
    compiled = [
        _warm(compiled_copy(eager), call.sets[0]) if wanted else None
        for call, wanted in zip(calls, message["compile"], strict=True)
    ]
    link.send(loaded=True, compile_s=time.monotonic() - started_s)
    functions: list[list[Function | None]] = [[eager] * len(calls), compiled, [_nothing(call) for call in calls]]
    if "replay" in link.receive():
        Replayer(functions, calls, link, page).serve()
    Server(functions, calls, memory.outputs, device, link, trusted=True).serve(message["control"])


def _warm(function: Function, arguments: Sequence[Any]) -> Function:
    for _ in range(_WARM_CALLS):
        function(*arguments)
    return function


def _nothing(call: Call) -> Function:
    """A function that computes nothing: what a call costs beside the kernel."""
    return lambda *_: call.outputs


@contextmanager
def in_turns(link: Link, device: Accelerator) -> Iterator[None]:
    """The GPU is this process's alone, but not while torch.compile works on the processor.

    What torch.compile tries on the GPU to choose between its kernels comes after that, so nothing else runs beside it.
    """
    from torch._dynamo.callback import callback_handler, on_compile_end, on_compile_start

    def take(*_: Any) -> None:
        link.send(gpu="wanted")
        link.receive()

    def give_back(*_: Any) -> None:
        device.synchronize()
        link.send(gpu="free")

    on_compile_start(give_back)
    on_compile_end(take)
    take()
    try:
        yield
    finally:
        give_back()
        callback_handler.remove_start_callback(give_back)
        callback_handler.remove_end_callback(take)


def _prepare(message: dict[str, Any], eager: Function, device: Accelerator, link: Link) -> None:
    """Compiles one configuration after the other and says how each went; the supervisor watches the time.

    And how much memory was left to this process, before or after, whichever is less.
    """
    for number in message["wanted"]:
        link.send(compiling=number)
        started_s, before = time.monotonic(), device.room()
        problem = _try_compile(eager, message["configs"][number], device)
        room = min(before, device.room())
        link.send(compiled=number, problem=problem, seconds=time.monotonic() - started_s, room=room)
    link.send(prepared=True)


def _try_compile(eager: Function, config: dict[str, Any], device: Accelerator) -> str | None:
    try:
        arguments = call_arguments(config, drawn_tensors(config, device))
        _warm(compiled_copy(eager), arguments)
        device.synchronize()
    except Exception as error:  # noqa: BLE001 - process edge: torch.compile fails in many ways, and there may be no memory
        return f"{type(error).__name__}: {error}"[:500]
    return None


def measure_peaks(device: Accelerator) -> dict[str, Any]:
    """The best cold copy in bytes (read and written) per second by size, and flops per second at float32's accuracy.

    The latter is that of float32, or of half precision over two: what tensor cores reach with an operand in two parts.
    """
    on_gpu = device.device.type == "cuda"
    sizes = _COPY_SIZES_BYTES if on_gpu else _COPY_SIZES_BYTES[:2]
    size = _GEMM_SIZE if on_gpu else _GEMM_SIZE // 8
    return {
        "copy_bytes_per_s": [[size_bytes, _copy_rate(size_bytes, device)] for size_bytes in sizes],
        "flops_per_s": max(_gemm_rate(size, torch.float32, device), _gemm_rate(size, torch.float16, device) / 2),
    }


def _copy_rate(size_bytes: int, device: Accelerator) -> float:
    source = torch.ones(size_bytes // 8, device=device.device)
    target = torch.empty_like(source)
    return size_bytes / _best_s(lambda: target.copy_(source), device)


def _gemm_rate(size: int, dtype: torch.dtype, device: Accelerator) -> float:
    left, right = torch.randn(2, size, size, device=device.device).to(dtype)
    target = torch.empty_like(left)
    return 2.0 * size**3 / _best_s(lambda: torch.mm(left, right, out=target), device)


def _best_s(work: Function, device: Accelerator, repeats: int = 20) -> float:
    """The shortest time of `work` with nothing of it in the cache."""
    flush = torch.empty(_FLUSH_BYTES if device.device.type == "cuda" else 1, dtype=torch.int8, device=device.device)
    timer, best_us = device.timer(), float("inf")
    for _ in range(repeats):
        flush.zero_()
        timer.start()
        work()
        timer.stop()
        device.synchronize()
        best_us = min(best_us, timer.elapsed_us())
    return best_us / 1e6
