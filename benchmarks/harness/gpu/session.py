"""A session on a GPU: the referee owns shared memory and runs each call, the supervisor wakes and freezes processes.

Not covered: the number of calls (`measuring/calls.py`) and the bounds on their times (`bounds.py`).
"""

import base64
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import LacksMemory, RefereeError, SupervisorError
from ..measuring.answers import number_of
from ..measuring.contestants import Actor, CallComparison, CallResult
from ..measuring.faults import Fault, may_lack_gpu_memory
from ..measuring.laps import Laps
from ..measuring.memory import describe, overlay
from ..measuring.session import (
    COMPILE,
    DISTRIBUTIONS,
    EAGER,
    NOTHING,
    REFEREE_TIMEOUT_S,
    Session,
    Setting,
    faults_of,
    files_of,
)
from ..protocol import ProtocolError, Word
from ..report import Verdict
from ..rules import GpuRules
from ..sandbox.isolation import Child, inside
from ..sandbox.outbox import log_end
from ..sandbox.seccomp import candidate_program, supported
from ..scores.scoring import BaselineTimes
from . import capacity
from .crew import STANDBY, Crew, CrewSpec
from .discovery import Gpu
from .gaps import replayed_baselines
from .lack import end_waiting, is_crowded, lack_is_told, lacks_anyway, needs_more, next_time_alone, note_anyway
from .marks import COUNT_MAX, mark_of, mark_of_task
from .record import NotReplayable
from .replay import Captured, Replay
from .results import result_of
from .room import demand_room, somebody_waits
from .shared_memory import INPUTS_AT, OUTPUTS_AT, Shared
from .warming import warm
from .word_times import Lateness

PYTHON_SUFFIXES = (".py", ".model")  # functions of a package such as Triton, or a module: launched from Python
_SPARE_FRACTION = 16  # of the GPU's memory, at most, for what one contestant allocates beside its results
_POLL_S, _LOG_BYTES = 0.1, 64 * 1024


@dataclass(frozen=True)
class GpuSetting(Setting):
    gpu: Gpu
    gpu_rules: GpuRules
    pool: Path  # the compiled `pool.cpp`
    crews: Path  # where crews have their folders
    bytecode: Path | None

    def order(self) -> CrewSpec:
        compiles = any(problem is None for problem in self.prepared.problems)
        return CrewSpec(self.gpu, self.rules, self.pool, self.crews, self.bytecode, self.cores.threads, compiles)


class GpuSession(Session[Actor]):
    """Contestants on a GPU. Making one raises Fault where its memory is too small for the task."""

    loaded = "loaded"  # its calls are recorded before it serves any
    decoys = False
    wanted_share = 0.3  # calls of a few microseconds scatter, and more steps of them take little time
    measures_gaps = True  # between launches: it may end with bounded times
    setting: GpuSetting

    def __init__(self, setting: GpuSetting) -> None:
        super().__init__(setting)
        rules = setting.gpu_rules
        pairs = zip(setting.configs, self._sets, strict=True)
        recorded = [max(sets, capacity.burst_sets(config, rules, len(setting.configs))) for config, sets in pairs]
        self._layout = overlay(setting.configs, recorded)
        self._described = describe(setting.configs, self._layout)
        self._step = 0
        self._distributions: dict[int, str] = {}  # of each configuration's values as they were drawn last
        spare = min(rules.spare_bytes, setting.gpu.memory_bytes // _SPARE_FRACTION)
        most = max(sets * capacity.result_bytes(config) for config, sets in zip(setting.configs, recorded, strict=True))
        wanted, contestants = 3 * self._layout.output_bytes + 2 * most + spare, 2 * setting.rules.time.launches
        needs = (self._layout.input_bytes, most, setting.gpu.memory_bytes)
        self._arena_bytes = capacity.arena_bytes(wanted, *needs, contestants)
        is_tight = self._arena_bytes < wanted
        self._needs = (
            capacity.told(capacity.judging_bytes(*needs, contestants), setting.gpu.memory_bytes) if is_tight else ""
        )
        self.takes_most = capacity.takes_most(
            capacity.taken_bytes(self._arena_bytes, *needs, contestants), setting.gpu.memory_bytes
        )
        self.machine: dict[str, Any] = {}
        self._has_room = False  # no session that waits holds memory
        self._somebody_waited = False  # such sessions may end at any time, but none begins beside this one
        self._fails_anyway = False  # a baseline's call fails for want of memory where no session holds any
        self._has_loaded = False  # the submission has had a process here
        self._captured = Captured()
        self._lacked_before = 0  # how often baselines had found no memory when nothing of the submission was there
        self.replay: Replay | None = None
        self.not_replayed = ""  # why, if the calls are not replayed
        self.repeats_replay = False  # of a control run: what it repeats was replayed, or was to be

    def show(self, config: int, *, decoys: int | None = None) -> None:
        """The referee writes the inputs of a call itself, right before it."""

    def canary(self) -> dict[str, Any]:
        """Copy bandwidth and GEMM rate as they are now, with clocks and temperature."""
        return self._referee.ask("canary")

    def writes_us(self) -> float:
        """How long the GPU takes to write as much as is written before a call, over and over."""
        return float(self._referee.ask("writes")["writes_us"])

    def _open(self) -> None:
        setting, opened_s, laps = self.setting, time.monotonic(), Laps()
        self.is_alone = True
        marks = mark_of_task(setting.task), mark_of(setting.binary)
        self._has_room = self.takes_most or any(map(is_crowded, marks))
        if self._has_room:
            demand_room(setting.gpu)
        self._somebody_waited = somebody_waits(setting.gpu)
        self.crew = crew = STANDBY.take(setting.order())
        self._stack.callback(crew.kill)
        os.link(crew.log, setting.scratch / crew.log.name)  # outlives the crew
        laps.end("crew_awake")
        if setting.control:
            crew.end_candidates()
        candidates = () if setting.control else crew.candidates
        self._casts = list(zip(crew.baselines, crew.candidates, strict=True))
        self._referee = crew.referee
        self._furnish(crew)
        self._furnish_submission(crew)
        laps.end("files")
        self._open_referee(crew)
        laps.end("referee")
        self._open_baselines(crew)
        with self._memory():
            shared = self._receive_memory()
            for launch, baseline in enumerate(crew.baselines):
                shared.hand(baseline, 2 * launch)
            loaded = {item: self._await_baseline(item, "loaded") for item in crew.baselines}
            laps.end("baselines_loaded")
            self._capture_baselines(laps)
        with self._memory():
            warms = setting.binary.suffix in PYTHON_SUFFIXES and bool(candidates)
            if warms:
                self._warm(crew)
                laps.end("warm")
            crew.end_warmer()
            self._load(crew, candidates, shared, has_run=warms)
            laps.end("candidates_loaded")
            if candidates:
                self._begin_replay(crew, shared)
            if self.replay is None:
                self._serve(crew, candidates)
                laps.end("serving")
        if setting.control:
            self.canary()  # as in the judging; it takes memory for libraries
        waited_s = round(opened_s - crew.started_s, 1)
        compile_s = round(max(number_of(told, "compile_s", item.child) for item, told in loaded.items()), 2)
        load_s = {**laps.seconds, "of_it_torch_compile": compile_s}
        self.machine = {**self._referee.ask("describe"), "crew_waited_s": waited_s, "load_s": load_s}

    def _load(self, crew: Crew, candidates: Sequence[Actor], shared: Shared, *, has_run: bool) -> None:
        for launch, candidate in enumerate(candidates):
            candidate.open(self._candidate_message(crew))
            shared.hand(candidate, 2 * launch + 1)
        STANDBY.refill(self.setting.order())
        self._let_load(candidates, has_run=has_run)

    def trusted(self) -> tuple[Child, ...]:
        return (*super().trusted(), *(executor.child for executor in self.crew.executors))

    def untrusted(self) -> tuple[Child, ...]:
        return tuple(actor.child for actor in (*self.crew.candidates, *self.crew.warmers) if actor.started)

    def _meet_submission(self) -> None:
        super()._meet_submission()
        self._has_loaded = self.crew.has_met_a_submission = True

    def _capture_baselines(self, laps: Laps) -> None:
        """Before anything of the submission runs. In a control run they do what they did in the judging that failed."""
        self.not_replayed, setting, works = "", self.setting, True
        self.replay = replay = Replay(
            crew=self.crew,
            referee=self._referee,
            configs=setting.configs,
            layout=self._layout,
            sets=self._sets,
            timeout_s=setting.rules.limits.call_s,
            begin_s=setting.rules.limits.judging_s,
            draw=self._draw_again,
            before_hidden=self._cut_log,
            laps=laps,
            captured=self._captured,
        )
        if setting.gpu.accelerator == "cuda":
            functions = _functions_of(setting.prepared.problems)
            try:
                replay.capture_baselines(self.fill, functions)
            except NotReplayable as error:
                self.replay, self.not_replayed = None, str(error)
                works = self._settle_baselines()
            else:
                if self.measures_gaps and not setting.control:
                    self._captured.replayed = replayed_baselines(replay, self.fill, functions)
                    laps.end("baselines_timed")
        if setting.control and not self.repeats_replay:
            self.replay = None
        lacked_before, self._lacked_before = self._lacked_before, self._lacked()
        if self._lacked_before > lacked_before:
            self._make_room_for_baselines(self._lacked_before - lacked_before, works=works)
        if not works:
            raise needs_more(self._needs)  # in the judging the same call would fail again

    @property
    def replayed_baselines(self) -> dict[str, BaselineTimes]:
        """What they take when they are replayed, by visible configuration; empty if they could not be captured."""
        return self._captured.replayed

    def _make_room_for_baselines(self, lacks: int, *, works: bool) -> None:
        """They found too little memory `lacks` times with nothing of the submission there; with `works` no call failed.

        Raises Fault, NOISY, if sessions that wait held it: these are ended. Else it is what the task gets on this GPU.
        """
        found = (self.setting.gpu, mark_of_task(self.setting.task), lacks)
        if not self._has_room and lacks_anyway(*found, works=works):
            self._fails_anyway = not works
            return
        if not self._has_room:
            self._end_waiting(lacks)
        note_anyway(*found, works=works)

    def _end_waiting(self, lacks: int = COUNT_MAX) -> None:
        self._has_room = True
        task, waited = mark_of_task(self.setting.task), self._somebody_waited
        end_waiting(self.setting.gpu, task, somebody_waited=waited, lacks=lacks)

    def excuse_lack(self) -> None:
        """Raises Fault, NOISY, if the GPU memory that was lacking was held by sessions that wait for submissions."""
        if self.is_alone and not self._has_loaded:
            if not self._has_room and not self._fails_anyway:
                self._end_waiting()
        elif self._somebody_waited and not self._has_room:
            raise next_time_alone(self.setting.binary)

    def _begin_replay(self, crew: Crew, shared: Shared) -> None:
        """The submission's part of it; without one it is served in the other way."""
        self.has_met_hidden, replay = False, self.replay
        if replay is None:
            return
        try:
            replay.begin(shared, self.fill, self.setting.binary)
        except NotReplayable as error:
            self.replay, self.not_replayed = None, str(error)
            if error.lacks_gpu_memory:
                self.excuse_lack()
            return
        self._casts = list(zip(crew.baselines, crew.executors, strict=True))

    def _cut_log(self) -> None:
        """Output from here on could describe hidden configurations, so it is not kept."""
        self.has_met_hidden = True
        log = self.setting.scratch / self.crew.log.name
        printed = log_end(log, _LOG_BYTES)
        log.unlink()
        log.write_bytes(printed)

    def _serve(self, crew: Crew, candidates: Sequence[Actor]) -> None:
        """The other way: the candidates time their calls themselves, and the referee's clock bounds what they say."""
        crew.end_executors()
        for candidate in candidates:
            self._serve_candidate(candidate)
        if self._captured.is_told:
            self._reserve_for_baselines()
        self.demand_memory_for_baselines()
        for baseline in crew.baselines:
            baseline.link.send(serve=True)
        for baseline in crew.baselines:
            self._await_baseline(baseline)
            baseline.child.freeze()

    def _serve_candidate(self, candidate: Actor) -> None:
        candidate.child.resume()
        candidate.link.send(serve=True)
        self._seat(candidate, "serving")

    def _settle_baselines(self) -> bool:
        """Lets libraries choose their kernels now. Whether the calls find enough memory from then on.

        A library that lacked some remembers what it chose instead. If it lacks some again, it does so in every call.
        """
        lacked = self._lacked()
        works = self._reserve_for_baselines()
        if not works or self._lacked() == lacked:
            return works
        lacked = self._lacked()
        return self._reserve_for_baselines() and self._lacked() == lacked

    def _reserve_for_baselines(self) -> bool:
        """Makes them take the memory that their calls need, one after the other while nothing else runs.

        Whether all calls found enough. Raises RefereeError if one fails for another reason.
        """
        works = True
        for number, functions in enumerate(_functions_of(self.setting.prepared.problems)):
            self.fill(number)
            self._referee.ask("stage", who="baseline0", config=number, places=[])
            for baseline in self.crew.baselines:
                baseline.link.send(reserve=number, functions=functions)
                works &= bool(self._await_baseline(baseline, "reserved").get("works"))
        return works

    def demand_memory_for_baselines(self) -> None:
        """Raises Fault, OUT_OF_MEMORY, if they found too little at a time since the submission was loaded.

        Libraries take other kernels then, and remember them.
        """
        if self._lacked() > self._lacked_before and not self.setting.control:
            told = "the kernel left too little GPU memory for the baselines"
            raise Fault(Verdict.OUT_OF_MEMORY, told, lacks_gpu_memory=True)

    def _lacked(self) -> int:
        return sum(int(baseline.control.words[Word.LACKED]) for baseline in self.crew.baselines)

    def burst(self, config: int, count: int, usual: Lateness) -> float:
        """Time per call of `count` calls of the candidate on as many input sets. Raises Fault.

        `usual` is how late things are around calls of the configuration's baselines.
        """
        with self._memory():
            return self._replaying.burst_us(f"candidate{self.launch}", config, count, usual)

    def draw(self, config: int, count: int, distribution: str | None = None) -> None:
        """Fresh values for `count` input sets, of a distribution that is drawn too unless one is named."""
        self._distributions[config] = distribution or secrets.choice(DISTRIBUTIONS)
        seeds = [self._seed() for _ in range(count)]
        with self._memory():
            self._referee.ask("fill", config=config, seeds=seeds, distribution=self._distributions[config])

    def _draw_again(self, config: int, count: int) -> None:
        """Other values of the same distribution: else a submission could choose on which values it is judged."""
        self.draw(config, count, self._distributions[config])

    @property
    def _replaying(self) -> Replay:
        if self.replay is None:
            raise SupervisorError("nothing is replayed in this session")
        return self.replay

    def _furnish(self, crew: Crew) -> None:
        """Writes the files of the task and its baselines into the crew's folders."""
        for file in files_of(self.setting.task):
            shutil.copy(file, crew.folder / "task")
        for cache in crew.caches:
            shutil.copytree(self.setting.prepared.cache, cache, symlinks=True, dirs_exist_ok=True)

    def _furnish_submission(self, crew: Crew) -> None:
        binary = self.setting.binary
        copy = shutil.copytree if binary.is_dir() else shutil.copy
        copy(binary, crew.folder / "job" / binary.name)

    def _open_baselines(self, crew: Crew) -> None:
        wanted = [problem is None for problem in self.setting.prepared.problems]
        for baseline in crew.baselines:
            baseline.open({**self._common(), "prepare": False, "compile": wanted, "task": crew.inside("task")})

    def _common(self) -> dict[str, Any]:
        return {"configs": self._described, "direction": self.setting.task.direction}

    def _open_referee(self, crew: Crew) -> None:
        controls = {
            f"{name}{number}": actor.control.fd
            for number, cast in enumerate(self._casts)
            for name, actor in zip(("baseline", "candidate"), cast, strict=True)
        }
        self._referee.link.send(
            **self._common(),
            task=crew.inside("task"),
            controls=controls,
            pages={f"candidate{launch}": page.fd for launch, page in enumerate(crew.pages)},
            input_bytes=self._layout.input_bytes,
            output_bytes=self._arena_bytes,
            flush_bytes=self.setting.gpu_rules.flush_bytes,
            reserve_bytes=self._reserve_bytes(),
        )

    def _reserve_bytes(self) -> int:
        layout = self._layout
        return capacity.referee_bytes(layout.input_bytes, layout.output_bytes, self.setting.gpu.memory_bytes)

    def _candidate_message(self, crew: Crew) -> dict[str, Any]:
        return {
            **self._common(),
            "binary": f"{crew.inside('job')}/{self.setting.binary.name}",
            "pool": inside(self.setting.pool, "pool.so"),
            "slot_bytes": self._layout.output_bytes,
            "inputs_at": INPUTS_AT,
            "outputs_at": OUTPUTS_AT,
            "filter": base64.b64encode(candidate_program(gpu=True) if supported() else b"").decode(),
        }

    def _receive_memory(self) -> Shared:
        try:
            sizes, fds = self._referee.link.receive_descriptors(REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            raise self._referee.failed(error) from error
        for fd in fds:
            self._stack.callback(os.close, fd)
        return Shared(fds[0], fds[1:], sizes["input_bytes"], sizes["output_bytes"])

    def _warm(self, crew: Crew) -> None:
        message = {**self._common(), "binary": f"{crew.inside('job')}/{self.setting.binary.name}"}
        warm(crew, message, self.setting.rules.compile.timeout_s, self._meet_submission)

    def fill(self, config: int, distribution: str | None = None, *, decoys: int = 0) -> int:
        self._distributions[config] = distribution or secrets.choice(DISTRIBUTIONS)
        with self._memory():
            return super().fill(config, self._distributions[config], decoys=decoys)

    def compare(self, who: str, config: int, choice: int) -> CallComparison:
        with self._memory():
            return super().compare(who, config, choice)

    def call_candidate(self, config: int, choice: int, *, compared: bool = True) -> CallResult:
        with self._memory():
            return super().call_candidate(config, choice, compared=compared)

    def call_baseline(self, config: int, choice: int, function: int, *, compared: bool = False) -> CallResult:
        with self._memory():
            return super().call_baseline(config, choice, function, compared=compared)

    def _call(self, who: str, config: int, choice: int, *, function: int, compared: bool) -> CallResult:
        if self.replay is not None:
            return self.replay.call(f"{who}{self.launch}", config, choice, function, compared=compared)
        actor = self.candidate if who == "candidate" else self.baseline
        self._step += 1
        timeout_s = self._timeout_s(who)
        details = {"config": config, "choice": choice, "function": function, "step": self._step}
        how = {"timeout_s": timeout_s, "gate_us": self._gate_us(who, function), "compared": compared}
        self._referee.link.send(do="run", who=f"{who}{self.launch}", **details, **how)
        if not self._referee.receive().get("prepared"):
            raise RefereeError("the referee did not prepare a call")
        actor.child.resume()
        answer = self._answer(actor, timeout_s)
        if not answer["arrived"]:
            return actor.broken(timeout_s)
        with faults_of(who):
            actor.child.freeze()
        return result_of(answer, actor)

    @contextmanager
    def _memory(self) -> Iterator[None]:
        """Raises LacksMemory where our processes lack memory.

        Fault, INTERNAL_ERROR, if the task takes much of the GPU and the submission is not loaded yet.
        """
        try:
            with lack_is_told(self._needs, lambda: self._lacked() > self._lacked_before, lambda: self.is_alone):
                yield
        except LacksMemory as error:
            is_too_large = isinstance(error.__cause__, RefereeError) and may_lack_gpu_memory(error.__cause__.reason)
            if self.is_alone and self._needs and not self._has_loaded and is_too_large:
                raise needs_more(self._needs) from error
            raise

    def _gate_us(self, who: str, function: int) -> float:
        """Null calls are held against those of the candidate; the other baselines launch from Python."""
        rules, own = self.setting.gpu_rules, who == "candidate" or function == NOTHING
        return rules.gate_us if own and self.setting.binary.suffix not in PYTHON_SUFFIXES else rules.python_gate_us

    def _answer(self, actor: Actor, timeout_s: float) -> dict[str, Any]:
        """The referee's answer about the call; the referee is told if the contestant is gone."""
        deadline = time.monotonic() + 2 * timeout_s + REFEREE_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                return self._referee.link.receive(_POLL_S)
            except TimeoutError:
                if actor.child.exit_code() is not None:
                    actor.control.words[Word.ABORT] = self._step
            except ProtocolError as error:
                raise self._referee.failed(error) from error
        raise SupervisorError("the referee gave no answer after a call")


def _functions_of(problems: Sequence[str | None]) -> list[list[int]]:
    """Which baselines each configuration has: torch.compile only where it could be built."""
    return [[EAGER] if problem else [EAGER, COMPILE] for problem in problems]
