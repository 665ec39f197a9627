"""The event stream `/events/`: replays the events that a reader has missed, then sends new ones until the end.

Events are read from the table; Redis only says when to read, and while it is unavailable the table is polled. A reader
subscribes before its first read, so no event is lost between replay and following. Events that are not stored
(`events.say`) are sent without an id and never replayed. A topic may have a feed of its own, with its own numbers.
Does NOT cover writing events (`events.py`).
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connections
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone

from ..accounts.limits import address_of
from ..accounts.tokens import token_is_valid
from ..events import CHANNEL, READ_MAX, SAID_CHANNEL, formatted
from ..extensions import Feed, News, OwnTopic, TopicCheck, extensions
from ..models import DeviceKind, Evaluation, Event
from ..states import FINISHED

logger = logging.getLogger(__name__)
PING_S = 15
RECHECK_S = 60  # after which an open stream asks again whether its reader may follow
POLL_S = 1.0
LATE_S = 10  # a number is drawn before its transaction commits, so a smaller one may show up after a larger one
TOPICS_MAX = 20
STREAMS_PER_READER_MAX = 20
FULL_RETRY_S = 10

User = AbstractBaseUser | AnonymousUser
T = TypeVar("T")


def _may_read_evaluation(user: User, name: str) -> bool:
    try:
        return Evaluation.objects.filter(code=UUID(name)).readable_by(user).exists()
    except ValueError:
        return False


def _is_device_kind(_user: User, name: str) -> bool:
    return DeviceKind.objects.filter(slug=name).exists()


# Who may follow which topic of the event table, by its first word.
TOPIC_CHECKS: dict[str, TopicCheck] = {
    "evaluation": _may_read_evaluation,
    "queue": _is_device_kind,
    "board": _is_device_kind,
}


class EventTable:
    """The feed of every topic that has none of its own."""

    def latest(self, topics: list[str]) -> News:
        """The last event of each kind: whatever happened while the page was on its way, it looks again once."""
        newest = Event.objects.filter(topic__in=topics).order_by().values("topic", "kind").annotate(newest=Max("pk"))
        found = Event.objects.filter(pk__in=[row["newest"] for row in newest]).order_by("pk")
        return News([_numbered(event) for event in found], ended=False)

    def read(self, topics: list[str], after: int) -> News:
        # Asked before the events are read: what ended until then has its last event in the table.
        ended = _all_ended(topics)
        since = timezone.now() - timedelta(seconds=LATE_S)
        recent = Event.objects.filter(topic__in=topics, pk__lte=after, created__gte=since).order_by("pk")
        events = Event.objects.after(topics, after)[:READ_MAX]
        return News([_numbered(event) for event in events], ended, [_numbered(event) for event in recent])


async def event_stream(request: HttpRequest) -> HttpResponseBase:
    """GET /events/?topics=a:1,b:2 with `Last-Event-ID` (or `?after=`): text/event-stream."""
    topics = [name for name in request.GET.get("topics", "").split(",") if name]
    if not 0 < len(topics) <= TOPICS_MAX:
        return HttpResponse(f"Name 1 to {TOPICS_MAX} topics.", status=400, content_type="text/plain")
    feed = _feed(topics)
    if feed is None:
        return HttpResponse("One of the topics cannot be combined with others.", status=400, content_type="text/plain")
    user = await request.auser()
    if not await _in_thread(lambda: all(_may_follow(user, topic) for topic in topics)):
        return HttpResponse("There is no such topic.", status=404, content_type="text/plain")
    hub = _hub()
    reader = reader_of(request, user)
    refusal = hub.refusal(reader)
    if refusal:
        full = HttpResponse(refusal, status=503, content_type="text/plain")
        full.headers["Retry-After"] = str(FULL_RETRY_S)
        return full

    def allowed() -> bool:
        return _is_still(request, user) and all(_may_follow(user, topic) for topic in topics)

    stream = _stream(_Following(feed, topics, _last_id(request), allowed), hub, reader)
    response = StreamingHttpResponse(stream, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _is_still(request: HttpRequest, user: User) -> bool:
    """Whether the token, or the session, is still this account's: not revoked, ended or suspended."""
    token = getattr(request, "api_token", None)
    if token is not None:
        return token_is_valid(token)
    if user.is_authenticated:
        key = request.session.session_key
        request.session = type(request.session)(key)  # read anew
        return bool(get_user(request) == user)
    return True


def reader_of(request: HttpRequest, user: User) -> str:
    """The reader that an open connection counts for: an account, or the network address of a visitor without one."""
    return f"account {user.pk}" if user.pk else f"address {address_of(request)}"


def _may_follow(user: User, topic: str) -> bool:
    word, _, name = topic.partition(":")
    own = _own_topics().get(word)
    check = own.may_follow if own is not None else TOPIC_CHECKS.get(word)
    return check is not None and check(user, name)


def _feed(topics: list[str]) -> Feed | None:
    known = _own_topics()
    own = [known[word].feed for topic in topics if (word := topic.partition(":")[0]) in known]
    if not own:
        return EventTable()
    return own[0] if len(topics) == 1 else None


def _own_topics() -> dict[str, OwnTopic]:
    return {word: topic for extension in extensions() for word, topic in extension.topics.items()}


LAST_ID_DIGITS = 18  # what a column of the table can hold


def _last_id(request: HttpRequest) -> int | None:
    """The id of the reader's last event; None for a page that was just rendered."""
    text = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LAST_ID_DIGITS else None


@dataclass
class _Following:
    """What a stream reads from which event on (None: its reader has no past), and whether that is still allowed."""

    feed: Feed
    topics: list[str]
    last_id: int | None
    allowed: Callable[[], bool]
    checked_s: float = field(default_factory=time.monotonic)

    async def is_forbidden(self) -> bool:
        """Checked from time to time. A client that lost access reconnects and gets a 404."""
        if time.monotonic() - self.checked_s < RECHECK_S:
            return False
        self.checked_s = time.monotonic()
        return not await _in_thread(self.allowed)


async def _stream(wanted: _Following, hub: "Hub", reader: str) -> AsyncIterator[bytes]:
    if hub.refusal(reader):  # others have come since the answer began
        yield f"retry: {FULL_RETRY_S * 1000}\n\n".encode()
        return
    async with aclosing(_followed(wanted, hub, reader)) as messages:
        async for message in messages:
            yield message


async def _followed(wanted: _Following, hub: "Hub", reader: str) -> AsyncGenerator[bytes, None]:
    feed, topics, last_id = wanted.feed, wanted.topics, wanted.last_id
    with hub.following(reader, topics) as follower:
        yield b"retry: 3000\n\n"
        if last_id is None:
            for number, event in (await _in_thread(partial(feed.latest, topics))).events:
                yield event
                last_id = number
        last_id, last_sent = last_id or 0, time.monotonic()
        told: set[int] | None = None
        while not (hub.ended or await wanted.is_forbidden()):
            follower.woken.clear()
            for said in follower.hear():
                yield said
            news = await hub.read(feed, topics, last_id)
            recent = {number for number, _ in news.recent}
            told = recent if told is None else told  # what was there when the stream was opened is known to its page
            for number, event in [*news.recent, *news.events]:
                if number in told:
                    continue
                yield event
                last_id, last_sent = max(number, last_id), time.monotonic()
            told = recent | {number for number, _ in news.events}
            if news.ended:
                yield b"event: end\ndata: {}\n\n"
                return
            if time.monotonic() - last_sent >= PING_S:
                yield b": ping\n\n"
                last_sent = time.monotonic()
            if len(news.events) < READ_MAX:
                await _wait(follower.woken, PING_S if hub.connected else POLL_S)


async def wait_for_end(request: HttpRequest, topic: str, seconds: float) -> None:
    """Returns when the evaluation of the topic has ended, or after `seconds`. Raises TooManyStreams."""
    await wait_until(request, topic, partial(_all_ended, [topic]), seconds)


async def wait_until(request: HttpRequest, topic: str, holds: Callable[[], bool], seconds: float) -> None:
    """Returns when `holds` is true, which is checked at every event of the topic, or after `seconds`.

    A wait counts as an open stream. Raises TooManyStreams.
    """
    hub, deadline = _hub(), time.monotonic() + seconds
    with hub.following(reader_of(request, await request.auser()), [topic]) as follower:
        while not hub.ended and (left_s := deadline - time.monotonic()) > 0:
            follower.woken.clear()
            if await _in_thread(holds):
                return
            await _wait(follower.woken, min(left_s, PING_S if hub.connected else POLL_S))


def _all_ended(topics: list[str]) -> bool:
    codes = [topic.partition(":")[2] for topic in topics if topic.startswith("evaluation:")]
    return bool(codes) and not Evaluation.objects.filter(code__in=codes).exclude(state__in=FINISHED).exists()


def _numbered(event: Event) -> tuple[int, bytes]:
    name = f"{event.topic.partition(':')[0]}-{event.kind}"
    data = {"topic": event.topic, "at": event.created.isoformat(), **event.payload}
    return event.pk, formatted(name, data, event.pk)


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


class TooManyStreams(Exception):
    """One reader, or all of them, have as many streams open as there may be; the text is for the person."""


class Follower:
    """One open stream: woken when something was written; of what was only said it keeps the last of each subject."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = frozenset(topics)
        self.woken = asyncio.Event()
        self._said: dict[str, bytes] = {}

    def tell(self, subject: str, message: bytes) -> None:
        self._said[subject] = message
        self.woken.set()

    def hear(self) -> list[bytes]:
        said, self._said = list(self._said.values()), {}
        return said


class Hub:
    """One Redis subscription per process; wakes the streams whose topics something was said about."""

    def __init__(self) -> None:
        self.connected = False
        self.ended = False  # this process stops
        self._followers: set[Follower] = set()
        self._readers: Counter[str] = Counter()
        self._wakes = 0
        self._reading: dict[tuple[str, int, int], asyncio.Task[News]] = {}
        self._listener: asyncio.Task[None] | None = None

    def refusal(self, reader: str) -> str:
        """The reason why one more stream cannot be opened; empty if it can. Requests with `?wait=` count as streams."""
        limit: int = settings.KBENCH_EVENT_STREAMS_MAX
        if self._readers[reader] >= STREAMS_PER_READER_MAX:
            what = f"You have {STREAMS_PER_READER_MAX} event streams and waiting requests open, which is the limit."
            return f"{what} Close one, or come back in {FULL_RETRY_S} seconds."
        if len(self._followers) >= limit:
            what = f"All {limit} event streams and waiting requests that this process may hold are open."
            return f"{what} Come back in {FULL_RETRY_S} seconds."
        return ""

    @contextmanager
    def following(self, reader: str, topics: list[str]) -> Iterator[Follower]:
        """Raises TooManyStreams."""
        refusal = self.refusal(reader)
        if refusal:
            raise TooManyStreams(refusal)
        follower = Follower(topics)
        self._followers.add(follower)
        self._readers[reader] += 1
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            self._readers -= Counter([reader])  # who has none left is forgotten
            if not self._followers:
                self._listener.cancel()

    def end(self) -> None:
        self.ended = True
        for follower in self._followers:
            follower.woken.set()

    async def read(self, feed: Feed, topics: list[str], after: int) -> News:
        """One query for all readers who ask for the same at the same time.

        Only what was asked since the last wake-up is shared, so nobody is told less than what woke them.
        """
        key = (",".join(topics), after, self._wakes)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.create_task(_in_thread(partial(feed.read, topics, after)))
            task.add_done_callback(lambda _: self._reading.pop(key))
        return await asyncio.shield(task)

    async def _listen(self) -> None:
        while True:
            try:
                async with redis.asyncio.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as channel:
                    await channel.subscribe(CHANNEL, SAID_CHANNEL)
                    await self._forward(channel)
            except (redis.RedisError, OSError) as error:
                logger.debug("event streams poll: %s", error)
            finally:
                if self.connected:
                    self.connected = False
                    self._wake(None)  # whoever relied on Redis asks the table from now on
            await asyncio.sleep(POLL_S)

    async def _forward(self, channel: redis.asyncio.client.PubSub) -> None:
        async for message in channel.listen():
            if message["type"] == "subscribe":
                self.connected = True
                self._wake(None)  # what was said before the subscription is in the table
            elif message["channel"] == SAID_CHANNEL.encode():
                self._tell(json.loads(message["data"]))
            elif message["type"] == "message":
                self._wake(message["data"].decode())

    def _wake(self, topic: str | None) -> None:
        self._wakes += 1
        for follower in self._followers:
            if topic is None or topic in follower.topics:
                follower.woken.set()

    def _tell(self, said: dict[str, Any]) -> None:
        message = formatted(f"{said['topic'].partition(':')[0]}-live", said["payload"])
        for follower in self._followers:
            if said["topic"] in follower.topics:
                follower.tell(said["subject"], message)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def end_all() -> None:
    """Ends every stream and waiting request of this event loop when its process stops; clients reconnect."""
    _hub().end()


def _hub() -> Hub:
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
