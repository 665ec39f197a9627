"""The names of jobs and queues, and the messages that wake workers.

The database is the queue. A lost message costs some seconds (`dispatch` sends it again), and a repeated one costs
nothing (the claim decides). Does NOT decide what runs next: that is `EvaluationQuerySet.in_queue_order`.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

COMPILE_JOB = "benchmarks.compile_next"
JUDGE_JOB = "benchmarks.judge_next"
CHECK_JOB = "benchmarks.check_next"
PROFILE_JOB = "benchmarks.profile_next"
EXAMINE_JOB = "benchmarks.examine_next"
DISPATCH_JOB = "benchmarks.dispatch"
REAP_JOB = "benchmarks.reap"
PRUNE_JOB = "benchmarks.prune_events"
REJUDGE_JOB = "benchmarks.rejudge"
DELIVER_JOB = "benchmarks.deliver"
CONTESTS_JOB = "benchmarks.contests"
SAMPLE_JOB = "benchmarks.sample_queues"
AUDIT_JOB = "benchmarks.audit_leaders"
EXPORT_JOB = "benchmarks.export_records"

MAINT_QUEUE = "maint"
OUTSTANDING_MAX = 4  # messages that lie in one queue at a time, however many rows wait


def compile_queue(device_kind: str) -> str:
    """A queue per device kind: a kernel is compiled where the tools of its device are."""
    return f"compile.{device_kind}"


def check_queue(device_kind: str) -> str:
    """Checks without a GPU and definitions of requests, for the workers that compile for a CPU."""
    return f"check.{device_kind}"


def profile_queue(device_kind: str) -> str:
    """Profiles, for the workers that judge that device kind."""
    return f"profile.{device_kind}"


def judge_queue(device_kind: str) -> str:
    return f"judge.{device_kind}"


def wake_compile(device_kind: str) -> None:
    """Once the transaction commits, some compile worker of that device kind looks at the table."""
    transaction.on_commit(partial(_send, COMPILE_JOB, compile_queue(device_kind), device_kind))


def wake_judge(device_kind: str) -> None:
    """Once the transaction commits, some judging worker of that device kind looks at the table."""
    transaction.on_commit(partial(_send, JUDGE_JOB, judge_queue(device_kind), device_kind))


def wake_check(device_kind: str) -> None:
    """Once the transaction commits, some compile worker of the CPU looks at the table of checks."""
    transaction.on_commit(partial(_send, CHECK_JOB, check_queue(device_kind), device_kind))


def wake_profile(device_kind: str) -> None:
    """Once the transaction commits, some judging worker of that device kind looks at the table of profiles."""
    transaction.on_commit(partial(_send, PROFILE_JOB, profile_queue(device_kind), device_kind))


def wake_examination(device_kind: str) -> None:
    """Once the transaction commits, some compile worker of the CPU looks at the table of requests."""
    transaction.on_commit(partial(_send, EXAMINE_JOB, check_queue(device_kind), device_kind))


def resend_examinations(device_kind: str, rows: int) -> None:
    """As `resend`, for definitions of requests that wait."""
    _fill(EXAMINE_JOB, check_queue(device_kind), device_kind, rows)


def resend_profiles(waiting: Mapping[str, int]) -> None:
    """As `resend`, for profiles that wait."""
    for device_kind, rows in waiting.items():
        _fill(PROFILE_JOB, profile_queue(device_kind), device_kind, rows)


def resend_checks(device_kind: str, rows: int) -> None:
    """As `resend`, for checks that wait."""
    _fill(CHECK_JOB, check_queue(device_kind), device_kind, rows)


def resend(to_compile: Mapping[str, int], to_judge: Mapping[str, int]) -> None:
    """Fill up the queues to as many messages as rows of that device kind wait, a few at most."""
    for device_kind, rows in to_compile.items():
        _fill(COMPILE_JOB, compile_queue(device_kind), device_kind, rows)
    for device_kind, rows in to_judge.items():
        _fill(JUDGE_JOB, judge_queue(device_kind), device_kind, rows)


def restart_worker(node: str) -> None:
    """Asks a worker to end after its job. Its parent starts it again, and it begins with its self-test."""
    try:
        current_app.control.shutdown(destination=[node])
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s could not be asked to restart (%s); it takes no work while it is quarantined", node, error)


def _fill(job: str, queue: str, device_kind: str, rows: int) -> None:
    for _ in range(min(rows, OUTSTANDING_MAX) - outstanding(queue)):
        _send(job, queue, device_kind)


def outstanding(queue: str) -> int:
    """Messages that no worker has taken yet; OUTSTANDING_MAX where Redis cannot be asked."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            return int(client.llen(queue))
    except (redis.RedisError, OSError):
        return OUTSTANDING_MAX


def lengths(queues: Sequence[str]) -> dict[str, int]:
    """Messages in each queue that no worker has taken yet; empty where Redis cannot be asked."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            return {queue: int(client.llen(queue)) for queue in queues}
    except (redis.RedisError, OSError):
        return {}


def _send(job: str, queue: str, device_kind: str) -> None:
    try:
        current_app.send_task(job, args=(device_kind,), queue=queue, retry=False)
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s is not woken now (%s); dispatch will try again", queue, error)
