"""The jobs for what people ask beside judging: checks without a GPU, profiles, and definitions to examine.

A claim on a row decides what a job does, and the holder of the claim writes the row. Does NOT judge (`judging.py`).
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import close_old_connections, connection

from ..catalogue.folders import spec_of
from ..harness import CPU, Cancelled, HarnessError, NotProfiled, Source, Watcher, default_rules
from ..judgings import checks, profiles, queue
from ..judgings.claims import RowHolding
from ..judgings.judge import Assignment, site_judge
from ..models import Worker
from ..operations.logs import log_fields
from ..operations.worker import asked_to_stop_kindly, stopping
from ..requests import examining
from ..states import WorkerState
from .assignments import assignment_on

logger = logging.getLogger(__package__)


@shared_task(name=queue.CHECK_JOB, bind=True, acks_late=True, ignore_result=True, soft_time_limit=1800, time_limit=1860)
def check_next(self: Any, device_kind: str) -> None:
    """Run the next CUDA source that is to be checked without a GPU, and wake a worker for the one after it."""
    if Worker.objects.get(name=self.request.hostname).state == WorkerState.QUARANTINED:
        return
    holding = checks.check_claim()
    if holding is None:
        return
    with log_fields(check=str(holding.row.code), user_id=holding.row.owner_id):
        _run_check(holding)
    if checks.waiting_checks():
        queue.resend_checks(device_kind, 1)


@shared_task(
    name=queue.PROFILE_JOB, bind=True, acks_late=True, ignore_result=True, soft_time_limit=1800, time_limit=1860
)
def profile_next(self: Any, device_kind: str) -> None:
    """Profile the next evaluated submission of a device kind, and wake a worker for the one after it."""
    worker = Worker.objects.get(name=self.request.hostname)
    if worker.state == WorkerState.QUARANTINED:
        return
    holding = profiles.profile_claim(device_kind)
    if holding is None:
        return
    evaluation = holding.row.evaluation
    with log_fields(evaluation=str(evaluation.code), user_id=evaluation.submission.owner_id):
        _run_profile(holding, worker.device)
    queue.resend_profiles(profiles.waiting_profiles())


@shared_task(
    name=queue.EXAMINE_JOB,
    bind=True,
    acks_late=True,
    ignore_result=True,
    soft_time_limit=examining.SECONDS_MAX,
    time_limit=examining.SECONDS_MAX + 60,
)
def examine_next(self: Any, device_kind: str) -> None:
    """Examine the next definition of a request, and wake a worker for the one after it."""
    if Worker.objects.get(name=self.request.hostname).state == WorkerState.QUARANTINED:
        return
    holding = examining.request_claim()
    if holding is None:
        return
    with log_fields(user_id=holding.row.owner_id):
        _run_examination(holding)
    queue.resend_examinations(device_kind, min(1, examining.waiting_examinations()))


def _run_examination(holding: examining.ExaminationHolding) -> None:
    try:
        with asked_to_stop_kindly(), _kept_alive(holding, str(holding.row)) as over:
            found = examining.examine_files(holding.row)
            if not over():
                holding.record(*found)
                return
    except SoftTimeLimitExceeded:
        holding.take_too_long()
        return
    except Exception:  # the edge of a job: whatever broke is our fault and must end with a word
        logger.exception("examining %s failed", holding.row)
        holding.fail()
        return
    holding.release()


def _run_profile(holding: profiles.ProfileHolding, device: str) -> None:
    evaluation = holding.row.evaluation
    visible = evaluation.configs.exclude(group="hidden")
    times_us = {row.key: row.kernel_us for row in visible if row.kernel_us is not None}
    try:
        with asked_to_stop_kindly(), _kept_alive(holding, str(evaluation.code)) as over:
            found = site_judge().profile(assignment_on(evaluation, device), times_us, Watcher(cancelled=over))
            if not over():
                holding.record(found)
                return
    except Cancelled:
        pass
    except NotProfiled as error:
        holding.fail(str(error))
        return
    except Exception as error:  # the edge of a job: whatever broke is our fault and must end with a word
        logger.exception("profiling %s failed", evaluation.code)
        holding.fail(str(error) if isinstance(error, HarnessError) else type(error).__name__)
        return
    holding.stopped()


def _run_check(holding: checks.CheckHolding) -> None:
    version = holding.row.task_version
    rules = default_rules(settings.KBENCH_RULESET)
    assignment = Assignment(Source(holding.row.text, "cuda"), spec_of(version), rules, CPU)
    try:
        with asked_to_stop_kindly(), _kept_alive(holding, str(holding.row.code)) as over:
            report = site_judge().emulate(assignment, Watcher(cancelled=over))
            if not over():  # a stop also reaches the sandbox's processes
                holding.record(report)
                return
    except Cancelled:
        pass
    except Exception as error:  # the edge of a job: whatever broke is our fault and must end with a word
        logger.exception("the check %s failed", holding.row.code)
        holding.fail(str(error) if isinstance(error, HarnessError) else type(error).__name__)
        return
    holding.release()


@contextmanager
def _kept_alive(holding: RowHolding[Any], code: str) -> Iterator[Callable[[], bool]]:
    """Says from a thread that the worker lives; gives what is asked whether to stop."""
    lost, over = threading.Event(), threading.Event()

    def beat() -> None:
        try:
            while not over.wait(settings.KBENCH_HEARTBEAT_S):
                try:
                    close_old_connections()
                    if not holding.alive():
                        lost.set()
                except Exception:  # the edge of a thread: one missed beat is no reason to give up
                    logger.exception("no heartbeat for %s", code)
        finally:
            connection.close()

    thread = threading.Thread(target=beat, daemon=True, name=f"heartbeat of {code}")
    thread.start()
    try:
        yield lambda: lost.is_set() or stopping.is_set()
    finally:
        over.set()
        thread.join()
