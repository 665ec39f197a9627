"""The trusted process that draws inputs and compares results with a float64 reference. It never loads a submission.

It alone may write the input memory: it maps it before the memory is sealed. Reference values stay in its own memory.
Not covered: deciding the verdict, and the time of anything.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from . import check, inputs
from .checkers import checker_of
from .shell import arguments_of, connect, map_memory, outputs_of, set_threads, view

Values = list[tuple[NDArray[Any], NDArray[Any]]]  # where values go, and what they are


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    referee = Referee(link.receive())
    link.send(mapped=True)
    while True:
        request = link.receive()
        link.send(**getattr(referee, request.pop("do"))(**request))


class Referee:
    """Answers the supervisor's requests; each public method is one of them."""

    def __init__(self, message: dict[str, Any]) -> None:
        set_threads(message["threads"])
        self._configs = message["configs"]
        self._inputs = map_memory(message["inputs"], writable=True)
        self._outputs = {who: map_memory(fd, writable=False) for who, fd in message["outputs"].items()}
        self._module = check.load_reference(Path(message["task"]))
        self._direction = message["direction"]
        self._cores = os.sched_getaffinity(0)
        self._writing_cores = message["writing_cores"]
        self.forget()

    def forget(self) -> dict[str, Any]:
        """As at the start: of what was drawn, shown and compared before, nothing reaches the next submission."""
        self._checker = checker_of(self._module, self._direction)
        self._decoys: dict[int, list[Values]] = {}
        self._values: dict[int, Values] = {}
        self._drawn: dict[int, str] = {}
        self._references: dict[tuple[int, int], tuple[torch.Tensor, ...]] = {}
        return {"forgotten": True}

    def fill(
        self, config: int, seeds: list[str], distribution: str | None, decoys: Sequence[list[str]] = ()
    ) -> dict[str, Any]:
        """Draws the input sets 0, 1, ... of `config` from `seeds` (hexadecimal). `show` puts them before contestants.

        What was drawn before becomes the first decoys; the first time decoys are drawn as well. More of them are drawn
        from the seeds in `decoys`.
        """
        before = self._values.pop(config, None)
        first = before or self._draw(config, [seed[::-1] for seed in seeds], distribution)
        self._decoys = {}  # of another configuration, which are needed no more
        self._decoys[config] = [first, *(self._draw(config, more, None) for more in decoys)]
        self._values[config] = self._draw(config, seeds, distribution)
        return {"filled": len(seeds)}

    def show(self, config: int, decoys: int | None = None) -> dict[str, Any]:
        """Writes the values of `config`, or decoys in their place, into the input memory, from the supervisor's core.

        So before every call the inputs have just been written by another core than the contestant's.
        """
        self._references.clear()
        os.sched_setaffinity(0, self._writing_cores)
        for target, source in self._values[config] if decoys is None else self._decoys[config][decoys]:
            np.copyto(target, source)
        os.sched_setaffinity(0, self._cores)
        return {"shown": decoys}

    def compare(self, who: str, config: int, number: int) -> dict[str, Any]:
        """Compares what `who` left in its output memory with the reference for input set `number`."""
        data = self._configs[config]
        arguments = arguments_of(data, self._inputs, data["input_offsets"][number])
        if (config, number) not in self._references:
            self._references[config, number] = self._checker.truth(arguments)
        outputs, truth = outputs_of(data, self._outputs[who]), self._references[config, number]
        found = self._checker.compare(f"{who} {config}", arguments, outputs, truth, data["results"])
        worst = next((item for item in found if not item.ok), None)
        return {
            "ok": worst is None,
            "reason": "" if worst is None else worst.reason,
            "max_abs_error": str(max(item.max_abs_error for item in found)),
            "max_rel_error": str(max(item.max_rel_error for item in found)),
            "distribution": self._drawn[config],
        }

    def _draw(self, config: int, seeds: list[str], distribution: str | None) -> Values:
        """Values for every tensor of every set, in memory of the referee's own, beside the places they go to."""
        data = self._configs[config]
        tensors = [item for item in data["arguments"] if "value" not in item]
        drawn: Values = []
        for number, seed in enumerate(seeds):
            places = zip(tensors, data["input_offsets"][number], strict=True)
            targets = [view(self._inputs, item, offset) for item, offset in places]
            values = [torch.empty_like(target) for target in targets]
            how = (data, bytes.fromhex(seed), values, distribution)
            self._drawn[config] = inputs.draw_for(self._module, *how)
            drawn += [(_bytes(target), _bytes(value)) for target, value in zip(targets, values, strict=True)]
        return drawn


def _bytes(tensor: torch.Tensor) -> NDArray[Any]:
    """The memory of a contiguous tensor; numpy has not every dtype."""
    values: NDArray[Any] = tensor.flatten().view(torch.uint8).numpy()
    return values
