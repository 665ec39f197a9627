"""The calling shell of candidate and baseline on a GPU: adopts the shared memory, serves calls, times them.

Results that a call allocated already lie in shared memory and are told by their place; any other result is copied
there within the timed window. It runs in the same process as the code that it calls, so the time it claims is bounded
by the referee's clock, and the bytes in shared memory are compared. Not covered: loading the code.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...protocol import Link, Status, Word, control_words
from .. import inputs
from ..shell import Call, Function
from .accelerator import Accelerator, Arena, Timer, open_accelerator, results_of, tensors_of


@dataclass(frozen=True)
class Memory:
    """The shared memory of one contestant."""

    inputs: Arena
    outputs: Arena


def receive_memory(link: Link, device: Accelerator, *, inputs_at: int = 0, outputs_at: int = 0) -> Memory:
    """Adopts the two arenas whose descriptors come with the next message, at the addresses if they are free."""
    sizes, (inputs_fd, outputs_fd) = link.receive_descriptors()
    return Memory(
        inputs=device.adopt(inputs_fd, sizes["input_bytes"], writable=False, at=inputs_at),
        outputs=device.adopt(outputs_fd, sizes["output_bytes"], writable=True, at=outputs_at),
    )


def open_calls(message: dict[str, Any], memory: Memory) -> tuple[Call, ...]:
    return tuple(
        Call(
            sets=tuple(
                tuple(inputs.call_arguments(config, tensors_of(config, memory.inputs, offsets)))
                for offsets in config["input_offsets"]
            ),
            outputs=results_of(config, memory.outputs, config["output_offsets"]),
        )
        for config in message["configs"]
    )


class WrongForm(ValueError):
    """Results that do not have the form that the task asks for."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


def results_in_form(results: Any, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """What a call returned, as the task asks for it; one number may have the shape () or (1,). Raises WrongForm."""
    if type(results) is not tuple:
        results = tuple(results) if isinstance(results, list) else (results,)
    if len(results) != len(outputs):
        raise WrongForm(Status.WRONG_COUNT, f"{len(results)} results where the task asks for {len(outputs)}")
    return tuple(_in_form(number, *pair) for number, pair in enumerate(zip(results, outputs, strict=True)))


def _in_form(number: int, result: Any, output: torch.Tensor) -> torch.Tensor:
    if type(result) is not torch.Tensor:
        raise WrongForm(Status.WRONG_TYPE, f"result {number} is a {type(result).__name__}, not a tensor")
    if result.shape == (1,) and output.shape == ():
        result = result.view(())
    if result.shape != output.shape:
        shapes = f"{tuple(result.shape)}, the task asks for {tuple(output.shape)}"
        raise WrongForm(Status.WRONG_SHAPE, f"result {number} has shape {shapes}")
    if result.dtype != output.dtype or result.device != output.device:
        found = f"{result.dtype} on {result.device}, the task asks for {output.dtype} on {output.device}"
        raise WrongForm(Status.WRONG_DTYPE, f"result {number} is {found}")
    return result


def start_device(name: str) -> Accelerator:
    """A context on the device, its libraries loaded, so that the first call finds it awake."""
    device = open_accelerator(name)
    torch.ones(8, device=device.device).mul(2.0).sum().item()
    return device


class Server:
    """Answers calls until killed. `functions[f][c]` is function f for configuration c."""

    def __init__(
        self,
        functions: Sequence[Sequence[Function | None]],
        calls: Sequence[Call],
        arena: Arena,
        device: Accelerator,
        link: Link,
        *,
        trusted: bool = False,
    ) -> None:
        """Whoever is `trusted` hands results over only where they are compared, which is never in a timed call."""
        self._trusted = trusted
        self._functions, self._calls, self._arena = functions, calls, arena
        self._timer: Timer = device.timer()
        self._synchronize = device.synchronize
        self._link = link
        self._kept: Any = None  # results stay alive until the next call, so that nothing overwrites them

    def serve(self, control_fd: int) -> None:
        """Between calls the supervisor stops this process."""
        self._words = words = control_words(control_fd)
        gc.collect()
        gc.freeze()
        gc.disable()
        last = words[Word.STEP]
        self._link.send(serving=True)
        while True:
            while words[Word.STEP] == last:
                pass
            last = step = words[Word.STEP]
            function = self._functions[words[Word.FUNCTION]][words[Word.CONFIG]]
            call = self._calls[words[Word.CONFIG]]
            self._kept = None
            words[Word.READY] = step
            while words[Word.GO] != step:
                pass
            words[Word.STATUS] = self._answer(function, call.sets[words[Word.CHOICE]], call.outputs)
            words[Word.DONE] = step

    def _answer(self, function: Function | None, arguments: tuple[Any, ...], outputs: Sequence[torch.Tensor]) -> Status:
        try:
            self._timer.start()
            results = function(*arguments)  # type: ignore[misc]
            self._timer.stop()
            status = self._hand_over(results, outputs)
            self._synchronize()
            self._words[Word.EVENT_NS] = int(self._timer.elapsed_us() * 1e3)
        except Exception as error:  # noqa: BLE001 - process edge: whatever the called code raised is the answer
            self._link.send(error=type(error).__name__, text=str(error)[:4000])
            return Status.RAISED
        return status

    def _hand_over(self, returned: Any, outputs: Sequence[torch.Tensor]) -> Status:
        """Tells where each result lies; copies those that lie elsewhere, which the timer then includes."""
        try:
            results = results_in_form(returned, outputs)
        except WrongForm as error:
            self._link.send(text=str(error))
            return error.status
        if self._trusted and not self._words[Word.COMPARED]:
            return Status.OK
        copied = 0
        for number, (result, output) in enumerate(zip(results, outputs, strict=True)):
            place = self._arena.place_of(result)
            if place is None:
                output.copy_(result)
                place, copied = output.data_ptr() - self._arena.base, 1
            self._words[Word.PLACES + number] = place
        if copied:
            self._timer.stop()
        self._words[Word.COPIED] = copied
        self._kept = results
        return Status.OK
