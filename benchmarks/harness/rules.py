"""A rule set: every number that defines a score, read from one TOML file and immutable.

Not covered: task tolerances, which belong to the tasks.
"""

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from .errors import RuleSetError

T = TypeVar("T")
_QUICK_STEPS = 9
_LOOK_SETTLE_S, _LOOK_BURST_CALLS, _LOOK_SPARE_BYTES = 0.1, 8, 1 << 30


@dataclass(frozen=True)
class SourceRules:
    max_bytes: int


@dataclass(frozen=True)
class CompileRules:
    flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    timeout_s: float
    memory_bytes: int
    binary_max_bytes: int


@dataclass(frozen=True)
class VerifyRules:
    calls_per_config: int


@dataclass(frozen=True)
class TimeRules:
    launches: int
    steps_per_config: int
    min_steps_per_config: int
    budget_s: float
    input_sets: int
    input_sets_max_bytes: int
    resume_slack_us: float
    resume_scatter_us: float
    settle_s: float


@dataclass(frozen=True)
class Limits:
    setup_s: float
    call_s: float
    judging_s: float
    memory_bytes: int
    processes: int
    file_bytes: int
    scratch_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class CpuRules:
    reserved_cores: int
    max_threads: int


@dataclass(frozen=True)
class GpuRules:
    flush_bytes: int
    gate_us: float
    python_gate_us: float
    spare_bytes: int
    slack_us: float
    slack_fraction: float
    spread_max_us: float
    contention: float
    canary_drift: float
    burst_calls: int
    burst_bytes: int
    burst_us: float
    bursts: int
    audit_timeout_s: float


@dataclass(frozen=True)
class ScoreRules:
    bootstrap_samples: int
    max_half_width: float
    baseline_compile_timeout_s: float


@dataclass(frozen=True)
class GateRules:
    max_speedup: float
    max_roofline_fraction: float


@dataclass(frozen=True)
class Rules:
    name: str
    title: str
    source: SourceRules
    compile: CompileRules
    verify: VerifyRules
    time: TimeRules
    limits: Limits
    cpu: CpuRules
    gpu_time: TimeRules  # in place of `time` on a GPU
    gpu: GpuRules
    score: ScoreRules
    gates: GateRules
    text: str  # the file itself, for the rules page and for the record


_SECTIONS: dict[str, type[Any]] = {
    "source": SourceRules,
    "compile": CompileRules,
    "verify": VerifyRules,
    "time": TimeRules,
    "limits": Limits,
    "cpu": CpuRules,
    "gpu_time": TimeRules,
    "gpu": GpuRules,
    "score": ScoreRules,
    "gates": GateRules,
}


def load_rules(path: Path) -> Rules:
    """The rule set in `path`. Raises RuleSetError for a missing file, a missing number or an unknown one."""
    try:
        text = path.read_text()
        data = tomllib.loads(text)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RuleSetError(f"cannot read the rule set {path.stem}: {error}") from error
    unknown = data.keys() - _SECTIONS.keys() - {"name", "title"}
    if unknown:
        raise RuleSetError(f"{path.name} has unknown sections: {', '.join(sorted(unknown))}")
    sections = {name: _section(path.name, name, kind, data.get(name, {})) for name, kind in _SECTIONS.items()}
    return Rules(name=data["name"], title=data["title"], text=text, **sections)


def quick_rules(rules: Rules) -> Rules:
    """The same rules with few steps and no limit to the width of the interval."""
    steps = min(_QUICK_STEPS, rules.time.steps_per_config)
    few = {"launches": 1, "steps_per_config": steps, "min_steps_per_config": steps}
    return replace(
        rules,
        time=replace(rules.time, **few),
        gpu_time=replace(rules.gpu_time, **{**few, "launches": rules.gpu_time.launches}),
        score=replace(rules.score, max_half_width=float("inf")),
    )


def look_rules(rules: Rules) -> Rules:
    """As `quick_rules`, and less warm-up on a GPU: looks follow each other so soon that the device is still warm."""
    few = quick_rules(rules)
    gpu_time = replace(few.gpu_time, launches=1, settle_s=min(_LOOK_SETTLE_S, few.gpu_time.settle_s))
    spare_bytes = min(_LOOK_SPARE_BYTES, few.gpu.spare_bytes)
    gpu = replace(few.gpu, bursts=1, burst_calls=min(_LOOK_BURST_CALLS, few.gpu.burst_calls), spare_bytes=spare_bytes)
    return replace(few, gpu_time=gpu_time, gpu=gpu)


def _section(file: str, name: str, kind: type[T], values: dict[str, Any]) -> T:
    wanted = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    if wanted != values.keys():
        difference = ", ".join(sorted(wanted ^ values.keys()))
        raise RuleSetError(f"{file}, section [{name}]: missing or unknown: {difference}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
