"""Bursts: replayed calls back to back after one start time, each on inputs of its own, and all results compared.

A forged end would gain no more for a whole burst than for a single call. The time of a configuration is the larger of
the medians of single calls and of bursts. Baselines make none: what slowed their few bursts would count for the kernel.
"""

import math
from statistics import median
from typing import Any

from ..measuring.calls import Judging
from ..measuring.faults import Fault
from ..measuring.tally import CANDIDATE, ConfigTally
from ..report import Verdict
from .contexts import rounded_us
from .record import summary
from .replay import Replay
from .session import GpuSession
from .word_times import SAMPLED_MAX_US, UNFAIR_SHARE, Lateness, percentiles_us, usual_lateness


def credit_bursts(session: GpuSession, judging: Judging) -> dict[str, Any]:
    """Measures bursts of every visible configuration and credits them in the ledgers; what a report says of it.

    Raises Fault if results in a burst are wrong, if all of it takes too long, or if the host is too busy.
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
        whole = min(math.ceil(rules.burst_us / single_us), len(replay.calls[number]))
        count = min(replay.most_in_a_burst(number), whole)
        # So much could be hidden by a forged end. Who makes bursts short, by many launches, gains nothing by it.
        hidden_us = median(call.sampled_us for call in ledger.seen[CANDIDATE])
        shorter_us = hidden_us / count - hidden_us / whole
        ledger.times_us[CANDIDATE] = [us + shorter_us for us in ledger.times_us[CANDIDATE]]
        if count > 1:
            found[ledger.config.key] = _credited(session, judging, number, count)
    contexts = {name: rounded_us(times_us) for name, times_us in vars(replay.contexts).items()}
    between_us = rounded_us({who: median(times_us) for who, times_us in replay.between_us.items() if times_us})
    nothing = {"nothing_us": replay.nothing_us, "nothing_between_us": between_us, "contexts": contexts}
    told = {"repeated": replay.repeated, **nothing, **percentiles_us(replay.late)}
    return {"replay": {"bursts": found, "records": _records(replay), **told}}


def _records(replay: Replay) -> list[dict[str, Any]]:
    """Nodes of every configuration that is not hidden."""
    pairs = zip(replay.configs, replay.calls, strict=True)
    return [{"config": config.key, **summary(calls)} for config, calls in pairs if not config.hidden]


def _charge_late(ledger: ConfigTally) -> None:
    """Each call for what came late after it: a median would leave out what is forged in fewer than half of them."""
    usual = _usual(ledger)
    # copies take longer after long calls, so those of eager's results may be slow where the kernel's are not
    sampled_us = min(usual.sampled_us, median(call.sampled_us for call in ledger.seen[CANDIDATE]))
    if sampled_us - SAMPLED_MAX_US > UNFAIR_SHARE * median(ledger.times_us[CANDIDATE]):
        raise Fault(Verdict.NOISY, f"the host is too busy: copying rows of a result takes {sampled_us:.0f} µs")
    pairs = zip(ledger.times_us[CANDIDATE], ledger.seen[CANDIDATE], strict=True)
    ledger.times_us[CANDIDATE] = [time_us + Lateness.of(call).beyond_us(usual) for time_us, call in pairs]


def _usual(ledger: ConfigTally) -> Lateness:
    """Of the configuration alone: around calls that take longer, things may be later without anybody being blamed."""
    return usual_lateness({who: calls for who, calls in ledger.seen.items() if who != CANDIDATE})


def _credited(session: GpuSession, judging: Judging, number: int, count: int) -> dict[str, Any]:
    ledger = judging.ledgers[number]
    usual, launches, turns = _usual(ledger), session.setting.rules.time.launches, session.setting.gpu_rules.bursts
    bursts_us = []
    for launch in range(launches):
        session.turn(launch)
        for _ in range(turns):
            judging.give_up_if_late()
            session.draw(number, count)
            bursts_us.append(session.burst(number, count, usual))
    single_us, burst_us = median(ledger.times_us[CANDIDATE]), median(bursts_us)
    more_us = max(0.0, burst_us - single_us)
    ledger.times_us[CANDIDATE] = [time_us + more_us for time_us in ledger.times_us[CANDIDATE]]
    return {"calls": count, "kernel": {"single_us": round(single_us, 3), "burst_us": round(burst_us, 3)}}
