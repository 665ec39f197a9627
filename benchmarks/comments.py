"""Comments on public submissions: written by accounts, reported by readers, hidden by staff with a public reason.

A submission that is not public, or hidden, has no comments: nobody reads them and nobody writes one until it is public
again. Decisions are lines of the moderation log. Does NOT turn a text into HTML (`templatetags/texts.py`).
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from django.utils import timezone

from .models import Comment, ModerationAction, Submission
from .moderation import decisions
from .notifications import telling
from .services import Refused
from .states import ActionKind, Moderation, Switch, Visibility
from .switches import paused

PER_HOUR, PER_DAY = 10, 40  # of one account
TEXT_MAX_CHARS = 4_000
PAGE_ROWS = 50
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_EMPTY_GLYPHS = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # fillers of Korean and Khmer, Braille blank
_GAPS = re.compile(r"\n(?:[ \t]*\n){2,}")
_MOVES: Mapping[ActionKind, tuple[Moderation, Moderation, str]] = {
    ActionKind.HIDE: (Moderation.OK, Moderation.HIDDEN, "The comment is already hidden."),
    ActionKind.RESTORE: (Moderation.HIDDEN, Moderation.OK, "The comment is not hidden."),
}


class TooManyComments(Refused):
    """An account has written as many as it may for now."""


def has_comments(submission: Submission) -> bool:
    return submission.visibility == Visibility.PUBLIC and submission.moderation != Moderation.HIDDEN


def comments_of(submission: Submission, page: int | str = 1) -> Page[Any]:
    """The oldest first. A hidden one stays in its place with its `hidden_reason`. Raises Http404 where there are none.

    The text of a hidden one is for staff alone, which is for the caller to see to.
    """
    if not has_comments(submission):
        raise Http404("This submission has no comments.")
    hidden = ModerationAction.objects.filter(comment=OuterRef("pk"), kind=ActionKind.HIDE).order_by("-pk")
    rows = (
        submission.comments.filter(deleted=None)
        .select_related("author")
        .annotate(hidden_reason=Subquery(hidden.values("public_reason")[:1]))
    )
    return Paginator(rows.order_by("pk"), PAGE_ROWS).get_page(page)


def comment_shown(pk: int) -> Comment:
    """A comment that everybody can read. Raises Http404."""
    found = _rows().filter(pk=pk).first()
    if found is None or found.is_hidden or not has_comments(found.submission):
        raise Http404("There is no such comment.")
    return found


def comment_for_staff(pk: int) -> Comment:
    """Hidden ones included, whatever has become of the submission unless it is private. Raises Http404."""
    found = _rows().filter(pk=pk).exclude(submission__visibility=Visibility.PRIVATE).first()
    if found is None:
        raise Http404("There is no such comment.")
    return found


def own_comment(pk: int, author: Any) -> Comment:
    """Raises Http404."""
    found = _rows().filter(pk=pk, author=author.pk).first()
    if found is None:
        raise Http404("There is no such comment of yours.")
    return found


def cleaned(text: str) -> str:
    """Without characters that cannot be seen or turn the direction of writing round, and without large gaps."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _GAPS.sub("\n\n", _UNSEEN.sub("", lines)).strip()


def is_blank(text: str) -> bool:
    """Whether nobody sees anything of it: spaces, invisible characters and letters that are drawn as nothing."""
    return not any(char.isprintable() and not char.isspace() and char not in _EMPTY_GLYPHS for char in text)


def comment_create(submission: Submission, *, by: User, text: str) -> Comment:
    """A comment of `cleaned` text; the owner of the submission is told. Raises Refused, TooManyComments."""
    if reason := paused(Switch.COMMENTS):
        raise Refused(reason)
    text = cleaned(text)
    if is_blank(text):
        raise Refused("The comment is empty.")
    if len(text) > TEXT_MAX_CHARS:
        raise Refused(f"A comment has at most {TEXT_MAX_CHARS} characters.")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=by.pk)  # two at once are counted one after the other
        submission = Submission.objects.select_related("owner", "task_version__task__suite").get(pk=submission.pk)
        if not has_comments(submission):
            raise Refused("Only public submissions have comments.")
        _refuse_too_many(submission, by, text)
        comment = Comment.objects.create(submission=submission, author=by, text=text)
        telling.commented(comment)
    return comment


def comment_delete(comment: Comment) -> None:
    """By its author. The text goes at once, the row within a day; the log keeps the lines about it."""
    Comment.objects.filter(pk=comment.pk).update(text="", deleted=timezone.now())


def forget() -> int:
    """The rows of deleted comments that count for no limit any more. How many that were."""
    return Comment.objects.filter(deleted__lt=timezone.now() - timedelta(days=1)).delete()[0]


def comment_report(comment: Comment, *, by: User, text: str) -> None:
    """Tell staff what is wrong with a comment. Raises Refused for a second open report and for too many."""
    decisions.report_comment(comment, by=by, subject=_subject(comment), text=text)


def comment_decide(comment: Comment, kind: ActionKind, *, by: User, reason: str, note: str = "") -> None:
    """Hide a comment, show it again, or dismiss the reports about it. Raises Refused where that leads nowhere."""
    with transaction.atomic():
        reports = open_reports(comment)
        reporters = [line.actor for line in reports if line.actor is not None]
        if kind in _MOVES:
            before, after, refusal = _MOVES[kind]
            if Comment.objects.filter(pk=comment.pk, moderation=before).update(moderation=after) != 1:
                raise Refused(refusal)
        elif kind != ActionKind.DISMISS or not reports.exists():
            raise Refused("There is no open report about this comment.")
        telling.report_decided(reporters, _subject(comment), kind, reason)
        words = {"public_reason": reason, "private_note": note}
        decisions.log_action(kind, by, _subject(comment), comment=comment, **words)


def open_reports(comment: Comment | None = None) -> QuerySet[ModerationAction]:
    """Reports of comments that nobody has answered, the oldest first."""
    rows = ModerationAction.objects.open_comment_reports().select_related(
        "comment__author", "comment__submission", "actor"
    )
    return (rows if comment is None else rows.filter(comment=comment)).order_by("pk")


def history(comment: Comment) -> QuerySet[ModerationAction]:
    """Reports and decisions, newest first."""
    return comment.moderation_actions.select_related("actor")


def _rows() -> QuerySet[Comment]:
    rows = Comment.objects.select_related("author", "submission__owner", "submission__task_version__task__suite")
    return rows.filter(deleted=None)


def _refuse_too_many(submission: Submission, by: User, text: str) -> None:
    now = timezone.now()
    mine = Comment.objects.filter(author=by, created__gte=now - timedelta(days=1))
    if mine.filter(submission=submission, text=text).exists():
        raise Refused("You have already written this comment.")
    for count, span in ((PER_HOUR, timedelta(hours=1)), (PER_DAY, timedelta(days=1))):
        if mine.filter(created__gte=now - span).count() >= count:
            within = "an hour" if span < timedelta(days=1) else "a day"
            raise TooManyComments(f"That is {count} comments within {within}, which is the limit.")


def _subject(comment: Comment) -> str:
    """Numbers and the task: no word of anybody."""
    submission = comment.submission
    return f"comment {comment.pk} on submission {str(submission.code)[:8]} to {submission.task_version.task.path}"
