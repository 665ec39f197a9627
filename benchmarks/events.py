"""Events for open pages: a row in the database and, after the commit, a wake-up through Redis.

What a page author needs. One stream per page: `/events/?topics=evaluation:CODE,queue:cpu-avx2`. The name of an event is
the topic's first word and the kind, so that htmx can use it as `hx-trigger="sse:evaluation-progress"`:

    topic              event names
    evaluation:CODE    evaluation-state (moved on; fetch everything), evaluation-progress (stage columns changed)
    queue:DEVICE       queue-changed (something entered or left the queue of that device kind)
    board:DEVICE       board-changed (a standing of that device kind was written)
    run:CODE           run-event (a line of the log of an agent run), run-live (progress); followed alone
    any                end (nothing more will come; the browser should close: `sse-close="end"`)

The data of an event is JSON: `{"topic": ..., "at": ..., ...payload}`. Pages are complete without events; a missed
one loses nothing. Rows are pruned after some days. Does NOT cover reading the stream: that is `views/streams.py`.
"""

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from .models import Event

logger = logging.getLogger(__name__)
CHANNEL = "kbench:events"
SAID_CHANNEL = "kbench:said"
PAYLOAD_MAX_BYTES = 2048
READ_MAX = 200  # at a time


def emit(topic: str, kind: str, **payload: str | float | None) -> None:
    """Write the event in the caller's transaction; readers are woken when it commits."""
    if len(json.dumps(payload)) > PAYLOAD_MAX_BYTES:
        raise ValueError(f"the payload of {topic} {kind} is larger than {PAYLOAD_MAX_BYTES} bytes")
    Event.objects.create(topic=topic, kind=kind, payload=payload)
    wake(topic)


def formatted(name: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """One message of a stream; without a number a reader that comes back will not ask for what follows it."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def say(topic: str, subject: str, payload: Mapping[str, Any]) -> None:
    """Sends progress to the current readers of a topic without storing it.

    A slow reader gets only the latest message about a subject.
    """
    try:
        said = {"topic": topic, "subject": subject, "payload": payload}
        _redis(settings.REDIS_URL).publish(SAID_CHANNEL, json.dumps(said))
    except (redis.RedisError, OSError) as error:
        logger.debug("nobody heard of %s: %s", topic, error)


def wake(topic: str) -> None:
    """Once the transaction commits, who follows the topic looks again; for feeds with a table of their own."""
    transaction.on_commit(lambda: _wake(topic))


def prune() -> int:
    """Deletes events that no page replays any more."""
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
