"""What owners may do with what is theirs: show or hide a submission, name it, delete it, leave the site.

Boards follow in the same transaction, through their one writer. What a deleted submission was refused for is
remembered by the digest of its source, and its ledger lines stay, without source or name.
Does NOT decide who the owner is: the views do. Staff cannot delete anything (`admin.py`).
"""

import uuid
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchmarks.boards import reviews, same_code, standings
from benchmarks.boards.contradictions import is_for_site
from benchmarks.boards.rows import READ_TOGETHER
from benchmarks.boards.settled import Programs
from benchmarks.judgings.moves import evaluation_cancel
from benchmarks.services import Refused
from benchmarks.transactions import repeated

from .. import quotas, teams
from ..events import emit
from ..extensions import extensions
from ..harness import Verdict
from ..models import (
    CodeBlob,
    DeletedConnection,
    DeletedScore,
    Evaluation,
    KernelRequest,
    Payer,
    Refusal,
    RequestVote,
    Submission,
)
from ..states import FINISHED, ContestState, Origin, RequestState, Visibility

PAID = (
    "The judging of this answer was paid for by a request, so it stays public with its source. Your name is "
    "removed if you delete your account."
)
INVALIDATED = (
    "Staff have invalidated this submission, so you cannot delete it. You can make it private. It is deleted if "
    "you delete your account."
)
BEING_JUDGED = (
    "The site itself is judging this submission. You can delete it when that has ended. You can make it private now."
)
RESULT = (
    "This submission has a result in a contest, so you cannot delete it. You can make it private. It is deleted if "
    "you delete your account."
)
DELETED = "The submission was deleted by its owner."


class PaidAnswer(Refused):
    """A request has paid for it."""


class MadeByRun(Refused):
    """The log of a run contains it."""


def submission_rename(submission: Submission, title: str) -> None:
    Submission.objects.filter(pk=submission.pk).update(title=title)


def visibility_change(submission: Submission, wanted: str) -> bool:
    """Whether it was another one. Raises Refused, and OverQuota where there is no room for one more public one."""
    if wanted == Visibility.PRIVATE and submission.owner_id is None:
        raise Refused("This submission has no owner, so no one could read it if it were private.")
    with transaction.atomic():
        if submission.visibility == wanted:
            return False
        on_boards = Visibility.PUBLIC in (wanted, submission.visibility)  # nothing else decides what stands there
        if on_boards:
            standings.boards_held(Submission.objects.filter(pk=submission.pk))
            if wanted != Visibility.PUBLIC:
                _refuse_paid(submission)  # a report that held them may have paid it
        if wanted == Visibility.PUBLIC:
            quotas.take_public_place(submission)
        elif submission.visibility == Visibility.PUBLIC:
            quotas.keep_places([submission])
        before = Submission.objects.filter(pk=submission.pk, visibility=submission.visibility)
        shown = {"shown_at": timezone.now()} if wanted == Visibility.PUBLIC else {}
        if not before.update(visibility=wanted, **shown):
            transaction.set_rollback(True)  # no place is taken for what somebody else has changed meanwhile
            return False
        if on_boards:
            _boards_follow(_judged([submission]))
    submission.visibility = wanted
    return True


@repeated
def submission_delete(submission: Submission) -> None:
    """Source, results and standing go.

    Raises Refused for what an agent run has made, a request has paid for, the site is judging, staff have invalidated
    or has a result in a contest. What staff and audits have settled about a program holds on without it.
    """
    if submission.origin == Origin.AGENT:
        raise MadeByRun("The log of an agent run contains this source. You can make the submission private instead.")
    with transaction.atomic():
        one = Submission.objects.filter(pk=submission.pk)
        _hold(one)
        _refuse_paid(submission)
        if (now := one.first()) is not None:  # until it was held staff may have decided
            _refuse_decided(now)
        _boards_follow(_take_away([submission]))


@repeated
def account_delete(user: User, *, keep_submissions: bool) -> None:
    """The account goes with its tokens. Kept submissions lose their name; private ones cannot be kept by nobody.

    Answers that a request has paid for are kept in any case. What is under review is kept, but unlisted.
    """
    with transaction.atomic():
        for extension in extensions():
            extension.on_account_end(user, "the account that was deleted")
        teams.account_ends(user)
        mine = Submission.objects.filter(owner=user)
        going = mine.filter(visibility=Visibility.PRIVATE) if keep_submissions else mine.exclude(origin=Origin.AGENT)
        going = going.exclude(pk__in=quotas.paid_answers().values("pk"))
        gone = going | mine.filter(visibility=Visibility.PRIVATE)
        _hold(mine)
        for payer in Payer.objects.filter(account=user):
            quotas.hold(payer)
        mine.hold()
        unlisted = _unlist_what_is_under_review(mine)
        # read now: until the boards were held, one may have been made private or paid for
        taken_away = _take_away(list(gone))
        _boards_follow([*taken_away, *_judged(list(unlisted))])
        released = standings.standings_release(user)
        former = uuid.uuid4()  # what was one person's stays that
        for remembered in (Refusal, DeletedScore, DeletedConnection):
            remembered.objects.filter(owner=user).update(owner=None, former_owner=former)
        mine.update(owner=None, client_token="", former_owner=former)
        standings.standings_restore(released)
        _leave_requests(user)
        User.objects.filter(pk=user.pk).delete()  # `user` keeps its key, if this has to be repeated
        _tell(released)


def _leave_requests(user: User) -> None:
    """What became a task leaves a row for staff, who may have hidden it or may have to: title and licence, as the task.

    Name, reason and votes go, and nobody else finds it. What became none goes with the account.
    """
    mine = KernelRequest.objects.filter(owner=user)
    list(mine.select_for_update().order_by("pk").values_list("pk"))  # one that is examined may become a task
    published = list(mine.filter(task__isnull=False).values_list("pk", flat=True))
    closed = {"state": RequestState.CLOSED, "ended": timezone.now(), "worth_left_s": 0.0}
    mine.filter(pk__in=published, state=RequestState.OPEN).update(**closed)
    mine.filter(pk__in=published).update(owner=None, reason="", state_text="", told={}, accepted=None)
    RequestVote.objects.filter(request__in=published).delete()


def _unlist_what_is_under_review(mine: QuerySet[Submission]) -> QuerySet[Submission]:
    """Some reviews follow from other submissions of the owner, so they would end when the name is removed."""
    accepted = Evaluation.objects.full().filter(verdict=Verdict.PASS, submission__in=mine)
    accepted = accepted.exclude(submission__visibility=Visibility.PRIVATE).select_related("submission__method")
    rows, held = list(accepted.defer("report", "error_internal")), set[int]()
    for start in range(0, len(rows), READ_TOGETHER):
        programs = Programs(some := rows[start : start + READ_TOGETHER])
        held |= {item.submission_id for item in some if reviews.review_reason(item, programs.same_code(item))}
    shown = Submission.objects.filter(pk__in=held).exclude(visibility=Visibility.PRIVATE)
    shown.update(visibility=Visibility.UNLISTED)
    return Submission.objects.filter(pk__in=held, visibility=Visibility.UNLISTED)


def _refuse_decided(submission: Submission) -> None:
    if reviews.is_invalidated(submission):
        raise Refused(INVALIDATED)
    entries = submission.contest_entries.all()
    if entries.filter(task__contest__state=ContestState.FINISHED, score__isnull=False).exists():
        raise Refused(RESULT)
    is_in_finals = entries.filter(task__contest__state=ContestState.JUDGING).exists()
    unfinished = submission.evaluations.exclude(state__in=FINISHED).defer("report")
    if is_in_finals or any(map(is_for_site, unfinished)):
        raise Refused(BEING_JUDGED)


def _refuse_paid(submission: Submission) -> None:
    if quotas.paid_answers().filter(pk=submission.pk).exists():
        raise PaidAnswer(PAID)


def _hold(mine: QuerySet[Submission]) -> None:
    """Lock what is being judged and then the boards, as a report does, so that nobody decides about them meanwhile.

    Of all submissions, for any of them may be made private until the boards are held, and is deleted then. What is
    judged again meanwhile is locked late, so a deletion may have to be repeated.
    """
    unfinished = Evaluation.objects.filter(submission__in=mine).exclude(state__in=FINISHED)
    list(unfinished.select_for_update().order_by("pk").values_list("pk"))
    standings.boards_held(mine)


def _take_away(submissions: list[Submission]) -> list[Evaluation]:
    """What had been judged of them, which are held; the boards do not follow yet.

    What staff have invalidated counts on all boards.
    """
    keys = [submission.pk for submission in submissions]
    for evaluation in Evaluation.objects.filter(submission__in=keys).exclude(state__in=FINISHED).order_by("pk"):
        evaluation_cancel(evaluation, DELETED, by_author=True)
    going = Submission.objects.filter(pk__in=keys)
    submissions = list(going)
    judged, decided = _judged(submissions), [item for item in submissions if reviews.is_invalidated(item)]
    about = [item for submission in decided for item in standings.on_each_board(submission)]
    unjudged = Evaluation.objects.filter(submission__in=decided, verdict="")
    reviews.remember([*judged, *unjudged.select_related("submission", "task_version", "device_kind", "ruleset")])
    quotas.keep_places(submissions)
    going.delete()
    CodeBlob.objects.filter(pk__in={item.blob_id for item in submissions}, submissions=None).delete()
    return [*judged, *about]


def _judged(submissions: list[Submission]) -> list[Evaluation]:
    """Without the reports, which are long: of an account it may be many."""
    known = Evaluation.objects.filter(submission__in=submissions).exclude(verdict="").defer("report").order_by("pk")
    return list(known.select_related("submission__method", "task_version__task", "device_kind", "ruleset"))


def _boards_follow(judged: list[Evaluation]) -> None:
    """The row of each holder once on each board, and once those of others with the same code as one of these."""
    rows, programs = dict[Any, Evaluation](), Programs(judged)
    for item in judged:
        rows[item.ruleset_id, item.task_version_id, item.device_kind_id, same_code.holder_of(item)] = item
    for evaluation in rows.values():
        standings.standings_renew(evaluation, programs)
    standings.review_renew(judged, programs)
    _tell(rows.values())


def _tell(evaluations: Iterable[Evaluation]) -> None:
    for device in {evaluation.device_kind.slug for evaluation in evaluations}:
        emit(f"board:{device}", "changed")
