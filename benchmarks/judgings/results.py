"""Writes a report to the tables: results, baselines, standings.

This is the only module that writes leaderboards. `services.record_report` calls it for a report; code that changes
what may be ranked (visibility or deletion by the owner, a decision by staff) calls `standings_renew`. Always inside
the transaction of the caller, one at a time per task version. Does NOT move evaluations between states.
"""

from collections.abc import Iterable
from datetime import datetime
from statistics import median
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from ..boards.labels import is_ranked
from ..boards.ranking import Entry, SpeedupEstimate, pooled, rank
from ..harness import ConfigReport, Report, Score, Verdict
from ..models import (
    BaselineResult,
    ConfigResult,
    DeletedScore,
    Evaluation,
    Refusal,
    StageResult,
    Standing,
    Submission,
    TaskVersion,
)
from ..states import EvaluationReason, MethodKind, Moderation, Visibility

LIBRARY_CALL = "library-call"
BASELINE_JUDGINGS = 15  # a baseline's time is the median over this many latest judgings
AUDIT, QUICK = EvaluationReason.AUDIT, EvaluationReason.QUICK
AUDITS = (EvaluationReason.AUDIT, EvaluationReason.VERIFICATION)
BOUNDED, AUDITED, REPLAYED = "bounded", "audited", "replayed"  # how a time on a GPU is known, the best last
TRUSTS = (BOUNDED, AUDITED, REPLAYED)
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
    return f"Correct on every configuration, hidden ones included; {about}. Not ranked."


def write(evaluation: Evaluation, report: Report) -> None:
    """Stages, configurations and, from those, the baselines."""
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


def _baseline_update(evaluation: Evaluation, config: ConfigReport | ConfigResult) -> None:
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
    standings = _standings_touched(evaluation)
    for standing in standings:
        _refresh(standing)
    if standings:
        _rank_board(evaluation)
    return bool(standings)


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
        _refresh(standing)
    _rank_board(evaluation)


def boards_complete() -> None:
    """Write anew what has no row although something was accepted: boards that a migration has divided."""
    board = ("ruleset", "task_version", "device_kind")
    rows = Standing.objects.filter(**{name: OuterRef(name) for name in board})
    accepted = Evaluation.objects.full().filter(~Exists(rows), verdict=Verdict.PASS).order_by("pk")
    for evaluation in accepted.select_related("submission__method", "task_version__task").defer("report"):
        if not _may_stand(evaluation):
            continue
        with transaction.atomic():
            standings_renew(evaluation)
            for config in evaluation.configs.filter(eager_us__isnull=False).exclude(group="hidden"):
                _baseline_update(evaluation, config)


def review_renew(evaluation: Evaluation) -> None:
    """Whoever stands on its board with the code of the evaluation, after its review was settled or opened again."""
    hold_boards(evaluation)
    for standing in _standings_touched(evaluation):
        _refresh(standing)
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
        if _may_stand(evaluation):
            _stand(evaluation, _judgings_of_same_code(evaluation))
        for standing in Standing.objects.filter(evaluation=evaluation):
            _refresh(standing)
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


def remember(evaluations: Iterable[Evaluation]) -> None:
    """Keep of evaluations that are about to be deleted that their source was refused, or what it scored for whom."""
    refused, scored = [], []
    for item in evaluations:
        columns = {
            "source_sha256": item.submission.blob_id,
            "source_key": item.submission.source_key,
            "object_key": item.object_key,
            "task_version": item.task_version,
            "device_kind": item.device_kind,
            "ruleset": item.ruleset,
        }
        if item.score is not None and item.submission.owner_id is not None:
            scores = {"score": item.score, "score_lo": item.score_lo, "score_hi": item.score_hi}
            scored.append(DeletedScore(owner_id=item.submission.owner_id, **columns, **scores))
        elif item.finished and item.verdict and item.verdict != Verdict.PASS and not Verdict(item.verdict).ours:
            what = {"verdict": item.verdict, "finished": item.finished, "language": item.submission.language}
            refused.append(Refusal(**columns, **what))
    Refusal.objects.bulk_create(refused)
    DeletedScore.objects.bulk_create(scored)


def _may_stand(evaluation: Evaluation) -> bool:
    ranked_task = is_ranked(evaluation.task_version.task.labels)
    submission = evaluation.submission
    return ranked_task and submission.visibility == Visibility.PUBLIC and submission.moderation == Moderation.OK


def _judgings_of_same_code(evaluation: Evaluation, *, anybodys_tokens: bool = False) -> list[Evaluation]:
    """Of the same text or the same compiled code, whoever submitted it, and of the same tokens by the same owner.

    Tokens are read from a text that its author chose: a stranger's must not touch an entry. Of quick checks those that
    refused it: whether it is right they look at as closely as any other.
    """
    rows = Evaluation.objects.filter(
        task_version=evaluation.task_version, device_kind=evaluation.device_kind, ruleset=evaluation.ruleset
    )
    ours = [verdict.value for verdict in Verdict if verdict.ours]
    known = rows.exclude(verdict="").exclude(verdict__in=ours).exclude(reason=QUICK, verdict=Verdict.PASS)
    owner, owned = _owner_of(evaluation), Q() if anybodys_tokens else _owned_like(evaluation)
    found, before = [evaluation], 0
    while len(found) > before:  # the same tokens may have been compiled to what yet another was compiled to
        before = len(found)
        own = [item for item in found if anybodys_tokens or _owner_of(item) == owner]
        tokens = Q(submission__source_key__in={item.submission.source_key for item in own} - {""})
        same = _exactly_like(found, text="submission__blob") | (tokens & owned)
        found = list(known.filter(same).select_related("submission__method").order_by("finished", "pk"))
    return found


def _exactly_like(judgings: list[Evaluation], *, text: str) -> Q:
    """Of a text of these, or of what was compiled of them. A key that is not known is nobody's."""
    texts = Q(**{f"{text}__in": {item.submission.blob_id for item in judgings}})
    return texts | Q(object_key__in={item.object_key for item in judgings} - {""})


def _exact(evaluation: Evaluation, same_code: list[Evaluation]) -> list[Evaluation]:
    """Those of its text or of what that was compiled to: what settles a question is never found by tokens."""
    found, before = [evaluation], 0
    while len(found) > before:
        before = len(found)
        texts, objects = {item.submission.blob_id for item in found}, {item.object_key for item in found} - {""}
        found = [item for item in same_code if item.submission.blob_id in texts or item.object_key in objects]
    return found


def _standings_touched(evaluation: Evaluation) -> list[Standing]:
    """Rows to read anew after a judging; which judgings count, each then finds for itself."""
    judgings = _judgings_of_same_code(evaluation, anybodys_tokens=True)
    rows = Standing.objects.filter(evaluation__in=[item.pk for item in judgings])
    return list(rows.select_related("evaluation__submission__method"))


def _owned_like(evaluation: Evaluation) -> Q:
    """`_owner_of` for a query."""
    submission = evaluation.submission
    if submission.owner_id is None and submission.method.kind == MethodKind.HUMAN:
        return Q(submission=submission.pk)
    method = {"submission__method": submission.method_id} if submission.owner_id is None else {}
    return Q(submission__owner=submission.owner_id, **method)


def _owner_of(evaluation: Evaluation) -> str:
    """As `holder_of`, but one person with several methods is one."""
    owner = evaluation.submission.owner_id
    return holder_of(evaluation) if owner is None else f"user:{owner}"


def _stand(evaluation: Evaluation, same_code: list[Evaluation]) -> None:
    """Put the evaluation on the board if its holder has nothing better there."""
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind)
    current = board.filter(holder=holder_of(evaluation)).first()
    estimate, in_question = _pooled(evaluation, same_code), bool(_review_reason(evaluation, same_code))
    if current is not None and not _replaces(evaluation, estimate, current, same_code, in_question=in_question):
        return
    accepted = [item for item in same_code if item.verdict == Verdict.PASS]
    Standing.objects.update_or_create(
        ruleset=evaluation.ruleset,
        task_version=evaluation.task_version,
        device_kind=evaluation.device_kind,
        holder=holder_of(evaluation),
        defaults={
            "evaluation": evaluation,
            "verified_at": min(item.finished for item in accepted if item.finished),
            "score": estimate.score,
            "score_lo": estimate.lo,
            "score_hi": estimate.hi,
            "rank": None,
        },
    )


def _replaces(
    evaluation: Evaluation,
    estimate: SpeedupEstimate,
    current: Standing,
    same_code: list[Evaluation],
    *,
    in_question: bool,
) -> bool:
    """An entry under review never hides one that stands, and never keeps a clean one out."""
    if in_question != current.under_review:
        return current.under_review
    if current.evaluation_id not in {item.pk for item in same_code}:
        return estimate.score > current.score
    return _trust(evaluation) >= _trust(current.evaluation)


def _trust(evaluation: Evaluation) -> int:
    """Of the same code, what is better known stands; on a processor there is nothing to tell apart."""
    return TRUSTS.index(evaluation.timing_trust) if evaluation.timing_trust in TRUSTS else 0


def holder_of(evaluation: Evaluation) -> str:
    """Who a row of the board belongs to; see Standing."""
    submission = evaluation.submission
    if submission.owner_id is None:
        human = submission.method.kind == MethodKind.HUMAN
        return f"submission:{submission.code}" if human else f"method:{submission.method.slug}"
    by_hand = submission.method.kind == MethodKind.HUMAN
    return f"user:{submission.owner_id}" + ("" if by_hand else f"/{submission.method.slug}")


def _refresh(standing: Standing) -> None:
    same_code = _judgings_of_same_code(standing.evaluation)
    estimate = _pooled(standing.evaluation, same_code)
    reason = _review_reason(standing.evaluation, same_code)
    Standing.objects.filter(pk=standing.pk).update(
        score=estimate.score,
        score_lo=estimate.lo,
        score_hi=estimate.hi,
        judgings=sum(item.verdict == Verdict.PASS for item in same_code),
        under_review=bool(reason),
        review_reason=reason,
        rank=None,
    )


def _review_reason(evaluation: Evaluation, same_code: list[Evaluation]) -> str:
    """Why the code may not rank. Once a review is settled, what it was about is no question again.

    What the owner's own judgings with the same tokens have put in question counts, what they have settled does not.
    """
    exact = _exact(evaluation, same_code)
    since = _settled_at(exact)
    answered = {gate["code"] for item in exact if _is_settled(item, since) for gate in _gates(item)}
    for item in same_code:
        if _is_settled(item, since):
            continue
        if item.verdict != Verdict.PASS:
            return f"The same source, judged at another time, ended as {item.verdict}: {item.reason_text}"
        gates = [gate for gate in _gates(item) if gate["code"] not in answered]
        if gates:
            return " ".join(gate["text"] for gate in gates)
    return _remembered(exact, since)


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


def _remembered(exact: list[Evaluation], since: datetime | None) -> str:
    """The refusal of a deleted submission that nothing has settled since."""
    known = _deleted(Refusal, exact, _exactly_like(exact, text="source_sha256"))
    refusal = known.filter(finished__gt=since).first() if since else known.first()
    return f"The same source, judged for a submission deleted since, ended as {refusal.verdict}." if refusal else ""


def _deleted(table: Any, same_code: list[Evaluation], like: Q) -> QuerySet[Any]:
    """What is remembered of deleted judgings of the same code."""
    board = {name: getattr(same_code[0], name) for name in ("task_version", "device_kind", "ruleset")}
    rows: QuerySet[Any] = table.objects.filter(like, **board)
    return rows


def _pooled(evaluation: Evaluation, same_code: list[Evaluation]) -> SpeedupEstimate:
    """Deleted judgings count as well, or the unlucky ones would be deleted."""
    rows: list[Any] = [item for item in same_code if item.score is not None]
    like, owner = _exactly_like(same_code, text="source_sha256"), evaluation.submission.owner_id
    if owner is not None:
        own = [item for item in same_code if item.submission.owner_id == owner]
        like |= Q(owner=owner, source_key__in={item.submission.source_key for item in own} - {""})
    rows += _deleted(DeletedScore, same_code, like)
    return pooled([SpeedupEstimate(item.score, item.score_lo, item.score_hi) for item in rows])


def _rank_board(evaluation: Evaluation) -> None:
    board = Standing.objects.board(evaluation.ruleset, evaluation.task_version, evaluation.device_kind).ranked()
    rows = list(board.only("pk", "score", "score_lo", "score_hi", "verified_at", "rank"))
    ranks = rank(Entry(row.pk, row.score, row.score_lo, row.score_hi, row.verified_at) for row in rows)
    moved = [row for row in rows if row.rank != ranks[row.pk]]
    for row in moved:
        row.rank = ranks[row.pk]
    Standing.objects.bulk_update(moved, ["rank"], batch_size=500)
