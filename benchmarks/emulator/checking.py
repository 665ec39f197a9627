"""One check from source to report: translate, compile, run on small configurations in several orders, compare."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
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
from .build import SOURCE, emulated_build, lines_of, plain_names, prepare, unset_variable
from .reported import ReportedFinding, ReportedProblem
from .running import CheckPlan, Conversation, memories, reference_process, run_submission
from .sizes import emulated_configs, has_own_constant, sampled_config
from .translate import NotTranslated
from .verdicts import EmulatorFinding, EmulatorReport, EmulatorVerdict

SEEDS = (0, 1, 2)  # threads in their order, in reverse, at random
_BUDGET_S = 60.0
_ERROR = re.compile(rf"{re.escape(SOURCE)}:(\d{{1,9}}):\d+: (?:fatal )?error: ([^\n]{{1,300}})")
_SHARED_NAME = re.compile(r"shared variable (_Z\w+)")
_CHANCE = "coalesced lanes"  # the emulator made a choice that is a GPU's
_NOTES = ("uninitialised", "undefined shuffle", "not joined", _CHANCE)  # they count only where results are wrong, too
_DTYPES = {"float32", "int64", "bfloat16", "float8_e4m3fn"}  # of tensors
_RUNS_ON = ("race", "raised", "wrong result", "stale read", *_NOTES)  # a launch goes on after these


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
    others = sorted(_dtypes_of(check.task) - _DTYPES)
    if others:
        return _abstained(f"the emulator has no tensors of dtype {', '.join(others)}")
    configs = emulated_configs(check.task)
    if not configs:
        return _abstained("every configuration of this task is too large for the emulator")
    plan = CheckPlan(check.task, configs, SEEDS, sampled_config(check.task))
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
        talk.problems, talk.warnings = reference.problems(talk.done), build.log
        report = Transcript(plan, build.binary, talk, check.rules, check.paths).report()
    return replace(report, compile_s=round(build.seconds, 3))


def _dtypes_of(task: TaskSpec) -> set[str]:
    configs = [config for group in task.configs.values() for config in group]
    arguments = {item.dtype for config in configs for item in config.tensors}
    return arguments | {item.dtype for config in configs for item in config.results}


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
    """What the lines of a submission's process, the comparison and the compiler's warnings in `talk` amount to."""

    def __init__(self, plan: CheckPlan, binary: Path, talk: Conversation, rules: Rules, paths: Paths) -> None:
        self._plan, self._binary, self._talk = plan, binary, talk
        self._rules, self._paths = rules, paths

    def report(self) -> EmulatorReport:
        configs = tuple(config.key for config in self._plan.configs)
        return replace(self._verdict(), configs=configs, runs=len(self._talk.done))

    def _verdict(self) -> EmulatorReport:
        if self._talk.report.malformed:
            return _abstained("the submission's process sent a report that does not match its runs")
        wrong, notes = self._sorted(list(self._faults()))
        doubt = self._doubt(wrong) if wrong else None
        if doubt is not None:
            return doubt
        if wrong:
            first = min(wrong, key=lambda item: item.kind in ("wrong result", "raised"))  # its cause tells more
            return EmulatorReport(EmulatorVerdict.WRONG, f"{first.kind}: {first.sentence}", first.line, tuple(wrong))
        done, planned = len(self._compared()), len(self._plan.runs)
        enough = self._talk.overdue and done >= len(self._plan.configs)
        if (done < planned or self._talk.ended) and not enough:
            if self._talk.report.abstention is not None:
                return _abstained(*self._talk.report.abstention)
            return _abstained(f"the submission's process {self._talk.ended or 'stopped early'}")
        runs = f"{done} runs" if done == planned else f"{done} of {planned} runs before the time ran out"
        text = f"{len(self._plan.configs)} configurations, {runs}, all within tolerance"
        return EmulatorReport(
            EmulatorVerdict.CORRECT_HERE, text, notes=tuple(f"{it.kind}: {it.sentence}" for it in notes)
        )

    def _doubt(self, wrong_ones: Sequence[EmulatorFinding]) -> EmulatorReport | None:
        """Why faults, or wrong results where nothing else was found, are not held against a kernel."""
        found = [item.kind for item in self._talk.report.findings]
        if _CHANCE in found:
            first = wrong_ones[0]
            return _abstained(f"it may depend on which lanes a GPU runs together: {first.kind}: {first.sentence}")
        if "wrong result" in found or any(item.kind not in ("wrong result", *_NOTES) for item in wrong_ones):
            return None  # a fault, or the number, shape or dtype of results
        problems = {run: self._talk.problems.get(run.number) for run in self._talk.done}
        wrong = {run: problem for run, problem in problems.items() if problem is not None}
        run, problem = next(iter(wrong.items()))
        where = f"{problem.text} ({self._plan.key_of(run.number)})"
        if unset := unset_variable(self._talk.warnings):
            return _abstained(
                f"{unset[0]} used before it has a value; on a GPU its value may differ: {where}", unset[1]
            )
        own = [has_own_constant(self._plan.task, self._plan.configs[it.config]) for it in wrong]
        if not all(mine or it.near for mine, it in zip(own, wrong.values(), strict=True)):
            return None
        if own[0]:
            return _abstained(f"wrong only with a constant that no configuration of the task has: {where}")
        return _abstained(f"the error is within twice the tolerance, and a GPU rounds differently: {where}")

    def _compared(self) -> list[int]:
        return [run.number for run in self._talk.done if run.number in self._talk.problems]

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
        found = self._talk.report.findings
        traced = [item for item in found if isinstance(item, ReportedFinding)]
        places = lines_of(
            self._binary, [site for item in traced for site in (item.site, item.other_site)], self._rules, self._paths
        )
        names = self._plain_names(traced)
        seen = set()
        for item in found:
            config = self._plan.key_of(item.run)
            if isinstance(item, ReportedProblem):
                yield EmulatorFinding(item.kind, item.text, config)
                continue
            finding = _finding(item, config, places, names)
            if (finding.kind, finding.line, finding.other_line) not in seen:
                seen.add((finding.kind, finding.line, finding.other_line))
                yield finding
        yield from self._wrong_results()

    def _wrong_results(self) -> Iterator[EmulatorFinding]:
        """The first wrong run; where others of the configuration are right, the order of threads decides."""
        runs = self._talk.done
        for run in runs:
            problem = self._talk.problems.get(run.number)
            if problem is not None:
                right = any(not self._talk.problems.get(other.number) for other in runs if other.config == run.config)
                text = f"{problem.text}; with another order of threads it is right" if right else problem.text
                yield EmulatorFinding("wrong result", text, self._plan.key_of(run.number))
                return

    def _plain_names(self, found: Sequence[ReportedFinding]) -> dict[str, str]:
        mangled = sorted({name for item in found for name in _SHARED_NAME.findall(item.place)})[:32]
        return dict(zip(mangled, plain_names(mangled, self._rules, self._paths), strict=True))


def _finding(
    found: ReportedFinding, config: str, places: Mapping[int, int], names: Mapping[str, str]
) -> EmulatorFinding:
    """As a report shows it. Numbers that are none become None."""
    in_kernel, two = found.launch_line > 0, found.other_thread >= 0
    return EmulatorFinding(
        kind=found.kind,
        text=found.text,
        config=config,
        kernel=found.kernel if in_kernel else "",
        launch_line=found.launch_line if in_kernel else None,
        line=places.get(found.site) or (found.line if found.line > 0 else None),
        block=found.block if in_kernel else None,
        thread=found.thread if in_kernel else None,
        place=_SHARED_NAME.sub(lambda item: f"shared variable {_last(names.get(item[1], item[1]))}", found.place),
        other_line=places.get(found.other_site) if two else None,
        other_block=found.other_block if two else None,
        other_thread=found.other_thread if two else None,
    )


def _last(name: str) -> str:
    """`tile` of `kernel(float*)::tile`."""
    return name.rsplit("::", 1)[-1]
