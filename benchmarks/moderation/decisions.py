"""Decisions about submissions, accounts and switches: each is one line of the log and one change of state.

The change is a conditional update in the transaction of its line, so if two people decide at once, the second gets an
error. Nothing is deleted and no score is edited; every decision can be undone. Leaderboards are updated through
`boards/standings.py`, their only writer. Does NOT read the log for pages (`review.py`) and does NOT judge again
(`rejudging.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchmarks.boards import confirmations, reviews, standings
from benchmarks.boards.entries import entries_follow
from benchmarks.boards.settled import Programs
from benchmarks.judgings.moves import evaluation_cancel
from benchmarks.services import Refused
from benchmarks.switches import switch_set
from benchmarks.transactions import repeated

from ..events import emit
from ..extensions import extensions
from ..models import (
    Comment,
    ContestEntry,
    Evaluation,
    ModerationAction,
    RejudgeBatch,
    SiteSwitch,
    Submission,
)
from ..notifications import telling
from ..querysets import ActionQuerySet
from ..quotas import CHARGED_REASONS
from ..states import FINISHED, ActionKind, EvaluationReason, Moderation, Priority, Switch

REPORTS_PER_DAY = 20
SUSPENDED = "The account was suspended."
ENTRY_DECIDED = "Someone else has made a decision about this entry in the meantime. Look at it again."


_OK, _HIDDEN, _INVALIDATED = Moderation.OK, Moderation.HIDDEN, Moderation.INVALIDATED
HIDDEN_AND_INVALIDATED = "hidden and invalidated"
STATES = (*Moderation.choices, (HIDDEN_AND_INVALIDATED, HIDDEN_AND_INVALIDATED.capitalize()))  # see `state_of`


@dataclass(frozen=True)
class StatusMove:
    """From which states a decision leads on, and the moderation that each of them gets."""

    targets: Mapping[str, Moderation]
    refusal: str


MOVES: dict[ActionKind, StatusMove] = {
    ActionKind.HIDE: StatusMove({_OK: _HIDDEN, _INVALIDATED: _HIDDEN}, "The submission is already hidden."),
    ActionKind.INVALIDATE: StatusMove({_OK: _INVALIDATED, _HIDDEN: _HIDDEN}, "The submission is already invalidated."),
    ActionKind.SHOW: StatusMove({HIDDEN_AND_INVALIDATED: _INVALIDATED}, "The submission is not hidden."),
    ActionKind.RESTORE: StatusMove({_HIDDEN: _OK, _INVALIDATED: _OK}, "It is neither hidden nor invalidated."),
}
_OF_REVIEWS = (ActionKind.CONFIRM, ActionKind.REOPEN)


def report(submission: Submission, *, by: User, text: str) -> None:
    """Tell staff what is wrong with a submission. Raises Refused for a second open report and for too many."""
    with transaction.atomic():
        mine = _reports_by(by)
        if mine.open_reports().filter(submission=submission).exists():
            raise Refused("You have already reported this submission; staff will look at it.")
        log_action(ActionKind.FLAG, by, _subject(submission), submission=submission, private_note=text)


def report_comment(comment: Comment, *, by: User, subject: str, text: str) -> None:
    """The same for a comment; `subject` is what the log calls it."""
    with transaction.atomic():
        mine = _reports_by(by)
        if mine.open_comment_reports().filter(comment=comment).exists():
            raise Refused("You have already reported this comment; staff will look at it.")
        log_action(ActionKind.FLAG, by, subject, comment=comment, private_note=text)


def _reports_by(by: User) -> ActionQuerySet:
    """What an account has done so far. Raises Refused where that is many reports within a day."""
    User.objects.select_for_update(no_key=True).get(pk=by.pk)  # two at once are counted one after the other
    mine: ActionQuerySet = ModerationAction.objects.filter(actor=by)
    recent = mine.filter(kind=ActionKind.FLAG, created__gte=timezone.now() - timedelta(days=1))
    if recent.count() >= REPORTS_PER_DAY:
        raise Refused(f"That is {REPORTS_PER_DAY} reports within a day, which is the limit.")
    return mine


@repeated
def decide(
    submission: Submission, kind: ActionKind, *, by: User, reason: str, note: str = "", seen: str | None = None
) -> None:
    """Move a submission and rank the boards it was judged for anew.

    To restore what was invalidated and hidden is to show it: one decision is undone at a time. What is hidden stays so
    if it is invalidated. `seen` is the state that whoever decides had before their eyes (`state_of`). Raises Refused
    where it has changed since, and where the move does not lead on from where the submission is.
    """
    with transaction.atomic():
        reports = ModerationAction.objects.open_reports().filter(submission=submission, actor__isnull=False)
        reporters = [line.actor for line in reports.select_related("actor")]
        moves_boards = kind in MOVES or kind in _OF_REVIEWS
        if moves_boards:
            standings.boards_marked(submission.task_version.task.versions.order_by("pk").values_list("pk", flat=True))
        if kind == ActionKind.RESTORE and state_of(submission) == HIDDEN_AND_INVALIDATED:
            kind = ActionKind.SHOW
        about = standings.on_each_board(submission) if moves_boards else []
        _move(submission, kind, seen)
        telling.report_decided(reporters, _subject(submission), kind, reason)
        log_action(kind, by, _subject(submission), submission=submission, public_reason=reason, private_note=note)
        if moves_boards:
            standings_follow(submission, about)


def state_of(submission: Submission) -> str:
    """Its moderation now, or HIDDEN_AND_INVALIDATED, in whichever order staff have done that; empty: it was deleted."""
    now = Submission.objects.filter(pk=submission.pk).first()
    if now is None:
        return ""
    is_both = now.moderation == _HIDDEN and reviews.is_invalidated(now)
    return HIDDEN_AND_INVALIDATED if is_both else now.moderation


@repeated
def decide_entry(entry: ContestEntry, kind: ActionKind, *, by: User, reason: str, seen: str, note: str = "") -> None:
    """Take a frozen result of a contest down (INVALIDATE) or show it again (RESTORE), whatever its owner does.

    As long as its submission is there, that is decided about the submission, of which `seen` is as in `decide`. It is
    confirmed where it was taken down with another one of the same program. Raises Refused as `decide` does, and where
    the entry is taken down or shown already.
    """
    takes_down = kind == ActionKind.INVALIDATE
    if entry.is_down == takes_down:
        raise Refused(ENTRY_DECIDED)
    if entry.submission is not None:
        if not takes_down and state_of(entry.submission) == _OK:
            kind = ActionKind.CONFIRM
        decide(entry.submission, kind, by=by, reason=reason, note=note, seen=seen)
        return
    with transaction.atomic():
        before = ContestEntry.objects.filter(pk=entry.pk, submission=None, taken_down=not takes_down)
        if before.update(taken_down=takes_down) != 1:
            raise Refused(ENTRY_DECIDED)
        subject = f"entry {entry.pk} of the contest {entry.task.contest.slug}"
        log_action(kind, by, subject, public_reason=reason, private_note=note)


def _move(submission: Submission, kind: ActionKind, seen: str | None) -> None:
    held, state = Submission.objects.filter(pk=submission.pk), state_of(submission)
    if seen is not None and seen != state:
        raise Refused("Someone else has made a decision about this submission in the meantime. Look at it again.")
    if kind == ActionKind.DISMISS:
        if not ModerationAction.objects.open_reports().filter(submission=submission).exists():
            raise Refused("There is no open report about this submission.")
    elif kind == ActionKind.CONFIRM:
        if not held.filter(moderation=_OK).exists():
            raise Refused("It is hidden or invalidated: restore it first.")
        confirmations.confirm(submission)
    elif kind == ActionKind.REOPEN:
        if not confirmations.of(submission).delete()[0]:
            raise Refused("No review of this submission has been closed.")
    else:
        targets, before = MOVES[kind].targets, _HIDDEN if state == HIDDEN_AND_INVALIDATED else state
        if state not in targets or held.filter(moderation=before).update(moderation=targets[state]) != 1:
            raise Refused(MOVES[kind].refusal)


def standings_follow(submission: Submission, about: Sequence[Evaluation] = ()) -> None:
    """Rank the boards anew that it was judged for; in the transaction that has held them and then moved it.

    `about` stands for it on all boards of the task (`standings.on_each_board`), as it was before.
    """
    rows = submission.evaluations.exclude(verdict="").defer("report").order_by("pk")
    judged = list(rows.select_related("submission__method", "task_version__task", "ruleset", "device_kind"))
    boards = {(item.ruleset_id, item.task_version_id, item.device_kind_id): item for item in judged}
    programs = Programs([*judged, *about])
    for evaluation in boards.values():
        standings.standings_renew(evaluation, programs)
    standings.review_renew([*judged, *about], programs)
    for device in sorted({item.device_kind.slug for item in (*judged, *about)}):
        emit(f"board:{device}", "changed")
    entries_follow(submission)


@repeated
def ban(account: User, *, by: User, reason: str, note: str = "") -> None:
    """End an account's sessions, log-ins and tokens, and what it has asked for that is in the queue; its entries stay.

    What a contest, staff or housekeeping have asked for goes on: nothing would bring it back with the account. Raises
    Refused for oneself, for staff unless by a superuser, and where it is suspended already.
    """
    if account == by:
        raise Refused("You cannot suspend your own account.")
    if (account.is_staff or account.is_superuser) and not by.is_superuser:
        raise Refused("Only a superuser can suspend a staff account.")
    with transaction.atomic():
        if User.objects.filter(pk=account.pk, is_active=True).update(is_active=False) != 1:
            raise Refused("The account is already suspended.")
        log_action(ActionKind.BAN, by, "an account", account=account, public_reason=reason, private_note=note)
        for extension in extensions():  # runs are locked before evaluations
            extension.on_account_end(account, "staff, with the account")
        confirms = Q(reason=EvaluationReason.REJUDGE, priority=Priority.AGENT)  # an agent run its best
        asked = Q(reason__in=CHARGED_REASONS) | confirms
        waiting = Evaluation.objects.filter(asked, submission__owner=account).exclude(state__in=FINISHED)
        for evaluation in waiting.order_by("pk"):
            evaluation_cancel(evaluation, SUSPENDED)


def unban(account: User, *, by: User, reason: str, note: str = "") -> None:
    """Raises Refused where the account is not suspended."""
    with transaction.atomic():
        if User.objects.filter(pk=account.pk, is_active=False).update(is_active=True) != 1:
            raise Refused("The account is not suspended.")
        log_action(ActionKind.UNBAN, by, "an account", account=account, public_reason=reason, private_note=note)


def switch_turn(key: Switch, *, on: bool, message: str, by: User) -> None:
    """Raises Refused where it stands like that already."""
    with transaction.atomic():
        now = SiteSwitch.objects.select_for_update().filter(key=key).first()
        if (now.on, now.message) == (on, message) if now else (on and not message):
            raise Refused("The switch is already in this position.")
        switch_set(key, on=on, message=message)
        turned = f"Turned {'on' if on else 'off'}"
        text = f"{turned}: {message}" if message else f"{turned}."
        log_action(ActionKind.SWITCH, by, f"the switch {key}: {key.label.lower()}", public_reason=text)


def rejudge_logged(batch: RejudgeBatch, text: str, *, by: User) -> None:
    """A line about a batch that is judged again; in the transaction of what it tells."""
    subject = f"{batch.items.count()} entries, batch {str(batch.code)[:8]}"
    log_action(ActionKind.REJUDGE, by, subject, batch=batch, public_reason=text)


def _subject(submission: Submission) -> str:
    """In words that stay true and give nothing away when the submission is hidden or deleted."""
    return f"submission {str(submission.code)[:8]} to {submission.task_version.task.path}"


def log_action(kind: ActionKind, by: User, subject: str, **columns: object) -> None:
    """A line of the log; in the transaction of the move that it tells."""
    ModerationAction.objects.create(kind=kind, actor=by, subject=subject, **columns)
