"""Profiles of evaluated submissions, from the queue to their result: claim, sign of life, record, charge.

The table is the queue, as for checks without a GPU, and each move is one conditional update by who holds the claim. A
worker that judges a device kind also profiles on it. Does NOT run anything (`jobs.py`) and does NOT decide who may ask
(`services.py`).
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F
from django.utils import timezone

from ..harness import Profile, clean_text
from ..models import LedgerEntry, ProfileRequest
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

    def alive(self) -> bool:
        """Says that the worker lives. False: stop, the request is deleted or somebody else's."""
        return bool(self._held().update(heartbeat=timezone.now()))

    def release(self) -> None:
        """The worker lets go in good order: back into the queue, without counting as an attempt."""
        self._held().update(state=CheckState.QUEUED, claim=None, heartbeat=None)

    def fail(self, problem: str) -> None:
        """There is no profile; nothing is charged."""
        columns = {"state": CheckState.FAILED, "problem": clean_text(problem)[:500], "finished": timezone.now()}
        self._held().update(**columns, claim=None)

    def record(self, profile: Profile, seconds: float) -> bool:
        """The result and the charge, all or nothing. False: it is no longer ours."""
        evaluation = self.request.evaluation
        with transaction.atomic():
            columns = {"state": CheckState.DONE, "result": _storable(profile.to_json()), "claim": None, "problem": ""}
            if not self._held().update(**columns, finished=timezone.now()):
                return False
            if self.request.payer_id is not None:
                LedgerEntry.objects.create(
                    payer_id=self.request.payer_id,
                    kind=LedgerKind.CHARGE,
                    judging_s=max(seconds, _LEAST_S),
                    text=f"{evaluation.task_version.task.name} profiled",
                )
        return True

    def _held(self) -> Any:
        return ProfileRequest.objects.filter(pk=self.request.pk, claim=self.claim, state=CheckState.RUNNING)


def profile_claim(device_kind: str) -> ProfileHolding | None:
    """The request for that device kind that waits longest. None: there is nothing to do."""
    if not switch_is_on(Switch.JUDGING):
        return None
    waiting = ProfileRequest.objects.filter(state=CheckState.QUEUED, evaluation__device_kind__slug=device_kind)
    while (pk := waiting.order_by("created", "pk").values_list("pk", flat=True).first()) is not None:
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
