"""Feedback on a judged kernel for the next prompt: a table of times, three remarks, and the reason of a failure.

Every sentence is computed from the judge's report. Not covered: ideas for improvements, which the model has to find.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import VERDICT_TEXTS, Config, TaskSpec, Verdict, device_class

from ..model import CandidateView, JudgeResult
from .fences import fenced, one_line

LOG_CHARS = 3_000
METRICS_MAX = 24
_OPS_PER_BYTE = 10.0  # above it arithmetic bounds a kernel on any machine of today
_NEAR_FLOOR = 0.7

ConfigRow = Mapping[str, Any]


def times(result: JudgeResult) -> str:
    """One line per timed configuration."""
    return "\n".join(_times(row) for row in timed(result)) or "(no times)"


def timed(result: JudgeResult) -> list[ConfigRow]:
    return [row for row in result.configs if _number(row, "kernel_us") is not None and row.get("group") != "hidden"]


def remarks(result: JudgeResult, task: TaskSpec, language: str) -> list[str]:
    """Three: the slowest configuration, what bounds it, what the compiler or the profiler says."""
    rows = [row for row in timed(result) if _number(row, "speedup")]
    if not rows:
        return []
    worst = min(rows, key=lambda row: _number(row, "speedup") or 0.0)
    return [_worst(worst), _bounded(worst, task, language), _resources(result) or _stronger_baseline(rows)]


def failure(candidate: CandidateView) -> str:
    """What went wrong with a candidate, with the log as data."""
    result = candidate.result
    if result is None and candidate.refusal is not None:
        return f"It was refused before it was judged: {one_line(candidate.refusal.text, 600)}"
    if result is None:
        reasons = [reason for item in candidate.opinions.values() for reason in item.reasons]
        lines = [f"line {item.line}: {one_line(item.text)}" if item.line else one_line(item.text) for item in reasons]
        return "\n".join(["It was dropped before it was judged:", *lines[:10]])
    parts = [f"Verdict {result.verdict}: {one_line(result.reason, 600)}", *_advice(result.verdict)]
    wrong = [row for row in result.configs if row.get("correct") is False and row.get("group") != "hidden"]
    parts += [_wrong(row) for row in wrong[:3]]
    if not wrong and any(row.get("correct") is False for row in result.configs):
        parts.append("It failed on a configuration that is not shown: think of odd and small sizes.")
    if result.log_tail.strip():
        parts.append(fenced(result.log_tail[-LOG_CHARS:], "end of the log"))
    return "\n".join(parts)


def _times(row: ConfigRow) -> str:
    parts = [f"{row['key']}: kernel {_us(row, 'kernel_us')}", f"eager {_us(row, 'eager_us')}"]
    if row.get("compile_us") is not None:
        parts.append(f"compile {_us(row, 'compile_us')}")
    speedup, fraction = _number(row, "speedup"), _number(row, "roofline_fraction")
    parts += [] if speedup is None else [f"speedup {speedup:.2f}"]
    parts += [] if fraction is None else [f"{100 * fraction:.0f} % of what the machine allows"]
    return ", ".join(parts)


def _number(row: ConfigRow, name: str) -> float | None:
    """A report holds words where a figure is not finite."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _us(row: ConfigRow, name: str) -> str:
    value = _number(row, name)
    return "not measured" if value is None else f"{value:.4g} us"


def _worst(row: ConfigRow) -> str:
    return f"The weakest configuration is {row['key']}, speedup {_number(row, 'speedup'):.2f}, {_us(row, 'kernel_us')}."


def _bounded(row: ConfigRow, task: TaskSpec, language: str) -> str:
    config = _config(row, task, language)
    if config is None or not config.bytes_moved:
        return "What limits it is not known."
    intensity = config.flops / config.bytes_moved
    kind = "arithmetic" if intensity > _OPS_PER_BYTE else "memory traffic"
    text = f"It does {intensity:.1f} operations per byte that must be moved, so {kind} limits it"
    fraction = _number(row, "roofline_fraction")
    if fraction is None:
        return f"{text}."
    near = "little is left to gain there" if fraction > _NEAR_FLOOR else "the rest is overhead, latency or waste"
    return f"{text}, and it reaches {100 * fraction:.0f} % of that limit: {near}."


def _config(row: ConfigRow, task: TaskSpec, language: str) -> Config | None:
    configs = task.configs_for(device_class(language))
    return next((item for item in configs if item.key == row["key"] and not item.hidden), None)


def _resources(result: JudgeResult) -> str | None:
    """What the compiler or the profiler reported, at most 24 figures."""
    plain = {k: v for k, v in (result.resources or {}).items() if isinstance(v, int | float) and k != "binary_sha256"}
    figures = [f"{name} {value:g}" for name, value in list(plain.items())[:METRICS_MAX]]
    return f"Reported by the tools: {', '.join(figures)}." if figures else None


def _stronger_baseline(rows: Sequence[ConfigRow]) -> str:
    beaten = [row for row in rows if (_number(row, "speedup") or 0.0) > 1]
    return f"It beats both baselines on {len(beaten)} of {len(rows)} configurations."


def _advice(verdict: str) -> list[str]:
    known = verdict in Verdict.__members__
    return [VERDICT_TEXTS[Verdict(verdict)].next_step] if known else []


def _wrong(row: ConfigRow) -> str:
    errors = [f"{name} {row[name]}" for name in ("max_abs_error", "max_rel_error") if row.get(name) is not None]
    why = one_line(str(row.get("failure") or "wrong"))
    return f"Wrong on {row['key']}: {', '.join([why, *errors])}"
