"""Judges the GPU cases of tests/corpus one after the other on a real GPU: `python -m lab.gpu.corpus [WORD ...]`.

Words select cases by part of their name. Everything is compiled first, on several cores; then honest controls are
judged, then attacks, then failures, and after every failure an honest kernel again, which must pass. Each case is
printed as it ends, its raw report goes to `--reports` as one JSON line; the last line of stdout is a JSON summary.
Exit code 0: every verdict that came is as demanded, 1: one is not, 2: nothing can be judged here. Hostile kernels are
not run without a strong sandbox unless `--weak-sandbox` accepts the risk for this machine. Not covered: the required
verdicts of a case (`case.toml`), and times of publishable quality.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    HarnessError,
    Paths,
    Report,
    Rules,
    check_source,
    compile_source,
    default_rules,
    default_suites,
    find_task,
    isolation_in_force,
    judge,
    keep_ready,
)
from scripts.corpus import KINDS, Case, read_cases

ROOT = Path(__file__).parents[2]
CONTROL = "mnist_linear_relu-forward-cuda/honest_loop"
_ORDER = ("honest", "attack", "failure")
_COLUMNS = "{:<2} {:<60} {:<34} {:<17} {:>7} {:>6}  {}"


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case. `report` is None where judging itself failed, and `error` then says how."""

    case: Case
    report: Report | None
    seconds: float
    error: str = ""
    after: str = ""  # what an honest kernel got right after it, if that was not PASS

    @property
    def objection(self) -> str:
        own = self.error if self.report is None else self.case.objection(self.report)
        return own or (f"an honest kernel right after it: {self.after}" if self.after else "")

    @property
    def got(self) -> str:
        return "INTERNAL_ERROR" if self.report is None else str(self.report.verdict)

    @property
    def speedup(self) -> float | None:
        return self.report.score.speedup if self.report and self.report.score else None

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, (self.objection, self.report.reason if self.report else "")))


JudgeCase = Callable[[Case], CaseOutcome]


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    cases = shared_out(select(read_cases("cuda"), options.words, options.kind), options.share)
    if not isolation_in_force().strong and not options.weak_sandbox:
        print(f"hostile kernels are not run here: {isolation_in_force().text}", file=sys.stderr)
        return 2
    started = time.monotonic()
    paths, rules = Paths(options.data), default_rules()
    control = next(case for case in read_cases("cuda") if case.name == CONTROL)
    try:
        compile_all([*cases, control], rules, paths, device=options.device, jobs=options.jobs)
    except HarnessError as error:
        print(f"nothing can be judged here: {error}", file=sys.stderr)
        return 2
    compiled_s = time.monotonic() - started
    judging = partial(judge_case, rules=rules, paths=paths, device=options.device, quick=options.quick)
    keep_ready()
    outcomes = []
    print(_COLUMNS.format("", "case", "expected", "got", "score", "s", "reason"))
    for outcome in run(cases, judging, control, deadline=started + options.budget_s):
        outcomes.append(outcome)
        print(_line(outcome), flush=True)
        if options.reports:
            _keep(outcome, options.reports)
    print(json.dumps(summary(cases, outcomes, compiled_s, time.monotonic() - started)))
    return 1 if any(outcome.objection for outcome in outcomes) else 0


def select(cases: Sequence[Case], words: Sequence[str], kind: str | None) -> list[Case]:
    """Cases whose name contains any of `words` (all, if there are none), honest controls first, failures last."""
    chosen = [case for case in cases if not words or any(word in case.name for word in words)]
    return sorted((case for case in chosen if kind in (None, case.kind)), key=lambda case: _ORDER.index(case.kind))


def shared_out(cases: Sequence[Case], share: str) -> list[Case]:
    """Those of one of several runs that are made side by side, `0/2` or `1/2`, one on each GPU."""
    number, count = map(int, share.split("/"))
    return list(cases[number::count])


def compile_all(cases: Sequence[Case], rules: Rules, paths: Paths, *, device: str, jobs: int) -> None:
    """Fills the build cache; what does not compile is found there by the judging."""

    def compile_one(case: Case) -> None:
        source, task, own = case.source(), find_task(default_suites(), case.task), case.changed(rules)
        if check_source(source, task, own).problem is None:
            compile_source(source, task, own, paths, device=device)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, cases))


def run(cases: Sequence[Case], judging: JudgeCase, control: Case, *, deadline: float) -> Iterator[CaseOutcome]:
    """Outcomes in order, until `deadline` (monotonic seconds) has passed at the start of a case."""
    for case in cases:
        if time.monotonic() > deadline:
            return
        outcome = judging(case)
        if case.kind == "failure":
            again = judging(control)
            after = again.objection and f"{again.got}: {again.reason}"
            outcome = CaseOutcome(case, outcome.report, outcome.seconds + again.seconds, outcome.error, after)
        yield outcome


def judge_case(case: Case, *, rules: Rules, paths: Paths, device: str, quick: bool) -> CaseOutcome:
    """One judging, or as many in a row as the case asks for; the last one counts."""
    started = time.monotonic()
    task, own, report, error = find_task(default_suites(), case.task), case.changed(rules), None, ""
    try:
        for _ in range(case.judgings):
            report = judge(case.source(), task, own, paths, device=device, quick=quick)
    except Exception as problem:  # noqa: BLE001 - process edge: what one case breaks must not hide the others
        report, error = None, f"{type(problem).__name__}: {problem}"
    return CaseOutcome(case, report, time.monotonic() - started, error)


def summary(
    cases: Sequence[Case], outcomes: Sequence[CaseOutcome], compiled_s: float, total_s: float
) -> dict[str, Any]:
    reached = {outcome.case.name for outcome in outcomes}
    return {
        "cases": len(cases),
        "judged": len(outcomes),
        "as_demanded": sum(not outcome.objection for outcome in outcomes),
        "disagreeing": {outcome.case.name: outcome.objection for outcome in outcomes if outcome.objection},
        "not_reached": [case.name for case in cases if case.name not in reached],
        "verdicts": dict(sorted(Counter(item.got for item in outcomes).items())),
        "compile_s": round(compiled_s, 1),
        "total_s": round(total_s, 1),
    }


def _line(outcome: CaseOutcome) -> str:
    expected = "|".join(item.removeprefix("INCORRECT_") for item in outcome.case.expect)
    score = "" if outcome.speedup is None else f"{outcome.speedup:.2f}"
    mark = "!!" if outcome.objection else "ok"
    words = " ".join(outcome.reason.split())[:160]
    return _COLUMNS.format(
        mark, outcome.case.name, expected[:34], outcome.got, score, f"{outcome.seconds:.0f}", words
    ).rstrip()


def _keep(outcome: CaseOutcome, file: Path) -> None:
    record = {
        "case": outcome.case.name,
        "objection": outcome.objection,
        "seconds": round(outcome.seconds, 1),
        "report": outcome.report.to_json() if outcome.report else None,
        "error": outcome.error,
    }
    with file.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.corpus", description="Judge the GPU corpus.")
    parser.add_argument("words", nargs="*", help="judge only cases whose name contains one of these")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--share", default="0/1", help="0/2 and 1/2 of the cases, for two runs on two GPUs")
    parser.add_argument("--quick", action="store_true", help="few steps, no torch.compile")
    parser.add_argument("--jobs", type=int, default=8, help="compilations at a time")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start no case after this many seconds")
    parser.add_argument("--reports", type=Path, help="append raw reports here, one JSON line each")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "gpu_corpus", help="where builds are kept")
    parser.add_argument("--weak-sandbox", action="store_true", help="run hostile kernels without bubblewrap")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
