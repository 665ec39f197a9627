"""The Celery jobs.

Each can be repeated or lost without harm, because a claim on a row decides what it does. A message names no
evaluation: a worker that is woken takes the next one. Time limits are set on the decorators and include waiting for
the machine; a job that exceeds its limit is killed, and `reap` returns its evaluation to the queue.
"""

from .housekeeping import (
    audit_leaders,
    contests,
    deliver,
    dispatch,
    export_records,
    prune_events,
    reap,
    rejudge,
    sample_queues,
)
from .judging import compile_next, judge_next
from .requested import check_next, examine_next, profile_next

__all__ = [
    "audit_leaders",
    "check_next",
    "compile_next",
    "contests",
    "deliver",
    "dispatch",
    "examine_next",
    "export_records",
    "judge_next",
    "profile_next",
    "prune_events",
    "reap",
    "rejudge",
    "sample_queues",
]
