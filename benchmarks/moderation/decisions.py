"""Decisions about submissions, accounts and switches: each is one line of the log and one change of state.

The change is a conditional update in the transaction of its line, so if two people decide at once, the second gets an
error. Nothing is deleted and no score is edited; every decision can be undone. Leaderboards are updated through
`boards/standings.py`, their only writer. Does NOT read the log for pages (`review.py`) and does NOT judge again
(`rejudging.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from benchmarks.boards import confirmations, reviews, standings
from benchmarks.boards.same_code import Name, names_of, of_one_person, own_names_of_many
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
    Refusal,
    RejudgeBatch,
    SiteSwitch,
    Submission,
)
from ..notifications import telling
from ..querysets import ActionQuerySet
from ..states import FINISHED, ActionKind, Moderation, Switch

REPORTS_PER_DAY = 20
SUSPENDED = "The account was suspended."
ENTRY_DECIDED = "Someone else has made a decision about this entry in the meantime. Look at it again."


@dataclass(frozen=True)
class StatusMove:
    """From which submissions a decision leads, and what it makes of them."""

    sources: Q
    columns: Mapping[str, Moderation]
    refusal: str


_OK, _HIDDEN, _INVALIDATED = Moderation.OK, Moderation.HIDDEN, Moderation.INVALIDATED
MOVES: dict[ActionKind, StatusMove] = {
    ActionKind.HIDE: StatusMove(~Q(moderation=_HIDDEN), {"moderation": _HIDDEN}, "The submission is already hidden."),
    ActionKind.INVALIDATE: StatusMove(
        ~Q(moderation=_INVALIDATED), {"moderation": _INVALIDATED}, "The submission is already invalidated."
    ),
    ActionKind.SHOW: StatusMove(Q(moderation=_HIDDEN), {"moderation": _INVALIDATED}, "The submission is not hidden."),
    ActionKind.RESTORE: StatusMove(~Q(moderation=_OK), {"moderation": _OK}, "It is neither hidden nor invalidated."),
}
_OF_PROGRAMS = (ActionKind.INVALIDATE, ActionKind.RESTORE)  # which count for other submissions of the program, too
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

    To restore what was invalidated and hidden is to show it: one decision is undone at a time. `seen` is the moderation
    that whoever decides had before their eyes. Raises Refused where it has changed since, and where the move does not
    lead on from where the submission is.
    """
    with transaction.atomic():
        reports = ModerationAction.objects.open_reports().filter(submission=submission, actor__isnull=False)
        reporters = [line.actor for line in reports.select_related("actor")]
        moves_boards = kind in MOVES or kind in _OF_REVIEWS
        if moves_boards:
            standings.boards_marked(submission.task_version.task.versions.order_by("pk").values_list("pk", flat=True))
        if kind == ActionKind.RESTORE and stays_invalidated(submission):
            kind = ActionKind.SHOW
        about = standings.on_each_board(submission) if moves_boards else []
        _move(submission, kind, seen)
        telling.report_decided(reporters, _subject(submission), kind, reason)
        log_action(kind, by, _subject(submission), submission=submission, public_reason=reason, private_note=note)
        if moves_boards:
            standings_follow(submission, about)


def stays_invalidated(submission: Submission) -> bool:
    """Whether it is hidden now, and staff have invalidated it before or since and not taken that back."""
    now = Submission.objects.filter(pk=submission.pk, moderation=_HIDDEN).first()
    return now is not None and reviews.is_invalidated(now)


@repeated
def decide_entry(entry: ContestEntry, kind: ActionKind, *, by: User, reason: str, seen: str, note: str = "") -> None:
    """Take a frozen result of a contest down (INVALIDATE) or show it again (RESTORE), whatever its owner does.

    As long as its submission is there, that is decided about the submission, of which `seen` is as in `decide`. Raises
    Refused as `decide` does, and where the entry is taken down or shown already.
    """
    takes_down = kind == ActionKind.INVALIDATE
    if entry.is_down == takes_down:
        raise Refused(ENTRY_DECIDED)
    if entry.submission is not None:
        decide(entry.submission, kind, by=by, reason=reason, note=note, seen=seen)
        return
    with transaction.atomic():
        before = ContestEntry.objects.filter(pk=entry.pk, submission=None, taken_down=not takes_down)
        if before.update(taken_down=takes_down) != 1:
            raise Refused(ENTRY_DECIDED)
        subject = f"entry {entry.pk} of the contest {entry.task.contest.slug}"
        log_action(kind, by, subject, public_reason=reason, private_note=note)


def _move(submission: Submission, kind: ActionKind, seen: str | None) -> None:
    held = Submission.objects.filter(pk=submission.pk)
    if seen is not None and not held.filter(moderation=seen).exists():
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
    elif held.filter(MOVES[kind].sources).update(**MOVES[kind].columns) != 1:
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
    _entries_follow(submission)


def _entries_follow(submission: Submission) -> None:
    """Write into entries of contests whether staff have taken them down, for all of its owner for its task.

    With a submission go all entries of the same program that its owner had, unless staff have confirmed them since.
    Also if it has been deleted: staff had invalidated what is remembered without a verdict. Not covered: entries whose
    own submissions have been deleted, and those of other people.
    """
    mine, task = of_one_person(submission), submission.task_version.task_id
    submissions = Submission.objects.filter(mine or Q(pk=None))
    entered = list(submissions.filter(contest_entries__task__task=task).distinct())
    if not entered:
        return
    moderated = submissions.moderated().filter(task_version__task=task).order_by().values("pk")
    decided = ModerationAction.objects.filter(submission__in=moderated, kind__in=_OF_PROGRAMS).order_by("pk")
    last = {action.submission_id: action for action in decided}
    refused = Refusal.objects.filter(mine or Q(pk=None), verdict="", task_version__task=task)
    judgings = Evaluation.objects.filter(submission__in=[*last, *(item.pk for item in entered)])
    known = list(judgings.select_related("submission__method").defer("report"))
    own, names = own_names_of_many(known, {"task_version__task": task}), defaultdict[Any, set[Name]](set)
    for item in known:
        names[item.submission_id] |= own[item.pk]
    made = [row for row in last.values() if row.kind == ActionKind.INVALIDATE]
    invalidated = [(row.created, names[row.submission_id]) for row in made]
    invalidated += [(row.finished, names_of(row, tokens=True)) for row in refused]
    down = []
    for one in entered:
        found = [moment for moment, about in invalidated if not names[one.pk].isdisjoint(about)]
        if one.moderation != _OK or _is_unconfirmed(one, found):
            down.append(one.pk)
    entries = ContestEntry.objects.filter(submission__in=entered)
    entries.filter(submission__in=down).update(taken_down=True)
    entries.exclude(submission__in=down).update(taken_down=False)


def _is_unconfirmed(submission: Submission, invalidated: list[datetime]) -> bool:
    """Whether one of these decisions about other submissions of the program was not followed by a confirmation."""
    if not invalidated:
        return False
    confirmed = confirmations.of(submission).aggregate(newest=Max("confirmed"))["newest"]
    return confirmed is None or max(invalidated) > confirmed


def ban(account: User, *, by: User, reason: str, note: str = "") -> None:
    """End an account's sessions, log-ins and tokens, and what it has in the queue; its entries stay.

    Raises Refused for oneself, for staff unless by a superuser, and where it is suspended already.
    """
    if account == by:
        raise Refused("You cannot suspend your own account.")
    if (account.is_staff or account.is_superuser) and not by.is_superuser:
        raise Refused("Only a superuser can suspend a staff account.")
    with transaction.atomic():
        if User.objects.filter(pk=account.pk, is_active=True).update(is_active=False) != 1:
            raise Refused("The account is already suspended.")
        log_action(ActionKind.BAN, by, "an account", account=account, public_reason=reason, private_note=note)
        for evaluation in Evaluation.objects.filter(submission__owner=account).exclude(state__in=FINISHED):
            evaluation_cancel(evaluation, SUSPENDED)
        for extension in extensions():
            extension.on_account_end(account, "staff, with the account")


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
