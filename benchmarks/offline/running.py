"""Judges many solutions one after the other, compiles the next ones meanwhile, and continues where it was stopped.

The key of a stored result contains everything that it depends on: problem, source, device, rules. So an unchanged
solution is judged once and a changed one again, and an interrupted run needs no other record of its progress. A file
that cannot be judged does not affect the others. An error of ours (noise, a fault of the judge) is tried once more and
not stored. Not covered: the assignment of files to problems (`solutions.py`) and the figures over all of them
(`outcomes.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..boards.labels import is_ranked
from ..harness import (
    CPU,
    Device,
    Examined,
    HarnessError,
    IsolationError,
    Paths,
    Report,
    Rules,
    Source,
    Step,
    SupervisorError,
    TaskSpec,
    UsageError,
    Verdict,
    Watcher,
    check_source,
    compile_source,
    digest,
    judge,
    machine_fingerprint,
)
from ..naive import NaiveResult, opinion
from .ahead import BuildsAhead
from .evaporation import evaporation
from .outcomes import NOT_JUDGED, Outcome
from .problems import TIMEOUT_S, demand_device, examined, source_for
from .records import read_record, write_record
from .solutions import Solution, text_of_solution

_FORM = "1"  # of what is kept; another word judges everything anew
Json = dict[str, Any]


@dataclass(frozen=True)
class EvalSettings:
    """How solutions are judged.

    `naive` asks the usual script about each file too; `again` uses nothing that an earlier run has kept.
    """

    device: Device
    rules: Rules
    paths: Paths
    quick: bool = False
    naive: bool = False
    again: bool = False
    timeout_s: float = TIMEOUT_S


def evaluate(
    solutions: tuple[Solution, ...], folder: Path, how: EvalSettings, watch: Callable[[Solution], Watcher]
) -> Iterator[Outcome]:
    """One outcome per solution, in their order. Raises IsolationError, which would meet every other solution too."""
    problems: dict[str, Examined | HarnessError] = {}

    def compiled(source: Source, task: TaskSpec, watcher: Watcher) -> None:
        if check_source(source, task, how.rules).problem is None:
            compile_source(source, task, how.rules, how.paths, device=how.device.name, watcher=watcher)

    with BuildsAhead(compiled) as builds:
        for number, solution in enumerate(solutions):
            watcher = watch(solution)
            for later in solutions[number : number + 1 + builds.places]:
                if later.problem.name not in problems:
                    watcher.on_step(Step("examine", "started", text="the problem"))
                    problems[later.problem.name] = _examined(later, how)
                if later is not solution:
                    _start(builds, later, problems[later.problem.name], folder, how)
            yield _told(solution, problems[solution.problem.name], folder, how, watcher)


def _examined(solution: Solution, how: EvalSettings) -> Examined | HarnessError:
    try:
        device = CPU if how.device.device_class == CPU else how.device.name
        return examined(solution.problem, how.paths, device=device, timeout_s=how.timeout_s, again=how.again)
    except IsolationError:
        raise
    except HarnessError as error:
        return error


def _told(
    solution: Solution, found: Examined | HarnessError, folder: Path, how: EvalSettings, watcher: Watcher
) -> Outcome:
    """The outcome, whatever goes wrong. Raises IsolationError alone."""
    name = solution.problem.name
    try:
        if isinstance(found, HarnessError):
            raise found
        return _outcome(solution, found, folder, how, watcher)
    except IsolationError:
        raise
    except UsageError as error:
        return Outcome(name, solution.file, NOT_JUDGED, str(error))
    except HarnessError as error:
        return Outcome(name, solution.file, Verdict.INTERNAL_ERROR.value, f"{type(error).__name__}: {error}")


def _start(
    builds: BuildsAhead, solution: Solution, found: Examined | HarnessError, folder: Path, how: EvalSettings
) -> None:
    """Compiles a solution ahead, unless it cannot be judged or has been."""
    task = None if isinstance(found, HarnessError) else found.task
    if task is None or how.device.device_class not in task.configs:
        return
    with suppress(UsageError):  # a file that cannot be read, or a solution in JSON that cannot be used
        source = source_for(solution.file, text_of_solution(folder, solution.file), task)
        if how.again or not _place(source, task, how).with_suffix(".report").is_file():
            builds.start(source, task)


def _outcome(solution: Solution, found: Examined, folder: Path, how: EvalSettings, watcher: Watcher) -> Outcome:
    if found.task is None:
        return Outcome(
            solution.problem.name, solution.file, NOT_JUDGED, f"its problem cannot be judged: {found.problem}"
        )
    demand_device(found.task, how.device.device_class)
    source = source_for(solution.file, text_of_solution(folder, solution.file), found.task)
    place = _place(source, found.task, how)
    report = _report(source, found.task, how, watcher, place.with_suffix(".report"))
    outcome = _outcome_of(report, solution, found)
    if not how.naive:
        return outcome
    watcher.on_step(Step("naive", "started", text="the usual script"))
    said = _said(source, found.task, how, place.with_suffix(".naive"))
    claimed = said.speedup
    ranked = is_ranked(found.labels)
    lost = None if claimed is None else evaporation(claimed, report, found.task, how.device.device_class, ranked=ranked)
    return replace(outcome, naive=said.said, naive_speedup=claimed, evaporation=lost)


def _outcome_of(report: Json, solution: Solution, found: Examined) -> Outcome:
    outcome = Outcome(
        problem=solution.problem.name,
        file=solution.file,
        verdict=report["verdict"],
        reason=report["reason"],
        language=report["language"],
        labels=found.labels,
    )
    score = report["score"]
    if score is None:
        return outcome
    figures = {name: score[name] for name in ("speedup", "vs_eager", "vs_compile")}
    return replace(outcome, **figures, ci95=tuple(score["ci95"]))


def _report(source: Source, task: TaskSpec, how: EvalSettings, watcher: Watcher, file: Path) -> Json:
    """The JSON form of the report, from an earlier run if it was kept."""
    kept = None if how.again else read_record(file)
    if kept is not None:
        return kept
    report = _judged(source, task, how, watcher)
    data = report.to_json()
    if not report.verdict.ours:
        write_record(file, data)
    return data


def _judged(source: Source, task: TaskSpec, how: EvalSettings, watcher: Watcher) -> Report:
    def once() -> Report:
        device = how.device.name
        return judge(source, task, how.rules, how.paths, device=device, quick=how.quick, watcher=watcher)

    try:
        report = once()
    except SupervisorError:
        return once()
    return once() if report.verdict.ours else report


def _said(source: Source, task: TaskSpec, how: EvalSettings, file: Path) -> NaiveResult:
    """What the usual script says, from an earlier run if it was kept."""
    kept = None if how.again else read_record(file)
    if kept is not None:
        return NaiveResult(kept["said"], kept["speedup"])
    found = _asked(source, task, how)
    write_record(file, {"said": found.said, "speedup": found.speedup})
    return found


def _asked(source: Source, task: TaskSpec, how: EvalSettings) -> NaiveResult:
    if check_source(source, task, how.rules).problem:
        return NaiveResult("not run")
    binary = compile_source(source, task, how.rules, how.paths, device=how.device.name).binary
    if binary is None:
        return NaiveResult("not built")
    return opinion(task, binary, how.rules, how.paths, device=how.device)


def _place(source: Source, task: TaskSpec, how: EvalSettings) -> Path:
    """Of what is kept, without the suffix."""
    of_the_file = (task.content_sha256, source.language, source.sha256)
    key = digest(_FORM, *of_the_file, how.rules.text, how.device.kind, machine_fingerprint(), str(how.quick))
    return how.paths.data.resolve() / "evals" / key[:40]
