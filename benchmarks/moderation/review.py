"""The queries of the moderation pages: the review queue, the log, hidden and invalidated entries with their reasons.

Reports and private notes are for staff only; other readers get public reasons. Does NOT decide anything
(`decisions.py`).
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404

from ..boards.confirmations import confirmed_rows
from ..boards.selectors import BoardKey, kept
from ..models import DeviceKind, Evaluation, ModerationAction, Standing, Submission, TaskVersion
from ..querysets import HEAVY, counted
from ..selectors import page_by_key
from ..states import ActionKind, Moderation, TaskVersionStatus, Visibility

PAGE_ROWS = 50
GROUPS = 20  # of entries with one source, on a page
LIST_MAX = 200


# --- for everybody ---------------------------------------------------------------------------------------------------


def invalidated_on(board: BoardKey) -> list[Any]:
    """The latest judging of each submission that staff took off a board, newest first, with its `public_reason`."""
    keys = kept(board, "invalidated", lambda: _latest_invalidated(board))
    shown = {"submission__moderation": Moderation.INVALIDATED, "submission__visibility": Visibility.PUBLIC}
    why = _latest(ActionKind.INVALIDATE, OuterRef("submission"))
    rows = Evaluation.objects.with_holder().filter(pk__in=keys, **shown).annotate(public_reason=why)
    return list(rows.order_by("-finished", "-pk"))


def _latest_invalidated(board: BoardKey) -> list[int]:
    """Keys of judgings, one of each submission."""
    taken = Submission.objects.moderated().filter(moderation=Moderation.INVALIDATED, visibility=Visibility.PUBLIC)
    gone = Evaluation.objects.scored_on(board).filter(submission__in=taken.order_by().values("pk"))
    rows = gone.order_by("-finished", "-pk").values_list("submission", "pk")[:LIST_MAX]
    return list(dict(reversed(rows)).values())


@dataclass(frozen=True)
class AwaitingEntries:
    """The first of those that wait, and how many there are."""

    rows: list[Standing]
    count: int


def awaiting_on(board: BoardKey) -> AwaitingEntries:
    """Entries of older versions or rules that wait for being judged as the board is, the best first.

    One per holder, the newest if it is ranked there; nothing for a board that is itself an old one. The entries are
    looked up before what was judged here, because a database left to itself looks through the whole board for each.
    """
    if board.version.status != TaskVersionStatus.ACTIVE or board.ruleset.name != settings.KBENCH_RULESET:
        return AwaitingEntries([], 0)
    versions = TaskVersion.objects.filter(task=board.version.task_id, number__lte=board.version.number)
    older = Standing.objects.filter(task_version__in=list(versions.values_list("pk", flat=True)))
    older = older.filter(device_kind=board.device).exclude(task_version=board.version, ruleset=board.ruleset)
    newest_last = older.listable().order_by("task_version__number", "ruleset__created", "pk")
    entries = list(newest_last.values_list("holder", "pk", "under_review", "evaluation__submission"))
    judged_here = _judged_on(board, [submission for *_, submission in entries])
    newest = {holder: (pk, held) for holder, pk, held, submission in entries if submission not in judged_here}
    waiting = [pk for pk, is_under_review in newest.values() if not is_under_review]
    rows = Standing.objects.filter(pk__in=waiting).with_context()
    rows = rows.select_related(
        "task_version", "ruleset", "evaluation__submission__owner", "evaluation__submission__team"
    ).order_by(counted("evaluation__").desc(), "pk")
    return AwaitingEntries(list(rows[:PAGE_ROWS]), len(waiting))


def _judged_on(board: BoardKey, submissions: list[int]) -> set[int]:
    if not submissions:
        return set()
    judged = Evaluation.objects.full().filter(
        submission__in=submissions, task_version=board.version, device_kind=board.device, ruleset=board.ruleset
    )
    return set(judged.exclude(verdict="").values_list("submission", flat=True))


def decisions_about(submission: Submission) -> QuerySet[ModerationAction]:
    """Newest first; pages show the public part of it."""
    return ModerationAction.objects.decisions().filter(submission=submission)


def log(page: int | str = 1) -> Page[ModerationAction]:
    """Every decision, newest first; reports are no decisions."""
    rows = ModerationAction.objects.decisions().select_related("submission", "account", "batch", "actor")
    return Paginator(rows, PAGE_ROWS).get_page(page)


def _latest(kind: ActionKind, submission: OuterRef) -> Subquery:
    actions = ModerationAction.objects.filter(submission=submission, kind=kind).order_by("-pk")
    return Subquery(actions.values("public_reason")[:1])


# --- for staff -------------------------------------------------------------------------------------------------------


def open_reports(page: int | str = 1) -> Page[Any]:
    """Open reports, oldest first."""
    rows = ModerationAction.objects.open_reports().select_related("submission__task_version__task__suite", "actor")
    slim = rows.defer(*(f"submission__{name}" for name in HEAVY))
    return Paginator(slim.order_by("pk"), PAGE_ROWS).get_page(page)


def under_review(page: int | str = 1) -> Page[Any]:
    """Entries that a gate or a refusal keeps off the ranks, the oldest first."""
    rows = Standing.objects.filter(under_review=True).with_context()
    rows = rows.select_related("task_version__task__suite", "device_kind", "ruleset").defer(*HEAVY)
    return Paginator(rows.order_by("verified_at", "pk"), PAGE_ROWS).get_page(page)


@dataclass(frozen=True)
class Copies:
    """Entries of one board that have the same source under different holders, the earliest first."""

    version: TaskVersion
    device: DeviceKind
    standings: list[Standing]


def identical_sources(page: int | str = 1) -> Page[Any]:
    """Boards with several entries of the same source; entries whose review was settled are left out.

    Sources that were submitted more than once are looked for first: an index holds them, and they are few. Rows are
    counted and not keys, which that index does not hold on PostgreSQL.
    """
    often = Submission.objects.order_by().values("blob").annotate(n=Count("*")).filter(n__gt=1).values("blob")
    rows = Standing.objects.filter(evaluation__submission__blob__in=often).order_by()
    unsettled = rows.exclude(confirmed_rows())
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for pk, *same in unsettled.values_list("pk", *_SAME):
        groups[tuple(same)].append(pk)
    repeated = sorted(same for same, keys in groups.items() if len(keys) > 1)
    found = Paginator([groups[same] for same in repeated], GROUPS).get_page(page)
    return Page(_copies(list(found)), found.number, found.paginator)


_SAME = ("ruleset", "task_version", "device_kind", "evaluation__submission__blob")


def _copies(groups: list[list[int]]) -> list[Copies]:
    """Of the keys of standings."""
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind").defer(*HEAVY)
    standings = rows.in_bulk([pk for group in groups for pk in group])
    ordered = [
        sorted((standings[pk] for pk in group), key=lambda row: row.evaluation.submission.created) for group in groups
    ]
    return [Copies(same[0].task_version, same[0].device_kind, same) for same in ordered]


def taken_down(page: int | str = 1) -> Page[Any]:
    """Submissions that are hidden or invalidated, latest decision first."""
    decided = ModerationAction.objects.filter(
        submission=OuterRef("pk"), kind__in=(ActionKind.HIDE, ActionKind.INVALIDATE)
    ).order_by("-pk")
    rows = Submission.objects.select_related("owner", "task_version__task__suite").defer(*HEAVY)
    rows = rows.annotate(
        public_reason=Subquery(decided.values("public_reason")[:1]), decided=Subquery(decided.values("created")[:1])
    )
    ordered = Submission.objects.moderated().annotate(decided=Subquery(decided.values("created")[:1]))
    return page_by_key(ordered.order_by("-decided", "-pk"), rows, page)


def submission_for_staff(code: uuid.UUID) -> Submission:
    rows = Submission.objects.select_related("owner", "method", "blob", "task_version__task__suite")
    found: Submission = get_object_or_404(rows.exclude(visibility=Visibility.PRIVATE), code=code)
    return found


def everything_about(submission: Submission) -> QuerySet[ModerationAction]:
    """Reports and decisions, newest first, with who made them."""
    return submission.moderation_actions.select_related("actor")


def is_reported(submission: Submission) -> bool:
    return ModerationAction.objects.open_reports().filter(submission=submission).exists()


def same_source(submission: Submission) -> QuerySet[Submission]:
    """Other submissions of the same text for the same task."""
    rows = Submission.objects.filter(blob=submission.blob_id, task_version__task=submission.task_version.task_id)
    rows = rows.exclude(pk=submission.pk).exclude(visibility=Visibility.PRIVATE).select_related("owner", "method")
    return rows.order_by("created")[:PAGE_ROWS]


def account_named(name: str) -> User:
    return get_object_or_404(User, username=name if name.isprintable() else "")


def actions_about_account(account: User) -> QuerySet[ModerationAction]:
    return ModerationAction.objects.filter(account=account).select_related("actor")


def actions_about(subject: str) -> QuerySet[ModerationAction]:
    """Of what the log knows by its words alone, such as a run."""
    return ModerationAction.objects.filter(subject=subject).select_related("actor")
