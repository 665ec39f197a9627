"""The results of judging entries again: the progress of a batch, and its public entries with the largest change first.

Scores, verdicts and ranks are read from the judgings before and after. Does NOT move a batch (`rejudging.py`).
"""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, F, FloatField, Q, QuerySet, Value, When
from django.db.models.functions import Abs, Ln

from ..models import RejudgeBatch, RejudgeItem
from ..querysets import HEAVY
from ..selectors import page_by_key
from ..states import FINISHED, Moderation, State, Visibility

PAGE_ROWS = 50


@dataclass(frozen=True)
class BatchProgress:
    """`open` are queued or being judged, `done` have ended, whatever came out."""

    total: int
    waiting: int
    open: int
    done: int
    verdicts_changed: int
    ranks_changed: int


def progress(batch: RejudgeBatch) -> BatchProgress:
    ended = Q(after__state__in=FINISHED)
    counts = batch.items.aggregate(
        total=Count("pk"),
        waiting=Count("pk", filter=Q(after=None)),
        done=Count("pk", filter=ended),
        verdicts_changed=Count("pk", filter=Q(after__state=State.DONE) & ~Q(after__verdict=F("before__verdict"))),
        ranks_changed=Count("pk", filter=Q(rank_after__isnull=False) & ~Q(rank_after=F("rank_before"))),
    )
    return BatchProgress(open=counts["total"] - counts["waiting"] - counts["done"], **counts)


def changes(batch: RejudgeBatch, page: int | str = 1) -> Page[Any]:
    """The public entries of a batch, largest change first; `change` is the size of the logarithm of it."""
    ratio = Case(
        When(before__score__gt=0, after__score__gt=0, then=Abs(Ln(F("after__score") / F("before__score")))),
        default=Value(None),
        output_field=FloatField(),
    )
    other = Case(When(Q(after__state=State.DONE) & ~Q(after__verdict=F("before__verdict")), then=1), default=0)
    ended = _public(batch).filter(after__state__in=FINISHED).annotate(change=ratio, other_verdict=other)
    rows = RejudgeItem.objects.select_related(
        "before__submission__owner",
        "before__submission__team",
        "before__submission__method",
        "before__device_kind",
        "before__task_version",
        "before__ruleset",
        "after__task_version",
        "after__ruleset",
        "after__device_kind",
        "version__task__suite",
    ).defer(*_HEAVY)
    return page_by_key(ended.order_by("-other_verdict", F("change").desc(nulls_last=True), "position"), rows, page)


_HEAVY_OF_JUDGING = ("report", "ruleset__text", *HEAVY)
_HEAVY = (
    "version__definition",
    "version__reference_source",
    *(f"{side}__{name}" for side in ("before", "after") for name in _HEAVY_OF_JUDGING),
)


def _public(batch: RejudgeBatch) -> QuerySet[RejudgeItem]:
    return batch.items.filter(before__submission__visibility=Visibility.PUBLIC).exclude(
        before__submission__moderation=Moderation.HIDDEN
    )


def unlisted_count(batch: RejudgeBatch) -> int:
    """The number of entries that are judged again but not public."""
    return batch.items.count() - _public(batch).count()


def batches(page: int | str = 1) -> Page[Any]:
    """Newest first, with how many `entries` they have and how many are `judged`."""
    rows = RejudgeBatch.objects.select_related("ruleset").annotate(
        entries=Count("items"), judged=Count("items", filter=Q(items__after__state__in=FINISHED))
    )
    return Paginator(rows.order_by("-created", "-pk"), PAGE_ROWS).get_page(page)


def at_work(batch: RejudgeBatch) -> list[RejudgeItem]:
    """The entries of the batch that are queued or being judged."""
    rows = batch.items.filter(after__isnull=False).exclude(after__state__in=FINISHED)
    rows = rows.select_related("after__device_kind", "version__task__suite", "before__submission__owner")
    return list(rows.defer("before__report", "version__definition", "version__reference_source")[:PAGE_ROWS])
