"""What two clocks say of a replayed call, and what of it counts: timestamps of the GPU, and the host's clock.

Not covered: measuring (`child/gpu/appointment.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_US = 0.05
# what the host's clock may show beyond the stamps of a call, of a burst, and a share of it: it may see the end late
CALL_SPARE_US, BURST_SPARE_US, _HELD_SPARE = 10.0, 5.0, 0.01
# an empty call may take so much longer in an executor than in a baseline, in the stamps and in the host's clock
_NOTHING_SPARE_US = (0.5, 2.0)
MEASURED = ("first_us", "late_us", "host_us", "held_us")


@dataclass(frozen=True)
class Stamps:
    """What an executor or a baseline measured, in microseconds, less what an appointment with nothing takes."""

    first_us: float
    late_us: float
    host_us: float
    held_us: float

    @property
    def credited_us(self) -> float:
        return max(_LEAST_US, self.first_us)

    @property
    def behind_us(self) -> float:
        """How much longer than after nothing the late stamp took, from when the host had seen the first one.

        Near zero; large if work went on behind the first stamp.
        """
        return max(0.0, self.late_us - self.host_us)

    def unstamped_us(self, spare_us: float) -> float:
        """How much longer than the stamps say it took by the host's clock, beyond what is usual.

        Near zero; large if device code has changed the kernels that wait and stamp.
        """
        return max(0.0, (1 - _HELD_SPARE) * self.held_us - self.credited_us - spare_us)


def no_longer(nothing_us: Sequence[float], usual_us: Sequence[float]) -> tuple[float, ...]:
    """Of an executor, whose device code has run: what it adds to an empty call is not taken from its calls."""
    (first, *others, held), (most_first, *_, most_held) = nothing_us, usual_us
    stamps_spare, held_spare = _NOTHING_SPARE_US
    return (min(first, most_first + stamps_spare), *others, min(held, most_held + held_spare))
