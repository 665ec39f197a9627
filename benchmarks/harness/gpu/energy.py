"""The energy of a replayed call: a trusted process launches the recorded calls for a while, the referee reads NVML.

The counter of a GPU moves in steps of some ten milliseconds, so power is taken between two of its steps while the calls
run, and multiplied with the time of a call. It is the energy of the whole board. Measured after everything else is
known: no score and no verdict uses it. Its results are not compared.
"""

from collections.abc import Sequence

from ..measuring.energy import ROUNDS, CallEnergy, call_energy, with_energy
from ..report import ConfigReport
from .replay import Replay
from .session import GpuSession

BURST_S, LEAD_S = 0.35, 0.05  # one round; the power of its beginning does not count
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
    rounds: list[float] = []
    for _ in range(ROUNDS):
        burn = replay.burn(number, count, BURST_S, LEAD_S)
        power_mw = mean_power_mw(burn.steps) if burn is not None else None
        if burn is None or power_mw is None:
            return None
        rounds.append(power_mw * burn.call_s)
    return call_energy(rounds)


def mean_power_mw(steps: Sequence[Sequence[float]]) -> float | None:
    """From the moments (seconds, millijoules) at which the counter was seen to move; two are needed."""
    if len(steps) < 2:
        return None
    (first_s, first_mj), (last_s, last_mj) = steps[0], steps[-1]
    return (last_mj - first_mj) / (last_s - first_s) if last_s > first_s and last_mj > first_mj else None
