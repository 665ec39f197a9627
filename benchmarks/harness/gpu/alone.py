"""Calls of the baselines when the submission's processes have been ended: those beside it may not have been slower.

A kernel that a submission leaves running beside calls of the baselines, or threads that keep the processors busy, make
these slower, and so the submission seem faster. Its own times would be true. Whatever it left ends with its processes,
so every baseline is called again then, on every configuration, in a launch that is drawn. If it was clearly slower
before, the verdict is NOISY, since a busy machine may have been the cause: it is nobody's fault, and there is no score.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..measuring.calls import Judging
from ..measuring.contestants import CallResult
from ..measuring.faults import Fault
from ..measuring.session import EAGER
from ..measuring.tally import CANDIDATE, Contender
from ..report import Verdict
from ..scores.stats import Times, iqr_us, median_us
from .bounds import CallsAlone
from .replay import Replay
from .session import GpuSession
from .word_times import usual_lateness

_SPARE_SHARE = 0.05  # by how much a median may exceed the other, beyond what chance explains
_REPLAYED_SPARE_US, _EVENT_SPARE_US = 0.3, 1.0  # and at least; events of a GPU are half a microsecond apart
# three standard errors of a median of `_CALLS_MOST` calls, in parts of their interquartile range
_CHANCE = 3 * 0.93 / 15**0.5
_CALLS, _CALLS_MOST = 5, 15
_LONG_US = 1000.0  # one such call is enough at first: they scatter little, and there may be many


def demand_quick_baselines(session: GpuSession, judging: Judging, null: Sequence[CallResult]) -> CallsAlone:
    """Calls the baselines; the submission's processes have been ended, and `null` are empty calls since then.

    Raises Fault: NOISY if a baseline was slower beside the submission.
    """
    made: dict[tuple[int, Contender], Sequence[CallResult]] = {}
    spare_us = _EVENT_SPARE_US if session.replay is None else _REPLAYED_SPARE_US
    for number, ledger in enumerate(judging.ledgers):
        if ledger.config.hidden or CANDIDATE not in ledger.seen:
            continue
        choice = session.fill(number)
        for who in (who for who in ledger.seen if who != CANDIDATE):
            launch = secrets.choice(ledger.launches)
            session.turn(launch)
            beside_us = _times_us(ledger.of_launch(launch).seen[who])
            calls = _called(partial(session.call_baseline, number, choice, who[1]), beside_us, spare_us)
            if not is_as_quick(beside_us, _times_us(calls), spare_us):
                took = (
                    f"{median_us(beside_us):.1f} µs beside the submission and {median_us(_times_us(calls)):.1f} alone"
                )
                told = f"something slowed the baselines: {_name(who)} took {took} ({ledger.config.key})"
                raise Fault(Verdict.NOISY, told)
            made[number, who] = calls
    return CallsAlone(null, made)


def demand_quick_replays(session: GpuSession, replay: Replay, judging: Judging) -> None:
    """Ends the executors and calls the baselines, which must not have been slower, nor later, beside them.

    Raises Fault: NOISY if they were, and if an executor was granted more for an empty call than these take now.
    """
    session.crew.end_executors()
    replay.demand_short_nothing()
    alone = demand_quick_baselines(session, judging, ())
    calls = [call for made in alone.made.values() for call in made]
    usual = usual_lateness({("baseline", EAGER): calls})
    for number, ledger in enumerate(judging.ledgers):
        if not any(place == number for place, _ in alone.made):
            continue
        seen = usual_lateness({who: calls for who, calls in ledger.seen.items() if who != CANDIDATE})
        # the third word depends on the host's caches alone
        late_us = seen._replace(behind_us=0.0).beyond_us(usual._replace(behind_us=0.0))
        if late_us > 0:
            told = (
                f"what happens around calls of baselines took {late_us:.0f} µs longer beside the submission than alone"
            )
            raise Fault(Verdict.NOISY, f"something slowed the machine: {told} ({ledger.config.key})")


def is_as_quick(beside_us: Times, alone_us: Times, spare_us: float) -> bool:
    """Whether a median beside the submission exceeds that alone by no more than chance and a spare explain.

    How far chance goes is told by the calls alone: a submission could make the others scatter.
    """
    allowed_us = (1 + _SPARE_SHARE) * median_us(alone_us) + spare_us + _CHANCE * iqr_us(alone_us)
    return median_us(beside_us) <= allowed_us


def _called(call: Callable[[], CallResult], beside_us: Times, spare_us: float) -> list[CallResult]:
    """A few calls, or as many as decide whether those beside the submission were slower."""
    made = [call() for _ in range(1 if median_us(beside_us) > _LONG_US else _CALLS)]
    if not is_as_quick(beside_us, _times_us(made), spare_us):
        made += [call() for _ in range(_CALLS_MOST - len(made))]
    return made


def _times_us(calls: Sequence[CallResult]) -> Times:
    return np.array([call.time_us for call in calls], dtype=np.float64)


def _name(who: Contender) -> str:
    return ("eager", "torch.compile")[who[1]]
