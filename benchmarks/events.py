"""Events say "look again": a row in the database and, after commit, a wake-up through Redis.

What a page author needs. One stream per page: `/events/?topics=evaluation:CODE,queue:cpu`. The name of an event is
the topic's first word and the kind, so that htmx can use it as `hx-trigger="sse:evaluation-progress"`:

    topic              event names
    evaluation:CODE    evaluation-state (moved on; fetch everything), evaluation-progress (stage columns changed)
    queue:DEVICE       queue-changed (something entered or left the queue of that device kind)
    board:DEVICE       board-changed (a standing of that device kind was written)
    any                end (nothing more will come; the browser should close: `sse-close="end"`)

The data of an event is JSON: `{"topic": ..., "at": ..., ...payload}`. Pages are complete without events; a missed
one loses nothing. Rows are pruned after some days. Does NOT cover reading the stream: that is `streams.py`.
"""

import json
import logging
from datetime import timedelta
from functools import cache

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from .models import Event

logger = logging.getLogger(__name__)
CHANNEL = "kbench:events"
PAYLOAD_MAX_BYTES = 2048


def emit(topic: str, kind: str, **payload: str | float | None) -> None:
    """Write the event in the caller's transaction; readers are woken when it commits."""
    if len(json.dumps(payload)) > PAYLOAD_MAX_BYTES:
        raise ValueError(f"the payload of {topic} {kind} is larger than {PAYLOAD_MAX_BYTES} bytes")
    Event.objects.create(topic=topic, kind=kind, payload=payload)
    transaction.on_commit(lambda: _wake(topic))


def prune() -> int:
    """Delete what no page replays any more."""
    limit = timezone.now() - timedelta(days=settings.KBENCH_EVENTS_KEPT_DAYS)
    return Event.objects.filter(created__lt=limit).delete()[0]


def _wake(topic: str) -> None:
    try:
        _redis(settings.REDIS_URL).publish(CHANNEL, topic)
    except (redis.RedisError, OSError) as error:
        logger.debug("no wake-up for %s: %s", topic, error)  # readers poll the table while Redis is away


@cache
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
