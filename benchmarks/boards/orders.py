"""In which order a board lists its entries: by rank, or by one of its columns. No order changes a rank.

An entry without a value is the last in both directions. Entries that are alike stay in the order of the ranks.
"""

from collections.abc import Callable
from typing import Any

from django.db.models import Avg, Case, Count, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Ln, Lower

from ..harness import CPU
from ..models import ConfigResult
from ..querysets import best_known_first
from .accuracy import largest_share

BY_RANK = "rank"


def order_of(sort: str) -> str:
    """A key of COLUMNS, with `-` in front to turn it round; an unknown one counts as none."""
    return sort if sort.removeprefix("-") in COLUMNS else BY_RANK


def in_order(rows: QuerySet[Any], key: Any, sort: str) -> QuerySet[Any]:
    """Standings of the board `key`; `sort` as `order_of` gives it."""
    by = COLUMNS[sort.removeprefix("-")](key)
    first = by.desc(nulls_last=True) if sort.startswith("-") else by.asc(nulls_last=True)
    return rows.order_by(first, "rank", *_known(key.device.device_class), "verified_at", "pk")


def _known(device_class: str) -> list[Case]:
    """How well a time is known; on a processor all are known alike, and no entry's evaluation is looked up for it."""
    if device_class == CPU:
        return []
    return [best_known_first()]


def _of_configs(value: Any, **needed: Any) -> Any:
    """An aggregate over the configurations of an entry; `needed` are aggregates that it names."""
    of_entry = ConfigResult.objects.filter(evaluation=OuterRef("evaluation")).order_by().values("evaluation")
    return Subquery(of_entry.annotate(**needed).annotate(sorted_by=value).values("sorted_by"))


def _energy(_: Any) -> Any:
    """As on the page: unknown unless each timed configuration has one."""
    without = Count("pk", filter=Q(kernel_us__isnull=False, energy_mj=None))
    return _of_configs(Case(When(without=0, then=F("mean"))), without=without, mean=Avg(Ln("energy_mj")))


def _error(key: Any) -> Any:
    return _of_configs(largest_share(key.version.definition, key.device.device_class))


COLUMNS: dict[str, Callable[[Any], Any]] = {
    BY_RANK: lambda _: F("rank"),
    "score": lambda _: F("score"),
    "time": lambda _: _of_configs(Avg(Ln("kernel_us"))),  # in the order of the geometric mean
    "error": _error,
    "energy": _energy,
    "date": lambda _: F("verified_at"),
    "author": lambda _: Lower("evaluation__submission__owner__username"),
}
