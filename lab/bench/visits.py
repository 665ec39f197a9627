"""What a full judging charges for work outside of the calls that count, and what it is made of, per launch.

    python -m lab.bench.visits mnist_linear/forward mnist_linear_relu-forward/honest_workspace ...

A name is a task, whose own kernel for processors is judged, or a case of tests/corpus. Times are processor time in µs:
of the call that counts (median), how much longer a visit's decoys take than such calls (`first` the first of them,
`ahead` all together and for each call, with standard errors), how much longer the decoys after the first one do
(`later`, each), and what is used beyond the order to stop (`over`). Means something on a quiet machine only. Not
covered: GPUs.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Paths, Source, default_rules, default_suites, find_task, judge, stages
from benchmarks.harness.measuring.calls import Judging
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.session import EAGER
from benchmarks.harness.measuring.tally import CANDIDATE, ConfigTally, visit_times
from scripts.corpus import CORPUS, read_case

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "benchmarks" / "suites" / "robust_kbench"
LAST: list[Judging] = []


class Kept(Judging):
    """A judging that can be looked at when it is over."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        LAST[:] = [self]


def main(names: list[str]) -> None:
    stages.Judging = Kept  # type: ignore[attr-defined,assignment]
    paths = Paths(Path(os.environ.get("KBENCH_TEST_CACHE") or ROOT / "var" / "visits"))
    for name in names:
        source, task = _named(name)
        report = judge(source, find_task(default_suites(), task), default_rules(), paths)
        score = f"{report.score.speedup:.3f}" if report.score else report.reason
        seconds = ", ".join(f"{item.name} {item.seconds:.1f} s" for item in report.stages)
        print(f"{name}: {report.verdict} {score}; {seconds}; load {os.getloadavg()[0]:.1f}")
        for ledger in LAST[0].ledgers:
            if not ledger.config.hidden:
                _show(ledger)
        for flag in report.flags:
            print(f"  {flag.code}: {flag.text}")


def _named(name: str) -> tuple[Source, str]:
    if (CORPUS / name / "case.toml").exists():
        case = read_case(CORPUS / name)
        return case.source(), case.task
    task, _, direction = name.partition("/")
    return Source((KERNELS / task / "kernels" / f"{direction}_cpu.cpp").read_text(), "cpp"), name


def _show(ledger: ConfigTally) -> None:
    charged_us = ledger.outside_us()
    print(f"  {ledger.config.key}")
    for launch, steps in enumerate(ledger.of_launches()):
        words = [f"    launch {launch}: charged {charged_us[steps[0]]:5.1f}"]
        for who, name in ((CANDIDATE, "kernel"), (("baseline", EAGER), "eager")):
            words.append(f"{name} {_told([ledger.seen[who][place] for place in steps])}")
        print(" | ".join(words))


def _told(visits: list[CallResult]) -> str:
    decoys = float(np.median([len(visit.decoys) for visit in visits]))
    found = visit_times(visits, decoys)
    first, ahead, over, later = found.first(), found.ahead(), found.over(), found.later()
    return (
        f"call {found.usual_us:7.1f} decoys {decoys:4.1f} "
        f"first {first.us:6.1f} ± {first.error_us:4.1f}, ahead {ahead.us * decoys:6.1f} in all, "
        f"{ahead.us:6.1f} ± {ahead.error_us:4.1f} each, later {later.us:5.1f} ± {later.error_us:3.1f}, "
        f"over {over.us:6.1f} ± {over.error_us:3.1f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
