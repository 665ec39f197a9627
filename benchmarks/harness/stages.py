"""Judges one submission in stages: static check, compile, prepare baselines, verify, time, report.

`judge` blocks until the report is complete, and a device runs one judging at a time. The calling process is the
supervisor: it loads neither torch nor the submission, and has no context on a GPU. Differences between devices are in
`tracks.py`. Not covered: queues, retries and who may submit.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from .compilers import builds
from .compilers.builds import Build
from .compilers.static_checks import check_source
from .errors import (
    AuditBroken,
    Cancelled,
    ChildSurvived,
    LacksMemory,
    NotAwake,
    Overloaded,
    ProcessLost,
    ProcessorsBusy,
    SupervisorError,
    UsageError,
)
from .gpu.standing import GpuSessionKeeper
from .hosts.machine import Peaks, pinned_to
from .hosts.processors import processor
from .languages import LANGUAGES
from .measuring.baselines import MachineLock, Preparation, PreparedBaseline
from .measuring.calls import Judging
from .measuring.faults import DEVICE_STUCK, Fault, Stuck, first_line, lack_in_preparing, lost_to_the_machine
from .measuring.session import Session
from .measuring.standing import SessionKeeper
from .measuring.tally import hidden_words
from .protocol import clean_text
from .report import ConfigReport, Flag, Report, Score, StageReport, Verdict
from .rules import Rules, look_rules, quick_rules
from .sandbox.isolation import Isolation, demand_isolation
from .sandbox.outbox import discard, log_end, scratch_folder
from .scores import scoring
from .scores.stats import PairedTimes
from .source import NOBODY, Paths, Source, Step, Watcher
from .tasks.spec import Config, TaskSpec
from .tracks import CpuTrack, GpuTrack, Track, open_track

T = TypeVar("T")
_LOG_BYTES = 16 * 1024
_TRIES = 3  # to have build and baselines there when the device is free
_LATE_FLAG_US = 5.0
_OTHERS_WAIT = "other submissions were waiting for the device"


def judge(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    device: str = "cpu",
    quick: bool = False,
    public: bool = False,
    rehearsal: bool = False,
    watcher: Watcher = NOBODY,
) -> Report:
    """Judges `source` on `task`. With `quick` there are few steps and no torch.compile, and the result is not ranked.

    The times of a `rehearsal` are used nowhere, so on a CPU other sources may be built at the same time.

    Raises UsageError, IsolationError (`public` without a strong sandbox), SupervisorError (of the judge), Cancelled.
    """
    track = open_track(device, quick_rules(rules) if quick else rules, paths)
    return StagedJudging(source, task, track, quick, watcher, rehearsal).judged(demand_isolation(public=public))


def look(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    device: str,
    keeper: SessionKeeper | GpuSessionKeeper,
    watcher: Watcher = NOBODY,
) -> Report:
    """A quick judging, after which `keeper` keeps referee and eager running for the next look at the same task.

    Raises what `judge` raises, and NotStanding if `keeper` cannot serve this submission.
    """
    track = open_track(device, look_rules(rules), paths)
    if isinstance(track, CpuTrack) and isinstance(keeper, SessionKeeper):
        track.keeper = keeper
    if isinstance(track, GpuTrack) and isinstance(keeper, GpuSessionKeeper):
        track.keeper = keeper
    return StagedJudging(source, task, track, True, watcher).judged(demand_isolation(public=False))


def audit(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    report: Report,
    device: str,
    watcher: Watcher = NOBODY,
) -> Report:
    """Checks the times in `report` with NVIDIA's tools; returns it with the outcome, `audited` or TAMPERING.

    `report` must be an accepted report on the same source. Raises UsageError for a device without such tools, and
    SupervisorError if they do not work.
    """
    track = open_track(device, rules, paths)
    build = builds.build(source, rules, paths, target=track.target, cancelled=watcher.cancelled)
    if report.score is None or build.binary is None:
        raise UsageError("only an accepted submission can be audited")
    started = time.monotonic()
    with track.lock(watcher), scratch_folder("audit-", paths.scratch) as scratch:
        watcher.on_step(Step("audit", "started"))
        results = {item.key: item for item in report.configs}
        try:
            found = track.audit(task, build.binary, results, scratch, watcher.cancelled)
        except AuditBroken as broken:
            return replace(report, gates=(*report.gates, Flag("not-audited", f"It could not be audited: {broken}.")))
        except ChildSurvived:  # the only process started is the submission under a tool
            stuck = Stuck()
            flags = (*report.flags, Flag(DEVICE_STUCK, stuck.reason))
            return replace(report, verdict=stuck.verdict, reason=stuck.reason, score=None, flags=flags)
        finally:
            watcher.on_step(Step("audit", "finished"))
    stages = (*report.stages, StageReport("audit", time.monotonic() - started))
    if found["agrees"]:
        trust = "replayed" if report.score.timing_trust == "replayed" else "audited"
        score = replace(report.score, timing_trust=trust)
        return replace(report, score=score, audit=found, stages=stages)
    reason = f"the audit contradicts the judging: {found['problems'][0]}"
    return replace(report, verdict=Verdict.TAMPERING, reason=reason, score=None, audit=found, stages=stages)


@dataclass
class StagedJudging:
    """One judging in progress. It collects what the report needs, so there is a report even if it ends early."""

    source: Source
    task: TaskSpec
    track: Track
    quick: bool
    watcher: Watcher
    rehearsal: bool = False
    locked: bool = False  # whoever made this holds the lock of the machine
    stages: list[StageReport] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    gates: tuple[Flag, ...] = ()
    results: tuple[ConfigReport, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    _log_of_stage: str = ""
    _exit_code_of_stage: int | None = None
    _session: Session[Any] | None = None

    def judged(self, isolation: Isolation) -> Report:
        self.environment |= {"isolation": isolation.text, "cpu": processor().model}
        try:
            score, reason, results = self.run()
            return self.report(Verdict.PASS, reason, isolation.name, score=score, configs=results)
        except Fault as fault:
            if isinstance(fault, Stuck):
                self.flags.append(Flag(DEVICE_STUCK, fault.reason))
            return self.report(fault.verdict, fault.reason, isolation.name, configs=self.results)
        except Overloaded as overloaded:
            return self.report(Verdict.NOISY, overloaded.reason, isolation.name, configs=self.results)

    def run(self) -> tuple[Score, str, tuple[ConfigReport, ...]]:
        self._stage("static", self._check)
        for _ in range(_TRIES):
            build, prepared = self._made()
            with self._lock(self.track.rehearsal_lock if self.rehearsal else self.track.lock)(self.watcher):
                if build.is_kept() and prepared.is_kept():
                    return self._on_device(build, prepared)
        raise SupervisorError("while the judging waited for the device, what it needs was removed again and again")

    def _made(self) -> tuple[Build, PreparedBaseline]:
        with nullcontext() if self.locked or self._is_built() else self.track.build_lock(self.watcher):
            build = self._stage("compile", self._build)
            self.track.prepare_tools()
        with lack_in_preparing(), self._preparation.turn(self.paths, self._lock(self.track.prepare_lock)):
            return build, self._stage("prepare", lambda: self._preparation.compiled(self.paths))

    def _on_device(self, build: Build, prepared: PreparedBaseline) -> tuple[Score, str, tuple[ConfigReport, ...]]:
        self.environment |= {**self.track.record(), **builds.compiler_environment(self.source.language)}
        if not self.rehearsal:
            self._preparation.peaks(self.paths)  # measured now, before any contestant is started
        try:
            with scratch_folder("judge-", self.paths.scratch) as scratch:
                return self._run_session(build, prepared, scratch)
        except (SupervisorError, Fault) as error:
            self.track.excuse(error)
            is_no_fault = isinstance(error, Fault | NotAwake | ProcessorsBusy)  # of a process that met the submission
            if not is_no_fault and self._session is not None and not self._session.is_alone:
                self._blame(build, prepared, error)
            raise
        finally:
            self.track.finished()

    def _lock(self, wanted: MachineLock) -> MachineLock:
        return (lambda _: nullcontext()) if self.locked else wanted

    def _blame(self, build: Build, prepared: PreparedBaseline, error: Exception) -> None:
        """Repeats the judging without the submission. Raises Fault if that works: the submission caused `error`.

        If it fails too, `error` stays ours; only NOISY is passed on. So is what the machine did to one of ours, unless
        a process of the submission was ended for its memory as well.
        """
        assert build.binary is not None  # noqa: S101 - _build raises if there is no binary
        assert self._session is not None  # noqa: S101 - who has no session is not blamed
        if isinstance(error, ProcessLost) or any(child.is_lost() for child in self._session.trusted()):
            if any(child.has_overrun or child.was_ended for child in self._session.untrusted()):
                raise Fault(Verdict.OUT_OF_MEMORY, "a process of it took more than a sandbox may have") from error
            raise lost_to_the_machine("a process of the judge") from error
        fills = self._session.last_fills()
        with scratch_folder("control-", self.paths.scratch) as scratch:
            new = self.track.control(self.task, self.configs, build.binary, prepared, scratch)
            if new is None:
                return
            try:
                with new as session:
                    Judging(session, Watcher(cancelled=self.watcher.cancelled)).control(fills)
            except Fault as fault:
                if fault.verdict is Verdict.NOISY:
                    raise
                return
        if isinstance(error, LacksMemory):
            raise Fault(Verdict.OUT_OF_MEMORY, str(error)) from error
        reason = f"the judging failed while the submission ran and works without it: {first_line(str(error))}"
        verdict = Verdict.OUT_OF_MEMORY if self.track.lacked_memory(error) else Verdict.RUNTIME_ERROR
        raise Fault(verdict, reason) from error

    @property
    def rules(self) -> Rules:
        return self.track.rules

    @property
    def paths(self) -> Paths:
        return self.track.paths

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        return self.track.configs(self.task)

    def report(
        self,
        verdict: Verdict,
        reason: str,
        isolation: str,
        *,
        score: Score | None = None,
        configs: tuple[ConfigReport, ...] = (),
    ) -> Report:
        return Report(
            task=self.task.name,
            suite=self.task.suite,
            language=self.source.language,
            device_kind=self.track.device.kind,
            ruleset=self.rules.name,
            verdict=verdict,
            reason=reason,
            source_sha256=self.source.sha256,
            score=score,
            configs=configs,
            stages=tuple(self.stages),
            flags=tuple(self.flags),
            gates=self.gates,
            isolation=isolation,
            environment={**self.environment, "quick": self.quick},
        )

    def _check(self) -> None:
        if self.source.language in LANGUAGES and not self.track.speaks(self.source.language):
            raise Fault(Verdict.REJECTED, f"{self.source.language} is not judged on {self.track.device.name}")
        found = check_source(self.source, self.task, self.rules)
        self.flags += found.flags
        if found.problem:
            raise Fault(Verdict.REJECTED, found.problem)
        if missing := self.track.lacks(self.source.language):
            raise Fault(Verdict.INTERNAL_ERROR, missing)

    def _build(self) -> Build:
        build = builds.build(
            self.source, self.rules, self.paths, target=self.track.target, cancelled=self.watcher.cancelled
        )
        if self.watcher.cancelled():
            raise Cancelled
        self._log_of_stage = build.log[-_LOG_BYTES:]
        self._exit_code_of_stage = build.exit_code
        self.environment |= {"build_seconds": round(build.seconds, 3), "build_cached": build.cached}
        if build.exit_code is None:
            reason = f"compiling took more than {self.rules.compile.timeout_s:g} s"
            raise ProcessorsBusy(reason) if build.is_starved else Fault(Verdict.TIMEOUT, reason)
        if build.by_machine:
            raise Fault(Verdict.INTERNAL_ERROR, "the machine kept the compiler from its work, also the second time")
        if build.binary is None:
            raise Fault(Verdict.COMPILE_ERROR, build.problem or _first_error(build.log))
        return build

    def _is_built(self) -> bool:
        return builds.kept(self.source, self.rules, self.paths, target=self.track.target) is not None

    @cached_property
    def _preparation(self) -> Preparation:
        return self.track.preparation(self.task, self.watcher, stage="prepare", quick=self.quick)

    def _run_session(
        self, build: Build, prepared: PreparedBaseline, scratch: Path
    ) -> tuple[Score, str, tuple[ConfigReport, ...]]:
        assert build.binary is not None  # noqa: S101 - _build raises if there is no binary
        self._log = _VisibleLog(scratch / "candidate0.log")
        with ExitStack() as stack:
            self._session = new = self.track.session(self.task, self.configs, build.binary, prepared, scratch)
            session = self._stage("load", lambda: self._load(stack, new))
            with pinned_to(self.track.cores.supervisor):
                self.environment |= self.track.before()
                judging = Judging(session, Watcher(self._listen, self.watcher.cancelled))
                score, reason, finished = self._judge_calls(judging)
            self.results = finished = self._with_energy(finished)
            with pinned_to(self.track.cores.supervisor):  # as while they were timed
                self.environment |= self.track.confirm(judging)
            return score, reason, finished

    def _load(self, stack: ExitStack, session: Session[Any]) -> Session[Any]:
        try:
            return stack.enter_context(session)
        finally:
            self._log_of_stage = self._log.read()

    def _judge_calls(self, judging: Judging) -> tuple[Score, str, tuple[ConfigReport, ...]]:
        try:
            self._stage("verify", lambda: self._calls(judging, judging.verify))
            self._stage("time", lambda: self._calls(judging, judging.time))
        finally:
            self.results = tuple(
                item.result(key) for item, key in zip(judging.ledgers, _shown_keys(self.configs), strict=True)
            )
        self.results, found = self.track.after(judging, self.results)
        self.environment |= found
        if found.get("not_replayed"):
            self.flags.append(
                Flag("not-replayed", f"The calls were timed in the submission's own process: {found['not_replayed']}")
            )
        return self._scored(judging)

    def _with_energy(self, finished: tuple[ConfigReport, ...]) -> tuple[ConfigReport, ...]:
        """Measures the energy last. It changes neither verdict nor score; if it fails, the report is still valid."""
        if self.quick or self.rehearsal or self._session is None:
            return finished
        started_s = time.monotonic()
        try:
            if self.watcher.others_wait():
                unknown = _OTHERS_WAIT
            else:
                finished, unknown = self.track.energy(self._session, finished)
        except (SupervisorError, Fault, OSError) as error:
            unknown = f"measuring it failed: {first_line(str(error))}"
        if unknown:
            self.environment["energy_unknown"] = unknown
        self.environment["energy_s"] = round(time.monotonic() - started_s, 2)
        return finished

    def _calls(self, judging: Judging, run: Callable[[], None]) -> None:
        try:
            run()
        finally:
            self._log_of_stage = self._log.read()
        if judging.fault is not None:
            config, fault = judging.fault
            where = "a hidden configuration" if config.hidden else config.key
            raise fault.told_as(f"{hidden_words(config, fault)} ({where})")

    def _scored(self, judging: Judging) -> tuple[Score, str, tuple[ConfigReport, ...]]:
        times: dict[str, PairedTimes] = {}
        gathered_us, used_up_us = ({}, 0.0) if self.quick else (judging.gathered_us(), judging.used_up_us())
        for number, (config, result) in enumerate(zip(self.configs, self.results, strict=True)):
            if not config.hidden:
                found = judging.paired_times(number)
                extra_us = gathered_us.get(number, 0.0)
                times[result.key] = replace(found, kernel_us=found.kernel_us + extra_us + used_up_us)
                self._remark(judging, number, config, extra_us)
        if used_up_us > 0:
            told = "each call uses new memory that was prepared before the call"
            self.flags.append(Flag("memory-used-up", f"{told}; {used_up_us:.0f} µs are added to each call for this"))
        finished = self._with_times(times, None if self.rehearsal else self._preparation.peaks(self.paths))
        if scoring.under_the_floor(finished, self.rules):
            finished = self._with_times(times, self._preparation.peaks(self.paths, again=True))
        timed = [item for item in finished if item.group != "hidden"]
        score = scoring.score(timed, times, self.rules, self.track.timing_trust)
        self.environment["null_call_us"] = judging.null_call_us
        self.environment["steps_per_config"] = min(item.steps for item in times.values())
        width, settled = scoring.half_width(score), scoring.settled(score, times, self.rules)
        if settled is None:
            self.results = tuple(finished)
            raise Fault(
                Verdict.NOISY, f"the interval of the score is ±{width:.0%}: the machine is too noisy at the moment"
            )
        if settled is not score:
            text = f"Only the kernel's times vary, by ±{width:.0%}, so the score is the lower end of the interval."
            self.flags.append(Flag("own-scatter", text))
            score = settled
        if gap := self.track.baseline_gap(timed):
            self.environment["baseline_gap"] = gap
            score, finished = scoring.lowered(score, finished, times, gap)
        self.gates = scoring.gates(score, timed, self.rules, exact=self.task.exact)
        return score, f"{score.speedup:.2f}× over the stronger baseline on {len(timed)} configurations", tuple(finished)

    def _with_times(self, times: Mapping[str, PairedTimes], peaks: Peaks | None) -> list[ConfigReport]:
        finished = []
        for config, result in zip(self.configs, self.results, strict=True):
            if not config.hidden:
                least_flops = self.task.least_flops(config, self.track.device.device_class)
                floor_us = None if peaks is None else peaks.floor_us(config.bytes_moved, least_flops)
                result = scoring.with_times(result, times[result.key], floor_us, self.rules)  # noqa: PLW2901
            finished.append(result)
        return finished

    def _remark(self, judging: Judging, number: int, config: Config, gathered_us: float) -> None:
        problem = judging.compile_problems[number]
        if problem and not self.quick:
            told = f"{config.key}: compared with eager only; torch.compile: {problem}"
            self.flags.append(Flag("no-compile-baseline", told))
        late_us = judging.late_ready_us(number)
        if late_us > _LATE_FLAG_US:
            self.flags.append(
                Flag("late-ready", f"{config.key}: late starts of calls added {late_us:.0f} µs to the median call")
            )
        outside_us = judging.work_outside_us(number)
        if outside_us > _LATE_FLAG_US:
            told = f"{config.key}: work in uncounted calls or after their end added {outside_us:.0f} µs to each call"
            self.flags.append(Flag("work-ahead", told))
        if gathered_us > _LATE_FLAG_US:
            told = f"{config.key}: a few long calls make the mean call {gathered_us:.0f} µs longer than the median"
            self.flags.append(Flag("work-gathered", f"{told} call; this difference is added to every call"))

    def _listen(self, step: Step) -> None:
        if step.stage == "verify" and step.text == "a hidden configuration":
            self._log.close()
        self.watcher.on_step(step)

    def _stage(self, name: str, run: Callable[[], T]) -> T:
        """Runs one stage and tells the watcher of start and end. The stage is in the report even if it fails."""
        if self.watcher.cancelled():
            raise Cancelled
        self._log_of_stage, self._exit_code_of_stage = "", None
        self.watcher.on_step(Step(name, "started"))
        started = time.monotonic()
        try:
            return run()
        finally:
            seconds = time.monotonic() - started
            self.stages.append(StageReport(name, seconds, self._exit_code_of_stage, self._log_of_stage))
            self.watcher.on_step(Step(name, "finished"))


class _VisibleLog:
    """What the submission printed before the first hidden configuration. Later output could contain hidden values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: bytes | None = None

    def close(self) -> None:
        if self._kept is None:
            self._kept = self._bytes()

    def read(self) -> str:
        data = self._bytes() if self._kept is None else self._kept
        return clean_text(data.decode(errors="replace"))

    def _bytes(self) -> bytes:
        return log_end(self._path, _LOG_BYTES)


def _shown_keys(configs: Sequence[Config]) -> list[str]:
    """The keys that people see: a hidden configuration has a number instead of its key."""
    first_hidden = sum(not item.hidden for item in configs)
    return [
        f"hidden {number - first_hidden + 1}" if config.hidden else config.key for number, config in enumerate(configs)
    ]


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    return lines[0][:300] if lines else "the compiler failed without an error message"


def remove_scratch(paths: Paths) -> None:
    """Removes what killed judgings left behind. Call it only while no judging uses this data folder."""
    discard(paths.scratch)
