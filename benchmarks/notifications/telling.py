"""Creates notifications: one function for each occasion, called in the transaction of the event itself.

Does NOT send anything: `courier.py` does, later.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from ..models import (
    Comment,
    Delivery,
    Evaluation,
    KernelRequest,
    Notification,
    Standing,
    Submission,
    TeamMembership,
)
from ..states import ActionKind, Channel, EvaluationReason, Moderation, NotificationKind, Origin, State
from .choices import choice_of, mail_address

KEPT_DAYS = 90
TEXT_MAX_CHARS = 500
TOLD_PER_DAY = 3  # of one board, and new best answers to one request: others can bring them about again and again
_ASKED_FOR = (EvaluationReason.INITIAL, EvaluationReason.QUICK, EvaluationReason.VERIFICATION)


def notify(owner: User, kind: NotificationKind, text: str, path: str) -> None:
    """Tell an account by the channels that it has chosen for this kind."""
    choice, now = choice_of(owner), timezone.now()
    channels = [Channel.MAIL] if kind in choice.mail and mail_address(owner) else []
    channels += [Channel.WEBHOOK] if kind in choice.webhook and choice.webhook_url else []
    if kind not in choice.site and not channels:
        return
    with transaction.atomic():
        columns = {"kind": kind, "text": text[:TEXT_MAX_CHARS], "path": path, "on_site": kind in choice.site}
        row = Notification.objects.create(owner=owner, **columns)
        Delivery.objects.bulk_create(Delivery(notification=row, channel=channel, due=now) for channel in channels)


def verdict(evaluation: Evaluation) -> None:
    """The end of a judging that its author has asked for. Candidates of runs are told with the end of their run."""
    owner, submission = evaluation.submission.owner, evaluation.submission
    if owner is None or submission.origin == Origin.AGENT or evaluation.reason not in _ASKED_FOR:
        return
    if evaluation.state == State.CANCELLED:
        return
    title = f"“{submission.title}”, {evaluation.task_version.task.name}" if submission.title else _task(submission)
    ended = evaluation.verdict or evaluation.get_state_display()
    notify(
        owner, NotificationKind.VERDICT, f"{title}: {ended}. {evaluation.reason_text}", evaluation.get_absolute_url()
    )


def record_lost(before: Iterable[Standing], leader: Standing) -> None:
    """`before` had the first place until now, `leader` has it."""
    submission, device = leader.evaluation.submission, leader.device_kind.slug
    task, kind = leader.task_version.task, NotificationKind.RECORD_LOST
    path = reverse("leaderboard", args=[task.suite.slug, task.op, task.direction, device])
    for row in before:
        owner = row.evaluation.submission.owner
        if owner is not None and owner != submission.owner and not _told_enough(owner, kind, path):
            text = f"Your first place on {task.name} on {device} was lost: the record is now {leader.score:.2f}×."
            notify(owner, kind, text, path)


def report_decided(reporters: Iterable[User], what: str, kind: ActionKind, reason: str) -> None:
    """Staff have decided about what `reporters` had reported, as the log calls it."""
    text = f"Your report of {what}: {kind.label}. {reason}"
    for reporter in reporters:
        notify(reporter, NotificationKind.REPORT_DECIDED, text, reverse("moderation-log"))


def commented(comment: Comment) -> None:
    """Somebody else has commented on a submission. Its owner is told who, not what: the text stays on its page."""
    submission = comment.submission
    owner, judged = submission.owner, submission.evaluations.without_open_finals().order_by("-pk").first()
    if owner is None or owner == comment.author or judged is None:
        return
    title = f"“{submission.title}”, {_task(submission)}" if submission.title else _task(submission)
    text = f"{comment.author.get_username()} commented on your submission {title}."
    notify(owner, NotificationKind.COMMENT, text, f"{judged.get_absolute_url()}#comment-{comment.pk}")


def answered(leader: Standing) -> None:
    """`leader` is first on a board of the task of a request; its owner is told once of each such program.

    Always of the first one, of further ones a few times a day. In the transaction that ranks the board, which one at a
    time does for a task version.
    """
    task, device, submission = leader.task_version.task, leader.device_kind.slug, leader.evaluation.submission
    shown = KernelRequest.objects.filter(task=task, moderation=Moderation.OK).select_related("owner").defer("files")
    request = shown.first()
    if request is None or request.owner is None or submission.owner_id == request.owner_id:
        return
    known, path = request.told.get(device, []), request.get_absolute_url()
    keys = [key for key in (submission.source_key or submission.blob_id, leader.evaluation.object_key) if key]
    if any(key in known for key in keys) or (known and _told_enough(request.owner, NotificationKind.ANSWER, path)):
        return
    KernelRequest.objects.filter(pk=request.pk).update(told={**request.told, device: [*known, *keys]})
    what = "A new best answer" if known else "A first verified answer"
    text = f"{what} to your request “{request.title}”: {leader.score:.2f}× on {device}."
    notify(request.owner, NotificationKind.ANSWER, text, path)


def refused(request: KernelRequest) -> None:
    """The importer has refused the definition; why stands on its page."""
    text = f"The definition of your request “{request.title}” was refused."
    notify(request.asker, NotificationKind.ANSWER, text, request.get_absolute_url())


def invited(membership: TeamMembership) -> None:
    team, by = membership.team, membership.invited_by
    text = f"{by.get_username() if by else 'Somebody'} invites you to the team {team.name}."
    notify(membership.account, NotificationKind.TEAM, text, team.get_absolute_url())


def forget() -> int:
    """Delete what is old. How many rows that were."""
    return Notification.objects.filter(created__lt=timezone.now() - timedelta(days=KEPT_DAYS)).delete()[0]


def _told_enough(owner: User, kind: NotificationKind, path: str) -> bool:
    """Whether one more within 24 hours would help whoever brings them about to fill a mailbox."""
    since = timezone.now() - timedelta(days=1)
    rows = Notification.objects.filter(owner=owner, kind=kind, path=path, created__gte=since)
    return bool(rows.count() >= TOLD_PER_DAY)


def _task(submission: Submission) -> str:
    return submission.task_version.task.name
