"""Whether what disturbs a bounded judging ends with the submission's processes: the same measurements with and without.

A kernel that was left running shares the GPU with everybody: writes take longer, the GPU seems slower, or empty calls
scatter. So does a busy machine, which stays as it is when the candidates are ended. Writes are queued on the GPU and
timed there, so a busy processor does not prolong them. Not covered: replayed calls, whose candidates have been ended.
"""

import time
from collections.abc import Callable

from ..measuring.faults import Fault
from ..measuring.session import NOTHING
from ..report import Verdict
from ..rules import GpuRules
from .bounds import spread_us
from .session import GpuSession

LOST_SHARE = 0.1  # a kernel that shares the GPU takes more of its speed than this
_BLOCKS, _CALLS_OF_A_BLOCK, _PAUSE_S = 3, 15, 0.3  # a machine is not busy in all of them and then in none by chance


def demand_that_nothing_is_left(
    session: GpuSession, rules: GpuRules, *, drift: float, scatter_us: float, drift_now: Callable[[], float]
) -> None:
    """Ends the candidates.

    Raises Fault: TAMPERING if a disturbance ends with them, NOISY if empty calls scatter.
    `drift` is how far the GPU's rates are from those at the beginning, `scatter_us` that of the empty calls so far.
    """
    is_scattered, is_slow = scatter_us > rules.spread_max_us, drift > LOST_SHARE
    with_it_us, blocks_us = session.writes_us(), _scatter_of_blocks(session) if is_scattered else []
    session.crew.end_candidates()
    session.is_alone = True
    without_us = session.writes_us()
    if with_it_us > (1 + LOST_SHARE) * without_us:
        raise _left_running(f"writes took {with_it_us / without_us - 1:.0%} longer", "")
    if is_slow and drift_now() <= rules.canary_drift:
        raise _left_running(f"the GPU was {drift:.1%} slower than before", "")
    if is_scattered and min(blocks_us) > rules.spread_max_us:
        after_us = max(_scatter_of_blocks(session))
        if after_us <= rules.spread_max_us / 2:
            told = f"empty calls scattered by {min(blocks_us):.0f} µs"
            raise _left_running(told, f", and by {after_us:.0f} µs then")
    if is_scattered:
        raise Fault(Verdict.NOISY, f"the host is too busy: empty calls scatter by {scatter_us:.0f} µs")


def _scatter_of_blocks(session: GpuSession) -> list[float]:
    found = []
    for _ in range(_BLOCKS):
        empty = [session.call_baseline(0, session.fill(0), NOTHING) for _ in range(_CALLS_OF_A_BLOCK)]
        found.append(spread_us(empty))
        time.sleep(_PAUSE_S)
    return found


def _left_running(what: str, then: str) -> Fault:
    told = f"{what} until the submission's processes were ended{then}"
    return Fault(Verdict.TAMPERING, f"something was left running on the GPU between the calls: {told}")
