"""The event stream: replay, follow, end, permission; with Redis and without."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from benchmarks import services
from benchmarks.live import events, streams
from benchmarks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


async def opened(path, **headers):
    return await AsyncClient().get(path, headers=headers)


async def read(response, until, seconds=8):
    """What the stream says until `until` comes."""
    text = ""
    async with asyncio.timeout(seconds):
        async for chunk in response.streaming_content:
            text += chunk.decode()
            if until in text:
                break
    await response.streaming_content.aclose()
    return text


@pytest.fixture
def evaluation(submit):
    return submit()


@pytest.fixture
def path(evaluation):
    return f"/events/?topics={evaluation.topic}"


async def test_what_was_missed_is_replayed_in_order(evaluation, path):
    for number in range(3):
        await sync_to_async(events.emit)(evaluation.topic, "progress", done=number)
    text = await read(await opened(path, **{"Last-Event-ID": "0"}), '"done": 2')
    assert [text.index(f'"done": {number}') for number in range(3)] == sorted(
        text.index(f'"done": {number}') for number in range(3)
    )
    assert "event: evaluation-progress" in text


async def test_replay_starts_after_the_last_event_that_was_seen(evaluation, path):
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=1)
    seen = (await Event.objects.alatest("pk")).pk
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=2)
    text = await read(await opened(path, **{"Last-Event-ID": str(seen)}), '"done": 2')
    assert '"done": 1' not in text


async def test_a_new_reader_gets_the_last_event_of_each_kind(evaluation, path):
    for number in range(3):
        await sync_to_async(events.emit)(evaluation.topic, "progress", done=number)
    text = await read(await opened(path), '"done": 2')
    assert "event: evaluation-state" in text
    assert '"done": 1' not in text


async def test_an_event_whose_transaction_commits_late_is_not_overtaken(evaluation, path):
    """Databases number rows when they are written, not when they become visible."""
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=1)
    late = await Event.objects.alatest("pk")
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=2)
    await Event.objects.filter(pk=late.pk).adelete()
    response = await opened(path, **{"Last-Event-ID": "0"})

    async def commits():
        await asyncio.sleep(0.5)
        await Event.objects.acreate(pk=late.pk, topic=late.topic, kind=late.kind, payload=late.payload)

    task = asyncio.create_task(commits())
    text = await read(response, '"done": 1')
    await task
    assert text.count('"done": 2') == text.count('"done": 1') == 1
    assert text.index('"done": 2') < text.index('"done": 1')


async def follow(evaluation, path):
    """What a reader who has just opened the page is told of an event that comes later."""
    response = await opened(path)

    async def later():
        await asyncio.sleep(0.5)
        await sync_to_async(events.emit)(evaluation.topic, "progress", done=7)

    task = asyncio.create_task(later())
    text = await read(response, '"done": 7')
    await task
    return text


async def test_without_redis_the_table_is_polled(evaluation, path):
    assert "id: " in await follow(evaluation, path)


async def test_with_redis_an_event_arrives_at_once(evaluation, path, redis_server, monkeypatch):
    monkeypatch.setattr(streams, "PING_S", 60)  # so that only Redis can have woken the stream
    monkeypatch.setattr(streams, "POLL_S", 0.3)
    assert "id: " in await follow(evaluation, path)


async def test_the_stream_survives_that_redis_goes_away(evaluation, path, redis_server):
    reading = asyncio.create_task(read(await opened(path), '"done": 9', seconds=20))
    await asyncio.sleep(0.5)
    redis_server.kill()
    await asyncio.sleep(1.5)
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=9)
    assert "evaluation-progress" in await reading


async def test_it_ends_when_the_evaluation_has_ended(evaluation, path):
    await sync_to_async(services.evaluation_cancel)(evaluation, "Not wanted.")
    text = await read(await opened(path, **{"Last-Event-ID": "0"}), "event: end")
    assert '"state": "cancelled"' in text


@pytest.mark.parametrize(
    "topics",
    ["evaluation:00000000-0000-0000-0000-000000000000", "evaluation:x", "queue:abacus", "secrets:all", "queue"],
)
async def test_an_unknown_topic_is_not_found(version, topics):
    assert (await opened(f"/events/?topics={topics}")).status_code == 404


@pytest.mark.parametrize("topics", ["", ",".join(["queue:cpu"] * 21)])
async def test_too_few_and_too_many_topics_are_refused(version, topics):
    assert (await opened(f"/events/?topics={topics}")).status_code == 400


async def test_a_stranger_cannot_follow_what_is_private(submit, person):
    owner = await sync_to_async(person)("ann")
    evaluation = await sync_to_async(submit)(owner=owner, visibility="private")
    path = f"/events/?topics={evaluation.topic}"
    assert (await opened(path)).status_code == 404
    client = AsyncClient()
    await client.aforce_login(owner)
    response = await client.get(path)
    assert response.status_code == 200
    await response.streaming_content.aclose()


async def test_streams_are_capped(version, settings):
    settings.KBENCH_EVENT_STREAMS_MAX = 0
    response = await opened("/events/?topics=queue:cpu")
    assert (response.status_code, response["Retry-After"]) == (503, "10")


def test_a_large_payload_is_refused(evaluation):
    with pytest.raises(ValueError, match="2048"):
        events.emit(evaluation.topic, "progress", text="x" * 3000)


def test_old_events_are_pruned(evaluation, settings):
    settings.KBENCH_EVENTS_KEPT_DAYS = 0
    assert events.prune() >= 1
    assert not Event.objects.exists()
