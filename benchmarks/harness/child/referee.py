"""The trusted process that draws inputs and compares results with a float64 reference. It never loads a submission.

It alone may write the input memory: it maps it before the memory is sealed. Reference values stay in its own memory.
Not covered: deciding the verdict, and the time of anything.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import check, inputs
from .shell import arguments_of, connect, map_memory, outputs_of, set_threads, view


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
        self._drawn: dict[tuple[int, int], str] = {}
        self._references: dict[tuple[int, int], tuple[torch.Tensor, ...]] = {}

    def fill(self, config: int, seeds: list[str], distribution: str | None) -> dict[str, Any]:
        """Draws the input sets 0, 1, ... of `config` from `seeds` (hexadecimal)."""
        self._references.clear()
        data = self._configs[config]
        tensors = [item for item in data["arguments"] if "value" not in item]
        for number, seed in enumerate(seeds):
            places = zip(tensors, data["input_offsets"][number], strict=True)
            targets = [view(self._inputs, item, offset) for item, offset in places]
            self._drawn[config, number] = inputs.draw(data, bytes.fromhex(seed), targets, distribution)
        return {"filled": len(seeds)}

    def compare(self, who: str, config: int, number: int) -> dict[str, Any]:
        """Compares what `who` left in its output memory with the reference for input set `number`."""
        data = self._configs[config]
        pairs = zip(outputs_of(data, self._outputs[who]), self._reference(config, number), data["results"], strict=True)
        found = [check.compare(out, ref, item["tolerance"], item["rms_tolerance"]) for out, ref, item in pairs]
        worst = next((item for item in found if not item.ok), None)
        return {
            "ok": worst is None,
            "reason": "" if worst is None else worst.reason,
            "max_abs_error": str(max(item.max_abs_error for item in found)),
            "max_rel_error": str(max(item.max_rel_error for item in found)),
            "distribution": self._drawn[config, number],
        }

    def _reference(self, config: int, number: int) -> tuple[torch.Tensor, ...]:
        if (config, number) not in self._references:
            data = self._configs[config]
            arguments = arguments_of(data, self._inputs, data["input_offsets"][number])
            self._references[config, number] = check.reference(self._module, self._direction, arguments)
        return self._references[config, number]
