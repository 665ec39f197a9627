"""The energy of a call, measured after everything else is known: no score and no verdict uses it.

On a processor calls are made for a while between two readings of its counters, then as many that compute nothing, and
the difference is the kernel's: what the judge itself uses for a call is in both. Not covered: GPUs (`gpu/energy.py`).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from ..hosts.energy import RaplCounter, rapl_counters, used_uj
from ..protocol import Status
from ..report import ConfigReport
from ..scores.quantiles import student_95
from .session import NOTHING, Session

ROUNDS = 4
_ROUND_S = 0.15
UNREADABLE = "this machine's energy counters (RAPL) cannot be read"
UNCLEAR = "the calls use too little energy to be distinguished from that of the judge"


@dataclass(frozen=True)
class CallEnergy:
    """Millijoules of one call with their 95 % interval, which is above zero."""

    mj: float
    ci95_mj: tuple[float, float]


def call_energy(rounds_mj: Sequence[float], rounds: int = ROUNDS) -> CallEnergy | None:
    """The mean of 3 or 4 rounds. None if one is missing or the interval reaches down to zero."""
    if len(rounds_mj) != rounds or not all(map(math.isfinite, rounds_mj)):
        return None
    mean = fmean(rounds_mj)
    half = student_95(rounds) * stdev(rounds_mj) / math.sqrt(rounds)
    return CallEnergy(mean, (mean - half, mean + half)) if mean - half > 0 else None


def with_energy(
    results: Sequence[ConfigReport], measure: Callable[[int], CallEnergy | None]
) -> tuple[ConfigReport, ...]:
    """`results` with what `measure` finds for the configurations that were timed, given their numbers."""
    told = []
    for number, result in enumerate(results):
        found = measure(number) if result.kernel_us is not None else None
        told.append(result if found is None else replace(result, energy_mj=found.mj, energy_ci95_mj=found.ci95_mj))
    return tuple(told)


def cpu_energy(session: Session[Any], results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
    """`results` with energies, and why there are none, if so."""
    counters = rapl_counters()
    if not counters:
        return tuple(results), UNREADABLE
    told = with_energy(results, lambda number: _measured(session, number, counters))
    return told, "" if any(item.energy_mj is not None for item in told) else UNCLEAR


def _measured(session: Session[Any], number: int, counters: Sequence[RaplCounter]) -> CallEnergy | None:
    rounds = [_round_mj(session, number, counters) for _ in range(ROUNDS)]
    return call_energy([mj for mj in rounds if mj is not None])


def _round_mj(session: Session[Any], number: int, counters: Sequence[RaplCounter]) -> float | None:
    """Of one call, less what a call of nothing takes. None if the kernel fails."""
    choice = session.fill(number)
    session.show(number)
    calls, first = 0, [counter.read_uj() for counter in counters]
    until = time.monotonic() + _ROUND_S
    while time.monotonic() < until:
        if session.call_candidate(number, choice, compared=False).status is not Status.OK:
            return None
        calls += 1
    second = [counter.read_uj() for counter in counters]
    for _ in range(calls):
        session.call_baseline(number, choice, NOTHING)
    third = [counter.read_uj() for counter in counters]
    return (used_uj(counters, first, second) - used_uj(counters, second, third)) / calls / 1e3
