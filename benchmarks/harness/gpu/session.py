"""A session on a GPU: the referee owns the shared memory and runs each call, the supervisor wakes and freezes.

Not covered: how many calls there are (`judging.py`) and what their times are worth (`bounds.py`).
"""

import base64
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import baselines
from ..contestants import Actor, CallResult
from ..errors import RefereeError, SupervisorError
from ..faults import Fault, load_fault
from ..isolation import Room, child_code, inside
from ..memory import describe, overlay
from ..protocol import ProtocolError, Status, Word
from ..report import Verdict
from ..rules import GpuRules
from ..seccomp import candidate_program, gpu_program, supported
from ..session import REFEREE_TIMEOUT_S, Referee, Session, Setting
from .discovery import Gpu

_SPARE_FRACTION = 16  # of the GPU's memory, at most, for what one contestant allocates beside its results
_POLL_S = 0.1
_TRITON_CACHE_MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class GpuSetting(Setting):
    gpu: Gpu
    gpu_rules: GpuRules
    pool: Path  # the compiled `pool.cpp`


class GpuSession(Session[Actor]):
    """Contestants on a GPU."""

    decoys = False
    setting: GpuSetting

    def __init__(self, setting: GpuSetting) -> None:
        super().__init__(setting)
        self._layout = overlay(setting.configs, self._sets)
        self._described = describe(setting.configs, self._layout)
        self._step = 0
        spare = min(setting.gpu_rules.spare_bytes, setting.gpu.memory_bytes // _SPARE_FRACTION)
        self._arena_bytes = 3 * self._layout.output_bytes + spare
        self.machine: dict[str, Any] = {}

    def show(self, config: int, *, decoys: bool = False) -> None:
        """The referee writes the inputs of a call itself, right before it."""

    def canary(self) -> dict[str, Any]:
        """Copy bandwidth and GEMM rate as they are now, with clocks and temperature."""
        return self._referee.ask("canary")

    def _open(self) -> None:
        setting = self.setting
        self._casts = [(self._actor("gpu_baseline"), self._actor("gpu_candidate")) for _ in range(self._launches())]
        self._referee = self._start_referee()
        for number, (baseline, _) in enumerate(self._casts):
            self._start_baseline(baseline, number)
        cache = self._warm() if setting.binary.suffix == ".py" else None
        for number, (_, candidate) in enumerate(self._casts):
            self._start_candidate(candidate, number, cache)
        sizes, fds = self._share()
        inputs_fd, *arenas = fds
        everybody = [actor for cast in self._casts for actor in cast]
        for actor, arena, size in zip(everybody, arenas, sizes["output_bytes"], strict=True):
            self._await(actor, "awake")
            message = {"input_bytes": sizes["input_bytes"], "output_bytes": size}
            actor.link.send_descriptors([inputs_fd, arena], **message)
        for actor in everybody[1::2] + everybody[::2]:
            self._await(actor, "serving")
            actor.child.freeze()
        self.machine = self._referee.ask("describe")

    def _launches(self) -> int:
        return self.setting.rules.time.launches

    def _await(self, actor: Actor, word: str) -> None:
        if actor.module == "gpu_candidate":
            self._await_candidate(actor, word)
        else:
            self._await_baseline(actor, word)

    def _actor(self, module: str) -> Actor:
        actor = Actor(module)
        self._stack.callback(actor.kill)
        return actor

    def _common(self) -> dict[str, Any]:
        task = self.setting.task
        return {"configs": self._described, "direction": task.direction, "device": self.setting.gpu.accelerator}

    def _start_referee(self) -> Referee:
        setting = self.setting
        room = Room(
            read_only={**child_code(), setting.task.folder / "reference.py": "/kbench/task/reference.py"},
            environment=setting.gpu.environment(),
            devices=setting.gpu.nodes,
            memory_bytes=None,
        )
        controls = {
            f"{name}{number}": actor.control.fd
            for number, cast in enumerate(self._casts)
            for name, actor in zip(("baseline", "candidate"), cast, strict=True)
        }
        referee = Referee("gpu_referee", room, setting.scratch / "referee.log", tuple(controls.values()), gpu_filter())
        self._stack.callback(referee.kill)
        referee.open(
            **self._common(),
            task=baselines.task_folder(setting.task),
            controls=controls,
            input_bytes=self._layout.input_bytes,
            output_bytes=self._arena_bytes,
            flush_bytes=setting.gpu_rules.flush_bytes,
            gate_us=setting.gpu_rules.gate_us,
        )
        return referee

    def _share(self) -> tuple[dict[str, Any], list[int]]:
        """Sizes and descriptors of all shared memory; the descriptors are closed with the session."""
        try:
            sizes, fds = self._referee.link.receive_descriptors(REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            raise self._referee.failed(error) from error
        for fd in fds:
            self._stack.callback(os.close, fd)
        return sizes, fds

    def _start_baseline(self, baseline: Actor, number: int) -> None:
        setting = self.setting
        cache = baselines.own_copy(setting.prepared, setting.scratch)
        room = baselines.baseline_room(setting.task, cache, setting.rules)
        environment = {**room.environment, **setting.gpu.environment()}
        room = replace(room, environment=environment, devices=setting.gpu.nodes, memory_bytes=None)
        baseline.start(room, setting.scratch / f"baseline{number}.log", gpu_filter())
        wanted = [problem is None for problem in setting.prepared.problems]
        message = {"prepare": False, "compile": wanted, "task": baselines.task_folder(setting.task)}
        baseline.open({**self._common(), **message, "writable_inputs": False})

    def _start_candidate(self, candidate: Actor, number: int, cache: Path | None) -> None:
        setting = self.setting
        candidate.start(self._candidate_room(cache, writable=False), setting.scratch / f"candidate{number}.log")
        candidate.open(
            {
                **self._common(),
                "binary": inside(setting.binary, f"job/{setting.binary.name}"),
                "pool": inside(setting.pool, "pool.so"),
                "slot_bytes": self._layout.output_bytes,
                "filter": base64.b64encode(candidate_program() if supported() else b"").decode(),
                "writable_inputs": False,
            }
        )

    def _candidate_room(self, cache: Path | None, *, writable: bool) -> Room:
        setting, limits = self.setting, self.setting.rules.limits
        threads = str(setting.cores.threads)
        environment = {**setting.gpu.environment(), "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        caches = {} if cache is None else {cache: "/kbench/cache"}
        if cache is not None:
            environment |= {"TRITON_CACHE_DIR": inside(cache, "cache"), "USER": "kbench"}
        return Room(
            read_only={
                **child_code(),
                setting.binary: f"/kbench/job/{setting.binary.name}",
                setting.pool: "/kbench/pool.so",
                **({} if writable else caches),
            },
            writable=caches if writable else {},
            environment=environment,
            devices=setting.gpu.nodes,
            memory_bytes=None,
            file_bytes=limits.file_bytes,
            scratch_bytes=limits.scratch_bytes,
            cpu_s=int(2 * limits.judging_s * setting.cores.threads),
        )

    def _warm(self) -> Path:
        """A cache with the kernels of a Triton submission, compiled where programs may be started."""
        cache = self.setting.scratch / "triton"
        cache.mkdir()
        warm = self._actor("gpu_warm")
        warm.start(self._candidate_room(cache, writable=True), self.setting.scratch / "warm.log", gpu_filter())
        binary = inside(self.setting.binary, f"job/{self.setting.binary.name}")
        warm.open({**self._common(), "binary": binary})
        try:
            self._await_warm(warm)
        finally:
            warm.child.kill()
        if sum(path.lstat().st_size for path in cache.rglob("*")) > _TRITON_CACHE_MAX_BYTES:
            raise Fault(Verdict.REJECTED, "the compiled kernels take more room than the rules allow")
        return cache

    def _await_warm(self, warm: Actor) -> None:
        timeout_s = self.setting.rules.compile.timeout_s
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = warm.receive(max(0.01, deadline - time.monotonic()))
            except TimeoutError:
                raise load_fault({"timeout_s": timeout_s}, None) from None
            except ProtocolError:
                raise load_fault({}, warm.child.wait(1.0)) from None
            if message.get("warmed"):
                return
            if "call_error" in message:
                raise call_failed(str(message["call_error"]))
            if "load_error" in message or "missing" in message:
                raise load_fault(message, None)

    def _call(self, who: str, config: int, choice: int, function: int, timeout_s: float) -> CallResult:
        actor = self.candidate if who == "candidate" else self.baseline
        self._step += 1
        details = {"config": config, "choice": choice, "function": function, "step": self._step}
        self._referee.link.send(do="run", who=f"{who}{self.launch}", timeout_s=timeout_s, **details)
        if not self._referee.receive().get("prepared"):
            raise RefereeError("the referee did not prepare a call")
        actor.child.resume()
        answer = self._answer(actor, timeout_s)
        if not answer["arrived"]:
            return actor.broken(timeout_s)
        actor.child.freeze()
        return _result(answer, actor)

    def _answer(self, actor: Actor, timeout_s: float) -> dict[str, Any]:
        """What the referee saw of the call; it is told when the contestant is gone."""
        deadline = time.monotonic() + 2 * timeout_s + REFEREE_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                return self._referee.link.receive(_POLL_S)
            except TimeoutError:
                if actor.child.exit_code() is not None:
                    actor.control.words[Word.ABORT] = self._step
            except ProtocolError as error:
                raise self._referee.failed(error) from error
        raise SupervisorError("the referee did not come back from a call")


def gpu_filter() -> bytes:
    return gpu_program() if supported() else b""


def call_failed(text: str) -> Fault:
    """A first call, made to compile, that raised."""
    if "out of memory" in text.lower():
        return Fault(Verdict.OUT_OF_MEMORY, f"the kernel asked for more memory than there is: {text[:300]}")
    compiling = any(word in text for word in ("CompilationError", "CompileTimeAssertionFailure", "PTXASError"))
    verdict = Verdict.COMPILE_ERROR if compiling else Verdict.RUNTIME_ERROR
    return Fault(verdict, f"the first call failed: {text[:600]}")


def _result(answer: dict[str, Any], actor: Actor) -> CallResult:
    try:
        status = Status(answer["status"])
    except ValueError:
        return CallResult(None, text="the process answered with an unknown status")
    message = {} if status is Status.OK else actor.pending_message()
    return CallResult(
        status=status,
        wall_us=answer["wall_us"],
        resume_us=answer["resume_us"],
        text=str(message.get("text", "")),
        error=str(message.get("error", "")),
        early=answer["early"],
        foreign=not answer["inside"],
        event_us=answer["event_us"],
        tail_us=answer["tail_us"],
        flush_us=answer["flush_us"],
        copied=answer["copied"],
        throttled=tuple(answer["throttle"]),
    )
