"""Wakes the workers that drive runs.

The table of runs is the queue; a message only wakes a worker. Does NOT decide which run is next: `services.run_claim`
does.
"""

import logging

import redis
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from benchmarks.judgings.queue import OUTSTANDING_MAX, outstanding

logger = logging.getLogger(__name__)
DRIVE_JOB = "agents.drive_next"
TEND_JOB = "agents.tend"
QUEUE = "agents"


def wake() -> None:
    """Once the transaction commits, some worker looks at the table."""
    transaction.on_commit(_send)


def resend(waiting: int) -> None:
    """Sends as many messages as runs are waiting, at most a few."""
    for _ in range(min(waiting, OUTSTANDING_MAX) - outstanding(QUEUE)):
        _send()


def _send() -> None:
    try:
        current_app.send_task(DRIVE_JOB, queue=QUEUE, retry=False)
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s is not woken now (%s); the next look will try again", QUEUE, error)
