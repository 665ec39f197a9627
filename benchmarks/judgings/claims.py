"""Rows that workers claim one at a time: taking the next, signs of life, letting go, and what lost workers leave.

The table is the queue: of checks without a GPU, of profiles, and of definitions to examine. Each change is one
conditional update by the holder of the claim. Does NOT decide how a row ends or what it costs, and does NOT serve
evaluations (`moves.py`).
"""

import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from django.conf import settings
from django.db.models import F, Max, Model, OuterRef, QuerySet, Subquery
from django.utils import timezone

from ..harness import clean_text
from ..states import CheckState, Switch
from ..switches import switch_is_on

Claimable = TypeVar("Claimable", bound=Model)
ATTEMPTS_MAX = 2


@dataclass(frozen=True)
class RowHolding(Generic[Claimable]):
    """A claimed row and the secret that allows to change it."""

    waiting_state: ClassVar[str] = CheckState.QUEUED
    working_state: ClassVar[str] = CheckState.RUNNING
    row: Claimable
    claim: uuid.UUID
    since_s: float = field(default_factory=time.monotonic)

    @classmethod
    def take(cls, waiting: QuerySet[Claimable], *related: str) -> Self | None:
        """Claims the first row of `waiting` and reads it with what it is `related` to. None: there is nothing to do."""
        if not switch_is_on(Switch.JUDGING):
            return None
        rows = waiting.model._default_manager
        while (pk := waiting.values_list("pk", flat=True).first()) is not None:
            claim = uuid.uuid4()
            free = rows.filter(pk=pk, state=cls.waiting_state)
            if free.update(state=cls.working_state, claim=claim, heartbeat=timezone.now()):
                return cls(rows.select_related(*related).get(pk=pk), claim)
        return None

    @classmethod
    def lost(cls, model: type[Claimable]) -> QuerySet[Claimable]:
        """The rows whose workers have sent no sign of life for too long."""
        limit = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
        return model._default_manager.filter(state=cls.working_state, heartbeat__lt=limit)

    @classmethod
    def requeue_lost(cls, model: type[Claimable]) -> None:
        """Those that have an attempt left are tried once more."""
        again = cls.lost(model).filter(attempt__lt=ATTEMPTS_MAX)
        again.update(state=cls.waiting_state, claim=None, heartbeat=None, attempt=F("attempt") + 1)

    def alive(self) -> bool:
        """Sends a sign of life. False: stop, the row was deleted or belongs to another worker."""
        return bool(self._held().update(heartbeat=timezone.now()))

    def release(self) -> None:
        """The worker lets go in good order: back into the queue, without counting as an attempt."""
        self._held().update(state=self.waiting_state, claim=None, heartbeat=None)

    def _held(self) -> Any:
        rows = type(self.row)._default_manager
        return rows.filter(pk=self.row.pk, claim=self.claim, state=self.working_state)


def in_turn(waiting: QuerySet[Claimable], *before: Any, of: str = "payer") -> QuerySet[Claimable]:
    """By the keys `before`, then that of the one whose turn was longest ago: `of` names whose the rows are."""
    all_of_one = waiting.model._default_manager.filter(**{of: OuterRef(of)}).order_by().values(of)
    turn = Subquery(all_of_one.annotate(at=Max("heartbeat")).values("at"))
    ordered = waiting.annotate(turn=turn).order_by(*before, F("turn").asc(nulls_first=True), "created", "pk")
    return cast("QuerySet[Claimable]", ordered)


def end_lost(holding: type[RowHolding[Claimable]], model: type[Claimable], problem: str) -> None:
    """What a worker has left is tried once more, and fails with `problem` after that."""
    ended = {"state": CheckState.FAILED, "problem": problem, "finished": timezone.now(), "claim": None}
    holding.lost(model).filter(attempt__gte=ATTEMPTS_MAX).update(**ended)
    holding.requeue_lost(model)


def storable(value: Any, *, items_max: int | None = None, chars_max: int | None = None) -> Any:
    """JSON that every database takes and every page can show, cut where there is a limit."""
    if isinstance(value, dict):
        limits = {"items_max": items_max, "chars_max": chars_max}
        return {clean_text(key): storable(item, **limits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item, items_max=items_max, chars_max=chars_max) for item in value[:items_max]]
    return clean_text(value[:chars_max]) if isinstance(value, str) else value
