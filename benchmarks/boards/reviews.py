"""Says why a code may not be ranked, and pools the scores of its judgings.

A code that was accepted and is rejected when judged again goes under review, so repeating until it passes gains
nothing. This also holds if a submission has been deleted. Does NOT write a board (`standings.py`).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from ..harness import SpeedupEstimate, Verdict, is_bound, pooled, read_alike
from ..models import DeletedConnection, DeletedScore, Evaluation, ModerationAction, Refusal, Submission
from ..states import TIMINGS, ActionKind, EvaluationReason, Moderation
from .contradictions import (
    answers_for,
    contradiction,
    deleted,
    is_for_site,
    may_be_quoted,
    scored_of,
    without_refuted,
)
from .same_code import GONE, GONE_OF_OWNER, Name, having, is_of_nobody, is_of_owner, names_of, of_one_person, whose
from .settled import Programs, SameCode, ended, how_known, is_passed_audit, most, once_for_all_alike, was_public

QUESTIONS_MAX = 8  # that a review names
AUDITS = (EvaluationReason.AUDIT, EvaluationReason.SITE_AUDIT, EvaluationReason.VERIFICATION)
# of a deleted judging
_KEPT_SCORES = ("score", "score_lo", "score_hi", "timing_trust", "finished", "timing_revision", "conditions")


def review_reason(evaluation: Evaluation, same_code: SameCode) -> str:
    """Why the code may not rank: all that is in question, as a confirmation settles it all.

    Once a review is settled, what it was about is no question again. What the owner's own judgings with the same tokens
    have put in question counts, what they have settled does not.
    """
    found = [_invalidated(evaluation, same_code), *_gates(evaluation, same_code), contradiction(evaluation, same_code)]
    found += [*_refusals(same_code), _remembered(evaluation, same_code)]
    questions = list(dict.fromkeys(filter(None, found)))
    more = len(questions) - QUESTIONS_MAX
    return " ".join([*questions[:QUESTIONS_MAX], *([f"And {more} more."] if more > 0 else [])])


def is_surely_in_question(evaluation: Evaluation, same_code: SameCode) -> bool:
    """Whether `review_reason` gives one for what is known already, without asking the database."""
    return any(_refusals(same_code)) or any(_gates(evaluation, same_code))


def _gates(evaluation: Evaluation, same_code: SameCode) -> Iterator[str]:
    """Of its owner's judgings and those of the site: whoever judges a copy often enough gets one score with a gate."""
    for item in same_code.judgings:
        if item.verdict == Verdict.PASS and answers_for(evaluation, item) and _has_open_gate(item, same_code):
            yield from (gate["text"] for gate in same_code.open_gates(item))


def _refusals(same_code: SameCode) -> Iterator[str]:
    for item in filter(_is_refusal, same_code.unsettled):
        why = f": {item.reason_text}" if may_be_quoted(item) else "."
        yield f"Another evaluation of the same source ended as {item.verdict}{why}"


def _is_refusal(item: Evaluation) -> bool:
    """Not that it does not compile, which gives no number: unless the site wants to judge it again and cannot."""
    return is_for_site(item) if item.verdict == Verdict.COMPILE_ERROR else item.verdict != Verdict.PASS


def _invalidated(evaluation: Evaluation, same_code: SameCode) -> str:
    """What staff have said of another submission of the code, its owner's or one that was there when they decided.

    On any board of the task. What somebody else had judged before stands on, if staff could see it. Only a confirmation
    afterwards settles this, on whatever version of the task for the same device kind.
    """
    mine = evaluation.submission
    others = {item.submission_id: item.submission for item in (*same_code.judgings, *same_code.taken_down)}
    gone = {pk: other for pk, other in others.items() if pk != mine.pk and other.moderation != Moderation.OK}
    if not gone:
        return ""
    confirmed = same_code.confirmed_on_device_at(evaluation)
    for action in _last_decisions(evaluation, same_code):
        if action.submission_id not in gone:
            continue
        other = gone[action.submission_id]
        is_mine = whose(other) == whose(mine) or _may_be_of_one_visitor(other, mine)
        is_settled = confirmed is not None and confirmed > action.created
        is_known = not is_mine and _had_public_score(mine, action.created)
        if action.kind == ActionKind.INVALIDATE and not is_settled and not is_known:
            return f"Staff have invalidated another submission of the same source: {action.public_reason}"
    return ""


def _may_be_of_one_visitor(one: Submission, other: Submission) -> bool:
    return is_of_nobody(one) and is_of_nobody(other) and one.method_id == other.method_id


@once_for_all_alike
def _last_decisions(evaluation: Evaluation, same_code: SameCode) -> list[ModerationAction]:
    """The last invalidation or restoration of each moderated submission of the code."""
    others = {item.submission_id: item.submission for item in (*same_code.judgings, *same_code.taken_down)}
    gone = [pk for pk, other in others.items() if other.moderation != Moderation.OK]
    decided = ModerationAction.objects.filter(submission__in=gone, kind__in=(ActionKind.INVALIDATE, ActionKind.RESTORE))
    return [*{action.submission_id: action for action in decided.order_by("pk")}.values()]


def _had_public_score(submission: Submission, moment: datetime) -> bool:
    """Whether the submission had a score on some board that staff could see when they decided."""
    if not was_public(submission, moment):
        return False
    scored = Evaluation.objects.full().filter(submission=submission, score__isnull=False, finished__lte=moment)
    return bool(scored.exists())


def _remembered(evaluation: Evaluation, same_code: SameCode) -> str:
    """The refusal of a deleted submission that nothing has settled since.

    That of staff is about what was submitted later, and only a later confirmation settles it.
    """
    submission, alike = evaluation.submission, read_alike(evaluation.submission.language)
    names, left = same_code.own_names(evaluation), same_code.own_names(evaluation, gone=False)
    for refusal in _refusals_of_deleted(evaluation, same_code):
        is_alike = refusal.language in alike
        about = names if refusal.verdict else same_code.names_on_task(evaluation)
        if not is_of_owner(refusal, submission) and not (is_alike and names_of(refusal) & about):
            continue
        since = same_code.last_at(refusal) if refusal.verdict else same_code.confirmed_on_device_at(refusal)
        if not (is_alike and names_of(refusal) & left):  # what is gone cannot be confirmed itself
            since = _settled_by_entry(evaluation, refusal, same_code)
        if not refusal.verdict and _had_public_score(submission, refusal.finished):
            continue
        if refusal.verdict == Verdict.PASS and not is_of_owner(refusal, submission):  # somebody else's gates
            continue
        if since is None or refusal.finished > since:
            words = {"": "was invalidated by staff", Verdict.PASS: "was under review"}
            how = words.get(refusal.verdict, f"ended as {refusal.verdict}")
            return f"The same source, judged for a submission deleted since, {how}."
    return ""


def _settled_by_entry(evaluation: Evaluation, refusal: Refusal, same_code: SameCode) -> datetime | None:
    """When a refusal was settled that only other texts and codes of its owner connect with the entry.

    A confirmation of the entry is about it only if there was nothing left to be confirmed itself by then. Until it was
    deleted it was settled as all that is there, and what has settled it then holds on.
    """
    if not refusal.verdict:
        return same_code.confirmed_on_device_at(evaluation)
    confirmed = same_code.confirmed_at(evaluation)
    if confirmed is not None and refusal.deleted is not None and confirmed < refusal.deleted:
        confirmed = None
    return max(filter(None, (confirmed, same_code.last_at(refusal))), default=None)


@once_for_all_alike
def _refusals_of_deleted(evaluation: Evaluation, same_code: SameCode) -> list[Refusal]:
    """Of the code on the board, and those of staff on all boards of the task."""
    own, alike = of_one_person(evaluation.submission), read_alike(evaluation.submission.language)

    def about(names: frozenset[Name]) -> Q:
        like = Q(language__in=alike) & having(names, GONE)
        return like if own is None else like | (own & having(names, GONE_OF_OWNER))

    on_board = deleted(Refusal, evaluation, about(same_code.own_names(evaluation, tokens=True)))
    by_staff = Refusal.objects.filter(about(same_code.names_on_task(evaluation)), verdict="")
    by_staff = by_staff.filter(task_version__task__versions=evaluation.task_version_id)
    return list((on_board | by_staff).order_by("finished", "pk"))


def _is_doubtful(item: Evaluation, programs: Programs) -> bool:
    """Whether it was refused, or `review_reason` would name one of its gates; to be asked before it is deleted.

    A refusal counts even if it is settled: what has settled it may be deleted as well.
    """
    if not item.verdict:
        return False
    if item.verdict != Verdict.PASS:
        return _is_refusal(item) and not Verdict(item.verdict).ours
    return _has_open_gate(item, programs.same_code(item)) if item.gated else False


def _has_open_gate(row: Any, same_code: SameCode) -> bool:
    """Whether nobody who could see how fast it was has settled it."""
    if isinstance(row, DeletedScore) or not row.gated:
        return bool(row.gated)
    return not same_code.was_seen(row) and bool(same_code.open_gates(row))


def _without_gates(evaluation: Evaluation, scored: list[Any], same_code: SameCode) -> list[Any]:
    """Scores that may be pooled: none with an open gate, unless its own judging puts the entry under review for it.

    Of what its owner has deleted with an open gate, which nobody can look at any more, only what is low counts.
    """
    if not any(_has_open_gate(row, same_code) for row in scored):
        return scored
    own = {id(row) for row in scored if answers_for(evaluation, row)}
    known = [
        row for row in scored if (isinstance(row, Evaluation) and id(row) in own) or not _has_open_gate(row, same_code)
    ]
    top, there = max(map(most, known)), {id(row) for row in known}
    return [*known, *(row for row in scored if id(row) in own - there and most(row) <= top)]


@once_for_all_alike
def pooled_judgings(evaluation: Evaluation, same_code: SameCode) -> list[Any]:
    """Whose scores are pooled. Deleted judgings are as well, or the unlucky ones would be deleted.

    Where the judge's timing has changed, the latest revision of those whose times are known best counts, and later
    ones: whoever had them judged, and whether or not they can be seen. So a code that was replayed gains no more by
    avoiding that than the revision has changed. Nobody else's far-off judging counts for long (`without_refuted`), and
    none with an open gate, which puts this entry under no review.
    """
    scored = scored_of(evaluation, same_code)
    scored = without_refuted(evaluation, _without_gates(evaluation, scored, same_code), same_code)
    best = min(map(how_known, scored))
    latest = max(row.timing_revision for row in scored if how_known(row) == best)
    return [row for row in scored if row.timing_revision >= latest]


def pooled_estimate(judgings: list[Any]) -> SpeedupEstimate:
    on_gpu = any(row.timing_trust in TIMINGS for row in judgings)  # what was deleted long ago counts as bounded there
    bounds = [is_bound(row.timing_trust) or (on_gpu and not row.timing_trust) for row in judgings]
    estimates = zip(judgings, bounds, strict=True)
    return pooled([SpeedupEstimate(row.score, row.score_lo, row.score_hi, bound) for row, bound in estimates])


def is_invalidated(submission: Submission) -> bool:
    """Whether staff have done that and not taken it back; they may have hidden it since."""
    if submission.moderation != Moderation.HIDDEN:
        return submission.moderation == Moderation.INVALIDATED
    kinds = (ActionKind.INVALIDATE, ActionKind.RESTORE)
    decided = ModerationAction.objects.filter(submission=submission, kind__in=kinds).order_by("pk")
    return decided.values_list("kind", flat=True).last() == ActionKind.INVALIDATE


def _invalidated_at(submission: Submission) -> datetime:
    decided = ModerationAction.objects.filter(submission=submission, kind=ActionKind.INVALIDATE)
    moment: datetime = decided.order_by("pk").values_list("created", flat=True).last() or submission.created
    return moment


def remember(evaluations: Iterable[Evaluation]) -> None:
    """Keep of evaluations that are about to be deleted that their source was in question, or what it scored for whom.

    Of others that were judged, such as what did not compile, that they connected texts and codes of their owner. A
    refusal without a verdict is that of staff, who have invalidated the submission. Of all that are deleted together it
    is asked while all are there.
    """
    refused, scored, connecting, programs, now = [], [], [], Programs(), timezone.now()
    for item in evaluations:
        columns = {
            "owner_id": item.submission.owner_id,
            "source_sha256": item.submission.blob_id,
            "source_key": item.submission.source_key,
            "object_key": item.object_key,
            "task_version": item.task_version,
            "device_kind": item.device_kind,
            "ruleset": item.ruleset,
            "language": item.submission.language,
        }
        if is_invalidated(item.submission):
            refused.append(Refusal(**columns, finished=_invalidated_at(item.submission), deleted=now))
        is_doubtful = _is_doubtful(item, programs)
        if is_doubtful:
            refused.append(Refusal(**columns, verdict=item.verdict, finished=ended(item), deleted=now))
        elif item.verdict == Verdict.COMPILE_ERROR:
            connecting.append(DeletedConnection(**columns))
        if item.score is not None and item.submission.owner_id is not None:
            scores = {name: getattr(item, name) for name in _KEPT_SCORES}
            kept = {"for_site": is_for_site(item), "gated": is_doubtful, "passed_audit": is_passed_audit(item)}
            scored.append(DeletedScore(**columns, **scores, **kept))
    Refusal.objects.bulk_create(refused)
    DeletedScore.objects.bulk_create(scored)
    DeletedConnection.objects.bulk_create(connecting)
