"""Profiles of evaluated submissions, from the queue to their result: claim, sign of life, record, charge.

The table is the queue, as for checks without a GPU, payers take turns, and each move is one conditional update by who
holds the claim. A worker that judges a device kind also profiles on it. What has kept a worker busy is charged, also
where nothing came of it: who could provoke that would use a GPU for nothing. Does NOT run anything (`jobs.py`) and does
NOT decide who may ask (`services.py`).
"""

import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, OuterRef, Subquery
from django.utils import timezone

from ..harness import Profile, clean_text
from ..models import LedgerEntry, ProfileRequest
from ..quotas.charges import has_refunds_left
from ..states import CheckState, LedgerKind, Switch
from ..switches import switch_is_on

ATTEMPTS_MAX = 2
LOST = "The worker was lost twice while it profiled this source."
_LEAST_S = 0.001  # a line of the ledger is about something


@dataclass(frozen=True)
class ProfileHolding:
    """A claimed request and the secret that allows to move it."""

    request: ProfileRequest
    claim: uuid.UUID
    since_s: float = field(default_factory=time.monotonic)

    def alive(self) -> bool:
        """Says that the worker lives. False: stop, the request is deleted or somebody else's."""
        return bool(self._held().update(heartbeat=timezone.now()))

    def release(self) -> None:
        """The worker lets go in good order: back into the queue, without counting as an attempt."""
        self._held().update(state=CheckState.QUEUED, claim=None, heartbeat=None)

    def fail(self, problem: str) -> None:
        """There is no profile. The seconds are given back a few times a day, as those of other failures are."""
        columns = {"state": CheckState.FAILED, "problem": clean_text(problem)[:500], "finished": timezone.now()}
        with transaction.atomic():
            if self._held().update(**columns, claim=None):
                self._charge("could not be profiled", forgiven=has_refunds_left(self.request.payer_id))

    def record(self, profile: Profile) -> bool:
        """The result and the charge, all or nothing. False: it is no longer ours."""
        with transaction.atomic():
            columns = {"state": CheckState.DONE, "result": _storable(profile.to_json()), "claim": None, "problem": ""}
            if not self._held().update(**columns, finished=timezone.now()):
                return False
            self._charge("profiled")
        return True

    def stopped(self) -> None:
        """It is not to be finished: back into the queue, or charged where its submission was deleted meanwhile."""
        if ProfileRequest.objects.filter(pk=self.request.pk).exists():
            self.release()
        else:
            self._charge("profiled until it was deleted")

    def _charge(self, ended: str, *, forgiven: bool = False) -> None:
        if self.request.payer_id is None:
            return
        line: dict[str, Any] = {
            "payer_id": self.request.payer_id,
            "judging_s": max(time.monotonic() - self.since_s, _LEAST_S),
            "text": f"{self.request.evaluation.task_version.task.name} {ended}",
        }
        for kind in (LedgerKind.CHARGE, LedgerKind.REFUND)[: 1 + forgiven]:
            LedgerEntry.objects.create(kind=kind, **line)

    def _held(self) -> Any:
        return ProfileRequest.objects.filter(pk=self.request.pk, claim=self.claim, state=CheckState.RUNNING)


def profile_claim(device_kind: str) -> ProfileHolding | None:
    """The next request for that device kind, of the payer whose turn was longest ago. None: there is nothing to do."""
    if not switch_is_on(Switch.JUDGING):
        return None
    waiting = ProfileRequest.objects.filter(state=CheckState.QUEUED, evaluation__device_kind__slug=device_kind)
    of_payer = ProfileRequest.objects.filter(payer=OuterRef("payer")).order_by().values("payer")
    turn = Subquery(of_payer.annotate(at=Max("heartbeat")).values("at"))
    order = (F("turn").asc(nulls_first=True), "created", "pk")
    following = waiting.annotate(turn=turn).order_by(*order).values_list("pk", flat=True)
    while (pk := following.first()) is not None:
        claim = uuid.uuid4()
        queued = ProfileRequest.objects.filter(pk=pk, state=CheckState.QUEUED)
        if queued.update(state=CheckState.RUNNING, claim=claim, heartbeat=timezone.now()):
            rows = ProfileRequest.objects.select_related(
                "evaluation__task_version__task__suite",
                "evaluation__submission__blob",
                "evaluation__ruleset",
                "evaluation__device_kind",
            )
            return ProfileHolding(rows.get(pk=pk), claim)
    return None


def requeue_lost_profiles() -> None:
    """What has not been heard of is tried once more, and then ends."""
    limit = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    lost = ProfileRequest.objects.filter(state=CheckState.RUNNING, heartbeat__lt=limit)
    ended = {"state": CheckState.FAILED, "problem": LOST, "finished": timezone.now(), "claim": None}
    lost.filter(attempt__gte=ATTEMPTS_MAX).update(**ended)
    lost.update(state=CheckState.QUEUED, claim=None, heartbeat=None, attempt=F("attempt") + 1)


def _storable(value: Any) -> Any:
    """JSON that every database takes and every page can show."""
    if isinstance(value, dict):
        return {clean_text(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return clean_text(value) if isinstance(value, str) else value


def waiting_profiles() -> dict[str, int]:
    """How many wait, by device kind."""
    waiting = ProfileRequest.objects.filter(state=CheckState.QUEUED).order_by()
    return dict(waiting.values_list("evaluation__device_kind__slug").annotate(rows=Count("pk")))
