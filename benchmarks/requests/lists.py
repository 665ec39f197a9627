"""The queries of the pages of requests: the list, one request, its answers. Votes are counted by the database.

Until a task was made of a request it is its owner's alone; a hidden one is its owner's and staff's. One whose owner has
left the site is on the page of staff's decisions alone. Does NOT write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import Http404

from ..boards.labels import is_ranked
from ..boards.rows import leading
from ..harness import Verdict
from ..models import (
    ConfigResult,
    DeviceKind,
    Evaluation,
    KernelRequest,
    ModerationAction,
    RequestVote,
    Standing,
)
from ..querysets import EvaluationQuerySet, best_known_first, counted
from ..selectors import device_kinds
from ..states import ActionKind, Moderation, RequestState, TaskVersionStatus, Visibility

PAGE_ROWS = 50
FEED_ROWS = 30
SORTS = {"votes": "Most votes", "newest": "Newest", "open": "Open, most votes"}
Reader = User | AnonymousUser


@dataclass(frozen=True)
class RequestAnswer:
    """The best verified kernel on a device kind.

    `row` is a Standing, which is not saved where nothing is ranked. `first` is of the first configuration.
    """

    device: DeviceKind
    wanted: bool
    evaluation: Evaluation
    row: Standing
    entries: int
    first: ConfigResult | None


def published() -> QuerySet[KernelRequest]:
    """What everybody reads."""
    return KernelRequest.objects.filter(task__isnull=False, owner__isnull=False, moderation=Moderation.OK)


def request_rows(reader: Reader, sort: str = "votes", page: int | str = 1) -> Page[Any]:
    """Published requests with `vote_count`, `voted` and `best`. An unknown order is the first."""
    rows = _with_votes(published(), reader)
    rows = rows.filter(state=RequestState.OPEN) if sort == "open" else rows
    order = ("-pk",) if sort == "newest" else ("-vote_count", "-pk")
    shown = rows.annotate(best=Subquery(_best_score())).select_related("owner", "task__suite")
    slim = shown.defer("files", "paid", "reason").prefetch_related("device_kinds")
    return Paginator(slim.order_by(*order), PAGE_ROWS).get_page(page)


def own_unpublished(reader: Reader) -> list[KernelRequest]:
    """Of the reader, what nobody else sees in the list."""
    if not reader.is_authenticated:
        return []
    mine = KernelRequest.objects.filter(owner=reader).filter(Q(task__isnull=True) | Q(moderation=Moderation.HIDDEN))
    return list(mine.defer("files", "paid", "reason")[:PAGE_ROWS])


def newest_requests() -> list[KernelRequest]:
    """Open ones, for the feed."""
    rows = published().filter(state=RequestState.OPEN).select_related("owner", "task").defer("files", "paid")
    return list(rows.order_by("-opened", "-pk")[:FEED_ROWS])


def request_for(reader: Reader, pk: int) -> KernelRequest:
    """With `vote_count`, `voted` and, of a hidden one, `hidden_reason`. Raises Http404 for what is not for the reader.

    The posted files are read along only for the owner.
    """
    may = Q(task__isnull=False, owner__isnull=False, moderation=Moderation.OK)
    if reader.is_authenticated:
        may |= Q(owner=reader.pk)
    if getattr(reader, "is_staff", False):
        may |= Q(task__isnull=False, owner__isnull=False)
    hidden = ModerationAction.objects.filter(request=OuterRef("pk"), kind=ActionKind.HIDE).order_by("-pk")
    rows = _with_votes(KernelRequest.objects.filter(may, pk=pk), reader).annotate(
        hidden_reason=Subquery(hidden.values("public_reason")[:1])
    )
    whole = rows.select_related("owner", "task__suite").defer("files", "paid").prefetch_related("device_kinds")
    found: KernelRequest | None = whole.first()
    if found is None:
        raise Http404("There is no such request.")
    return found


def own_request(reader: Reader, pk: int) -> KernelRequest:
    """Raises Http404 for one of somebody else."""
    found = request_for(reader, pk)
    if found.owner_id != reader.pk:
        raise Http404("There is no such request of yours.")
    return found


def published_or_hidden(pk: int) -> KernelRequest:
    """For staff. Raises Http404 for what is its owner's alone."""
    rows = KernelRequest.objects.filter(task__isnull=False).select_related("owner", "task__suite")
    found = rows.filter(pk=pk).defer("files", "paid").first()
    if found is None:
        raise Http404("There is no such request.")
    return found


def decisions_about(request: KernelRequest) -> QuerySet[ModerationAction]:
    """Newest first."""
    return request.moderation_actions.select_related("actor")


def request_of_task(task: Any) -> KernelRequest | None:
    """The published request that a task was made of."""
    return published().filter(task=task).defer("files", "paid").first()


def answerable(request: KernelRequest) -> EvaluationQuerySet:
    """Accepted public submissions to the task of a request, by anybody."""
    rows: EvaluationQuerySet = Evaluation.objects.full().filter(
        task_version__task=request.task_id,
        task_version__status=TaskVersionStatus.ACTIVE,
        verdict=Verdict.PASS,
        submission__visibility=Visibility.PUBLIC,
        submission__moderation=Moderation.OK,
    )
    return rows


def accepted_answer(request: KernelRequest) -> Evaluation | None:
    """What the owner has accepted; None where it is not public any more."""
    rows = answerable(request).with_holder().select_related("device_kind")
    found: Evaluation | None = rows.filter(pk=request.accepted_id).first() if request.accepted_id else None
    return found


def answers_of(request: KernelRequest) -> list[RequestAnswer]:
    """The best of each device kind: the first of the board, or, where nothing is ranked, the best accepted entry."""
    if request.task is None or request.is_hidden:
        return []
    ranked = is_ranked(request.task.labels)
    best = _leaders(request) if ranked else _best_unranked(request)
    counted = dict(
        answerable(request)
        .order_by()
        .values_list("device_kind")
        .annotate(n=Count("submission", distinct=True))
        .values_list("device_kind", "n")
    )
    firsts = _first_configs(row.evaluation for row in best.values())
    wanted = {kind.pk for kind in request.device_kinds.all()}
    found = []
    for kind in device_kinds():
        if (row := best.get(kind.pk)) is not None:
            first = firsts.get(row.evaluation_id)
            found.append(RequestAnswer(kind, kind.pk in wanted, row.evaluation, row, counted.get(kind.pk, 0), first))
    return sorted(found, key=lambda answer: not answer.wanted)


def _leaders(request: KernelRequest) -> Mapping[int, Standing]:
    rows = _standings().filter(task_version__task=request.task_id).with_context()
    ordered = rows.order_by("device_kind", best_known_first().desc(), "-verified_at", "-pk")
    return {row.device_kind_id: row for row in ordered.filter(rank=1)}


def _best_unranked(request: KernelRequest) -> Mapping[int, Standing]:
    """The first entry that is not in question, as if there were a board."""
    rows = answerable(request).filter(ruleset__name=settings.KBENCH_RULESET)
    return {device_kind: row for (device_kind,), row in leading(rows, "device_kind").items()}


def _first_configs(evaluations: Any) -> dict[int, ConfigResult]:
    rows = ConfigResult.objects.filter(evaluation__in=[item.pk for item in evaluations]).exclude(group="hidden")
    return {row.evaluation_id: row for row in rows.order_by("evaluation", "-position")}


def _standings() -> Any:
    return (
        Standing.objects.ranked()
        .listable()
        .filter(ruleset__name=settings.KBENCH_RULESET, task_version__status=TaskVersionStatus.ACTIVE)
    )


def _best_score() -> Any:
    wanted = KernelRequest.device_kinds.through.objects.filter(kernelrequest=OuterRef(OuterRef("pk")))
    rows = _standings().filter(rank=1, device_kind__in=wanted.values("devicekind"))  # found by an index
    on_task = rows.filter(task_version__task=OuterRef("task")).order_by()
    return on_task.order_by(counted("evaluation__").desc()).values("score")[:1]


def _with_votes(rows: QuerySet[KernelRequest], reader: Reader) -> Any:
    votes = RequestVote.objects.filter(request=OuterRef("pk")).order_by().values("request")
    counted = Subquery(votes.annotate(n=Count("pk")).values("n"), output_field=IntegerField())
    mine = RequestVote.objects.filter(request=OuterRef("pk"), account=reader.pk or 0)
    return rows.annotate(vote_count=Coalesce(counted, Value(0)), voted=Exists(mine), owner_name=F("owner__username"))
