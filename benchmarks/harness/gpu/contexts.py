"""How much longer short calls take in one process than in another by the context that the driver gave it.

Contexts come in kinds, drawn by chance when a process starts. On H200s each short call took 0.2 µs longer in one kind
than in the other, whatever the kernel. A kernel that does nothing shows the kind. Each process of a judging is asked
before anything of the submission is loaded. What its calls take longer than the mean of all processes is subtracted
from them; in a quicker one it is added. Not covered: where memory lies, and processes that time their own calls.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from ..measuring.contestants import Actor
from .word_times import is_worth

_FEWEST = 10  # calls that are worth something
_DISTURBED_US = 0.4  # contexts do not differ by so much: something else was measured


def surpluses_us(actors: Mapping[str, Actor], receive: Callable[[Actor], dict[str, Any]]) -> dict[str, float]:
    """What each process takes longer than the mean of all; nothing if one cannot tell, or was disturbed.

    Nothing of the submission may be loaded yet. `receive` waits for the answer of a process, whose failure is ours.
    """
    found: dict[str, float | None] = {}
    for who, actor in actors.items():  # one after the other, since they share the GPU
        actor.link.send(context=True)
        found[who] = _kernel_us(receive(actor))
    known = {who: us for who, us in found.items() if us is not None}
    if len(known) < len(found) or max(known.values()) - min(known.values()) > _DISTURBED_US:
        return {}
    mean_us = fmean(known.values())
    return {who: us - mean_us for who, us in known.items()}


def _kernel_us(answer: Mapping[str, Sequence[Mapping[str, Any]]]) -> float | None:
    """The median of the kernel's calls less that of empty ones; None if too few of them are worth something."""
    kernel, empty = (
        [float(call["call_us"]) for call in answer[kind] if is_worth(call)] for kind in ("kernel", "empty")
    )
    return median(kernel) - median(empty) if min(len(kernel), len(empty)) >= _FEWEST else None
