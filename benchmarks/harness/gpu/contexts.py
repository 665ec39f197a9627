"""How much longer short calls take in one process than in another because of its context on the GPU.

The driver gives a process one of two kinds of context, by chance. On H200s a call of one kernel took 0.2 µs longer in
one kind than in the other, and one of four kernels 0.5 µs. Four kernels that do nothing show the kind. All processes of
a judging are asked by turns before anything of the submission is loaded. What the calls of a process take longer than
the mean of all is subtracted from them, by the number of their kernels; in a quicker one it is added. Not covered:
where memory lies, and processes that time their own calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from ..measuring.answers import rows_of
from ..measuring.contestants import Actor
from .word_times import demand_times, is_worth

# There and back again, so that what changes meanwhile changes it for all of them. One more comes first and does not
# count, as the first calls of a process take longer.
_ROUNDS = 4
_FEWEST = 40  # calls of each sort that are worth something
# What a call takes longer, over what four kernels in a row do that do nothing. On three H200s a call of one kernel took
# 0.29 to 0.37 times as much longer, of four 0.83 to 1.02, of eight 1.72 to 1.91.
_OF_ONE, _OF_EACH, _KERNELS_MAX = 0.35, 0.23, 8
_DISTURBED_US = 1.0  # four kernels differ by 0.9 between contexts at most: something else was measured


@dataclass(frozen=True)
class Contexts:
    """By process, in microseconds."""

    surplus_us: Mapping[str, float] = field(default_factory=dict)  # four kernels, over the mean; empty if not known
    empty_us: Mapping[str, float] = field(default_factory=dict)  # an empty call; empty if too few are worth something

    def surplus_of(self, who: str, kernels: int) -> float:
        """What a call of so many kernels takes longer than in the mean of all processes, in microseconds."""
        share = max(_OF_ONE, _OF_EACH * min(kernels, _KERNELS_MAX)) if kernels else 0.0
        return share * self.surplus_us.get(who, 0.0)


def contexts_of(actors: Mapping[str, Actor], receive: Callable[[Actor], dict[str, Any]]) -> Contexts:
    """Nothing of the submission may be loaded yet. `receive` waits for the answer of a process; its failure is ours."""
    calls: dict[str, dict[str, list[float]]] = {who: {"empty": [], "kernels": []} for who in actors}
    for number in range(1 + _ROUNDS):
        for who in reversed([*actors]) if number % 2 else actors:
            actors[who].link.send(context=True)
            answer, child = receive(actors[who]), actors[who].child
            for kind, worth_us in calls[who].items():
                told = rows_of(answer, kind, child)
                for call in told:
                    demand_times(call, child)
                if number:
                    worth_us += [float(call["call_us"]) for call in told if is_worth(call)]
    if min(len(kinds["empty"]) for kinds in calls.values()) < _FEWEST:
        return Contexts()
    empty_us = {who: median(kinds["empty"]) for who, kinds in calls.items()}
    if min(len(kinds["kernels"]) for kinds in calls.values()) < _FEWEST:
        return Contexts(empty_us=empty_us)
    kernels_us = {who: median(kinds["kernels"]) - empty_us[who] for who, kinds in calls.items()}
    return Contexts(_surplus_us(kernels_us), empty_us)


def _surplus_us(kernels_us: Mapping[str, float]) -> Mapping[str, float]:
    if max(kernels_us.values()) - min(kernels_us.values()) > _DISTURBED_US:
        return {}
    mean_us = fmean(kernels_us.values())
    return {who: us - mean_us for who, us in kernels_us.items()}


def rounded_us(times_us: Mapping[str, float]) -> dict[str, float]:
    """As a report tells them."""
    return {who: round(us, 3) for who, us in times_us.items()}
