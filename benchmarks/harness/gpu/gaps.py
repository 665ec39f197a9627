"""What the baselines of a judging take when they are replayed, measured before anything of the submission runs.

Where the submission cannot be replayed, its calls and those of the baselines are launched one by one by the host. Then
gaps of up to a few microseconds lie between the kernels of a baseline, which a submission of one kernel does not have.
So its score may be higher than it would be if it were replayed. How much of that the interval tells is computed in
`scores/scoring.py`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import RefereeError
from ..measuring.contestants import CallResult
from ..measuring.session import COMPILE, EAGER
from ..protocol import Status
from ..scores.scoring import BaselineTimes
from ..scores.stats import median_us
from .replay import Replay

_CALLS = 5
_LONG_US = 200.0  # gaps are below 2 % of such a call, so one is enough


def replayed_baselines(
    replay: Replay, fill: Callable[[int], int], wanted: Sequence[Sequence[int]]
) -> dict[str, BaselineTimes]:
    """By the key of each visible configuration, the median times of its baselines.

    Whether their results are right is not known yet. `wanted` are their functions for each configuration. Raises
    RefereeError, and Fault if the host is too busy.
    """
    configs = enumerate(zip(replay.configs, wanted, strict=True))
    found = {
        config.key: _times(replay, fill, number, functions)
        for number, (config, functions) in configs
        if not config.hidden
    }
    replay.forget_calls()  # a report tells of the calls of the judging
    return found


def _times(replay: Replay, fill: Callable[[int], int], number: int, functions: Sequence[int]) -> BaselineTimes:
    made: dict[int, list[CallResult]] = {function: [] for function in functions}
    for _ in range(_CALLS):
        short = [function for function, calls in made.items() if not calls or _time_us(calls) <= _LONG_US]
        if not short:
            break
        choice = fill(number)
        for function in short:
            if not made[function]:
                _called(replay, number, choice, function)  # the first one after a capture may be long, and counts not
            made[function].append(_called(replay, number, choice, function))
    times_us = {function: _time_us(calls) for function, calls in made.items()}
    return BaselineTimes(times_us[EAGER], times_us.get(COMPILE))


def _called(replay: Replay, number: int, choice: int, function: int) -> CallResult:
    result = replay.call("baseline0", number, choice, function, compared=False)
    if result.status is not Status.OK:
        name = ("eager", "torch.compile")[function]
        raise RefereeError(f"the {name} baseline failed when it was replayed: {result.text}")
    return result


def _time_us(calls: Sequence[CallResult]) -> float:
    """The median of calls during which the driver did not lower the clocks, if there are any."""
    steady = [call.time_us for call in calls if not call.throttled] or [call.time_us for call in calls]
    return median_us(np.array(steady, dtype=np.float64))
