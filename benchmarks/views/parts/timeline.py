"""The stages of an evaluation as the page shows them: done, running, pending or failed.

While it runs, the evaluation's own columns are the source; afterwards the stage results of the report are. Does NOT
say why a queued evaluation waits: that is derived from the queue in `judgings/waiting.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.models import Evaluation, StageResult
from benchmarks.states import State

TITLES = {
    "static": "Static check",
    "compile": "Compile",
    "prepare": "Prepare baselines",
    "load": "Load",
    "verify": "Verify",
    "time": "Time",
    "audit": "Audit",
}
ORDER = tuple(name for name in TITLES if name != "audit")  # which follows for the best entries of a GPU alone
FALLBACK_STAGE = {
    State.CLAIMED: "static",
    State.COMPILING: "compile",
    State.VERIFYING: "verify",
    State.TIMING: "time",
    State.AUDITING: "audit",
}


@dataclass(frozen=True)
class StageLine:
    """`state` is waiting, active, done, failed or skipped."""

    title: str
    state: str
    seconds: float | None = None
    text: str = ""
    done: int | None = None
    total: int | None = None


def timeline(evaluation: Evaluation, results: list[StageResult], waiting: str) -> list[StageLine]:
    if evaluation.is_finished:
        stages = _finished(evaluation, results)
    elif evaluation.is_running:
        stages = _running(evaluation)
    else:
        stages = _queued(evaluation)
    return [_queue_line(evaluation, waiting), *stages]


def _queue_line(evaluation: Evaluation, waiting: str) -> StageLine:
    if evaluation.state == State.QUEUED:
        return StageLine("Queue", "active", text=waiting)
    if evaluation.claimed is None:
        return StageLine("Queue", "failed")
    return StageLine("Queue", "done", seconds=max(0.0, (evaluation.claimed - evaluation.queued).total_seconds()))


def _queued(evaluation: Evaluation) -> list[StageLine]:
    compiled = ("static", "compile") if evaluation.built or evaluation.provisional else ()
    return [StageLine(TITLES[name], "done" if name in compiled else "waiting") for name in ORDER]


def _running(evaluation: Evaluation) -> list[StageLine]:
    active = evaluation.stage if evaluation.stage in TITLES else FALLBACK_STAGE[State(evaluation.state)]
    order = (*ORDER, "audit") if active == "audit" else ORDER
    return [_running_line(evaluation, name, order.index(name) - order.index(active)) for name in order]


def _running_line(evaluation: Evaluation, name: str, place: int) -> StageLine:
    if place:
        return StageLine(TITLES[name], "done" if place < 0 else "waiting")
    return StageLine(
        TITLES[name],
        "active",
        text=evaluation.stage_text,
        done=evaluation.stage_done,
        total=evaluation.stage_total,
    )


def _finished(evaluation: Evaluation, results: list[StageResult]) -> list[StageLine]:
    seconds: dict[str, float] = {}
    for result in results:
        seconds[result.name] = seconds.get(result.name, 0.0) + result.seconds
    failed = results[-1].name if results and evaluation.verdict != "PASS" else None
    order = (*ORDER, "audit") if "audit" in seconds else ORDER
    return [_finished_line(name, seconds, failed) for name in order]


def _finished_line(name: str, seconds: Mapping[str, float], failed: str | None) -> StageLine:
    if name not in seconds:
        return StageLine(TITLES[name], "skipped")
    return StageLine(TITLES[name], "failed" if name == failed else "done", seconds=seconds[name])
