"""The Celery jobs of runs: one drives the next run, one recovers runs whose worker was lost.

A message names no run. Does NOT write rows itself (`services.py`).
"""

from typing import Any

from celery import shared_task, signals
from django.db import connections

from benchmarks.operations.logs import log_fields

from . import queue, services
from .driving import external
from .driving.one_run import draining, drive_run


@shared_task(name=queue.DRIVE_JOB, bind=True, acks_late=False, ignore_result=True)
def drive_next(self: Any) -> None:
    """Drive the run that has waited longest until it ends, is paused or the worker is asked to stop."""
    if draining.is_set():
        return
    try:
        holding = services.run_claim(self.request.hostname)
        if holding is not None:
            with log_fields(run=str(holding.run.code), user_id=holding.run.owner_id):
                drive_run(holding)
    finally:
        connections.close_all()  # the thread may rest for long


@shared_task(name=queue.TEND_JOB, ignore_result=True, time_limit=30)
def tend() -> None:
    """Free runs that lost their worker, wake workers for those that wait, and look at external runs."""
    services.tend()
    external.tend()


@signals.worker_ready.connect
def _begin(sender: Any, **_: Any) -> None:
    services.worker_begins(sender.hostname)
    connections.close_all()


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    draining.set()
