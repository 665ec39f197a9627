"""Computes how much of the speedup that a usual script reports remains under the judge, and why the rest is gone.

Pure: it compares a report of the judge with the naive harness's result for the same file. A claim is a speedup that
the script reports for results that it found correct; without a claim nothing evaporates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..harness import Config, TaskSpec, Verdict
from ..naive import is_usual

USUAL_TOLERANCE = 1e-2  # the script's, relative and absolute
_LITTLE = 1.1  # a claim that exceeds the interval of the verified speedup by less holds


class Why(StrEnum):
    """The main reason why a claim does not hold."""

    OTHER_SHAPE = "other shape"
    OTHER_VALUES = "other values"
    FRESH_INPUTS = "fresh inputs"
    PRECISION = "precision"
    FAILS = "fails"
    RULES = "breaks a rule"
    TIMING = "timing"
    BASELINE = "baseline"
    PROBLEM = "problem"


WHY_TEXTS = {  # each continues "the file is"
    Why.OTHER_SHAPE: "wrong on a shape that the script does not try",
    Why.OTHER_VALUES: "wrong on inputs of another range, or with other weights",
    Why.FRESH_INPUTS: "wrong on newly drawn inputs or weights, for example if it keeps an earlier result",
    Why.PRECISION: "within the script's tolerance, but less exact than the task's dtype allows (as TF32 is)",
    Why.FAILS: "crashing, or over the limits of time or memory, under the judge",
    Why.RULES: "refused for what it does, such as a forbidden system call",
    Why.TIMING: "correct, but the script's clock did not measure the time of a call",
    Why.BASELINE: "correct and faster than eager, but torch.compile is faster than eager as well",
    Why.PROBLEM: "accepted, but a filter flags its problem, for example as one that accepts answers without any work",
}

_FAILS = (Verdict.RUNTIME_ERROR, Verdict.OUT_OF_MEMORY, Verdict.TIMEOUT, Verdict.COMPILE_ERROR)
_RULES = (Verdict.REJECTED, Verdict.TAMPERING)


@dataclass(frozen=True)
class Evaporation:
    """`claimed` is the script's speedup, `verified` the judge's; None where the file is wrong, or nothing is ranked."""

    claimed: float
    verified: float | None
    why: Why | None  # None: the claim holds

    @property
    def is_win(self) -> bool:
        """Whether the script reports a kernel that is faster than eager."""
        return self.claimed > 1

    @property
    def is_lost(self) -> bool:
        """Whether nothing is left of such a win."""
        return self.is_win and (self.verified is None or self.verified <= 1)


def evaporation(
    claimed: float, report: Mapping[str, Any], task: TaskSpec, device_class: str, *, ranked: bool = True
) -> Evaporation | None:
    """`report` is the JSON form; `ranked` is whether a speedup on this problem counts. None without a decision."""
    verdict = Verdict(report["verdict"])
    if verdict.ours:
        return None
    if verdict is not Verdict.PASS:
        return Evaporation(claimed, None, _why_wrong(verdict, report["configs"], task.configs_for(device_class)))
    if claimed > 1 and not ranked:
        return Evaporation(claimed, None, Why.PROBLEM)
    speedup, vs_eager = report["score"]["speedup"], report["score"]["vs_eager"]
    if claimed <= report["score"]["ci95"][1] * _LITTLE:
        return Evaporation(claimed, speedup, None)
    return Evaporation(claimed, speedup, Why.TIMING if claimed / vs_eager >= vs_eager / speedup else Why.BASELINE)


def _why_wrong(verdict: Verdict, results: Sequence[Mapping[str, Any]], configs: Sequence[Config]) -> Why:
    if verdict in _RULES:
        return Why.RULES
    as_reported = sorted(configs, key=lambda item: item.hidden)  # the visible ones first
    pairs = zip(as_reported, results, strict=False)
    failed = [(config, result) for config, result in pairs if result["correct"] is False]
    tried = [config for config in configs if is_usual(config)]
    usual = [result for config, result in failed if config in tried]
    if not failed or (usual and verdict in _FAILS):
        return Why.FAILS
    if usual:
        errors = [result["max_rel_error"] for result in usual]
        small = all(isinstance(error, float) and error <= USUAL_TOLERANCE for error in errors)
        return Why.PRECISION if small else Why.FRESH_INPUTS
    shapes = [_shapes(config) for config in tried]
    return Why.OTHER_VALUES if any(_shapes(config) in shapes for config, _ in failed) else Why.OTHER_SHAPE


def _shapes(config: Config) -> list[tuple[int, ...]]:
    return [item.shape for item in config.tensors]
