"""Checks without a GPU from queue to verdict: claim, report, charge.

A check is charged for the seconds that it ran, and payers take turns. Does NOT run anything (`jobs`) and does NOT
accept checks (`services.py`).
"""

import re
import time
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from ..emulator import EmulatorReport
from ..harness import CPU, Verdict, clean_text
from ..models import EmulatorCheck, Evaluation, LedgerEntry
from ..quotas.charges import LEAST_S
from ..selectors import find_device_kind
from ..states import CHECK_OPEN, CheckState, LedgerKind
from .claims import RowHolding, end_lost, in_turn, storable
from .queue import wake_check

KEPT = timedelta(days=30)
FINDINGS_MAX = 20
_TEXT_CHARS_MAX = 2000
_ILLEGAL = re.compile(r"illegal memory access|illegal address|misaligned address", re.IGNORECASE)
LOST = "The worker failed twice while it ran this source."


class CheckHolding(RowHolding[EmulatorCheck]):
    """A claimed check."""

    def fail(self, problem: str) -> None:
        """It ends by our own fault: that costs nothing a few times a day, or who can provoke it would pay nothing."""
        columns = {"state": CheckState.FAILED, "problem": clean_text(problem)[:500], "finished": timezone.now()}
        with transaction.atomic():
            ended = self._held().update(**columns, claim=None)
            if ended and _failures_today(self.row) > settings.KBENCH_REFUNDS_PER_DAY:
                self._charge(time.monotonic() - self.since_s, "failed")

    def record(self, report: EmulatorReport) -> bool:
        """The end: the word, its reasons and the charge, all or nothing. False: it is no longer ours."""
        stored = storable(report.to_json(), items_max=FINDINGS_MAX, chars_max=_TEXT_CHARS_MAX)
        with transaction.atomic():
            columns = {"state": CheckState.DONE, "verdict": report.verdict.value, "report": stored, "claim": None}
            if not self._held().update(**columns, finished=timezone.now()):
                return False
            self._charge(report.seconds, report.verdict.value)
        return True

    def _charge(self, seconds: float, ended: str) -> None:
        if self.row.payer_id is None:
            return
        what = "explained without a GPU" if self.row.explains_id else "checked without a GPU"
        LedgerEntry.objects.create(
            payer_id=self.row.payer_id,
            kind=LedgerKind.CHARGE,
            judging_s=max(seconds, LEAST_S),
            text=f"{self.row.task_version.task.name} {what}: {ended}",
        )


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
    """The next check, those that a person asked for first. None: there is nothing to do."""
    waiting = EmulatorCheck.objects.filter(state=CheckState.QUEUED)
    following = in_turn(waiting, F("explains").asc(nulls_first=True))
    return CheckHolding.take(following, "task_version__task__suite")


def _failures_today(check: EmulatorCheck) -> int:
    since = timezone.now() - timedelta(days=1)
    failed = EmulatorCheck.objects.filter(payer=check.payer_id, state=CheckState.FAILED, finished__gte=since)
    return failed.count()


def requeue_lost_checks() -> None:
    """What has not been heard of is tried once more, and then ends."""
    end_lost(CheckHolding, EmulatorCheck, LOST)


def forget_checks() -> int:
    """Deletes checks that are older than KEPT. How many that were."""
    old = EmulatorCheck.objects.filter(created__lt=timezone.now() - KEPT).exclude(state__in=CHECK_OPEN)
    return old.delete()[0]


def waiting_checks() -> int:
    return EmulatorCheck.objects.filter(state=CheckState.QUEUED).count()
