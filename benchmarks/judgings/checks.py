"""Checks without a GPU from queue to verdict: claim, heartbeat, report, charge.

The table is the queue, as for evaluations. Each change of state is one conditional update that requires the claim. A
check is charged for the seconds that it ran, and payers take turns. Does NOT run anything (`jobs.py`) and does NOT
accept checks (`services.py`).
"""

import re
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, OuterRef, Subquery
from django.utils import timezone

from ..emulator import EmulatorReport
from ..harness import CPU, Verdict, clean_text
from ..models import EmulatorCheck, Evaluation, LedgerEntry
from ..selectors import find_device_kind
from ..states import CHECK_OPEN, CheckState, LedgerKind, Switch
from ..switches import switch_is_on
from .queue import wake_check

ATTEMPTS_MAX = 2
KEPT = timedelta(days=30)
FINDINGS_MAX = 20
_TEXT_CHARS_MAX = 2000
_LEAST_S = 0.001  # a line of the ledger is about something
_ILLEGAL = re.compile(r"illegal memory access|illegal address|misaligned address", re.IGNORECASE)
LOST = "The worker was lost twice while it ran this source."


@dataclass(frozen=True)
class CheckHolding:
    """A claimed check and the secret that allows to move it."""

    check: EmulatorCheck
    claim: uuid.UUID
    since_s: float = field(default_factory=time.monotonic)

    def alive(self) -> bool:
        """Sends a heartbeat. False: stop, the check was deleted or belongs to another worker."""
        return bool(self._held().update(heartbeat=timezone.now()))

    def release(self) -> None:
        """The worker lets go in good order: back into the queue, without counting as an attempt."""
        self._held().update(state=CheckState.QUEUED, claim=None, heartbeat=None)

    def fail(self, problem: str) -> None:
        """It ends by our own fault: that costs nothing a few times a day, or who can provoke it would pay nothing."""
        columns = {"state": CheckState.FAILED, "problem": clean_text(problem)[:500], "finished": timezone.now()}
        with transaction.atomic():
            ended = self._held().update(**columns, claim=None)
            if ended and _failures_today(self.check) > settings.KBENCH_REFUNDS_PER_DAY:
                self._charge(time.monotonic() - self.since_s, "failed")

    def record(self, report: EmulatorReport) -> bool:
        """The end: the word, its reasons and the charge, all or nothing. False: it is no longer ours."""
        stored = _storable(report.to_json())
        with transaction.atomic():
            columns = {"state": CheckState.DONE, "verdict": report.verdict.value, "report": stored, "claim": None}
            if not self._held().update(**columns, finished=timezone.now()):
                return False
            self._charge(report.seconds, report.verdict.value)
        return True

    def _charge(self, seconds: float, ended: str) -> None:
        if self.check.payer_id is None:
            return
        what = "explained without a GPU" if self.check.explains_id else "checked without a GPU"
        LedgerEntry.objects.create(
            payer_id=self.check.payer_id,
            kind=LedgerKind.CHARGE,
            judging_s=max(seconds, _LEAST_S),
            text=f"{self.check.task_version.task.name} {what}: {ended}",
        )

    def _held(self) -> Any:
        return EmulatorCheck.objects.filter(pk=self.check.pk, claim=self.claim, state=CheckState.RUNNING)


def explain(evaluation: Evaluation) -> EmulatorCheck | None:
    """Queue a check of an evaluation that ended with an illegal access on a GPU, which does not say where it was.

    None for other outcomes, other languages, and evaluations without a payer, such as candidates of the site's runs.
    """
    submission = evaluation.submission
    faulty = evaluation.verdict == Verdict.RUNTIME_ERROR and _ILLEGAL.search(evaluation.reason_text)
    kind = find_device_kind(CPU)
    if not faulty or submission.language != "cuda" or submission.payer_id is None or kind is None:
        return None
    asked = {"task_version": evaluation.task_version, "payer_id": submission.payer_id, "text": submission.blob.text}
    check, _ = EmulatorCheck.objects.get_or_create(explains=evaluation, defaults=asked)
    wake_check(kind.slug)
    return check


def check_claim() -> CheckHolding | None:
    """The next check, those that a person asked for first. None: there is nothing to do.

    Of the payer whose turn was longest ago, so that one who asks for twenty keeps nobody waiting for all of them.
    """
    if not switch_is_on(Switch.JUDGING):
        return None
    waiting = EmulatorCheck.objects.filter(state=CheckState.QUEUED)
    of_payer = EmulatorCheck.objects.filter(payer=OuterRef("payer")).order_by().values("payer")
    turn = Subquery(of_payer.annotate(at=Max("heartbeat")).values("at"))
    order = (F("explains").asc(nulls_first=True), F("turn").asc(nulls_first=True), "created", "pk")
    following = waiting.annotate(turn=turn).order_by(*order).values_list("pk", flat=True)
    while (pk := following.first()) is not None:
        claim = uuid.uuid4()
        if waiting.filter(pk=pk).update(state=CheckState.RUNNING, claim=claim, heartbeat=timezone.now()):
            rows = EmulatorCheck.objects.select_related("task_version__task__suite")
            return CheckHolding(rows.get(pk=pk), claim)
    return None


def _failures_today(check: EmulatorCheck) -> int:
    since = timezone.now() - timedelta(days=1)
    failed = EmulatorCheck.objects.filter(payer=check.payer_id, state=CheckState.FAILED, finished__gte=since)
    return failed.count()


def requeue_lost_checks() -> None:
    """What has not been heard of is tried once more, and then ends."""
    limit = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    lost = EmulatorCheck.objects.filter(state=CheckState.RUNNING, heartbeat__lt=limit)
    ended = {"state": CheckState.FAILED, "problem": LOST, "finished": timezone.now(), "claim": None}
    lost.filter(attempt__gte=ATTEMPTS_MAX).update(**ended)
    lost.update(state=CheckState.QUEUED, claim=None, heartbeat=None, attempt=F("attempt") + 1)


def forget_checks() -> int:
    """Deletes checks that are older than KEPT. How many that were."""
    old = EmulatorCheck.objects.filter(created__lt=timezone.now() - KEPT).exclude(state__in=CHECK_OPEN)
    return old.delete()[0]


def waiting_checks() -> int:
    return EmulatorCheck.objects.filter(state=CheckState.QUEUED).count()


def _storable(value: Any) -> Any:
    """JSON that every database takes and every page can show."""
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value[:FINDINGS_MAX]]
    return clean_text(value[:_TEXT_CHARS_MAX]) if isinstance(value, str) else value
