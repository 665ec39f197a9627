"""The differences between judging on a CPU and on a GPU: lock, baselines, session, timing trust.

`stages.py` runs the same stages over either. Not covered: what a call is (`measuring/session.py`, `gpu/session.py`).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .compilers import gxx, nvcc
from .compilers.device_source import missing_here
from .errors import SupervisorError, UsageError
from .gpu import bounds, lack
from .gpu.alone import calls_alone, demand_quick_replays
from .gpu.audit import Auditor
from .gpu.baselines import GpuPreparation
from .gpu.bursts import credit_bursts
from .gpu.bytecode import bytecode_folder
from .gpu.claims import charged, demand_true_claims
from .gpu.crew import STANDBY, on_gpu
from .gpu.discovery import Gpu, gpus
from .gpu.energy import gpu_energy
from .gpu.left_running import demand_that_nothing_is_left
from .gpu.pool import pool_library
from .gpu.session import GpuSession, GpuSetting
from .gpu.standing import GpuSessionKeeper
from .gpu.watching import Watching
from .hosts.locks import HOST_IS_BUSY, build_lock, gpu_lock, host_build_lock, machine_lock
from .hosts.machine import divide_cores, machine_record
from .hosts.processors import processor
from .languages import device_classes
from .measuring.baselines import CpuPreparation, Preparation, PreparedBaseline
from .measuring.calls import Judging
from .measuring.energy import cpu_energy
from .measuring.faults import Fault
from .measuring.session import CpuSession, CpuSetting, Session
from .measuring.shell_library import shell_library
from .measuring.standing import SessionKeeper
from .report import ConfigReport
from .rules import Rules
from .sandbox.isolation import Room
from .scores import scoring
from .scores.conditions import timing_revision
from .source import NOBODY, CancelCheck, Paths, Watcher
from .tasks.spec import Config, TaskSpec

_RATES = ("copy_gb_per_s", "gemm_tflops")
_CANARIES = 2  # at either end, where a verdict may depend on them: not of what is replayed
AHEAD_PLACES = 2  # jobs that build ahead at the same time
TrackFindings = tuple[tuple[ConfigReport, ...], dict[str, Any]]


@dataclass(frozen=True)
class Device:
    """Something that submissions can be judged on here."""

    name: str  # cpu, cuda:0
    kind: str  # what a leaderboard is for: cpu-avx2, nvidia-h200
    title: str
    device_class: str  # whose configurations count: cpu, cuda
    model: str = ""  # where the kind does not say it: of a processor


CPU = "cpu"  # the class of processors; as the name of a device or of a kind, the one at hand


def devices_here() -> tuple[Device, ...]:
    """The processor, and every GPU that the driver shows."""
    return (_processor(), *(Device(gpu.name, gpu.kind, gpu.title, "cuda") for gpu in gpus()))


def _processor() -> Device:
    found = processor()
    return Device(CPU, found.kind, found.title, CPU, found.model)


class Track(ABC):
    """One device as the judge uses it."""

    device: Device
    timing_trust: str
    target: str | None = None  # what device code is compiled for

    def __init__(self, rules: Rules, paths: Paths) -> None:
        self.rules, self.paths = rules, paths
        self.cores = divide_cores(rules.cpu)

    @abstractmethod
    def build_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Held while compiling, where that would disturb a timing."""

    @abstractmethod
    def prepare_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Held while baselines are compiled."""

    @abstractmethod
    def lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Held while judging: one at a time on a device, across all processes."""

    def rehearsal_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Held during a judging whose times count nowhere."""
        return self.lock(watcher)

    @abstractmethod
    def preparation(self, task: TaskSpec, watcher: Watcher, *, stage: str, quick: bool = False) -> Preparation:
        """Makes what torch.compile needs for this task, once, and tells it as `stage`; `quick` leaves it out."""

    @abstractmethod
    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> Session[Any]:
        """The children of one judging, not started yet."""

    def control(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> Session[Any] | None:
        """The same without the submission: whether this machine judges at all. None where there is no such thing."""
        return None

    def prepare_tools(self) -> None:  # noqa: B027 - most devices need none
        """Builds what a judging needs beside baselines and submission, where no timing is disturbed."""

    def configs(self, task: TaskSpec) -> tuple[Config, ...]:
        """Those that count here, the visible ones first."""
        return tuple(sorted(task.configs_for(self.device.device_class), key=lambda item: item.hidden))

    def speaks(self, language: str) -> bool:
        return self.device.device_class in device_classes(language)

    def lacks(self, language: str) -> str:
        """What this machine lacks for `language`, as a sentence; empty where that is nothing."""
        return missing_here(language)

    def record(self) -> dict[str, Any]:
        """The facts about the machine for a report."""
        return {**machine_record(), "threads": self.cores.threads}

    def audit(
        self,
        task: TaskSpec,
        binary: Path,
        results: Mapping[str, ConfigReport],
        scratch: Path,
        cancelled: CancelCheck,
    ) -> dict[str, Any]:
        """Audits with other tools. Raises UsageError if there are none."""
        raise UsageError(f"nothing is audited on {self.device.name}: its times are measured by the supervisor")

    def excuse(self, error: SupervisorError | Fault) -> None:  # noqa: B027 - most devices have no excuse
        """Raises Fault, NOISY, where something on the machine beside the judging may have caused `error`.

        Raises NotStanding where another judging, without a session that is kept, has to decide.
        """

    def lacked_memory(self, error: Exception) -> bool:
        """Whether `error` says that the device had too little memory."""
        return False

    def finished(self) -> None:  # noqa: B027 - most devices have nothing to do
        """Called when the session has ended."""

    def before(self) -> dict[str, Any]:
        """What is measured of the device before the first call."""
        return {}

    def after(self, judging: Judging, results: Sequence[ConfigReport]) -> TrackFindings:
        """Results with what bounds their times, and what is measured of the device after the last call.

        Raises Fault where the bounds say that times cannot be as claimed, or the device was not steady.
        """
        return tuple(results), {}

    def baseline_gap(self, results: Sequence[ConfigReport]) -> dict[str, float]:
        """By configuration, how much of the stronger baseline's time is left without gaps between its launches."""
        return {}

    def energy(self, session: Session[Any], results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
        """Scored results with the energy of a call, and why there is none, if so."""
        return tuple(results), "it is not measured on this device"

    def confirm(self, judging: Judging) -> dict[str, Any]:
        """The last look at a judging that has a score. Raises Fault where something slowed the baselines."""
        return {}


class CpuTrack(Track):
    timing_trust = "supervisor"
    keeper: SessionKeeper | None = None  # of the processes that stay between quick looks

    def __init__(self, rules: Rules, paths: Paths) -> None:
        super().__init__(rules, paths)
        self.device = _processor()

    def build_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        return host_build_lock("compile", watcher)

    def prepare_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        return host_build_lock("prepare", watcher)

    def lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        return host_lock("load", watcher)

    def rehearsal_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        return host_build_lock("load", watcher)

    def preparation(self, task: TaskSpec, watcher: Watcher, *, stage: str, quick: bool = False) -> CpuPreparation:
        return CpuPreparation(
            task=task,
            configs=self.configs(task),
            rules=self.rules,
            watcher=watcher,
            stage=stage,
            quick=quick,
            cores=self.cores,
        )

    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> CpuSession:
        setting = self._setting(task, configs, binary, prepared, scratch)
        return CpuSession(setting) if self.keeper is None else self.keeper.session(setting)

    def control(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> CpuSession | None:
        if self.keeper is not None:  # a look blames nobody
            return None
        return CpuSession(replace(self._setting(task, configs, binary, prepared, scratch), control=True))

    def prepare_tools(self) -> None:
        shell_library(self.rules, self.paths)

    def energy(self, session: Session[Any], results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
        return cpu_energy(session, results)

    def _setting(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> CpuSetting:
        shell = shell_library(self.rules, self.paths)
        return CpuSetting(task, configs, self.rules, self.cores, binary, prepared, scratch, shell)


class GpuTrack(Track):
    timing_trust = "bounded"
    keeper: GpuSessionKeeper | None = None  # of the processes that stay between quick looks

    def __init__(self, gpu: Gpu, rules: Rules, paths: Paths) -> None:
        super().__init__(replace(rules, time=rules.gpu_time), paths)
        self.gpu = gpu
        self.device = Device(gpu.name, gpu.kind, gpu.title, "cuda")
        self.target = gpu.target
        self._session: GpuSession | None = None

    def build_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Compiling does not disturb a GPU, but it disturbs what is timed on the processors of the same machine."""
        return host_build_lock("compile", watcher)

    def excuse(self, error: SupervisorError | Fault) -> None:
        """Raises Fault, NOISY, if sessions that wait for other submissions may have held memory that was lacking.

        Raises NotStanding if the session itself is one that is kept.
        """
        if self._session is not None and self.lacked_memory(error):
            self._session.excuse_lack()

    def lacked_memory(self, error: Exception) -> bool:
        return lack.lacked_memory(error)

    def finished(self) -> None:
        """Those processes wake up now, if they have not before."""
        if self._session is not None and self.keeper is None:
            STANDBY.refill(self._session.setting.order())
            STANDBY.wake()

    def prepare_lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        """What torch.compile builds for a GPU is tried there."""
        return gpu_lock(self.gpu.uuid, "prepare", watcher)

    def lock(self, watcher: Watcher) -> AbstractContextManager[None]:
        return gpu_lock(self.gpu.uuid, "load", watcher)

    def preparation(
        self, task: TaskSpec, watcher: Watcher, *, stage: str, quick: bool = False, in_turns: bool = False
    ) -> GpuPreparation:
        """With `in_turns` others may compile on the processor meanwhile."""
        return GpuPreparation(
            task=task,
            configs=self.configs(task),
            rules=self.rules,
            watcher=watcher,
            stage=stage,
            quick=quick,
            gpu=self.gpu,
            bytecode=bytecode_folder(self.paths),
            in_turns=self.prepare_lock if in_turns else None,
        )

    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> GpuSession:
        setting = self._setting(task, configs, binary, prepared, scratch)
        self._session = GpuSession(setting) if self.keeper is None else self.keeper.session(setting)
        return self._session

    def control(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> GpuSession | None:
        if self.keeper is not None:  # a look blames nobody
            return None
        new = GpuSession(replace(self._setting(task, configs, binary, prepared, scratch), control=True))
        new.repeats_replay = self.gpu.accelerator == "cuda" and not self._opened().not_replayed
        return new

    def _setting(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> GpuSetting:
        return GpuSetting(
            task,
            configs,
            self.rules,
            self.cores,
            binary,
            prepared,
            scratch,
            self.gpu,
            self.rules.gpu,
            pool_library(self.paths),
            self.paths.scratch,
            bytecode_folder(self.paths),
        )

    def record(self) -> dict[str, Any]:
        told = {"gpu": self.gpu.title, "driver": self.gpu.driver, "timing_revision": timing_revision("cuda")}
        return {**super().record(), **told}

    def before(self) -> dict[str, Any]:
        session = self._opened()
        self._before = [session.canary() for _ in range(self._canaries)]
        first = self._before[-1]
        state = first["state"]
        return {
            **session.machine,
            "driver": self.gpu.driver,
            "clocks_before_mhz": state["clock_mhz"],
            "temperature_before_c": state["temperature_c"],
            "copy_gb_per_s": round(first["copy_gb_per_s"], 1),
            "gemm_tflops": round(first["gemm_tflops"], 2),
        }

    def after(self, judging: Judging, results: Sequence[ConfigReport]) -> TrackFindings:
        last = self._steadiest()
        drift = self._drift(last)
        session = self._opened()
        state = last["state"]
        found = {
            "clocks_after_mhz": state["clock_mhz"],
            "memory_clock_mhz": state["memory_clock_mhz"],
            "temperature_c": state["temperature_c"],
            "power_w": state["power_w"],
            "canary_drift": round(drift, 4),
            "throttled_samples": sum(ledger.throttled for ledger in judging.ledgers),
        }
        if session.replay is not None:
            self.timing_trust = "replayed"
            started_s = time.monotonic()
            bursts = credit_bursts(session, judging)
            return tuple(results), {**found, **bursts, "bursts_s": round(time.monotonic() - started_s, 2)}
        found["not_replayed"] = session.not_replayed
        found["null_bound_us"] = round(bounds.median_bound_us(judging.null_calls), 1)
        spread_us, alone = bounds.spread_us(judging.null_calls), bounds.CallsAlone(judging.null_calls)
        if self.gpu.accelerator == "cuda":  # of a stand-in, everybody else on its processors takes some
            demand_that_nothing_is_left(
                session,
                self.rules.gpu,
                drift=drift,
                scatter_us=spread_us,
                drift_now=lambda: self._drift(self._steadiest()),
            )
        demand_true_claims(judging, self.rules.gpu)
        session.demand_memory_for_baselines()
        if self.gpu.accelerator == "cuda":
            judging.demand_wrong_compile()
            alone = calls_alone(session, judging)
        found["null_spread_us"] = round(spread_us, 1)
        rules, flush_us = self.rules.gpu, session.machine["flush_us"]
        told = [charged(judging, alone, number, item, rules, flush_us=flush_us) for number, item in enumerate(results)]
        return tuple(told), found

    def confirm(self, judging: Judging) -> dict[str, Any]:
        session, started_s = self._opened(), time.monotonic()
        if session.replay is None or self.keeper is not None:  # bounded: `after` has looked; a look is not ranked
            return {}
        demand_quick_replays(session, session.replay, judging)
        judging.demand_wrong_compile()
        return {"confirm_s": round(time.monotonic() - started_s, 2)}

    def baseline_gap(self, results: Sequence[ConfigReport]) -> dict[str, float]:
        """Empty if nothing is known of it: the baselines were replayed, or could not be."""
        is_replayed = self.timing_trust == "replayed"
        return {} if is_replayed else scoring.baseline_gap(results, self._opened().replayed_baselines)

    def energy(self, session: Session[Any], results: Sequence[ConfigReport]) -> tuple[tuple[ConfigReport, ...], str]:
        return gpu_energy(self._opened(), results)

    def _steadiest(self) -> dict[str, Any]:
        return min((self._opened().canary() for _ in range(self._canaries)), key=self._drift)

    @property
    def _canaries(self) -> int:
        return _CANARIES if self._opened().replay is None else 1

    def audit(
        self,
        task: TaskSpec,
        binary: Path,
        results: Mapping[str, ConfigReport],
        scratch: Path,
        cancelled: CancelCheck,
    ) -> dict[str, Any]:
        configs = [item for item in task.configs_for("cuda") if not item.hidden]
        return Auditor(self.watching(task, binary, scratch, cancelled), configs).look(results)

    def watching(self, task: TaskSpec, binary: Path, scratch: Path, cancelled: CancelCheck) -> Watching:
        """A tool around the process of a submission on this GPU."""
        timeout_s = self.rules.gpu.audit_timeout_s
        return Watching(task, binary, self.gpu, self.rules.gpu, scratch, timeout_s, cancelled)

    def _opened(self) -> GpuSession:
        if self._session is None:
            raise SupervisorError("the GPU session was used before it was opened")
        return self._session

    def _drift(self, now: dict[str, Any]) -> float:
        """Against the nearest of the measurements before: a single one is noise as well."""
        return min(max(abs(float(now[name]) / float(before[name]) - 1) for name in _RATES) for before in self._before)


def open_track(device: str, rules: Rules, paths: Paths) -> Track:
    """The track of a device name. Raises UsageError for one that is not here."""
    if device in (CPU, processor().kind):
        return CpuTrack(rules, paths)
    for gpu in gpus():
        if gpu.name == device:
            return GpuTrack(gpu, rules, paths)
    known = ", ".join(f"{item.name} ({item.kind})" for item in devices_here())
    raise UsageError(f"there is no device {device!r} here; known: {known}")


@contextmanager
def room_with_gpu(room: Room, device: str, paths: Paths) -> Iterator[tuple[Room, str]]:
    """`room` with a GPU in it, which nobody judges on meanwhile, and what torch calls that GPU there.

    Raises UsageError for a device that is no GPU of this machine.
    """
    found = [gpu for gpu in gpus() if gpu.name == device]
    if not found:
        raise UsageError(f"there is no GPU {device!r} here")
    gpu = found[0]
    with gpu_lock(gpu.uuid, "naive", NOBODY):
        yield on_gpu(room, gpu, bytecode_folder(paths)), "cuda" if gpu.accelerator == "cuda" else "cpu"


def versions_on(device: str) -> dict[str, str]:
    """Versions of what judging on a device depends on beside torch. Raises UsageError, SupervisorError."""
    if device == CPU:
        return {"compiler": gxx.environment()["compiler"]}
    found = [gpu for gpu in gpus() if gpu.name == device]
    if not found:
        raise UsageError(f"there is no device {device!r} here")
    tools = nvcc.environment()
    return {"compiler": tools["compiler"], "cuda": tools["nvcc"], "driver": found[0].driver}


def keep_ready() -> None:
    """From now on this process keeps the processes of its next GPU judging awake: what a worker wants."""
    STANDBY.wanted = True


def host_lock(stage: str, watcher: Watcher) -> AbstractContextManager[None]:
    """One timing on the processors of this machine at a time, and no build beside it."""
    return machine_lock("cpu", HOST_IS_BUSY, stage, watcher)


def host_ahead_lock() -> AbstractContextManager[None]:
    """As `host_build_lock`, for what a new machine builds ahead: submissions do not wait for a place beside it."""
    return build_lock("cpu", HOST_IS_BUSY, "compile", NOBODY, places=AHEAD_PLACES, kind="ahead")
