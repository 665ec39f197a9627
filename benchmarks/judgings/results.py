"""What a report becomes in the tables: results, baselines, standings.

A board has one writer, and it is here: `services.record_report` calls it for a report, whoever changes what may stand
(its owner by visibility or deletion, staff by a decision) calls `standings_renew`. Always inside the transaction of
the caller, one at a time per task version. Does NOT move evaluations between states.
"""

from collections.abc import Iterable
from datetime import datetime
from statistics import median
from typing import Any

from django.db.models import QuerySet

from ..boards.labels import is_ranked
from ..boards.ranking import Entry, Estimate, pooled, rank
from ..harness import ConfigResult as ConfigReport
from ..harness import Report, Score, Verdict
from ..models import BaselineResult, ConfigResult, Evaluation, Refusal, StageResult, Standing, Submission, TaskVersion
from ..states import EvaluationReason, MethodKind, Moderation, Visibility

LIBRARY_CALL = "library-call"
BASELINE_JUDGINGS = 15  # a baseline's time is the median over this many latest judgings
LOG_TAIL_MAX = 64 * 1024
AUDIT, QUICK = EvaluationReason.AUDIT, EvaluationReason.QUICK
AUDITS = (EvaluationReason.AUDIT, EvaluationReason.VERIFICATION)
BOUNDED, AUDITED = "bounded", "audited"  # how far a time on a GPU was confirmed
RENEWED_FROM = 50  # of a holder's accepted evaluations, best first, when its row is written anew
AUDITED_PLACES = 3  # of a board, whose entries must not rest on a bound alone


def columns_of(report: Report, *, quick: bool = False) -> dict[str, Any]:
    """The columns of an evaluation that a report fills. Of a quick check no score is kept: a few calls are none."""
    columns: dict[str, Any] = {
        "verdict": report.verdict.value,
        "report": {**report.to_json(), **({"score": None, "gates": []} if quick else {})},
        "isolation": report.isolation[:200],
        "gated": bool(report.gates) and not quick,
        "calls_library": any(flag.code == LIBRARY_CALL for flag in report.flags),
    }
    return columns if quick or report.score is None else {**columns, **_score_columns(report.score)}


def _score_columns(score: Score) -> dict[str, Any]:
    return {
        "score": score.speedup,
        "score_lo": score.ci95[0],
        "score_hi": score.ci95[1],
        "vs_eager": score.vs_eager,
        "vs_compile": score.vs_compile,
        "worst_config": score.worst_config[:500],
        "timing_trust": score.timing_trust,
    }


def reason_of(report: Report, *, quick: bool) -> str:
    """The sentence for the person."""
    if not quick or report.score is None:
        return report.reason
    about = f"by a few calls about {report.score.speedup:.1f}× PyTorch eager"
    return f"Right on every configuration, hidden ones included; {about}. Not ranked."


def write(evaluation: Evaluation, report: Report) -> None:
    """Stages, configurations and, from those, the baselines."""
    StageResult.objects.bulk_create(
        StageResult(
            evaluation=evaluation,
            position=position,
            name=stage.name,
            seconds=stage.seconds,
            exit_code=stage.exit_code,
            log_tail=stage.log_tail[-LOG_TAIL_MAX:],
        )
        for position, stage in enumerate(report.stages)
    )
    ConfigResult.objects.bulk_create(
        _config(evaluation, position, config) for position, config in enumerate(report.configs)
    )
    hold_boards(evaluation)  # the baselines of a task are a median over judgings, of which others may end now
    for config in report.configs:
        if config.eager_us is not None and config.group != "hidden" and not evaluation.is_quick:
            _baseline_update(evaluation, config)


def _config(evaluation: Evaluation, position: int, config: ConfigReport) -> ConfigResult:
    lo, hi = config.ci95 or (None, None)
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
        calls=config.calls,
        checked_calls=config.checked_calls,
        failure=config.failure,
    )


def _finite(value: float | None) -> float | None:
    """NaN has no place in an SQL comparison; the report keeps it as a word."""
    return None if value is None or value != value or value in (float("inf"), float("-inf")) else value  # noqa: PLR0124


def _baseline_update(evaluation: Evaluation, config: ConfigReport) -> None:
    latest = ConfigResult.objects.filter(
        evaluation__task_version=evaluation.task_version,
        evaluation__device_kind=evaluation.device_kind,
        key=config.key,
        group=config.group,
        eager_us__isnull=False,
    ).exclude(evaluation__reason=QUICK)
    rows = list(latest.order_by("-evaluation__finished", "-pk")[:BASELINE_JUDGINGS])
    BaselineResult.objects.update_or_create(
        task_version=evaluation.task_version,
        device_kind=evaluation.device_kind,
        group=config.group,
        key=config.key,
        defaults={
            "eager_us": _median(row.eager_us for row in rows),
            "compile_us": _median(row.compile_us for row in rows),
            "eager_iqr_us": _median(row.eager_iqr_us for row in rows),
            "compile_iqr_us": _median(row.compile_iqr_us for row in rows),
            "judgings": len(rows),
        },
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def wants_audit(evaluation: Evaluation, report: Report) -> bool:
    """What is asked for, and whatever might enter the first places of a board."""
    if evaluation.is_quick or report.score is None or report.score.timing_trust != BOUNDED:
        return False
    if evaluation.reason in AUDITS:
        return True
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind).ranked()
    clearly_better = board.exclude(holder=holder_of(evaluation)).filter(score_lo__gt=report.score.ci95[1])
    return _may_stand(evaluation) and clearly_better.count() < AUDITED_PLACES


def standings_update(evaluation: Evaluation) -> bool:
    """Write the standing that this evaluation leads to and rank its board anew. False: the board is as it was.

    The only writer of Standing. The judgings of one code are pooled. A code that was accepted and is refused when
    judged again goes under review, so that trying until it passes gains nothing.
    """
    if Verdict(evaluation.verdict).ours:
        return False
    hold_boards(evaluation)
    same_code = _judgings_of_same_code(evaluation)
    if evaluation.verdict == Verdict.PASS and not evaluation.is_quick and _may_stand(evaluation):
        _stand(evaluation, same_code)
    standings = Standing.objects.filter(evaluation__in=[item.pk for item in same_code])
    if not standings.exists():
        return False
    for standing in standings:
        _refresh(standing, same_code)
    _rank_board(evaluation)
    return True


def standings_renew(evaluation: Evaluation) -> None:
    """Write the row of the evaluation's holder on its board anew: what may stand there has changed.

    The evaluation itself may be deleted by now; it names board and holder.
    """
    hold_boards(evaluation)
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind)
    board.filter(holder=holder_of(evaluation)).delete()
    for item in _accepted_of_holder(evaluation)[:RENEWED_FROM]:
        if _may_stand(item):
            _stand(item, _judgings_of_same_code(item))
    for standing in board.filter(holder=holder_of(evaluation)):
        _refresh(standing, _judgings_of_same_code(standing.evaluation))
    _rank_board(evaluation)


def review_renew(evaluation: Evaluation) -> None:
    """Whoever stands on its board with the code of the evaluation, after its review was settled or opened again."""
    hold_boards(evaluation)
    same_code = _judgings_of_same_code(evaluation)
    for standing in Standing.objects.filter(evaluation__in=[item.pk for item in same_code]):
        _refresh(standing, same_code)
    _rank_board(evaluation)


def hold_boards(evaluation: Evaluation) -> None:
    """Until the transaction ends nobody else writes a board of this task version. The submission is read afresh."""
    TaskVersion.objects.select_for_update(no_key=True).only("pk").get(pk=evaluation.task_version_id)
    now = Submission.objects.filter(pk=evaluation.submission_id).values("visibility", "moderation", "confirmed_at")
    for name, value in (now.first() or {}).items():  # none: it has just been deleted
        setattr(evaluation.submission, name, value)


def standings_release(owner: Any) -> list[Evaluation]:
    """Take the rows of an account off all boards; what stood there, for `standings_restore`."""
    rows = Standing.objects.filter(evaluation__submission__owner=owner)
    released = [row.evaluation_id for row in rows]
    rows.delete()
    return list(Evaluation.objects.filter(pk__in=released).select_related("submission"))


def standings_restore(evaluations: Iterable[Evaluation]) -> None:
    """Put them back, each under the holder that its submission has now."""
    for evaluation in Evaluation.objects.filter(pk__in=[item.pk for item in evaluations]):
        hold_boards(evaluation)
        same_code = _judgings_of_same_code(evaluation)
        if _may_stand(evaluation):
            _stand(evaluation, same_code)
        for standing in Standing.objects.filter(evaluation=evaluation):
            _refresh(standing, same_code)
        _rank_board(evaluation)


def _accepted_of_holder(evaluation: Evaluation) -> QuerySet[Evaluation]:
    submission = evaluation.submission
    same: dict[str, Any] = {"owner": submission.owner_id, "method": submission.method_id}
    if submission.owner_id is None and submission.method.kind == MethodKind.HUMAN:
        same = {"code": submission.code}
    return (
        Evaluation.objects.full()
        .filter(
            ruleset=evaluation.ruleset,
            task_version=evaluation.task_version,
            device_kind=evaluation.device_kind,
            verdict=Verdict.PASS,
            **{f"submission__{name}": value for name, value in same.items()},
        )
        .order_by("-score", "finished", "pk")
    )


def remember_refusals(evaluations: Iterable[Evaluation]) -> None:
    """Keep of evaluations that are about to be deleted that their source was refused."""
    Refusal.objects.bulk_create(
        Refusal(
            source_sha256=item.submission.blob_id,
            language=item.submission.language,
            task_version=item.task_version,
            device_kind=item.device_kind,
            ruleset=item.ruleset,
            verdict=item.verdict,
            finished=item.finished,
        )
        for item in evaluations
        if item.finished and item.verdict and item.verdict != Verdict.PASS and not Verdict(item.verdict).ours
    )


def _may_stand(evaluation: Evaluation) -> bool:
    ranked_task = is_ranked(evaluation.task_version.task.labels)
    submission = evaluation.submission
    return ranked_task and submission.visibility == Visibility.PUBLIC and submission.moderation == Moderation.OK


def _judgings_of_same_code(evaluation: Evaluation) -> list[Evaluation]:
    """Of quick checks those that refused it: whether it is right they look at as closely as any other."""
    rows = Evaluation.objects.filter(
        task_version=evaluation.task_version,
        device_kind=evaluation.device_kind,
        ruleset=evaluation.ruleset,
        submission__blob=evaluation.submission.blob_id,
        submission__language=evaluation.submission.language,
    )
    ours = [verdict.value for verdict in Verdict if verdict.ours]
    known = rows.exclude(verdict="").exclude(verdict__in=ours).exclude(reason=QUICK, verdict=Verdict.PASS)
    known = known.select_related("submission")
    return list(known.order_by("finished", "pk"))


def _stand(evaluation: Evaluation, same_code: list[Evaluation]) -> None:
    """Put the evaluation on the board if its holder has nothing better there."""
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind)
    current = board.filter(holder=holder_of(evaluation)).first()
    estimate, in_question = _pooled(same_code), bool(_review_reason(same_code))
    if current is not None and not _replaces(evaluation, estimate, current, in_question=in_question):
        return
    Standing.objects.update_or_create(
        ruleset=evaluation.ruleset,
        task_version=evaluation.task_version,
        device_kind=evaluation.device_kind,
        holder=holder_of(evaluation),
        defaults={
            "evaluation": evaluation,
            "verified_at": min(item.finished for item in same_code if item.finished and item.verdict == Verdict.PASS),
            "score": estimate.score,
            "score_lo": estimate.lo,
            "score_hi": estimate.hi,
            "rank": None,
        },
    )


def _replaces(evaluation: Evaluation, estimate: Estimate, current: Standing, *, in_question: bool) -> bool:
    """An entry under review never hides one that stands, and never keeps a clean one out."""
    if in_question != current.under_review:
        return current.under_review
    if current.evaluation.submission.blob_id != evaluation.submission.blob_id:
        return estimate.score > current.score
    return evaluation.timing_trust == AUDITED or current.evaluation.timing_trust != AUDITED


def holder_of(evaluation: Evaluation) -> str:
    """Who a row of the board belongs to; see Standing."""
    submission = evaluation.submission
    if submission.owner_id is None:
        human = submission.method.kind == MethodKind.HUMAN
        return f"submission:{submission.code}" if human else f"method:{submission.method.slug}"
    by_hand = submission.method.kind == MethodKind.HUMAN
    return f"user:{submission.owner_id}" + ("" if by_hand else f"/{submission.method.slug}")


def _refresh(standing: Standing, same_code: list[Evaluation]) -> None:
    estimate = _pooled(same_code)
    reason = _review_reason(same_code)
    Standing.objects.filter(pk=standing.pk).update(
        score=estimate.score,
        score_lo=estimate.lo,
        score_hi=estimate.hi,
        judgings=sum(item.verdict == Verdict.PASS for item in same_code),
        under_review=bool(reason),
        review_reason=reason,
        rank=None,
    )


def _review_reason(same_code: list[Evaluation]) -> str:
    """Why the code may not rank. Once a review is settled, what it was about is no question again."""
    since = _settled_at(same_code)
    answered = {gate["code"] for item in same_code if _is_settled(item, since) for gate in _gates(item)}
    for item in same_code:
        if _is_settled(item, since):
            continue
        if item.verdict != Verdict.PASS:
            return f"The same code, judged another time, ended as {item.verdict}: {item.reason_text}"
        gates = [gate for gate in _gates(item) if gate["code"] not in answered]
        if gates:
            return " ".join(gate["text"] for gate in gates)
    return _remembered(same_code, since)


def _gates(item: Evaluation) -> list[dict[str, str]]:
    gates: list[dict[str, str]] = (item.report or {}).get("gates", [])
    return gates


def _settled_at(same_code: list[Evaluation]) -> datetime | None:
    """When an audit that passed or a decision of staff last settled what had been in question about the code."""
    audits = [item.finished for item in same_code if _is_passed_audit(item)]
    decisions = [item.submission.confirmed_at for item in same_code]
    return max((moment for moment in [*audits, *decisions] if moment), default=None)


def _is_settled(item: Evaluation, since: datetime | None) -> bool:
    return since is not None and item.finished is not None and item.finished <= since


def _is_passed_audit(item: Evaluation) -> bool:
    """One that staff asked for; on a GPU only if it was really done."""
    return item.reason == AUDIT and item.verdict == Verdict.PASS and item.timing_trust != BOUNDED


def _remembered(same_code: list[Evaluation], since: datetime | None) -> str:
    """The refusal of a deleted submission that nothing has settled since."""
    known = Refusal.objects.filter(
        source_sha256=same_code[0].submission.blob_id,
        language=same_code[0].submission.language,
        task_version=same_code[0].task_version,
        device_kind=same_code[0].device_kind,
        ruleset=same_code[0].ruleset,
    )
    refusal = known.filter(finished__gt=since).first() if since else known.first()
    return f"The same code, judged for a submission since deleted, ended as {refusal.verdict}." if refusal else ""


def _pooled(same_code: list[Evaluation]) -> Estimate:
    return pooled(
        [
            Estimate(item.score, item.score_lo, item.score_hi)
            for item in same_code
            if item.score is not None and item.score_lo is not None and item.score_hi is not None
        ]
    )


def _rank_board(evaluation: Evaluation) -> None:
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind).ranked()
    rows = list(board.only("pk", "score", "score_lo", "score_hi", "verified_at", "rank"))
    ranks = rank(Entry(row.pk, row.score, row.score_lo, row.score_hi, row.verified_at) for row in rows)
    moved = [row for row in rows if row.rank != ranks[row.pk]]
    for row in moved:
        row.rank = ranks[row.pk]
    Standing.objects.bulk_update(moved, ["rank"], batch_size=500)
