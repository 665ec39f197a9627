"""The event stream `/events/`: replays what a reader has missed, then follows until the end.

The table is read, Redis only says when; while Redis is away the table is polled. A reader is woken before it first
reads, so nothing falls between replay and following. Does NOT cover writing events (`events.py`).
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connections
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from .events import CHANNEL
from .models import DeviceKind, Evaluation, Event
from .states import FINISHED

logger = logging.getLogger(__name__)
PING_S = 15
POLL_S = 1.0
TOPICS_MAX = 20
STREAMS_PER_READER_MAX = 20

User = AbstractBaseUser | AnonymousUser
T = TypeVar("T")
TopicCheck = Callable[[User, str], bool]


def _may_read_evaluation(user: User, name: str) -> bool:
    try:
        return Evaluation.objects.filter(code=UUID(name)).readable_by(user).exists()
    except ValueError:
        return False


def _is_device_kind(_user: User, name: str) -> bool:
    return DeviceKind.objects.filter(slug=name).exists()


# Who may follow which topic, by its first word; other apps add theirs.
TOPIC_CHECKS: dict[str, TopicCheck] = {
    "evaluation": _may_read_evaluation,
    "queue": _is_device_kind,
    "board": _is_device_kind,
}


async def event_stream(request: HttpRequest) -> HttpResponseBase:
    """GET /events/?topics=a:1,b:2 with `Last-Event-ID` (or `?after=`): text/event-stream."""
    topics = [name for name in request.GET.get("topics", "").split(",") if name]
    if not 0 < len(topics) <= TOPICS_MAX:
        return HttpResponse(f"Name 1 to {TOPICS_MAX} topics.", status=400, content_type="text/plain")
    user = await request.auser()
    if not await _in_thread(lambda: all(_may_follow(user, topic) for topic in topics)):
        return HttpResponse("There is no such topic.", status=404, content_type="text/plain")
    hub = _hub()
    reader = str(user.pk or request.META.get("REMOTE_ADDR", ""))
    if hub.is_full(reader):
        full = HttpResponse("Too many open streams.", status=503, content_type="text/plain")
        full.headers["Retry-After"] = "10"
        return full
    response = StreamingHttpResponse(_stream(hub, reader, topics, _last_id(request)), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _may_follow(user: User, topic: str) -> bool:
    word, _, name = topic.partition(":")
    return word in TOPIC_CHECKS and TOPIC_CHECKS[word](user, name)


def _last_id(request: HttpRequest) -> int | None:
    """None: the reader has just been rendered and has no past."""
    text = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    return int(text) if text.isdigit() else None


async def _stream(hub: "Hub", reader: str, topics: list[str], last_id: int | None) -> AsyncIterator[bytes]:
    with hub.following(reader, topics) as woken:
        yield b"retry: 3000\n\n"
        if last_id is None:
            for event in await _in_thread(partial(_latest, topics)):
                yield _formatted(event)
                last_id = event.pk
        last_id, last_sent = last_id or 0, time.monotonic()
        while True:
            woken.clear()
            news = await _in_thread(partial(_read, topics, last_id))
            for event in news.events:
                yield _formatted(event)
                last_id, last_sent = event.pk, time.monotonic()
            if news.ended:
                yield b"event: end\ndata: {}\n\n"
                return
            if time.monotonic() - last_sent >= PING_S:
                yield b": ping\n\n"
                last_sent = time.monotonic()
            await _wait(woken, PING_S if hub.connected else POLL_S)


async def wait_for_end(topic: str, seconds: float) -> None:
    """Returns when the evaluation of the topic has ended, or after `seconds`."""
    hub, deadline = _hub(), time.monotonic() + seconds
    with hub.following("waiting", [topic]) as woken:
        while (left_s := deadline - time.monotonic()) > 0:
            woken.clear()
            if await _in_thread(partial(_all_ended, [topic])):
                return
            await _wait(woken, min(left_s, PING_S if hub.connected else POLL_S))


@dataclass(frozen=True)
class _News:
    events: list[Event]
    ended: bool


def _read(topics: list[str], after: int) -> _News:
    # Asked before the events are read: what ended until then has its last event in the table.
    ended = _all_ended(topics)
    return _News(list(Event.objects.after(topics, after)[:200]), ended)


def _all_ended(topics: list[str]) -> bool:
    codes = [topic.partition(":")[2] for topic in topics if topic.startswith("evaluation:")]
    return bool(codes) and not Evaluation.objects.filter(code__in=codes).exclude(state__in=FINISHED).exists()


def _latest(topics: list[str]) -> list[Event]:
    """The last event of each kind: whatever happened while the page was on its way, it looks again once."""
    newest = Event.objects.filter(topic__in=topics).order_by().values("topic", "kind").annotate(newest=Max("pk"))
    return list(Event.objects.filter(pk__in=[row["newest"] for row in newest]).order_by("pk"))


def _formatted(event: Event) -> bytes:
    name = f"{event.topic.partition(':')[0]}-{event.kind}"
    data = json.dumps({"topic": event.topic, "at": event.created.isoformat(), **event.payload})
    return f"id: {event.pk}\nevent: {name}\ndata: {data}\n\n".encode()


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(woken.wait(), seconds)
    except TimeoutError:
        return


async def _in_thread(function: Callable[[], T]) -> T:
    """Run a query in the shared pool and give its connection back: a stream must not hold one while it waits."""

    def run() -> T:
        try:
            return function()
        finally:
            connections.close_all()

    return await sync_to_async(run, thread_sensitive=False)()


class Hub:
    """One Redis subscription per process; wakes the streams whose topics something was said about."""

    def __init__(self) -> None:
        self.connected = False
        self._followers: dict[asyncio.Event, frozenset[str]] = {}
        self._readers: Counter[str] = Counter()
        self._listener: asyncio.Task[None] | None = None

    def is_full(self, reader: str) -> bool:
        return len(self._followers) >= settings.KBENCH_EVENT_STREAMS_MAX or (
            self._readers[reader] >= STREAMS_PER_READER_MAX
        )

    @contextmanager
    def following(self, reader: str, topics: list[str]) -> Iterator[asyncio.Event]:
        woken = asyncio.Event()
        self._followers[woken] = frozenset(topics)
        self._readers[reader] += 1
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            yield woken
        finally:
            del self._followers[woken]
            self._readers[reader] -= 1
            if not self._followers:
                self._listener.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                async with redis.asyncio.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as channel:
                    await channel.subscribe(CHANNEL)
                    await self._forward(channel)
            except (redis.RedisError, OSError) as error:
                logger.debug("event streams poll: %s", error)
            finally:
                self.connected = False
            await asyncio.sleep(POLL_S)

    async def _forward(self, channel: redis.asyncio.client.PubSub) -> None:
        async for message in channel.listen():
            if message["type"] == "subscribe":
                self.connected = True
                self._wake(None)  # what was said before the subscription is in the table
            elif message["type"] == "message":
                self._wake(message["data"].decode())

    def _wake(self, topic: str | None) -> None:
        for woken, topics in self._followers.items():
            if topic is None or topic in topics:
                woken.set()


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def _hub() -> Hub:
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
