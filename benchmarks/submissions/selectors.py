"""The queries about submissions: lists, identical sources, candidates for a comparison.

Every function takes the reader and gives only what they may see. Does NOT write.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.paginator import Page
from django.db.models import Case, Exists, OuterRef, Prefetch, Subquery, Value, When
from django.http import Http404

from ..harness import Source, Verdict
from ..models import DeviceKind, Evaluation, Submission, Task, TaskVersion, Team
from ..querysets import HEAVY, User, counted, teams_of_member, timed_earlier
from ..selectors import evaluation_for, page_by_key, submission_for, visible_standings
from ..states import EvaluationReason, Moderation, Origin, Priority, State

EXPORT_ROWS_MAX = 100  # a source may have 256 KiB


def submission_rows(
    user: User, *, mine: bool, task: Task | None = None, team: Team | None = None, page: int | str = 1
) -> Page[Any]:
    """Submissions with their `newest` evaluation: the reader's own, those of a team, or what everybody may list."""
    rows = Submission.objects.filter(owner=user.pk) if mine else Submission.objects.published()
    if team is not None:
        of_team = Submission.objects.filter(team=team)
        inside = user.is_authenticated and teams_of_member(user).filter(team=team).exists()
        everybody = of_team.exclude(moderation=Moderation.HIDDEN) if inside else of_team.published()
        rows = of_team.filter(owner=user.pk) if mine else everybody
    judged = Evaluation.objects.exclude(reason=EvaluationReason.CONTEST)
    newest = judged.filter(submission=OuterRef("pk")).order_by("-queued", "-pk").values("pk")[:1]
    rows = rows.filter(task_version__task=task) if task else rows
    whole = (
        Submission.objects.select_related("task_version__task__suite")
        .defer(*HEAVY)
        .annotate(newest_pk=Subquery(newest))
    )
    found = page_by_key(rows, whole, page)
    evaluations = Evaluation.objects.defer("report").in_bulk([row.newest_pk for row in found if row.newest_pk])
    for row in found:
        row.newest = evaluations.get(row.newest_pk)
    return found


def exported(after: uuid.UUID | None, rows: int) -> list[Submission] | None:
    """Public submissions with their judgings in the order of their keys; None where `after` names none of them."""
    everything = Submission.objects.published().order_by("pk")
    if after is not None:
        last = everything.filter(code=after).values_list("pk", flat=True).first()
        if last is None:
            return None
        everything = everything.filter(pk__gt=last)
    # Told by its verdict and not by its state: of that SQLite has an index, and would read all that was ever judged.
    judged = Evaluation.objects.exclude(verdict="").without_open_finals()
    judged = (
        judged.select_related("device_kind", "ruleset")
        .order_by("pk")
        .defer("report", "error_internal", "ruleset__text")
        .prefetch_related("configs", "standings")
    )
    whole = everything.select_related("blob", "method", "owner", "team", "task_version__task__suite").defer(*HEAVY)
    return list(whole.prefetch_related(Prefetch("evaluations", judged))[:rows])


def identical(version: TaskVersion, source: Source, user: User, kind: DeviceKind) -> Evaluation | None:
    """The judging of exactly this source on this device kind that `user` may see: an own one first, then the newest.

    What ended without saying anything about the source does not count, nor what still waits behind people, nor what an
    earlier revision of the judge's timing has timed.
    """
    rows = Evaluation.objects.full().listable_for(user).with_context()
    rows = rows.filter(
        task_version=version,
        device_kind=kind,
        ruleset__name=settings.KBENCH_RULESET,
        submission__blob=source.sha256,
        submission__language=source.language,
    ).exclude(state__in=(State.CANCELLED, State.EXPIRED))
    rows = rows.exclude(verdict__in=[verdict.value for verdict in Verdict if verdict.ours])
    rows = rows.exclude(state=State.QUEUED, priority__gt=Priority.PERSON).exclude(timed_earlier())
    own = Case(When(submission__owner=user.pk, then=0), default=1) if user.is_authenticated else Value(1)
    found: Evaluation | None = rows.annotate(own=own).order_by("own", "-queued", "-pk").first()
    return found


def original_of(user: User, evaluation: Evaluation) -> Evaluation | None:
    """The first judging of exactly this source by another owner, if the reader may see it."""
    submission = evaluation.submission
    judged = Evaluation.objects.listable_for(user).filter(task_version=evaluation.task_version_id)
    earlier = Submission.objects.filter(blob=submission.blob_id, created__lt=submission.created)
    others = earlier.exclude(owner=submission.owner_id) if submission.owner_id else earlier
    first = others.filter(Exists(judged.filter(submission=OuterRef("pk")))).order_by("created", "pk").values("pk")[:1]
    rows = Evaluation.objects.with_context().filter(submission=Subquery(first), task_version=evaluation.task_version_id)
    found: Evaluation | None = rows.order_by("queued", "pk").first()
    return found


@dataclass(frozen=True)
class Comparable:
    """A submission that a reader may want to compare another one with."""

    title: str
    code: uuid.UUID


def comparable(user: User, evaluation: Evaluation) -> list[Comparable]:
    """The record of the board, the reader's best and what the owner submitted before, as far as they are others."""
    found = [
        ("the record", _record(evaluation)),
        ("your best", _best_of(user, evaluation)),
        ("the version before", _version_before(user, evaluation)),
    ]
    known = {evaluation.submission.code}
    others = []
    for title, code in found:
        if code is not None and code not in known:
            known.add(code)
            others.append(Comparable(title, code))
    return others


def side_for(user: User, code: uuid.UUID) -> tuple[Submission, Evaluation]:
    """A submission by its own code or that of one of its evaluations, with its best or newest one; else 404."""
    try:
        submission, evaluations = submission_for(user, code)
    except Http404:
        found = evaluation_for(user, code)
        return found.submission, found
    counting = Evaluation.objects.filter(pk__in=[item.pk for item in evaluations]).that_count()
    best = counting.order_by(counted().desc(), "-queued").values_list("pk", flat=True).first()
    return submission, next((item for item in evaluations if item.pk == best), evaluations[0])


def _record(evaluation: Evaluation) -> uuid.UUID | None:
    board = visible_standings(evaluation.device_kind.slug).filter(task_version=evaluation.task_version_id, rank=1)
    first: uuid.UUID | None = board.as_listed().values_list("evaluation__submission__code", flat=True).first()
    return first


def _best_of(user: User, evaluation: Evaluation) -> uuid.UUID | None:
    if not user.is_authenticated:
        return None
    own = Submission.objects.filter(owner=user.pk, task_version=evaluation.task_version_id).order_by()
    mine = _same_board(evaluation).full().filter(submission__in=own.values("pk"), verdict=Verdict.PASS)
    best = mine.that_count().order_by(counted().desc())
    code: uuid.UUID | None = best.values_list("submission__code", flat=True).first()
    return code


def _version_before(user: User, evaluation: Evaluation) -> uuid.UUID | None:
    submission = evaluation.submission
    if submission.owner_id is None or submission.origin == Origin.AGENT:
        return None
    judged = _same_board(evaluation).readable_by(user)
    if submission.owner_id != user.pk:
        judged = judged.listable_for(user)
    own = Submission.objects.filter(owner=submission.owner_id, created__lt=submission.created)
    older = own.exclude(origin=Origin.AGENT).filter(Exists(judged.filter(submission=OuterRef("pk")).order_by()))
    code: uuid.UUID | None = older.order_by("-created").values_list("code", flat=True).first()
    return code


def _same_board(evaluation: Evaluation) -> Any:
    return Evaluation.objects.filter(task_version=evaluation.task_version_id, device_kind=evaluation.device_kind_id)
