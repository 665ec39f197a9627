"""The energy of a replayed call: a trusted process launches the recorded calls for a while, the referee reads NVML.

The counter of a GPU moves in steps of ten to a hundred milliseconds, so power is taken between its steps while the
calls run, and multiplied with the time of a call. It is the energy of the whole board. Measured after everything else
is known: no score and no verdict uses it. Its results are not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..measuring.energy import CallEnergy, call_energy, with_energy
from ..report import ConfigReport
from .replay import Replay
from .session import GpuSession

BURST_S, LEAD_S = 0.5, 0.05  # the power of the beginning does not count
BURST_MIN_S = 0.15
BURSTS_MAX = 3  # where the counter moves so rarely that one burst shows too few of its steps
SPANS = 3
NOT_REPLAYED = "only calls that are replayed are measured"
NO_COUNTER = "this GPU has no energy counter"


def gpu_energy(session: GpuSession, results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
    """`results` with energies, and why there are none, if so."""
    replay = session.replay
    if replay is None:
        return tuple(results), NOT_REPLAYED
    session.turn(0)
    told = with_energy(results, _EnergyMeter(session, replay).measured)
    return told, "" if any(item.energy_mj is not None for item in told) else NO_COUNTER


@dataclass
class _EnergyMeter:
    """Makes bursts of one configuration after the other, as long as the counter of this GPU needs."""

    session: GpuSession
    replay: Replay
    burst_s: float = BURST_S

    def measured(self, number: int) -> CallEnergy | None:
        count = self.replay.most_in_a_burst(number)
        self.session.draw(number, count)
        rounds_mj: list[float] = []
        for _ in range(BURSTS_MAX):
            burn = self.replay.burn(number, count, self.burst_s, LEAD_S)
            if burn is None:
                return None
            rounds_mj += [power_mw * burn.call_s for power_mw in powers_mw(burn.steps, SPANS)]
            self.burst_s = needed_s(burn.steps)
            if len(rounds_mj) >= SPANS:
                return call_energy(rounds_mj[:SPANS], SPANS)
        return None


def needed_s(steps: Sequence[Sequence[float]]) -> float:
    """How long a burst must last until the counter has moved once more than there are spans."""
    if len(steps) < 2:
        return BURST_S
    step_s = (steps[-1][0] - steps[0][0]) / (len(steps) - 1)
    return min(BURST_S, max(BURST_MIN_S, LEAD_S + 1.1 * (SPANS + 1) * step_s))


def powers_mw(steps: Sequence[Sequence[float]], spans_max: int) -> list[float]:
    """Mean powers of at most so many spans of time, one after the other, with an equal number of steps in each.

    `steps` are the moments (seconds, millijoules) at which the counter was seen to move.
    """
    spans = min(spans_max, len(steps) - 1)
    ends = [steps[(len(steps) - 1) * place // spans] for place in range(spans + 1)] if spans > 0 else []
    return [(mj - before_mj) / (at_s - before_s) for (before_s, before_mj), (at_s, mj) in pairwise(ends)]
