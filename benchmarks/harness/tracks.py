"""What differs between judging on the processor and on a GPU: the lock, the baselines, the session, the trust.

`judge.py` runs the same stages over either. Not covered: what a call is (`session.py`, `gpu/session.py`).
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import gxx, nvcc
from .baselines import CpuPreparation, Preparation, PreparedBaseline
from .errors import SupervisorError, UsageError
from .faults import Fault
from .gpu import bounds
from .gpu.audit import Auditor
from .gpu.baselines import GpuPreparation
from .gpu.crew import STANDBY
from .gpu.discovery import Gpu, gpus
from .gpu.pool import pool_library
from .gpu.session import GpuSession, GpuSetting
from .isolation import bytecode_missing
from .judging import CANDIDATE, Judging
from .locks import build_lock, machine_lock
from .machine import divide_cores, machine_record
from .report import ConfigResult, Verdict
from .rules import RuleSet
from .session import CpuSession, Session, Setting
from .source import CancelCheck, Paths, StepListener, device_classes
from .spec import Config, TaskSpec

_RATES = ("copy_gb_per_s", "gemm_tflops")
_CANARIES = 2  # at either end
_HOST_IS_BUSY = "another submission is being timed or built on this machine"
_LEFT_RUNNING = 0.1  # a kernel that shares the GPU takes more of its speed than this
Found = tuple[tuple[ConfigResult, ...], dict[str, Any]]


@dataclass(frozen=True)
class Device:
    """Something that submissions can be judged on here."""

    name: str  # cpu, cuda:0
    kind: str  # what a leaderboard is for: cpu, nvidia-h200
    title: str
    device_class: str  # whose configurations count: cpu, cuda


CPU = Device("cpu", "cpu", "CPU", "cpu")


def devices_here() -> tuple[Device, ...]:
    """The processor, and every GPU that the driver shows."""
    return (CPU, *(Device(gpu.name, gpu.kind, gpu.title, "cuda") for gpu in gpus()))


class Track(ABC):
    """One device as the judge uses it."""

    device: Device
    timing_trust: str
    target: str | None = None  # what device code is compiled for

    def __init__(self, rules: RuleSet, paths: Paths) -> None:
        self.rules, self.paths = rules, paths
        self.cores = divide_cores(rules.cpu)

    @abstractmethod
    def build_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        """Held while compiling, where that would disturb a timing."""

    @abstractmethod
    def prepare_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        """Held while baselines are compiled."""

    @abstractmethod
    def lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        """Held while judging: one at a time on a device, across all processes."""

    @abstractmethod
    def preparation(
        self, task: TaskSpec, on_step: StepListener, cancelled: CancelCheck, *, stage: str, quick: bool = False
    ) -> Preparation:
        """Makes what torch.compile needs for this task, once, and tells it as `stage`; `quick` leaves it out."""

    @abstractmethod
    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> Session[Any]: ...

    def configs(self, task: TaskSpec) -> tuple[Config, ...]:
        """Those that count here, the visible ones first."""
        return tuple(sorted(task.configs_for(self.device.device_class), key=lambda item: item.hidden))

    def speaks(self, language: str) -> bool:
        return self.device.device_class in device_classes(language)

    def record(self) -> dict[str, Any]:
        """What of the machine is put into a report."""
        return {**machine_record(), "threads": self.cores.threads}

    def audit(
        self,
        task: TaskSpec,
        binary: Path,
        results: Mapping[str, ConfigResult],
        scratch: Path,
        cancelled: CancelCheck,
    ) -> dict[str, Any]:
        """A second look with other tools. Raises UsageError where there are none."""
        raise UsageError(f"nothing is audited on {self.device.name}: its times are the supervisor's own")

    def finished(self) -> None:  # noqa: B027 - most devices have nothing to do
        """The session is over."""

    def before(self) -> dict[str, Any]:
        """What is measured of the device before the first call."""
        return {}

    def after(self, judging: Judging, results: Sequence[ConfigResult]) -> Found:
        """Results with what bounds their times, and what is measured of the device after the last call.

        Raises Fault where the bounds say that times cannot be as claimed, or the device was not steady.
        """
        return tuple(results), {}


class CpuTrack(Track):
    device = CPU
    timing_trust = "supervisor"

    def build_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        return _host_build_lock(on_step, "compile", cancelled)

    def prepare_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        return _host_build_lock(on_step, "prepare", cancelled)

    def lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        return host_lock(on_step, "load", cancelled)

    def preparation(
        self, task: TaskSpec, on_step: StepListener, cancelled: CancelCheck, *, stage: str, quick: bool = False
    ) -> CpuPreparation:
        return CpuPreparation(
            task=task,
            configs=self.configs(task),
            rules=self.rules,
            on_step=on_step,
            cancelled=cancelled,
            stage=stage,
            quick=quick,
            cores=self.cores,
        )

    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> CpuSession:
        return CpuSession(Setting(task, configs, self.rules, self.cores, binary, prepared, scratch))


class GpuTrack(Track):
    timing_trust = "bounded"

    def __init__(self, gpu: Gpu, rules: RuleSet, paths: Paths) -> None:
        super().__init__(replace(rules, time=rules.gpu_time), paths)
        self.gpu = gpu
        self.device = Device(gpu.name, gpu.kind, gpu.title, "cuda")
        self.target = gpu.target
        self._session: GpuSession | None = None

    def build_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        """A compiler takes nothing from a GPU."""
        return nullcontext()

    def finished(self) -> None:
        """While the report is written, the processes of the next judging wake up."""
        if self._session is not None:
            STANDBY.refill(self._session.setting.order())

    def prepare_lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        """What torch.compile builds for a GPU is tried there."""
        return self._lock(on_step, "prepare", cancelled)

    def lock(self, on_step: StepListener, cancelled: CancelCheck) -> AbstractContextManager[None]:
        return self._lock(on_step, "load", cancelled)

    def _lock(self, on_step: StepListener, stage: str, cancelled: CancelCheck) -> AbstractContextManager[None]:
        text = "another submission is being judged on this GPU"
        return machine_lock(f"gpu-{self.gpu.uuid}", text, on_step, stage, cancelled)

    def preparation(
        self, task: TaskSpec, on_step: StepListener, cancelled: CancelCheck, *, stage: str, quick: bool = False
    ) -> GpuPreparation:
        return GpuPreparation(
            task=task,
            configs=self.configs(task),
            rules=self.rules,
            on_step=on_step,
            cancelled=cancelled,
            stage=stage,
            quick=quick,
            gpu=self.gpu,
            bytecode=bytecode_folder(self.paths),
        )

    def session(
        self, task: TaskSpec, configs: Sequence[Config], binary: Path, prepared: PreparedBaseline, scratch: Path
    ) -> GpuSession:
        pool = pool_library(self.paths)
        setting = GpuSetting(
            task,
            configs,
            self.rules,
            self.cores,
            binary,
            prepared,
            scratch,
            self.gpu,
            self.rules.gpu,
            pool,
            self.paths.scratch,
            bytecode_folder(self.paths),
        )
        self._session = GpuSession(setting)
        return self._session

    def record(self) -> dict[str, Any]:
        return {**super().record(), "gpu": self.gpu.title, "driver": self.gpu.driver}

    def before(self) -> dict[str, Any]:
        session = self._opened()
        self._before = [session.canary() for _ in range(_CANARIES)]
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

    def after(self, judging: Judging, results: Sequence[ConfigResult]) -> Found:
        last = self._steadiest()
        drift = self._drift(last)
        state = last["state"]
        found = {
            "clocks_after_mhz": state["clock_mhz"],
            "memory_clock_mhz": state["memory_clock_mhz"],
            "temperature_c": state["temperature_c"],
            "power_w": state["power_w"],
            "canary_drift": round(drift, 4),
            "throttled_samples": sum(ledger.throttled for ledger in judging.ledgers),
            "null_bound_us": round(bounds.median_bound_us(judging.null_calls), 1),
        }
        if drift > self.rules.gpu.canary_drift and self.gpu.accelerator == "cuda":
            rates = {name: (round(self._before[-1][name], 2), round(last[name], 2)) for name in _RATES}
            raise self._changed(drift, f"the GPU itself changed by {drift:.1%} during the judging: {rates}")
        spread_us = bounds.spread_us(judging.null_calls)
        if spread_us > self.rules.gpu.spread_max_us:
            raise Fault(Verdict.NOISY, f"the host is too busy: calls of nothing scatter by {spread_us:.0f} µs")
        found["null_spread_us"] = round(spread_us, 1)
        return tuple(self._bounded(judging, number, item) for number, item in enumerate(results)), found

    def _steadiest(self) -> dict[str, Any]:
        return min((self._opened().canary() for _ in range(_CANARIES)), key=self._drift)

    def _changed(self, drift: float, reason: str) -> Fault:
        """The submission's fault if much changed and the GPU is as before once the submission's processes are gone."""
        self._opened().crew.end_candidates()
        if drift <= _LEFT_RUNNING or self._drift(self._steadiest()) > self.rules.gpu.canary_drift:
            return Fault(Verdict.NOISY, reason)
        return Fault(Verdict.TAMPERING, f"something was left running on the GPU between the calls; {reason}")

    def audit(
        self,
        task: TaskSpec,
        binary: Path,
        results: Mapping[str, ConfigResult],
        scratch: Path,
        cancelled: CancelCheck,
    ) -> dict[str, Any]:
        configs = [item for item in task.configs_for("cuda") if not item.hidden]
        timeout_s = self.rules.gpu.audit_timeout_s
        return Auditor(task, configs, binary, self.gpu, self.rules.gpu, scratch, timeout_s, cancelled).look(results)

    def _bounded(self, judging: Judging, number: int, result: ConfigResult) -> ConfigResult:
        ledger = judging.ledgers[number]
        if ledger.config.hidden or CANDIDATE not in ledger.seen:
            return result
        seen, null = ledger.seen[CANDIDATE], judging.null_calls
        baselines = (calls for who, calls in ledger.seen.items() if who != CANDIDATE)
        excess_us = bounds.excess_us(seen, [null, *(calls for calls in baselines if bounds.comparable(calls))])
        slack_us = bounds.slack_us(seen, null, self.rules.gpu)
        if excess_us > slack_us:
            raise Fault(
                Verdict.TAMPERING,
                f"the calls kept the GPU or the process {excess_us:.0f} µs longer than the time they claim, where "
                f"{slack_us:.0f} µs are allowed: work must be joined to the current stream ({result.key})",
            )
        everybody = [item for calls in ledger.seen.values() for item in calls]
        if bounds.busy(everybody, self._opened().machine["flush_us"], self.rules.gpu):
            raise Fault(Verdict.TAMPERING, f"something kept running on the GPU between the calls ({result.key})")
        return replace(result, excess_us=excess_us, copied=any(item.copied for item in seen))

    def _opened(self) -> GpuSession:
        if self._session is None:
            raise SupervisorError("a GPU was measured before its session was opened")
        return self._session

    def _drift(self, now: dict[str, Any]) -> float:
        """Against the nearest of the measurements before: a single one is noise as well."""
        return min(max(abs(float(now[name]) / float(before[name]) - 1) for name in _RATES) for before in self._before)


def open_track(device: str, rules: RuleSet, paths: Paths) -> Track:
    """The track of a device name. Raises UsageError for one that is not here."""
    if device == CPU.name:
        return CpuTrack(rules, paths)
    for gpu in gpus():
        if gpu.name == device:
            return GpuTrack(gpu, rules, paths)
    known = ", ".join(item.name for item in devices_here())
    raise UsageError(f"there is no device {device!r} here; known: {known}")


def versions_on(device: str) -> dict[str, str]:
    """Versions of what judging on a device depends on beside torch. Raises UsageError, SupervisorError."""
    if device == CPU.name:
        return {"compiler": gxx.environment()["compiler"]}
    found = [gpu for gpu in gpus() if gpu.name == device]
    if not found:
        raise UsageError(f"there is no device {device!r} here")
    tools = nvcc.environment()
    return {"compiler": tools["compiler"], "cuda": tools["nvcc"], "driver": found[0].driver}


def bytecode_folder(paths: Paths) -> Path | None:
    return paths.bytecode if bytecode_missing() else None


def keep_ready() -> None:
    """From now on this process keeps the processes of its next GPU judging awake: what a worker wants."""
    STANDBY.wanted = True


def host_lock(on_step: StepListener, stage: str, cancelled: CancelCheck) -> AbstractContextManager[None]:
    """One timing on the processors of this machine at a time, and no build beside it."""
    return machine_lock("cpu", _HOST_IS_BUSY, on_step, stage, cancelled)


def _host_build_lock(on_step: StepListener, stage: str, cancelled: CancelCheck) -> AbstractContextManager[None]:
    """As many builds at a time as there are processors, and no timing beside them."""
    return build_lock("cpu", _HOST_IS_BUSY, on_step, stage, cancelled, places=len(os.sched_getaffinity(0)))
