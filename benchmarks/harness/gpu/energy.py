"""The energy of a replayed call: a trusted process launches the recorded calls for a while, the referee reads NVML.

The counter of a GPU moves in steps of some ten milliseconds, so power is taken between its steps while the calls run,
and multiplied with the time of a call. It is the energy of the whole board. Measured after everything else is known: no
score and no verdict uses it. Its results are not compared.
"""

from collections.abc import Sequence
from itertools import pairwise

from ..measuring.energy import ROUNDS, CallEnergy, call_energy, with_energy
from ..report import ConfigReport
from .replay import Replay
from .session import GpuSession

BURST_S, LEAD_S = 0.35, 0.05  # the power of the beginning does not count
BURSTS_MAX = 3  # where the counter moves so rarely that one burst shows too few of its steps
NOT_REPLAYED = "only calls that are replayed are measured"
NO_COUNTER = "this GPU has no energy counter"


def gpu_energy(session: GpuSession, results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
    """`results` with energies, and why there are none, if so."""
    replay = session.replay
    if replay is None:
        return tuple(results), NOT_REPLAYED
    session.turn(0)
    told = with_energy(results, lambda number: _measured(session, replay, number))
    return told, "" if any(item.energy_mj is not None for item in told) else NO_COUNTER


def _measured(session: GpuSession, replay: Replay, number: int) -> CallEnergy | None:
    count = replay.most_in_a_burst(number)
    session.draw(number, count)
    rounds_mj: list[float] = []
    for _ in range(BURSTS_MAX):
        burn = replay.burn(number, count, BURST_S, LEAD_S)
        if burn is None:
            return None
        rounds_mj += [power_mw * burn.call_s for power_mw in powers_mw(burn.steps, ROUNDS)]
        if len(rounds_mj) >= ROUNDS:
            return call_energy(rounds_mj[:ROUNDS])
    return None


def powers_mw(steps: Sequence[Sequence[float]], spans_max: int) -> list[float]:
    """Mean powers of at most so many spans of time, one after the other, with an equal number of steps in each.

    `steps` are the moments (seconds, millijoules) at which the counter was seen to move.
    """
    spans = min(spans_max, len(steps) - 1)
    ends = [steps[(len(steps) - 1) * place // spans] for place in range(spans + 1)] if spans > 0 else []
    return [(mj - before_mj) / (at_s - before_s) for (before_s, before_mj), (at_s, mj) in pairwise(ends)]
