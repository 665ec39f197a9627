"""Calls of the baselines when the submission's processes have been ended: those beside it may not have been slower.

A kernel that a submission leaves running beside calls of the baselines, or threads that keep the processors busy, make
these slower, and so the submission seem faster. Its own times would be true. Whatever it left ends with its processes,
so every baseline is called again then, on every configuration and in every launch, on fresh values each time. If it was
clearly slower before, the verdict is NOISY, since a busy machine may have been the cause: it is nobody's fault, and
there is no score.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..measuring.calls import Judging
from ..measuring.contestants import CallResult
from ..measuring.faults import Fault
from ..measuring.session import NOTHING
from ..measuring.tally import CANDIDATE, ConfigTally, Contender
from ..report import Verdict
from ..scores.stats import Times, iqr_us, median_us
from .bounds import CallsAlone, comparable
from .replay import Replay
from .session import GpuSession
from .word_times import UNFAIR_SHARE, usual_lateness

_SPARE_SHARE = 0.05  # by how much a median may exceed the other, beyond what chance explains
_REPLAYED_SPARE_US, _EVENT_SPARE_US = 0.3, 1.0  # and at least; events of a GPU are half a microsecond apart
_CHANCE = 3 * 0.93  # three standard errors of a median times the root of its calls, in interquartile ranges
_CALLS, _MORE_CALLS, _CALLS_MOST = 5, 15, 45
_THROTTLED_MOST = 15  # calls beside which the driver lowered the clocks, before it is given up

Calls = Mapping[Contender, Sequence[CallResult]]


def calls_alone(session: GpuSession, judging: Judging) -> CallsAlone:
    """Calls every baseline, and nothing; the submission's processes have been ended.

    Raises Fault: NOISY if a baseline was slower beside the submission, or what happens around its calls was.
    """
    null, made = list[CallResult](), dict[tuple[int, Contender], list[CallResult]]()
    session.canary()  # it warms up the GPU: beside the submission no call came after a pause
    for number, ledger in enumerate(judging.ledgers):
        if ledger.config.hidden or CANDIDATE not in ledger.seen:
            continue
        for launch in sorted(set(ledger.launches)):
            session.turn(launch)
            for who, calls in _settled(session, number, ledger.of_launch(launch), null).items():
                made.setdefault((number, who), []).extend(calls)
    return CallsAlone(null, made)


def demand_quick_replays(session: GpuSession, replay: Replay, judging: Judging) -> None:
    """Ends the executors and calls the baselines, which must not have been slower, nor later, beside them.

    Raises Fault: NOISY if they were, or if an executor was granted more for an empty call than these take now.
    """
    session.crew.end_executors()
    session.is_alone = True
    replay.demand_short_nothing()
    calls_alone(session, judging)


def _settled(
    session: GpuSession, number: int, ledger: ConfigTally, null: list[CallResult]
) -> dict[Contender, list[CallResult]]:
    """A few calls of each baseline in one launch, or as many as decide. With bounds, as many empty calls for `null`."""
    beside = {who: calls for who, calls in ledger.seen.items() if who != CANDIDATE}
    made: dict[Contender, list[CallResult]] = {who: [] for who in beside}
    # Of long calls one is enough at first: they scatter little, and there may be many. Chance excuses nothing before
    # there are as many as there can be, since it goes far where calls are few.
    few, most = (_CALLS, _CALLS_MOST) if all(map(comparable, beside.values())) else (1, _MORE_CALLS)
    slower, throttled = "", 0
    for wanted in sorted({few, _MORE_CALLS, most}):
        while min(map(len, made.values())) < wanted and throttled < _THROTTLED_MOST:
            if session.replay is None:
                null.append(session.call_baseline(0, session.fill(0), NOTHING))
            choice = session.fill(number)
            found = {who: session.call_baseline(number, choice, who[1]) for who in made}
            if any(call.throttled for call in found.values()):
                throttled += 1
                continue
            for who, call in found.items():
                made[who].append(call)
        chance = _CHANCE if wanted == most else 0.0
        slower = "its clocks are lowered" if throttled == _THROTTLED_MOST else _slower(session, ledger, made, chance)
        if not slower:
            return made
    raise Fault(Verdict.NOISY, f"something slowed the GPU: {slower} ({ledger.config.key})")


def _slower(session: GpuSession, ledger: ConfigTally, alone: Calls, chance: float) -> str:
    """What took longer beside the submission than alone; empty if nothing did."""
    spare_us = _EVENT_SPARE_US if session.replay is None else _REPLAYED_SPARE_US
    beside = {who: ledger.seen[who] for who in alone}
    for who, calls in beside.items():
        beside_us, alone_us = _times_us(calls), _times_us(alone[who])
        if not is_as_quick(beside_us, alone_us, spare_us, chance):
            name = ("eager", "torch.compile")[who[1]]
            took = f"{median_us(beside_us):.1f} µs beside the submission and {median_us(alone_us):.1f} µs alone"
            return f"{name} took {took}"
    if session.replay is None:
        return ""
    # The third word depends on the host's caches and on the length of a call alone. How long rows of the baselines'
    # results take to copy is granted to nobody.
    seen, usual = (usual_lateness(calls)._replace(behind_us=0.0, sampled_us=0.0) for calls in (beside, alone))
    late_us = seen.beyond_us(usual)
    if late_us <= UNFAIR_SHARE * median_us(_times_us(ledger.seen[CANDIDATE])):  # so much could be hidden by it
        return ""
    return f"what happens around calls of baselines took {late_us:.0f} µs longer beside the submission than alone"


def is_as_quick(beside_us: Times, alone_us: Times, spare_us: float, chance: float = _CHANCE) -> bool:
    """Whether a median beside the submission exceeds that alone by no more than chance and a spare explain.

    `chance` is the limit of chance times the root of the number of calls, in interquartile ranges. How far the calls
    alone scatter tells how far it goes: a submission could make the others scatter.
    """
    chance_us = chance * iqr_us(alone_us) * math.sqrt(1 / len(alone_us) + 1 / len(beside_us))
    allowed_us = (1 + _SPARE_SHARE) * median_us(alone_us) + spare_us + chance_us
    return median_us(beside_us) <= allowed_us


def _times_us(calls: Sequence[CallResult]) -> Times:
    return np.array([call.time_us for call in calls], dtype=np.float64)
