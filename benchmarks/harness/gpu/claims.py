"""Holds the times that a submission reports for its own calls against the referee's clock, when nothing was replayed.

Work that was left out of the reported times is TAMPERING; what might be noise is added to the call it belongs to. Not
covered: the arithmetic (`bounds.py`), and the calls alone (`alone.py`).
"""

from dataclasses import replace

from ..measuring.calls import Judging
from ..measuring.faults import Fault
from ..measuring.tally import CANDIDATE, ConfigTally
from ..report import ConfigReport, Verdict
from ..rules import GpuRules
from . import bounds


def demand_true_claims(judging: Judging, rules: GpuRules) -> None:
    """Checks every launch by itself; correct times in another launch do not excuse it.

    What a busy machine could explain accuses nobody: that is how slow it was beside the submission. Comes before the
    baselines are called alone, which may end as NOISY: a submission could cause that. Raises Fault: TAMPERING.
    """
    scatter_us = bounds.spread_us(judging.null_calls)
    for number, ledger in enumerate(judging.ledgers):
        if not _is_bounded(ledger):
            continue
        for launch in sorted(set(ledger.launches)):
            of_launch = ledger.of_launch(launch)
            beside = bounds.trusted(of_launch, number, judging.null_calls, bounds.CallsAlone(judging.null_calls))
            seen = of_launch.seen[CANDIDATE]
            excess_us = bounds.excess_us(seen, bounds.usual_us(beside, rules))
            explained_us = bounds.slack_us(seen, scatter_us, rules) + rules.spread_max_us
            if excess_us > explained_us:
                told = f"{excess_us:.0f} µs longer than the reported time, where a busy machine explains"
                raise Fault(
                    Verdict.TAMPERING,
                    f"the calls used the GPU or the process {told} {explained_us:.0f} µs: work must be joined to the "
                    f"current stream ({ledger.config.key})",
                )


def charged(
    judging: Judging, alone: bounds.CallsAlone, number: int, result: ConfigReport, rules: GpuRules, *, flush_us: float
) -> ConfigReport:
    """Adds to each call what its reported time leaves out; what the report then says of the configuration.

    `flush_us` is how long flushing the cache takes before any submission is loaded. Raises Fault: NOISY if the machine
    was much slower beside the submission than without it, TAMPERING if something kept running between the calls.
    """
    ledger = judging.ledgers[number]
    if not _is_bounded(ledger):
        return result
    for launch in sorted(set(ledger.launches)):
        pairs = bounds.trusted(ledger.of_launch(launch), number, judging.null_calls, alone)
        if (slowed_us := max(map(bounds.slowed_us, pairs))) > rules.spread_max_us:
            told = f"calls of the judge took {slowed_us:.0f} µs longer beside the submission than without it"
            raise Fault(Verdict.NOISY, f"something slowed the machine: {told} ({result.key})")
    seen, scatter_us = ledger.seen[CANDIDATE], bounds.spread_us(judging.null_calls)
    usual_us = bounds.usual_us(bounds.trusted(ledger, number, judging.null_calls, alone), rules)
    charges_us = bounds.charges_us(seen, usual_us, min(scatter_us, bounds.spread_us(alone.null)), rules)
    ledger.times_us[CANDIDATE] = [sum(pair) for pair in zip(ledger.times_us[CANDIDATE], charges_us, strict=True)]
    if bounds.busy([item for calls in ledger.seen.values() for item in calls], flush_us, rules):
        what = "something kept running on the GPU between the calls"
        raise Fault(Verdict.TAMPERING, f"{what} ({result.key})")
    return replace(result, excess_us=bounds.excess_us(seen, usual_us), copied=any(item.copied for item in seen))


def _is_bounded(ledger: ConfigTally) -> bool:
    return not ledger.config.hidden and CANDIDATE in ledger.seen
