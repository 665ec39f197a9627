"""One check from source to report: translate, compile, run on small configurations in several orders, compare."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..harness import (
    Build,
    CancelCheck,
    Paths,
    Rules,
    Source,
    TaskSpec,
    UsageError,
    Watcher,
    check_source,
    host_build_lock,
    never_cancelled,
)
from .build import SOURCE, emulated_build, lines_of, plain_names, prepare
from .running import CheckPlan, Conversation, PlannedRun, memories, reference_process, run_submission
from .sizes import emulated_configs
from .translate import NotTranslated
from .verdicts import EmulatorFinding, EmulatorReport, EmulatorVerdict

SEEDS = (0, 1, 2)  # threads in their order, in reverse, at random
_BUDGET_S = 60.0
_ERROR = re.compile(rf"{re.escape(SOURCE)}:(\d+):\d+: (?:fatal )?error: ([^\n]{{1,300}})")
_SHARED_NAME = re.compile(r"shared variable (_Z\w+)")
_NOTES = ("uninitialised", "undefined shuffle")  # they count only where results are wrong, too
_RUNS_ON = ("race", "raised", "wrong result", *_NOTES)  # a launch goes on after these
_LEFT_OUT = ("raised", "result")


@dataclass(frozen=True)
class _Check:
    """What every step of one check needs."""

    source: Source
    task: TaskSpec
    rules: Rules
    paths: Paths
    budget_s: float
    cancelled: CancelCheck


def check(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    budget_s: float = _BUDGET_S,
    cancelled: CancelCheck = never_cancelled,
) -> EmulatorReport:
    """Uses the processor as a build does: beside other builds, never beside a timing.

    Raises UsageError for another language than CUDA, Cancelled, and SupervisorError where there is no compiler.
    """
    if source.language != "cuda":
        raise UsageError("only CUDA sources are checked without a GPU")
    with host_build_lock("compile", Watcher(cancelled=cancelled)):
        started = time.monotonic()
        report = _checked(_Check(source, task, rules, paths, budget_s, cancelled))
        return replace(report, seconds=round(time.monotonic() - started, 3))


def _checked(check: _Check) -> EmulatorReport:
    found = check_source(check.source, check.task, check.rules)
    if found.problem:
        return EmulatorReport(EmulatorVerdict.WRONG, found.problem)
    configs = emulated_configs(check.task)
    if not configs:
        return _abstained("every configuration of this task is too large for the emulator")
    plan = CheckPlan(check.task, configs, SEEDS)
    with memories(plan) as fds, reference_process(plan, fds, check.paths) as reference:
        try:
            build = emulated_build(check.source, check.rules, check.paths, check.cancelled)
        except NotTranslated as error:
            return _abstained(error.text, error.line)
        if build.binary is None:
            return _not_compiled(build)
        reference.drawn()
        files = (build.binary, prepare(check.rules, check.paths) / "launcher")
        talk = run_submission(
            files, plan, fds, check.rules, check.paths, budget_s=check.budget_s, cancelled=check.cancelled
        )
        talk.problems = reference.problems(talk.done)
        report = Transcript(plan, build.binary, talk, check.rules, check.paths).report()
    return replace(report, compile_s=round(build.seconds, 3))


def _abstained(reason: str, line: int | None = None) -> EmulatorReport:
    return EmulatorReport(EmulatorVerdict.ABSTAINED, reason, line)


def _not_compiled(build: Build) -> EmulatorReport:
    """The compiler of C++ is not nvcc, so what it refuses may be right."""
    error = _ERROR.search(build.log)
    if error is None:
        return _abstained(
            "the emulator's compiler failed" if build.exit_code is not None else "compiling took too long"
        )
    return _abstained(f"the emulator's compiler does not accept it: {error[2]}", int(error[1]))


class Transcript:
    """What the lines of a submission's process and the comparison amount to."""

    def __init__(self, plan: CheckPlan, binary: Path, talk: Conversation, rules: Rules, paths: Paths) -> None:
        self._plan, self._binary, self._talk = plan, binary, talk
        self._rules, self._paths = rules, paths

    def report(self) -> EmulatorReport:
        configs = tuple(config.key for config in self._plan.configs)
        return replace(self._verdict(), configs=configs, runs=len(self._talk.done))

    def _verdict(self) -> EmulatorReport:
        wrong, notes = self._sorted(list(self._faults()))
        if wrong:
            first = min(wrong, key=lambda item: item.kind in ("wrong result", "raised"))  # its cause tells more
            return EmulatorReport(EmulatorVerdict.WRONG, f"{first.kind}: {first.sentence}", first.line, tuple(wrong))
        abstention = next((line for line in self._talk.lines if line[0] == "abstain" and len(line) >= 3), None)
        if abstention is not None:
            line = int(abstention[1]) if abstention[1].isdecimal() and abstention[1] != "0" else None
            return _abstained(abstention[2], line)
        if {run.config for run in self._talk.done} != set(range(len(self._plan.configs))):
            return _abstained(f"the submission's process {self._talk.ended or 'stopped early'}")
        text = f"{len(self._plan.configs)} configurations, {len(self._talk.done)} runs, all within tolerance"
        return EmulatorReport(
            EmulatorVerdict.CORRECT_HERE, text, notes=tuple(f"{it.kind}: {it.sentence}" for it in notes)
        )

    def _sorted(self, found: list[EmulatorFinding]) -> tuple[list[EmulatorFinding], list[EmulatorFinding]]:
        """Faults, and notes that count only beside a wrong result."""
        wrong = [item for item in found if item.kind not in _NOTES]
        notes = [item for item in found if item.kind in _NOTES]
        if any(item.kind == "wrong result" for item in wrong):
            wrong, notes = [*wrong, *notes], []
        if any(item.kind not in _RUNS_ON for item in wrong):  # the rest follows from a launch that was stopped
            wrong = [item for item in wrong if item.kind not in ("wrong result", "raised")]
        return wrong, notes

    def _faults(self) -> Iterator[EmulatorFinding]:
        lines = [line for line in self._talk.lines if line[0] == "finding" and len(line) >= 17]
        sites = [int(part) for line in lines for part in line[6:8] if part.isdecimal()]
        places = lines_of(self._binary, sites, self._rules, self._paths)
        names = self._plain_names(lines)
        config, seen = "", set()
        for line in self._talk.lines:
            if line[0] == "begin":
                config = self._config_of(line[1:2])
            elif line in lines:
                finding = _finding(line, config, places, names)
                if (finding.kind, finding.line, finding.other_line) not in seen:
                    seen.add((finding.kind, finding.line, finding.other_line))
                    yield finding
            elif line[0] in _LEFT_OUT and len(line) > 1:
                yield EmulatorFinding("raised" if line[0] == "raised" else "wrong result", line[1], config)
        yield from self._wrong_results()

    def _wrong_results(self) -> Iterator[EmulatorFinding]:
        """The first wrong run; where others of the configuration are right, the order of threads decides."""
        spoilt = {line[1] for line in _spoilt(self._talk.lines)}
        runs = [run for run in self._talk.done if str(run.number) not in spoilt]
        for run in runs:
            problem = self._talk.problems.get(run.number, "")
            if problem:
                right = any(not self._talk.problems.get(other.number) for other in runs if other.config == run.config)
                text = f"{problem}; with another order of threads it is right" if right else problem
                yield EmulatorFinding("wrong result", text, self._key(run))
                return

    def _plain_names(self, lines: Sequence[Sequence[str]]) -> dict[str, str]:
        mangled = sorted({item for line in lines for item in _SHARED_NAME.findall(line[3])})[:32]
        return dict(zip(mangled, plain_names(mangled, self._rules, self._paths), strict=True))

    def _key(self, run: PlannedRun) -> str:
        return self._plan.configs[run.config].key

    def _config_of(self, words: Sequence[str]) -> str:
        numbers = {str(run.number): run for run in self._plan.runs}
        return self._key(numbers[words[0]]) if words and words[0] in numbers else ""


def _spoilt(lines: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The beginnings of runs that gave no results, so that there is nothing to compare."""
    begin: Sequence[str] = ()
    for line in lines:
        if line[0] == "begin" and len(line) > 1:
            begin = line
        elif line[0] in _LEFT_OUT and begin:
            yield begin


def _finding(line: Sequence[str], config: str, places: dict[int, int], names: dict[str, str]) -> EmulatorFinding:
    """One `finding` line. Numbers that are none become None."""
    numbers = [int(part) if re.fullmatch(r"-?\d{1,12}", part) else -1 for part in line[5:17]]
    launch_line, site, other_site, *rest = numbers
    place = _SHARED_NAME.sub(lambda item: f"shared variable {_last(names.get(item[1], item[1]))}", line[3])
    in_kernel = launch_line > 0
    return EmulatorFinding(
        kind=line[1][:60],
        text=line[2],
        config=config,
        kernel=line[4] if in_kernel else "",
        launch_line=launch_line if in_kernel else None,
        line=places.get(site) or (rest[8] if rest[8] > 0 else None),
        block=(rest[0], rest[1], rest[2]) if in_kernel else None,
        thread=(rest[3], rest[4], rest[5]) if in_kernel else None,
        place=place,
        other_line=places.get(other_site) if rest[7] >= 0 else None,
        other_block=rest[6] if rest[7] >= 0 else None,
        other_thread=rest[7] if rest[7] >= 0 else None,
    )


def _last(name: str) -> str:
    """`tile` of `kernel(float*)::tile`."""
    return name.rsplit("::", 1)[-1]
