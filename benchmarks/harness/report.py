"""The report of a judging: verdict, score, configurations, stages. Its JSON form is a public interface.

Inconsistent records cannot be built: a score requires PASS, and there is always a reason. Nor can records that a
database would refuse: each text is cleaned and cut to TEXT_CHARS_MAX characters, a log to its last LOG_CHARS_MAX.
"""

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from .protocol import clean_text

TEXT_CHARS_MAX = 2000
LOG_CHARS_MAX = 64 * 1024


class Verdict(StrEnum):
    """Why an evaluation ended as it did. What each means is shown to people from `VERDICT_TEXTS`."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    COMPILE_ERROR = "COMPILE_ERROR"
    REJECTED = "REJECTED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    INCORRECT_VALUE = "INCORRECT_VALUE"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIMEOUT = "TIMEOUT"
    TAMPERING = "TAMPERING"
    NOISY = "NOISY"
    INTERNAL_ERROR = "INTERNAL_ERROR"

    @property
    def ours(self) -> bool:
        """The system's own fault: retried, refunded, never held against the submission."""
        return self in (Verdict.NOISY, Verdict.INTERNAL_ERROR)


@dataclass(frozen=True)
class VerdictText:
    meaning: str
    next_step: str


VERDICT_TEXTS = {
    Verdict.PASS: VerdictText(
        "Correct on every configuration, hidden ones included, and timed.",
        "Compare each configuration with its baselines: the one with the lowest speedup shows where to improve next.",
    ),
    Verdict.COMPILE_ERROR: VerdictText(
        "The compiler did not accept the source.",
        "Read the first error in the log; its line number links into your code.",
    ),
    Verdict.REJECTED: VerdictText(
        "The source breaks the contract of the task or a rule of the benchmark.",
        "Read the reason; the starter code of the task shows the exact signature.",
    ),
    Verdict.INCORRECT_SHAPE: VerdictText(
        "The shape of a result or the number of results is not what the task requires.",
        "The configuration table lists the shape of every result.",
    ),
    Verdict.INCORRECT_DTYPE: VerdictText(
        "The dtype of a result is not what the task requires.", "Allocate results with the options of the input tensor."
    ),
    Verdict.INCORRECT_VALUE: VerdictText(
        "A result is further from the float64 reference than the task allows.",
        "Look at the failed configurations: odd sizes and large values are the usual causes.",
    ),
    Verdict.NONDETERMINISTIC: VerdictText(
        "The same input gave a right and a wrong result.",
        "Look for uninitialised memory, a data race, or a result that depends on what was in the output before.",
    ),
    Verdict.RUNTIME_ERROR: VerdictText(
        "The kernel raised an error or its process died.",
        "Read the reason and the end of the log. If the process died, an out-of-bounds access is a frequent cause.",
    ),
    Verdict.OUT_OF_MEMORY: VerdictText(
        "The kernel asked for more memory than the rules allow.", "Free or reuse scratch buffers."
    ),
    Verdict.TIMEOUT: VerdictText(
        "A stage took longer than the rules allow.", "Look for an endless loop or for work that grows quadratically."
    ),
    Verdict.TAMPERING: VerdictText(
        "There is evidence that the submission tried to influence its own judging.",
        "The reason names the evidence. Without its cause, you can submit the source again at any time.",
    ),
    Verdict.NOISY: VerdictText(
        "The machine was too noisy for a reliable measurement; this is our fault.",
        "Nothing to do: it is measured again without charge.",
    ),
    Verdict.INTERNAL_ERROR: VerdictText(
        "The judge itself failed; this is our fault.", "Nothing to do: it is judged again without charge."
    ),
}


class _Storable:
    """A frozen record, each text of which can be stored and shown."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            object.__setattr__(self, name, clean_log(value) if name == "log_tail" else _storable(value))


def clean_log(text: str) -> str:
    """The end of what a program printed, as it may be stored and shown."""
    return clean_text(text[-LOG_CHARS_MAX:])


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_storable(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_storable, value))
    if not isinstance(value, str) or isinstance(value, StrEnum):
        return value
    cut = value if len(value) <= TEXT_CHARS_MAX else value[: TEXT_CHARS_MAX - 1] + "…"
    return clean_text(cut)


@dataclass(frozen=True)
class Score(_Storable):
    """Geometric mean over the timed configurations of stronger baseline / kernel, with its 95 % interval."""

    speedup: float
    ci95: tuple[float, float]
    vs_eager: float
    vs_compile: float | None
    worst_config: str
    timing_trust: str

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.ci95
        if not (0 < low <= self.speedup <= high and math.isfinite(high)):
            raise ValueError(f"a score of {self.speedup} cannot have the interval {self.ci95}")


@dataclass(frozen=True)
class ConfigReport(_Storable):
    """What happened on one configuration; None where nothing was measured."""

    key: str
    group: str
    correct: bool | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    kernel_us: float | None = None
    eager_us: float | None = None
    compile_us: float | None = None
    kernel_iqr_us: float | None = None
    eager_iqr_us: float | None = None
    compile_iqr_us: float | None = None
    speedup: float | None = None
    ci95: tuple[float, float] | None = None
    roofline_fraction: float | None = None
    calls: int = 0
    checked_calls: int = 0
    failure: str = ""
    launches_us: tuple[tuple[float | None, ...], ...] = ()  # medians of kernel, eager and compile in each launch
    excess_us: float | None = None  # GPU: time by the referee's clock beyond what the calls claimed, in the median
    copied: bool = False  # GPU: results were copied into shared memory within the timed window
    energy_mj: float | None = None  # of one call, after everything else was known; no score uses it
    energy_ci95_mj: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checked_calls > self.calls:
            raise ValueError(f"{self.key}: {self.checked_calls} checked calls out of {self.calls}")
        if (self.energy_mj is None) != (self.energy_ci95_mj is None):
            raise ValueError(f"{self.key}: an energy and its interval must be given together")
        if self.speedup is not None and not self.correct:
            raise ValueError(f"{self.key}: a speedup for a configuration that is not correct")


@dataclass(frozen=True)
class StageReport(_Storable):
    name: str  # static, compile, prepare, load, verify, time
    seconds: float
    exit_code: int | None = None
    log_tail: str = ""


@dataclass(frozen=True)
class Flag(_Storable):
    """A remark for readers and reviewers; never a verdict by itself. `line` is 1-based."""

    code: str
    text: str
    line: int | None = None


@dataclass(frozen=True)
class Report(_Storable):
    """The whole outcome of one judging. `gates` names what keeps an accepted entry under review."""

    task: str
    suite: str
    language: str
    device_kind: str
    ruleset: str
    verdict: Verdict
    reason: str
    source_sha256: str
    score: Score | None = None
    configs: tuple[ConfigReport, ...] = ()
    stages: tuple[StageReport, ...] = ()
    flags: tuple[Flag, ...] = ()
    gates: tuple[Flag, ...] = ()
    audit: dict[str, Any] | None = None  # GPU: what NVIDIA's tools said, see `gpu/audit.py`
    isolation: str = ""
    environment: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.score is not None) != (self.verdict is Verdict.PASS):
            raise ValueError(f"a report with verdict {self.verdict} and score {self.score}")
        if not self.reason:
            raise ValueError("a report without a reason")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; NaN and infinity become the strings "nan", "inf" and "-inf"."""
        return {key: _plain(value) for key, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, StrEnum) else value
