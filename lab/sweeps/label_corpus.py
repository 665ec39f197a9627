"""Labels the kernels of the verifiers' corpus by judging each of them on this machine's processor.

Goes on where it stopped: what has a label is left alone. Verifying is that of the rules, on all cores, so that races
show; of timing only the fewest steps are made. Not covered: choosing places (`agents/evolve/verifiers/corpus.py`).
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from agents.evolve.verifiers.corpus import Label, Specimen, add_label, planned, read_labels
from benchmarks.harness import HarnessError, Paths, Report, Rules, Source, StageReport, default_rules, judge

_STEPS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder for builds and scratch")
    parser.add_argument("--faulty", type=int, default=4, help="mutants of each operator that plants a fault")
    parser.add_argument("--equivalent", type=int, default=4, help="mutants of each operator that should change nothing")
    parser.add_argument("--plan", action="store_true", help="only say what there is to do")
    chosen = parser.parse_args()
    known = {item.sha256 for item in read_labels()}
    todo = [item for item in planned(chosen.faulty, chosen.equivalent) if item.sha256 not in known]
    print(f"{len(known)} labelled, {len(todo)} to do", flush=True)
    if not chosen.plan:
        for specimen in todo:
            _label(specimen, Paths(chosen.data))
    return 0


def _label(specimen: Specimen, paths: Paths) -> None:
    """One judging. A failure of ours leaves no label: the next run tries again."""
    started = time.monotonic()
    try:
        report = judge(Source(specimen.text, "cpp"), specimen.spec, _rules(), paths, quick=True)
    except HarnessError as error:
        print(f"{specimen}: our own fault: {error}", file=sys.stderr, flush=True)
        return
    label = _label_of(specimen, report)
    add_label(label)
    seconds = time.monotonic() - started
    print(f"{label.seed} {label.operator} {label.site}: {label.verdict} {label.reason} ({seconds:.0f} s)", flush=True)


def _rules() -> Rules:
    rules = default_rules()
    steps = replace(rules.time, steps_per_config=_STEPS, min_steps_per_config=_STEPS)
    return replace(rules, time=steps, cpu=replace(rules.cpu, reserved_cores=0))


def _label_of(specimen: Specimen, report: Report) -> Label:
    stages = {item.name: item for item in report.stages}
    compiled = stages.get("compile", StageReport("compile", 0.0))
    judging_s = sum(item.seconds for item in report.stages if item.name in ("load", "verify", "time"))
    passed = report.score is not None
    return Label(
        seed=specimen.seed,
        operator=specimen.operator,
        site=specimen.site,
        sha256=specimen.sha256,
        verdict=str(report.verdict),
        reason="correct on every configuration" if passed else report.reason,
        compiled=None if compiled.exit_code is None else compiled.exit_code == 0,
        compile_s=round(compiled.seconds, 2),
        judging_s=round(judging_s, 2),
    )


if __name__ == "__main__":
    sys.exit(main())
