"""The stream of a run: every event once, in order, however often the connection breaks; progress to who is there."""

import asyncio
import re
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import caches
from django.test import AsyncClient

from agents import services
from agents.evolve.events import Draft
from agents.models import Run
from benchmarks import events
from benchmarks.models import Submission
from benchmarks.states import Moderation
from benchmarks.views import streams
from tests.rows import synced

from . import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def tasks(transactional_db: None, two_operations: Any) -> None:
    caches["pages"].clear()
    synced(two_operations)


async def opened(run: Run, after: int | None = None, **headers: str) -> Any:
    tail = "" if after is None else f"&after={after}"
    return await AsyncClient().get(f"/events/?topics={run.topic}{tail}", headers=headers)


async def read(response: Any, until: str, chunks: int = 10_000) -> str:
    """What the stream says until `until` comes, or so many chunks."""
    text, content = "", response.streaming_content
    async with asyncio.timeout(30):
        async for chunk in content:
            text, chunks = text + chunk.decode(), chunks - 1
            if until in text or not chunks:
                break
    await content.aclose()
    await response._iterator.aclose()  # the reader has gone: its place is free for the next connection
    return text


def ids(text: str) -> list[int]:
    return [int(item) for item in re.findall(r"^id: (\d+)$", text, re.MULTILINE)]


async def test_a_finished_run_is_told_from_its_first_event_to_its_end() -> None:
    run = await sync_to_async(factories.driven)()
    text = await read(await opened(run, after=0), "event: end")
    assert ids(text) == list(range(1, run.last_seq + 1))
    assert "event: run-event" in text


async def test_a_stream_and_its_replay_keep_the_words_of_a_hidden_candidate_to_themselves() -> None:
    run = await sync_to_async(factories.driven)()
    judged, said = await sync_to_async(factories.remarked)(run, "a remark that staff hide")
    assert "a remark" in await read(await opened(run, after=0), "event: end")
    await Submission.objects.filter(pk=judged.submission_id).aupdate(moderation=Moderation.HIDDEN)
    for headers in ({}, {"Last-Event-ID": str(said - 1)}):
        text = await read(await opened(run, **headers), "event: end")
        assert "a remark" not in text
    assert said in ids(text)


async def test_fifty_broken_connections_lose_nothing_and_double_nothing() -> None:
    """Each connection is cut after a few events and the next begins after the last one seen."""
    run = await sync_to_async(factories.driven)(caps=factories.config().caps, islands=2)
    seen: list[int] = []
    for _ in range(50):
        response = await opened(run, **{"Last-Event-ID": str(seen[-1] if seen else 0)})
        seen += ids(await read(response, "event: end", chunks=4))
    seen += ids(await read(await opened(run, **{"Last-Event-ID": str(seen[-1])}), "event: end"))
    assert seen == list(range(1, run.last_seq + 1))


async def test_what_comes_while_somebody_listens_arrives_at_once(
    redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_S", 60)  # so that only Redis can have woken the stream
    monkeypatch.setattr(streams, "POLL_S", 0.3)
    run = await sync_to_async(factories.started)()
    holding = await sync_to_async(services.run_claim)("test")
    assert holding is not None

    async def later() -> None:
        async with asyncio.timeout(30):
            while not streams._hub().connected:  # what is said reaches only those who listen
                await asyncio.sleep(0.01)
        await sync_to_async(events.say)(run.topic, "slot:0-0", {"candidate": "0-0", "text": "tokens"})
        await asyncio.sleep(0.2)
        await sync_to_async(holding.log.append)([Draft("note", None, {"text": "hello"})])

    task = asyncio.create_task(later())
    text = await read(await opened(run, after=1), "hello")
    await task
    assert ids(text) == [2]
    assert text.index("event: run-live") < text.index("event: run-event")


@pytest.mark.parametrize("topics", ["run:nonsense", "run:6a2fe94b-9a05-44d0-a196-09e9ef64ebca"])
async def test_there_is_no_stream_of_a_run_that_does_not_exist(topics: str) -> None:
    assert (await AsyncClient().get(f"/events/?topics={topics}")).status_code == 404


async def test_a_run_is_followed_alone() -> None:
    run = await sync_to_async(factories.started)()
    assert (await AsyncClient().get(f"/events/?topics={run.topic},queue:cpu-avx2")).status_code == 400


async def test_a_reader_of_the_api_that_waits_is_answered_when_there_is_news() -> None:
    run = await sync_to_async(factories.started)()
    holding = await sync_to_async(services.run_claim)("test")
    assert holding is not None

    async def later() -> None:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(holding.log.append, [Draft("note", None, {"text": "hello"})])

    task = asyncio.create_task(later())
    page = (await AsyncClient().get(f"/api/v1/runs/{run.code}/events?after=1&wait=30")).json()
    await task
    assert [(event["seq"], event["text"]) for event in page["events"]] == [(2, "hello")]
    assert not page["ended"]
