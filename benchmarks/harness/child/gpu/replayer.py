"""Replays the baselines by the clock that replayed submissions have: captured here, launched node by node, no gaps.

Their code is ours, so they are launched in the process that holds their libraries. Memory that a captured call gave
back is used again by the next one, since calls run one after the other. Not covered: what is compared (the referee).
"""

import gc
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from ...protocol import ControlWords, Link, Word
from ..shell import Call, Function
from .capture import Capture, NotCaptured
from .clock import Clock
from .contexts import context_calls
from .driver import Driver, DriverError, pointer
from .launches import Program, program
from .shell import results_in_form

_WORDS = {1: "|u1", 2: "<i2", 4: "<f4", 8: "<i8"}  # by size: the form has no name for bfloat16 and float8


class _CapturedResult:
    """Where a result of a captured call lies, in the form that torch takes over without a copy.

    Its dtype there is another one of the same size.
    """

    def __init__(self, result: torch.Tensor) -> None:
        self.__cuda_array_interface__ = {
            "shape": tuple(result.shape),
            "strides": tuple(step * result.element_size() for step in result.stride()),
            "typestr": _WORDS[result.element_size()],
            "data": (result.data_ptr(), False),
            "version": 3,
        }


def count_lacks(page: ControlWords) -> None:
    """Counts on `page` how often torch finds no memory from now on, also where a library goes on in another way."""

    def lack(*_: int) -> None:
        page[Word.LACKED] += 1

    torch._C._cuda_attach_out_of_memory_observer(lack)


class Replayer:
    """`functions[f][c]` is function f for configuration c."""

    def __init__(
        self,
        functions: Sequence[Sequence[Function | None]],
        calls: Sequence[Call],
        link: Link,
        page: ControlWords,
    ) -> None:
        self._functions, self._calls, self._link = functions, calls, link
        self._driver = Driver()
        self._clock = Clock(self._driver, page)
        self._page = page
        self._capture = Capture(self._driver)
        self._pool: torch.cuda.MemPool | None = None
        self._programs: dict[tuple[int, int], list[tuple[Program, list[_CapturedResult]]]] = {}

    def serve(self) -> None:
        """Returns when it is told to serve calls in the other way."""
        while True:
            request = self._link.receive()
            if "serve" in request:
                return
            if "capture" in request:
                self._link.send(**self._captured(request["capture"], request["functions"], request["sets"]))
            elif "context" in request:
                self._link.send(**context_calls(self._driver, self._clock))
            elif "reserve" in request:
                self._link.send(reserved=True, works=self._reserve(request["reserve"], request["functions"]))
            else:
                self._link.send(**self._run(**request))

    def _captured(self, config: int, functions: Sequence[int], sets: int) -> dict[str, Any]:
        torch.cuda.empty_cache()  # while the pool is in use, torch gives nothing back of what it keeps beside it
        self._pool = self._pool or torch.cuda.MemPool()
        try:
            for function in functions:
                self._programs[function, config] = self._calls_of(function, config, sets)
        except (NotCaptured, DriverError, RuntimeError) as error:  # torch has no memory left, for example
            return {"not_captured": f"{('eager', 'torch.compile')[function]}: {error}"[:600]}
        finally:
            gc.collect()
        return {"kernels": [self._programs[function, config][0][0].kernels for function in functions]}

    def _reserve(self, config: int, functions: Sequence[int]) -> bool:
        """Makes calls that are not captured, so that this process keeps the memory for them; gives up all captures.

        Whether they worked: False if one of them found too little memory.
        """
        if self._pool is not None:  # also if nothing could be captured: the call before a capture has taken memory
            self._programs.clear()
            self._pool = None
            gc.collect()
            torch.cuda.empty_cache()
        lacked_before = self._page[Word.LACKED]
        for function in functions:
            try:
                self._function(function, config)(*self._calls[config].sets[0])
                torch.cuda.synchronize()
            except RuntimeError:  # also of a library that has nothing else to try
                if self._page[Word.LACKED] == lacked_before:
                    raise
                return False
        return True

    def _function(self, number: int, config: int) -> Function:
        function = self._functions[number][config]
        if function is None:
            raise NotCaptured("there is none")
        return function

    def _calls_of(self, number: int, config: int, sets: int) -> list[tuple[Program, list[_CapturedResult]]]:
        function, call, found = self._function(number, config), self._calls[config], []
        with torch.cuda.use_mem_pool(self._pool):
            self._capture.run(function, call.sets[0])  # makes what is made only once, and takes the memory
            for arguments in call.sets[:sets]:
                nodes, results = self._capture.record(function, arguments)
                places = [_CapturedResult(item) for item in results_in_form(results, call.outputs)]
                found.append((program(self._driver, self._clock.lanes, nodes, _own_function), places))
                del results
        return found

    def _run(self, *, config: int, sets: Sequence[int], function: int, compared: bool, step: int) -> dict[str, Any]:
        chosen = [self._programs[function, config][number] for number in sets]
        times = self._clock.measure([item for item, _ in chosen], step)
        if compared:
            for place, output in zip(chosen[0][1], self._calls[config].outputs, strict=True):
                output.copy_(torch.as_tensor(place, device=output.device).view(output.dtype))
            torch.cuda.synchronize()
        return asdict(times)


def _own_function(node: dict[str, Any]) -> pointer:
    return pointer(node["function"])
