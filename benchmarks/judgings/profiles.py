"""Profiles of evaluated submissions, from the queue to their result: claim, record, charge.

Payers take turns. A worker that judges a device kind also profiles on it. All time that a worker was busy is charged,
also where there is no profile: otherwise an account could use a GPU for nothing by making profiles fail. Does NOT run
anything (`jobs`) and does NOT decide who may ask (`services.py`).
"""

import time
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from ..harness import Profile, clean_text
from ..models import LedgerEntry, ProfileRequest
from ..quotas.charges import LEAST_S, has_refunds_left
from ..states import CheckState, LedgerKind
from .claims import RowHolding, end_lost, in_turn, storable

LOST = "The worker failed twice while it profiled this source."


class ProfileHolding(RowHolding[ProfileRequest]):
    """A claimed request for a profile."""

    def fail(self, problem: str) -> None:
        """There is no profile. The seconds are given back a few times a day, as those of other failures are."""
        columns = {"state": CheckState.FAILED, "problem": clean_text(problem)[:500], "finished": timezone.now()}
        with transaction.atomic():
            if self._held().update(**columns, claim=None):
                self._charge("could not be profiled", forgiven=has_refunds_left(self.row.payer_id))

    def record(self, profile: Profile) -> bool:
        """The result and the charge, all or nothing. False: it is no longer ours."""
        with transaction.atomic():
            columns = {"state": CheckState.DONE, "result": storable(profile.to_json()), "claim": None, "problem": ""}
            if not self._held().update(**columns, finished=timezone.now()):
                return False
            self._charge("profiled")
        return True

    def stopped(self) -> None:
        """It is not to be finished: back into the queue, or charged where its submission was deleted meanwhile."""
        if ProfileRequest.objects.filter(pk=self.row.pk).exists():
            self.release()
        else:
            self._charge("profiled until it was deleted")

    def _charge(self, ended: str, *, forgiven: bool = False) -> None:
        if self.row.payer_id is None:
            return
        line: dict[str, Any] = {
            "payer_id": self.row.payer_id,
            "judging_s": max(time.monotonic() - self.since_s, LEAST_S),
            "text": f"{self.row.evaluation.task_version.task.name} {ended}",
        }
        for kind in (LedgerKind.CHARGE, LedgerKind.REFUND)[: 1 + forgiven]:
            LedgerEntry.objects.create(kind=kind, **line)


def profile_claim(device_kind: str) -> ProfileHolding | None:
    """The next request for that device kind, of the payer whose turn was longest ago. None: there is nothing to do."""
    waiting = ProfileRequest.objects.filter(state=CheckState.QUEUED, evaluation__device_kind__slug=device_kind)
    return ProfileHolding.take(
        in_turn(waiting),
        "evaluation__task_version__task__suite",
        "evaluation__submission__blob",
        "evaluation__ruleset",
        "evaluation__device_kind",
    )


def requeue_lost_profiles() -> None:
    """What has not been heard of is tried once more, and then ends."""
    end_lost(ProfileHolding, ProfileRequest, LOST)


def waiting_profiles() -> dict[str, int]:
    """How many wait, by device kind."""
    waiting = ProfileRequest.objects.filter(state=CheckState.QUEUED).order_by()
    return dict(waiting.values_list("evaluation__device_kind__slug").annotate(rows=Count("pk")))
