"""The only writer of leaderboards.

`judgings/moves.py` calls it for a report; whoever changes what may stand (its owner by visibility or deletion, staff
by a decision) calls `standings_renew`. Always inside the transaction of the caller, one at a time per task version.
Does NOT decide which judgings are pooled or reviewed (`reviews.py`).
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from ..harness import Report, Verdict, what_counts
from ..models import (
    Evaluation,
    Standing,
    Submission,
    TaskVersion,
)
from ..notifications import telling
from ..querysets import counted
from ..states import BOUNDED, MethodKind, Moderation, TaskVersionStatus, Visibility
from .contradictions import is_contested, is_for_site
from .labels import is_ranked
from .ranking import Entry, rank
from .reviews import AUDITS, pooled_estimate, pooled_judgings, review_reason
from .same_code import holder_of
from .settled import Programs, SameCode, ended, how_known

RENEWED_FROM = 50  # of a holder's programs, best first, when its row is written anew
TEXTS_MAX = 150  # of which programs have further ones: staff may have confirmed one text and not another
AUDITED_PLACES = 3  # of a board, whose entries must not rest on a bound alone


def wants_audit(evaluation: Evaluation, report: Report) -> bool:
    """What is asked for, what the site judges itself, and whatever might enter the first places of a board."""
    if evaluation.is_quick or report.score is None or report.score.timing_trust != BOUNDED:
        return False
    if evaluation.reason in AUDITS or is_for_site(evaluation):
        return True
    board = Standing.objects.board(
        evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id
    ).ranked()
    clearly_better = board.exclude(holder=holder_of(evaluation)).filter(score_lo__gt=report.score.ci95[1])
    return may_stand(evaluation) and clearly_better.count() < AUDITED_PLACES


def standings_update(evaluation: Evaluation) -> bool:
    """Write the standing of this evaluation and rank its board again. False: nothing changed.

    The only writer of Standing. The judgings of one code are pooled. A code that was accepted and is refused when
    judged again goes under review, so that trying until it passes gains nothing.
    """
    if Verdict(evaluation.verdict).ours:
        return False
    hold_boards(evaluation)
    touched = _renew_program(evaluation, Programs())
    if touched:
        _rank_board(evaluation)
    return touched


def standings_renew(evaluation: Evaluation, programs: Programs | None = None) -> None:
    """Write the row of the evaluation's holder on its board again, because its best entry may have changed.

    The evaluation itself may be deleted by now; it names board and holder.
    """
    hold_boards(evaluation)
    _write_holder(evaluation, programs or Programs())
    _rank_board(evaluation)


def board_renew(accepted: Sequence[Evaluation]) -> None:
    """Write a whole board again. `accepted` are all its accepted evaluations; nobody is told who lost a place."""
    hold_boards(accepted[0])
    programs = Programs()
    for evaluation in {holder_of(item): item for item in accepted}.values():
        _write_holder(evaluation, programs)
    _rank_board(accepted[0], tells=False)


def _write_holder(evaluation: Evaluation, programs: Programs) -> None:
    _board_of(evaluation).filter(holder=holder_of(evaluation)).delete()
    if not _has_board(evaluation):
        return
    row: Standing | None = None
    clean = set[int]()  # judgings that are not in question: another text of one changes nothing
    for item in _best_of_programs(_accepted_of_holder(evaluation)):
        if item.pk not in clean:
            same_code = programs.same_code(item)
            row, doubt = _stand(item, same_code, row)
            clean |= set() if doubt else same_code.keys
    if row is not None:
        _refresh(row, programs.same_code(row.evaluation))
        row.save()


def review_renew(evaluation: Evaluation, programs: Programs | None = None) -> None:
    """Renew all rows of the board with the code of this evaluation, after its review was closed or reopened."""
    hold_boards(evaluation)
    _renew_program(evaluation, programs or Programs())
    _rank_board(evaluation)


def _renew_program(evaluation: Evaluation, programs: Programs) -> bool:
    """Write anew the rows of everybody who has this code, if they are other ones now. Whether there are any.

    A holder gets a row with this code if it is the best entry now, and one with another entry if it no longer is:
    rows do not depend on what was judged or decided first.
    """
    program = programs.of(evaluation)
    keys = {item.pk for item in program.judgings}
    accepted = [item for item in program.judgings if item.verdict == Verdict.PASS and not item.is_quick]
    shown = [item for item in accepted if _is_shown(item.submission)]
    rows = _rows_of(evaluation, Q(evaluation__in=keys) | Q(holder__in={holder_of(item) for item in shown}))
    written = {holder: _figures(row) for holder, row in rows.items()}
    before = {holder: _counts(row) for holder, row in rows.items() if row.evaluation_id in keys}
    stands = {holder: row.evaluation_id for holder, row in rows.items()}
    for item in {(holder_of(item), item.submission.blob_id, item.object_key): item for item in shown}.values():
        same_code, holder = program.same_code(item), holder_of(item)
        is_new = item.pk == evaluation.pk or not before.get(holder)
        if _has_board(evaluation) and (is_new or stands[holder] not in same_code.keys):
            rows[holder], _ = _stand(item, same_code, rows.get(holder))
    touched = [row for row in rows.values() if row.evaluation_id in keys]
    for row in touched:
        _refresh(row, program.same_code(row.evaluation))
        if _figures(row) != written.get(row.holder):
            row.rank = None
            row.save()
        if _counts(row) < before.get(row.holder, 0.0) and _has_another(row):
            _write_holder(row.evaluation, programs)
    return bool(touched)


def _has_another(row: Standing) -> bool:
    """Whether more may count of another text that its holder has shown on the board."""
    evaluation = row.evaluation
    others = _accepted_of_holder(evaluation).exclude(submission__blob=evaluation.submission.blob_id)
    return others.filter(score_hi__gt=_counts(row)).exists()


def hold_boards(evaluation: Evaluation) -> None:
    """Lock the boards of this task version until the transaction ends, and read the submission again.

    Nothing that was kept of these boards is used once the transaction is committed.
    """
    boards_marked([evaluation.task_version_id])
    now = Submission.objects.filter(pk=evaluation.submission_id).values("visibility", "moderation", "shown_at")
    for name, value in (now.first() or {}).items():  # none: it has just been deleted
        setattr(evaluation.submission, name, value)


def boards_marked(versions: Iterable[int]) -> None:
    """What a task version's boards show is about to change; its row is locked by that."""
    TaskVersion.objects.filter(pk__in=versions).update(boards_mark=uuid.uuid4())


def boards_held(submission: Submission) -> None:
    """Lock the boards of whatever a submission is judged for, before it is asked how that ended.

    Who writes a report holds them until it is committed. Before that nobody else sees a verdict, and would leave alone
    what the report is about to put on a board. Whoever changes the submission holds them first, in the same order as
    everybody else, so that no two wait for each other.
    """
    boards_marked(Evaluation.objects.filter(submission=submission).order_by().values_list("task_version", flat=True))


def standings_release(owner: Any) -> list[Evaluation]:
    """Take the rows of an account off all boards; what stood there, for `standings_restore`."""
    rows = Standing.objects.filter(evaluation__submission__owner=owner)
    released = [row.evaluation_id for row in rows]
    rows.delete()
    return list(Evaluation.objects.filter(pk__in=released).select_related("submission"))


def standings_restore(evaluations: Iterable[Evaluation]) -> None:
    """Put them back, each under the holder that its submission has now."""
    programs = Programs()
    rows = Evaluation.objects.filter(pk__in=[item.pk for item in evaluations]).select_related("submission__method")
    for evaluation in rows:
        hold_boards(evaluation)
        same_code, holder = programs.same_code(evaluation), holder_of(evaluation)
        row = _rows_of(evaluation, Q(holder=holder)).get(holder)
        if may_stand(evaluation):
            row, _ = _stand(evaluation, same_code, row)
        if row is not None and row.evaluation_id in same_code.keys:
            _refresh(row, programs.same_code(row.evaluation))
            row.rank = None
            row.save()
        _rank_board(evaluation)


def _best_of_programs(accepted: QuerySet[Evaluation]) -> list[Evaluation]:
    """The best judging of each text of the first RENEWED_FROM programs: judgings of one are pooled anyway."""
    found, programs = dict[tuple[str, str], int](), set[str]()
    for pk, text, tokens in accepted.values_list("pk", "submission__blob", "submission__source_key").iterator():
        program = tokens or text
        if program in programs and len(found) >= TEXTS_MAX:
            continue
        found.setdefault((program, text), pk)
        programs.add(program)
        if len(programs) == RENEWED_FROM:
            break
    rows = accepted.select_related("submission__method").defer("report", "error_internal").in_bulk([*found.values()])
    return [rows[pk] for pk in found.values()]


def _accepted_of_holder(evaluation: Evaluation) -> QuerySet[Evaluation]:
    """What its holder may show, best first."""
    submission = evaluation.submission
    same: dict[str, Any] = {"owner": submission.owner_id, "method": submission.method_id}
    if submission.owner_id is None and submission.method.kind == MethodKind.HUMAN:
        gone = submission.former_owner
        same = {"former_owner": gone, "method": submission.method_id} if gone else {"code": submission.code}
    return (
        Evaluation.objects.full()
        .filter(
            ruleset=evaluation.ruleset_id,
            task_version=evaluation.task_version_id,
            device_kind=evaluation.device_kind_id,
            verdict=Verdict.PASS,
            submission__visibility=Visibility.PUBLIC,
            submission__moderation=Moderation.OK,
            **{f"submission__{name}": value for name, value in same.items()},
        )
        .order_by(counted().desc(), "finished", "pk")
    )


def may_stand(evaluation: Evaluation) -> bool:
    return _has_board(evaluation) and _is_shown(evaluation.submission)


def _has_board(evaluation: Evaluation) -> bool:
    version = evaluation.task_version
    if version.status == TaskVersionStatus.CONTEST:
        return False  # its results stand on the page of the contest
    return is_ranked(version.task.labels)


def _is_shown(submission: Submission) -> bool:
    return submission.visibility == Visibility.PUBLIC and submission.moderation == Moderation.OK


def _board_of(evaluation: Evaluation) -> Any:
    return Standing.objects.board(evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id)


def _rows_of(evaluation: Evaluation, which: Q) -> dict[str, Standing]:
    """Rows of its board by their holders, with what is asked of the judgings in them."""
    rows = _board_of(evaluation).filter(which).select_related("evaluation__submission__method")
    return {row.holder: row for row in rows.defer("evaluation__report", "evaluation__error_internal")}


def _stand(evaluation: Evaluation, same_code: SameCode, row: Standing | None) -> tuple[Standing, bool]:
    """The row of its holder, with this evaluation unless it has a better one, and whether its code is in question.

    The row is not saved; what says more of it than its score is found by `_refresh`.
    """
    doubt, named = review_reason(evaluation, same_code), _better_known_of_holder(evaluation, same_code)
    if named is not None and bool(review_reason(named, same_code)) == bool(doubt):
        evaluation = named
    if row is None:
        key = {name: getattr(evaluation, name) for name in ("ruleset_id", "task_version_id", "device_kind_id")}
        row = Standing(**key, holder=holder_of(evaluation))
    elif not _replaces(evaluation, row, same_code, in_question=bool(doubt)):
        return row, bool(doubt)
    accepted = (item for item in same_code.judgings if item.verdict == Verdict.PASS)  # those that ended first are first
    row.verified_at = next(ended(item) for item in accepted if holder_of(item) == row.holder)
    row.evaluation, row.under_review = evaluation, bool(doubt)
    _pool(row, pooled_judgings(evaluation, same_code))
    return row, bool(doubt)


def _better_known_of_holder(evaluation: Evaluation, same_code: SameCode) -> Evaluation | None:
    """The newest of the accepted judgings whose times are known best, if that is better than of this one."""
    known = [
        item
        for item in same_code.judgings
        if item.verdict == Verdict.PASS and not item.is_quick and _distrust(item) < _distrust(evaluation)
        if holder_of(item) == holder_of(evaluation) and _is_shown(item.submission)
    ]
    return min(reversed(known), key=_distrust, default=None)


def _replaces(evaluation: Evaluation, row: Standing, same_code: SameCode, *, in_question: bool) -> bool:
    """Whether more of it counts. What is under review never hides what stands, and never keeps a clean entry out."""
    if in_question != row.under_review:
        return row.under_review
    if row.evaluation_id in same_code.keys:
        return _distrust(evaluation) <= _distrust(row.evaluation)
    estimate = pooled_estimate(pooled_judgings(evaluation, same_code))
    stands = what_counts(row.score, row.score_lo, row.evaluation.timing_trust)
    return what_counts(estimate.score, estimate.lo, evaluation.timing_trust) > stands


def _distrust(evaluation: Evaluation) -> tuple[int, int]:
    """Of the same code, what is better known stands, and of that what the latest revision has timed."""
    return how_known(evaluation), -evaluation.timing_revision


def _pool(row: Standing, counting: list[Any]) -> None:
    """The score of what is pooled, how many of these have not been deleted, and the revision of the timing."""
    estimate = pooled_estimate(counting)
    row.score, row.score_lo, row.score_hi = estimate.score, estimate.lo, estimate.hi
    row.judgings = max(1, sum(isinstance(item, Evaluation) for item in counting))
    row.timing_revision = min(item.timing_revision for item in counting)


def _refresh(row: Standing, same_code: SameCode) -> None:
    """Pool the judgings of its code again, and ask again whether it is in question."""
    counting = pooled_judgings(row.evaluation, same_code)
    _pool(row, counting)
    row.is_contested = is_contested(same_code, counting)
    row.review_reason = review_reason(row.evaluation, same_code)
    row.under_review = bool(row.review_reason)


def _figures(row: Standing) -> tuple[Any, ...]:
    """All that is written of a row, but for its rank."""
    return tuple(getattr(row, field.attname) for field in row._meta.concrete_fields if field.name != "rank")


def _counts(row: Standing) -> float:
    """What counts of it for its holder; nothing while it is under review."""
    return 0.0 if row.under_review else what_counts(row.score, row.score_lo, row.evaluation.timing_trust)


def _tell_who_lost(before: list[int], leaders: list[int]) -> None:
    """Those that had the first place of a board and have it no more, on boards that are judged now."""
    if not before:
        return
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind", "ruleset")
    leader = rows.get(pk=leaders[0])
    if leader.ruleset.name == settings.KBENCH_RULESET and leader.task_version.status == TaskVersionStatus.ACTIVE:
        telling.record_lost(rows.filter(pk__in=before), leader)


def _tell_who_asked(leaders: list[int]) -> None:
    """The owner of the request that the task was made of, where it was made of one."""
    asked = Standing.objects.filter(pk__in=leaders[:1], task_version__task__request__isnull=False)
    if not asked.filter(ruleset__name=settings.KBENCH_RULESET).exists():
        return
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind", "ruleset")
    telling.answered(rows.get(pk=leaders[0]))


def _rank_board(evaluation: Evaluation, *, tells: bool = True) -> None:
    board = Standing.objects.board(
        evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id
    ).ranked()
    columns = ("pk", "score", "score_lo", "score_hi", "verified_at", "rank", "evaluation__timing_trust")
    rows = list(board.select_related("evaluation").only(*columns))
    ranks = rank(
        Entry(row.pk, row.score, row.score_lo, row.score_hi, row.verified_at, row.evaluation.timing_trust)
        for row in rows
    )
    moved = [row for row in rows if row.rank != ranks[row.pk]]
    leaders = [pk for pk, place in ranks.items() if place == 1]
    if tells:
        _tell_who_lost([row.pk for row in moved if row.rank == 1], leaders)
        _tell_who_asked(leaders)
    for row in moved:
        row.rank = ranks[row.pk]
    Standing.objects.bulk_update(moved, ["rank"], batch_size=500)
