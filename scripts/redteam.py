"""Judges every hostile file of the corpus and every honest control with the real judge: `make redteam`.

    python -m scripts.redteam [WORD ...] [--json] [--fresh] [--steps 20] [--quick]

Words select cases by part of their name or class. An attack may be refused as its case.toml says, or pass with at most
1.05 times the score of its honest control; where it seems to gain more, both are judged again before that is believed.
On a processor that is done together, in turns, five times, and the mean counts: a single ratio scatters by 5 percent.
A case that may not pass is judged by few calls, and by all of them only if those do not give the verdict that is
demanded. After each group of hostile cases the honest control of their task must pass by few calls, and files that lie
around the judge's folders must be as they were after every single case. A naive harness says what it makes of the same
builds. A run goes on where the last one stopped, unless the code of the judge (comments do not count), the rules or the
file have changed; one of all cases is written to docs/results/redteam. On two cores its cases took 80 minutes, an hour
of it for the 82 that were accepted. Scores mean something on at least two quiet cores alone; `--quick` judges all with
few steps and without torch.compile, `--verdicts` compares no scores at all, for a look on any machine. Exit code 0: all
is as it must be, 1: it is not, 2: nothing can be judged here. Not covered: GPUs with a naive harness, and what the site
does with a report.
"""

import argparse
import ast
import fcntl
import functools
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks.catalogue.attacks import GAIN_MAX, Attack, RedteamRun, by_exploit
from benchmarks.harness import (
    CPU,
    Device,
    HarnessError,
    Paths,
    Report,
    Rules,
    TaskSpec,
    Verdict,
    check_source,
    compile_source,
    default_rules,
    default_suites,
    devices_here,
    find_task,
    geometric_mean,
    isolation_in_force,
    judge,
    judge_together,
    keep_ready,
)
from benchmarks.naive import opinion
from scripts.canaries import Canaries
from scripts.corpus import CLASSES, Case, read_cases

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "redteam"
_VERDICT_STEPS = 4
_ATTEMPTS = 3
_SITTINGS, _STUDENT_T = 5, 2.776  # and its quantile for the 95 % interval of a mean of as many
_COLUMNS = "{:<2} {:<54} {:<26} {:<17} {:>8} {:>8} {:<34} {}"


@dataclass(frozen=True)
class Bench:
    """Where and under which rules cases are judged, and the files that must stay as they are."""

    device: Device
    rules: Rules
    paths: Paths
    canaries: Canaries
    quick: bool = False

    def judged(self, case: Case) -> Report:
        """The report on the last judging that the case asks for. Raises HarnessError."""
        few = None if self.quick or Verdict.PASS in case.expect else self.quickly(case)
        return few if few and not case.objection(few) else self._repeatedly(case, quick=self.quick)

    def quickly(self, case: Case) -> Report:
        """By few calls of one launch, without torch.compile: enough for a verdict. Raises HarnessError."""
        return self._repeatedly(case, quick=True)

    def _repeatedly(self, case: Case, *, quick: bool) -> Report:
        task, rules = find_task(default_suites(), case.task), case.changed(self.rules)
        for _ in range(case.judgings - 1):
            self._once(case, task, rules, quick=quick)
        return self._once(case, task, rules, quick=quick)

    def _once(self, case: Case, task: TaskSpec, rules: Rules, *, quick: bool) -> Report:
        for _ in range(_ATTEMPTS):
            report = judge(case.source(), task, rules, self.paths, device=self.device.name, quick=quick)
            if report.verdict is not Verdict.NOISY:  # which says that the machine was busy, nothing of the file
                break
        return report

    def together(self, case: Case, control: Case) -> tuple[Report, Report]:
        """Both in one sitting. Raises HarnessError."""
        task, rules = find_task(default_suites(), case.task), case.changed(self.rules)
        for _ in range(_ATTEMPTS):
            reports = judge_together(case.source(), control.source(), task, rules, self.paths)
            if all(report.verdict is not Verdict.NOISY for report in reports):
                break
        return reports


class Controls:
    """Honest kernels and their scores; after every group of hostile cases each must still pass."""

    def __init__(self, bench: Bench, cases: Sequence[Case]) -> None:
        self._bench = bench
        self._cases = {case.name: case for case in cases}
        self._speedups: dict[str, float] = {}
        self.judgings = 0

    def of(self, case: Case) -> Case | None:
        return self._cases.get(f"{case.folder.parent.name}/{case.control}") if case.control else None

    def speedup(self, control: Case) -> float:
        """Its latest score. Raises HarnessError if it does not pass."""
        return self._speedups.get(control.name) or self.judged(control)

    def judged(self, control: Case) -> float:
        self._speedups[control.name] = self.passed(control, self._bench.judged(control))
        return self._speedups[control.name]

    def passes(self, control: Case) -> None:
        """Raises HarnessError if it does not pass by few calls."""
        self.passed(control, self._bench.quickly(control))

    def passed(self, control: Case, report: Report) -> float:
        """The score in a report on it. Raises HarnessError if there is none."""
        self.judgings += 1
        if report.score is None:
            raise HarnessError(f"the honest control {control.name} got {report.verdict}: {report.reason}")
        return report.score.speedup


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    problem = _problem_of_machine(options)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    devices = {device.device_class: device for device in reversed(devices_here())}  # the first of each class
    named = [device for device in devices_here() if device.name == options.device]
    wanted = named or [devices[name] for name in sorted(devices) if options.device in (None, name)]
    with_cases = [device for device in wanted if chosen(read_cases(device.device_class), options.words)]
    if not with_cases:
        print("no such device is here, or no case for one has such a name or class", file=sys.stderr)
    return max((_on(device, options) for device in with_cases), default=2)


def _on(device: Device, options: argparse.Namespace) -> int:
    """The cases for one device, as an exit code; all of them leave a file."""
    options.data.mkdir(parents=True, exist_ok=True)
    with (options.data / "lock").open("w") as lock:  # two runs would take each other's canaries for changed
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _alone(device, options)


def _alone(device: Device, options: argparse.Namespace) -> int:
    everything = read_cases(device.device_class)
    cases = chosen(everything, options.words)
    steps = _VERDICT_STEPS if options.verdicts else options.steps
    rules, canaries = _with_steps(default_rules(), steps), Canaries(*_around(options.data))
    bench = Bench(device, rules, Paths(options.data), canaries, quick=options.verdicts or options.quick)
    controls = Controls(bench, [] if options.verdicts else everything)
    known = {} if options.fresh else _read(options.data / "attacks.jsonl")
    _compile_all([case for case in cases if _key(case, bench) not in known], bench, options.jobs)
    keep_ready()
    attacks: list[Attack] = []
    for attack in run(cases, bench, controls, known, options.data / "attacks.jsonl"):
        attacks.append(attack)
        print(line(attack), file=sys.stderr if options.json else sys.stdout, flush=True)
    result = _record(attacks, bench, controls, everything)
    if len(cases) == len(everything) and not bench.quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{result.device_kind}.json").write_text(json.dumps(result.to_json(), indent=1) + "\n")
    print(json.dumps(result.to_json()) if options.json else summary(result))
    return 1 if result.objections else 0


def chosen(cases: Sequence[Case], words: Sequence[str]) -> list[Case]:
    """Cases whose name or class contains any of `words` (all, if there are none), in groups of one task and class."""
    found = [case for case in cases if not words or any(word in f"{case.name} {case.class_title}" for word in words)]
    return sorted(found, key=_group)


def run(
    cases: Sequence[Case], bench: Bench, controls: Controls, known: dict[str, Attack], file: Path
) -> Iterator[Attack]:
    """Every case in order; one that was judged before under the same judge is taken from there."""
    for _, members in groupby(cases, key=_group):
        last: Case | None = None
        for case in members:
            key = _key(case, bench)
            if key not in known:
                known[key] = attacked(case, bench, controls)
                with file.open("a") as lines:
                    lines.write(json.dumps({"key": key, **asdict(known[key])}) + "\n")
                last = case
            yield known[key]
        control = controls.of(last) if last else None
        if last and control:
            problem = _problem_of_control(control, controls)
            if problem:
                yield replace(known[_key(last, bench)], case=f"{control.name} after", objection=problem)


def attacked(case: Case, bench: Bench, controls: Controls) -> Attack:
    """One case through the judge and the naive harness."""
    started, control = time.monotonic(), controls.of(case)
    report, control_speedup, objection = None, None, ""
    interval: tuple[float | None, float | None] = (None, None)
    bench.canaries.touched()
    try:
        control_speedup = controls.speedup(control) if control else None
        report = bench.judged(case)
        if control and _gain(report, control_speedup):
            control_speedup, report, interval = _again(case, control, bench, controls)
        objection = case.objection(report) or _gain(report, control_speedup)
    except Exception as problem:  # noqa: BLE001 - process edge: what one case breaks must not hide the others
        objection = f"{type(problem).__name__}: {problem}"
    touched = bench.canaries.touched()
    if touched:
        objection = f"{objection}; it changed {', '.join(touched)}".removeprefix("; ")
    naive, naive_speedup = _naive(case, bench)
    return Attack(
        case=case.name,
        kind=case.kind,
        exploit=CLASSES.get(case.exploit, ""),
        task=case.task,
        language=case.language,
        about=case.about,
        verdict=str(report.verdict) if report else "INTERNAL_ERROR",
        reason=report.reason if report else "",
        noticed=noticed(report),
        control=control.folder.name if control else "",
        control_speedup=control_speedup,
        speedup=report.score.speedup if report and report.score else None,
        naive=naive,
        naive_speedup=naive_speedup,
        seconds=round(time.monotonic() - started, 1),
        objection=objection,
        gain_low=interval[0],
        gain_high=interval[1],
    )


def _again(
    case: Case, control: Case, bench: Bench, controls: Controls
) -> tuple[float, Report, tuple[float | None, float | None]]:
    """The control's score, the report on the case and the interval of its gain.

    Raises HarnessError, also if the case is refused now: an attack that is caught only sometimes gains sometimes.
    """
    if bench.device.device_class != CPU or bench.quick:
        return controls.judged(control), bench.judged(case), (None, None)
    scores, theirs = [], []
    for _ in range(_SITTINGS):
        report, beside = bench.together(case, control)
        theirs.append(controls.passed(control, beside))
        if report.score is None:
            raise HarnessError(f"it gained in one judging and got {report.verdict} in another: {report.reason}")
        scores.append(report.score)
    logs = np.log([score.speedup for score in scores]) - np.log(theirs)
    reach = _STUDENT_T * logs.std(ddof=1) / math.sqrt(_SITTINGS)
    mean = geometric_mean([score.speedup for score in scores])
    report = replace(report, score=replace(scores[-1], speedup=mean, ci95=(mean, mean)))
    return geometric_mean(theirs), report, (math.exp(logs.mean() - reach), math.exp(logs.mean() + reach))


def noticed(report: Report | None) -> str:
    """The part of the judge that ended it, told from the verdict and the stage in which it came."""
    if report is None:
        return "nobody: the judge itself failed"
    stage = report.stages[-1].name if report.stages else "static"
    if report.verdict is Verdict.PASS:
        return "nobody; it gains nothing"
    if report.verdict is Verdict.REJECTED and "system call" in report.reason:
        return "the filter of system calls"
    if report.verdict.startswith("INCORRECT") or report.verdict is Verdict.NONDETERMINISTIC:
        return "the referee, while verifying" if stage == "verify" else "the referee, in a timed call"
    by_verdict = {
        Verdict.COMPILE_ERROR: "the compiler",
        Verdict.TAMPERING: "the supervisor, in a timed call" if stage == "time" else "the supervisor, while verifying",
        Verdict.TIMEOUT: "the limit on time",
        Verdict.OUT_OF_MEMORY: "the limit on memory",
        Verdict.RUNTIME_ERROR: "the supervisor: its process failed",
    }
    return by_verdict.get(report.verdict, "the static check" if stage == "static" else f"the stage {stage!r}")


def line(attack: Attack) -> str:
    words = attack.objection or (attack.reason if attack.speedup is None else attack.about)
    return _COLUMNS.format(
        "!!" if attack.objection else "ok",
        attack.case.replace("mnist_linear_relu", "linear_relu"),
        attack.exploit or attack.kind,
        attack.verdict,
        _times(attack.control_speedup),
        _times(attack.speedup),
        f"naive: {attack.naive} {_times(attack.naive_speedup)}",
        " ".join(words.split())[:110],
    ).rstrip()


def summary(result: RedteamRun) -> str:
    refused = sum(item.speedup is None for item in result.hostile)
    return (
        f"{result.device_kind}, {result.processor}, {result.ruleset}: {len(result.hostile)} hostile files, {refused} "
        f"refused, {len(result.hostile) - refused} without gain or under objection; {len(result.honest)} honest files "
        f"and {result.controls} judgings of controls; {len(result.objections)} objections; the naive harness believes "
        f"{len(result.believed)} attacks"
    )


def _gain(report: Report, control_speedup: float | None) -> str:
    if report.score is None or control_speedup is None or report.score.speedup <= GAIN_MAX * control_speedup:
        return ""
    return f"it scores {report.score.speedup:.2f} where its honest control scores {control_speedup:.2f}"


def _problem_of_control(control: Case, controls: Controls) -> str:
    try:
        controls.passes(control)
    except HarnessError as error:
        return str(error)
    return ""


def _naive(case: Case, bench: Bench) -> tuple[str, float | None]:
    """What the naive harness says; a file without a build has nothing to run."""
    task, rules = find_task(default_suites(), case.task), case.changed(bench.rules)
    if case.device != "cpu" or check_source(case.source(), task, rules).problem:
        return "not run", None
    build = compile_source(case.source(), task, rules, bench.paths)
    if build.binary is None:
        return "not built", None
    found = opinion(task, build.binary, rules, bench.paths)
    return found.said, found.speedup


def _compile_all(cases: Sequence[Case], bench: Bench, jobs: int) -> None:
    def compile_one(case: Case) -> None:
        task, rules = find_task(default_suites(), case.task), case.changed(bench.rules)
        if check_source(case.source(), task, rules).problem is None:
            compile_source(case.source(), task, rules, bench.paths, device=bench.device.name)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, cases))


def _with_steps(rules: Rules, steps: int | None) -> Rules:
    """The same rules with fewer steps and no demand on the width of the interval."""
    if steps is None:
        return rules
    few = {"steps_per_config": steps, "min_steps_per_config": min(steps, rules.time.min_steps_per_config)}
    score = replace(rules.score, max_half_width=float("inf"))
    return replace(rules, time=replace(rules.time, **few), score=score)


def _problem_of_machine(options: argparse.Namespace) -> str:
    if not isolation_in_force().strong:
        return f"hostile kernels are not run here: {isolation_in_force().text}"
    if len(os.sched_getaffinity(0)) < 2 and not options.verdicts:
        return "scores cannot be compared on one core, which clock and kernel would share: --verdicts looks at the rest"
    return ""


def _record(attacks: Sequence[Attack], bench: Bench, controls: Controls, everything: Sequence[Case]) -> RedteamRun:
    return RedteamRun(
        date=datetime.now(UTC).date().isoformat(),
        device_kind=bench.device.kind,
        processor=bench.device.model or bench.device.title,
        ruleset=bench.rules.name,
        torch=version("torch"),
        isolation=isolation_in_force().name,
        steps_per_config=bench.rules.time.steps_per_config,
        cases_in_corpus=len(everything),
        controls=controls.judgings,
        attacks=tuple(by_exploit(attacks)),
    )


def _group(case: Case) -> tuple[str, str, str, str]:
    return case.task, case.kind, case.exploit, case.control


def _key(case: Case, bench: Bench) -> str:
    """All that the outcome of a case depends on, beside the machine: its file and demands, the rules, the judge."""
    demands = (case.folder / "case.toml").read_text()
    numbers = f"{bench.device.kind}\0{bench.rules.text}\0{bench.rules.time}\0{bench.quick}"
    parts = [case.name, case.source().text, demands, numbers, _judge_digest(bench.device.device_class)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _judge_digest(device_class: str) -> str:
    """Of the judge and the naive harness, without comments; a judging on a processor has no part of the GPU's."""
    files = sorted(path for name in ("harness", "naive") for path in (ROOT / "benchmarks" / name).rglob("*"))
    wanted = [path for path in files if device_class != "cpu" or "gpu" not in path.parts]
    return hashlib.sha256("\0".join(map(code_of, wanted)).encode()).hexdigest()


def code_of(path: Path) -> str:
    """What a file of the judge does: no comments and no docstrings of Python; empty for files of other kinds."""
    if path.suffix in (".c", ".cpp", ".hpp"):
        return path.read_text()
    if path.suffix != ".py":
        return ""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def _read(file: Path) -> dict[str, Attack]:
    if not file.exists():
        return {}
    records = [json.loads(text) for text in file.read_text().splitlines()]
    return {item.pop("key"): Attack(**item) for item in records}


def _around(data: Path) -> tuple[Path, ...]:
    """Every folder that the judge writes in, and the ones above it."""
    return (data.parent, data, *(data / name for name in ("cache", "cache/builds", "scratch")))


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.redteam", description="Judge the corpus.")
    parser.add_argument("words", nargs="*", help="only cases whose name or class contains one of these")
    parser.add_argument("--device", help="this device (cuda:1), or the first of this class (cpu, cuda) alone")
    parser.add_argument("--json", action="store_true", help="the result as one line on stdout, the table on stderr")
    parser.add_argument("--fresh", action="store_true", help="judge again what was judged before")
    parser.add_argument("--steps", type=int, help="per configuration, in place of those of the rules: a quicker look")
    parser.add_argument("--quick", action="store_true", help="few steps, no torch.compile: a quicker look at scores")
    parser.add_argument("--verdicts", action="store_true", help="compare no scores: verdicts alone, with few steps")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilations at a time")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "redteam" / "data", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
