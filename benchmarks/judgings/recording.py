"""Writes a report into the tables: columns of the evaluation, stages, configurations, baselines.

Always inside the transaction of the caller. Does NOT move evaluations between states and does NOT write a board
(`boards/standings.py`).
"""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from ..boards.standings import board_renew, boards_marked, may_stand, versions_held
from ..harness import ConfigReport, Report, Score, Verdict, conditions_of
from ..models import (
    BaselineResult,
    ConfigResult,
    Evaluation,
    StageResult,
    Standing,
    Task,
    TaskVersion,
)
from ..states import EvaluationReason

LIBRARY_CALL = "library-call"
BASELINE_JUDGINGS = 15  # a baseline's time is the median over this many latest judgings
BASELINE_TIMES = ("eager_us", "compile_us", "eager_iqr_us", "compile_iqr_us")  # columns of both tables


def columns_of(report: Report, *, quick: bool = False) -> dict[str, Any]:
    """The columns of an evaluation that a report fills. Of a quick check no score is kept: a few calls are none."""
    columns: dict[str, Any] = {
        "verdict": report.verdict.value,
        "report": {**report.to_json(), **({"score": None, "gates": []} if quick else {})},
        "isolation": report.isolation[:200],
        "gated": bool(report.gates) and not quick,
        "calls_library": any(flag.code == LIBRARY_CALL for flag in report.flags),
    }
    return columns if quick or report.score is None else {**columns, **_score_columns(report.score, report.environment)}


def _score_columns(score: Score, environment: dict[str, Any]) -> dict[str, Any]:
    return {
        "score": score.speedup,
        "score_lo": score.ci95[0],
        "score_hi": score.ci95[1],
        "vs_eager": score.vs_eager,
        "vs_compile": score.vs_compile,
        "worst_config": score.worst_config[:500],
        "timing_trust": score.timing_trust,
        "timing_revision": environment.get("timing_revision", 0),
        "conditions": conditions_of(environment),
    }


def reason_of(report: Report, *, quick: bool) -> str:
    """The sentence for the person."""
    if not quick or report.score is None:
        return report.reason
    about = f"in a few calls about {report.score.speedup:.1f}× as fast as PyTorch eager"
    return f"Correct on every configuration, hidden ones included; {about}. Not ranked."


def write(evaluation: Evaluation, report: Report) -> None:
    """Stages, configurations and, from those, the baselines.

    The boards are held: baselines are a median over judgings, of which others may end now.
    """
    StageResult.objects.bulk_create(
        StageResult(
            evaluation=evaluation,
            position=position,
            name=stage.name,
            seconds=stage.seconds,
            exit_code=stage.exit_code,
            log_tail=stage.log_tail,
        )
        for position, stage in enumerate(report.stages)
    )
    ConfigResult.objects.bulk_create(
        _config(evaluation, position, config) for position, config in enumerate(report.configs)
    )
    if not evaluation.is_quick:
        timed = [config for config in report.configs if config.eager_us is not None and config.group != "hidden"]
        _baselines_update(evaluation, ((config.group, config.key) for config in timed))


def _config(evaluation: Evaluation, position: int, config: ConfigReport) -> ConfigResult:
    lo, hi = config.ci95 or (None, None)
    energy_lo_mj, energy_hi_mj = config.energy_ci95_mj or (None, None)
    return ConfigResult(
        evaluation=evaluation,
        position=position,
        key=config.key,
        group=config.group,
        correct=config.correct,
        max_abs_error=_finite(config.max_abs_error),
        max_rel_error=_finite(config.max_rel_error),
        kernel_us=config.kernel_us,
        excess_us=config.excess_us,
        copied=config.copied,
        eager_us=config.eager_us,
        compile_us=config.compile_us,
        kernel_iqr_us=config.kernel_iqr_us,
        eager_iqr_us=config.eager_iqr_us,
        compile_iqr_us=config.compile_iqr_us,
        speedup=config.speedup,
        speedup_lo=lo,
        speedup_hi=hi,
        roofline_fraction=config.roofline_fraction,
        energy_mj=config.energy_mj,
        energy_lo_mj=energy_lo_mj,
        energy_hi_mj=energy_hi_mj,
        calls=config.calls,
        checked_calls=config.checked_calls,
        failure=config.failure,
    )


def _finite(value: float | None) -> float | None:
    """NaN has no place in an SQL comparison; the report keeps it as a word."""
    return None if value is None or value != value or value in (float("inf"), float("-inf")) else value  # noqa: PLR0124


def _baselines_update(evaluation: Evaluation, configs: Iterable[tuple[str, str]]) -> None:
    """The baselines of these configurations, each a group and a key, on the board of this evaluation."""
    BaselineResult.objects.bulk_create(
        [_baseline(evaluation, group, key) for group, key in dict.fromkeys(configs)],
        update_conflicts=True,
        unique_fields=["task_version", "device_kind", "group", "key"],
        update_fields=[*BASELINE_TIMES, "judgings", "updated"],
    )


def _baseline(evaluation: Evaluation, group: str, key: str) -> BaselineResult:
    latest = ConfigResult.objects.filter(
        evaluation__task_version=evaluation.task_version_id,
        evaluation__device_kind=evaluation.device_kind_id,
        key=key,
        group=group,
        eager_us__isnull=False,
    ).exclude(evaluation__reason=EvaluationReason.QUICK)
    rows = latest.order_by("-evaluation__finished", "-pk").values_list(*BASELINE_TIMES)[:BASELINE_JUDGINGS]
    judgings = list(rows)
    return BaselineResult(
        task_version_id=evaluation.task_version_id,
        device_kind_id=evaluation.device_kind_id,
        group=group,
        key=key,
        judgings=len(judgings),
        **dict(zip(BASELINE_TIMES, map(_median, zip(*judgings, strict=True)), strict=True)),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def boards_complete() -> None:
    """Write anew the boards that a migration has marked, and those without a row although something was accepted.

    One task version at a time, which may be interrupted, and beside judgings that end meanwhile.
    """
    empty = _accepted().filter(~_has_rows()).order_by().values_list("task_version", flat=True).distinct()
    _boards_write(TaskVersion.objects.filter(Q(boards_due=True) | Q(pk__in=empty)))


def boards_of_task(task: Task) -> None:
    """Write anew all boards of a task, whose labels say something else of ranks now."""
    with transaction.atomic():
        versions_held(task.versions.all())
        task.versions.update(boards_due=True)  # if this is interrupted, the next start goes on
    _boards_write(task.versions.all())


def _boards_write(versions: QuerySet[TaskVersion]) -> None:
    for version in versions.select_related("task").order_by("pk"):
        with transaction.atomic():
            boards_marked(version.task.versions.values_list("pk", flat=True))
            if version.boards_due:
                Standing.objects.filter(task_version=version).delete()  # also where nothing may stand any more
            accepted = _accepted() if version.boards_due else _accepted().filter(~_has_rows())
            for board in _boards_of(version, accepted):
                board_renew(board)
                timed = ConfigResult.objects.filter(evaluation__in=board, eager_us__isnull=False)
                _baselines_update(board[0], timed.exclude(group="hidden").values_list("group", "key"))
            TaskVersion.objects.filter(pk=version.pk).update(boards_due=False)


def _accepted() -> QuerySet[Evaluation]:
    rows: QuerySet[Evaluation] = Evaluation.objects.full().filter(verdict=Verdict.PASS)
    return rows


def _has_rows() -> Exists:
    board_of = {name: OuterRef(name) for name in ("ruleset", "task_version", "device_kind")}
    return Exists(Standing.objects.filter(**board_of))


def _boards_of(version: TaskVersion, accepted: QuerySet[Evaluation]) -> Iterable[list[Evaluation]]:
    """The accepted evaluations of each board."""
    rows = accepted.filter(task_version=version).select_related("submission__method", "task_version__task")
    boards = defaultdict[tuple[int, int], list[Evaluation]](list)
    for evaluation in rows.defer("report", "error_internal").order_by("pk"):
        if may_stand(evaluation):
            boards[evaluation.ruleset_id, evaluation.device_kind_id].append(evaluation)
    return boards.values()
