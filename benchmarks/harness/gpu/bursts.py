"""Bursts: replayed calls back to back after one start time, each on inputs of its own, and all results compared.

A forged end would gain no more for a whole burst than for a single call. The time of a configuration is the larger of
the medians of single calls and of bursts, for baselines as well.
"""

import math
from statistics import median
from typing import Any

from ..measuring.calls import Judging
from ..measuring.tally import CANDIDATE, ConfigTally, Contender
from .session import GpuSession
from .word_times import Lateness

_HIDDEN_US = 40.0  # as much of a burst could be hidden by a forged end: added if launches or parameters make it short


def credit_bursts(session: GpuSession, judging: Judging) -> dict[str, Any]:
    """Measures bursts of every visible configuration and credits them in the ledgers; what a report says of it.

    Raises Fault if results in a burst are wrong.
    """
    rules, replay = session.setting.gpu_rules, session.replay
    if replay is None:
        return {}
    found = {}
    for number, ledger in enumerate(judging.ledgers):
        if ledger.config.hidden or CANDIDATE not in ledger.times_us:
            continue
        _charge_late(ledger)
        single_us = median(ledger.times_us[CANDIDATE])
        wanted, most = math.ceil(rules.burst_us / single_us), replay.most_in_a_burst(number)
        count = min(most, wanted)
        if most < min(wanted, replay.input_sets(number)) and count * single_us < rules.burst_us / 2:
            ledger.times_us[CANDIDATE] = [us + _HIDDEN_US / count for us in ledger.times_us[CANDIDATE]]
        if count > 1:
            found[ledger.config.key] = _credited(session, number, ledger, count)
    told = {"nothing_us": replay.nothing_us, "repeated": replay.repeated, **replay.gaps_us()}
    return {"replay": {"bursts": found, "records": replay.records, **told}}


def _charge_late(ledger: ConfigTally) -> None:
    """Each call for what came late after it: a median would leave out what is forged in fewer than half of them."""
    seen = {
        who: [Lateness(call.behind_us, call.tail_us or 0.0, call.sampled_us) for call in calls]
        for who, calls in ledger.seen.items()
    }
    medians = [tuple(map(median, zip(*late, strict=True))) for who, late in seen.items() if who != CANDIDATE]
    usual = Lateness(*map(max, zip(*medians, strict=True)))
    pairs = zip(ledger.times_us[CANDIDATE], seen[CANDIDATE], strict=True)
    ledger.times_us[CANDIDATE] = [time_us + late.beyond_us(usual) for time_us, late in pairs]


def _credited(session: GpuSession, number: int, ledger: ConfigTally, count: int) -> dict[str, Any]:
    launches, turns = session.setting.rules.time.launches, session.setting.gpu_rules.bursts
    bursts_us: dict[Contender, list[float]] = {who: [] for who in ledger.times_us}
    for launch in range(launches):
        session.turn(launch)
        for _ in range(turns):
            session.draw(number, count)
            for who, times in bursts_us.items():
                times.append(session.burst(number, None if who == CANDIDATE else who[1], count))
    shown: dict[str, Any] = {"calls": count}
    for who, times in bursts_us.items():
        single_us, burst_us = median(ledger.times_us[who]), median(times)
        more_us = max(0.0, burst_us - single_us)
        ledger.times_us[who] = [time + more_us for time in ledger.times_us[who]]
        shown[_name(who)] = {"single_us": round(single_us, 3), "burst_us": round(burst_us, 3)}
    return shown


def _name(who: Contender) -> str:
    return "kernel" if who == CANDIDATE else ("eager", "compile")[who[1]]
