"""Definitions of requests from queue to task: claim, examination, the word of the importer, charge.

Accounts take turns, and the seconds of the examination are charged to whoever posted it. Does NOT accept requests
(`asking.py`).
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from .. import quotas
from ..catalogue.importing import NotImportable, Settings, examine_requested, store_requested
from ..harness import CPU, Examined, Paths, clean_text
from ..importers import Found
from ..judgings.claims import ATTEMPTS_MAX, RowHolding, in_turn
from ..models import Evaluation, KernelRequest
from ..notifications import telling
from ..states import REQUESTS, RequestState
from .asking import offer_end
from .files import found_in

Examine = Callable[[Found, Settings], Examined]
STEP_TIMEOUT_S = 120.0
SECONDS_MAX = 600  # of a whole examination: meanwhile its worker compiles nothing
_PROBLEM_MAX_CHARS = 2_000
LOST = "The worker failed twice while it examined this definition, which may be too large."
OURS = "The examination failed because of an error on our side. Nothing was charged. Post the definition again later."


class ExaminationHolding(RowHolding[KernelRequest]):
    """A claimed request for a kernel."""

    waiting_state = RequestState.QUEUED
    working_state = RequestState.EXAMINING

    def fail(self) -> None:
        """It ends by our own fault, and costs nothing."""
        self._refuse(OURS, 0.0)

    def take_too_long(self) -> None:
        """It was stopped at the limit, which is charged."""
        self._refuse(f"The examination takes more than {SECONDS_MAX // 60} minutes.", SECONDS_MAX)

    def record(self, item: Found, examined: Examined) -> bool:
        """The end: a task and an open request, or the reason of the importer. False: it is no longer ours."""
        problem = examined.problem or self._unusable(examined)
        if problem:
            return self._refuse(problem, examined.seconds)
        request = self.row
        with transaction.atomic():
            held = self._held().select_for_update().first()
            if held is None:
                return False
            task = store_requested(item, examined, licence=request.licence, origin=f"request {request.pk}")
            columns = {"state": RequestState.OPEN, "task": task, "opened": timezone.now(), "files": {}, "claim": None}
            self._held().update(**columns)
            self._charge(examined.seconds)
        return True

    def _unusable(self, examined: Examined) -> str:
        """Why none of the wanted devices can judge the task; empty where one can."""
        classes = set(examined.task.configs) if examined.task else set()
        wanted = list(self.row.device_kinds.all())
        if any(kind.device_class in classes for kind in wanted):
            return ""
        names = ", ".join(kind.slug for kind in wanted)
        return f"It has no configuration that can be judged on {names}."

    def _refuse(self, problem: str, seconds: float) -> bool:
        columns = {"state": RequestState.REFUSED, "state_text": clean_text(problem)[:_PROBLEM_MAX_CHARS], "claim": None}
        with transaction.atomic():
            if not self._held().update(**columns, ended=timezone.now()):
                return False
            offer_end(self.row)
            self._charge(seconds)
            telling.refused(self.row)
        return True

    def _charge(self, seconds: float) -> None:
        quotas.spend(quotas.payer_of(self.row.asker, ""), seconds, f"request {self.row.pk} examined")


def request_claim() -> ExaminationHolding | None:
    """The next request, of the account whose turn was longest ago. None: there is nothing to do now.

    One at a time: a worker that examines compiles nothing, so as many as there are workers would stop the site.
    """
    if _others_go_first():
        return None
    waiting = KernelRequest.objects.filter(state=RequestState.QUEUED)
    return ExaminationHolding.take(in_turn(waiting, of="owner"), "owner")


def _others_go_first() -> bool:
    """Another examination, or submissions that wait for the compiler while the last examination is not long ago."""
    if KernelRequest.objects.filter(state=RequestState.EXAMINING).exists():
        return True
    last = KernelRequest.objects.aggregate(at=Max("heartbeat"))["at"]
    if last is None or last < timezone.now() - timedelta(seconds=SECONDS_MAX):
        return False
    return Evaluation.objects.queued().filter(built=None, device_kind__device_class=CPU).exists()


def examine_files(request: KernelRequest, examine: Examine = examine_requested) -> tuple[Found, Examined]:
    """What the importers make of the posted files. Blocking; runs the author's code in sandboxes alone."""
    with tempfile.TemporaryDirectory(prefix="request-", dir=Paths(settings.DATA_DIR).scratch) as folder:
        item = _renamed(found_in(request.files, Path(folder)), request)
    try:
        return item, examine(item, Settings(STEP_TIMEOUT_S))
    except NotImportable as error:
        return item, Examined(None, str(error))


def _renamed(item: Found, request: KernelRequest) -> Found:
    """Under a name that no other request has, with the words of the request.

    None of these words is in the name: addresses and public lines of logs hold it, and staff can hide a request.
    """
    op = f"request_{request.pk}"
    if item.task is None:
        return replace(item, op=op)
    task = replace(item.task, suite=REQUESTS, op=op, title=request.title, family=REQUESTS)
    return replace(item, op=op, task=task)


def requeue_lost_examinations() -> None:
    """What has not been heard of is tried once more, and is then refused."""
    lost = ExaminationHolding.lost(KernelRequest)
    for row in lost.filter(attempt__gte=ATTEMPTS_MAX).select_related("owner"):
        with transaction.atomic():
            ended = {"state": RequestState.REFUSED, "state_text": LOST, "ended": timezone.now(), "claim": None}
            if lost.filter(pk=row.pk).update(**ended):
                offer_end(row)
    ExaminationHolding.requeue_lost(KernelRequest)


def waiting_examinations() -> int:
    return KernelRequest.objects.filter(state=RequestState.QUEUED).count()
