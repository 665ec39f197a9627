"""The event stream: replay, follow, end, permission; with Redis and without."""

import asyncio

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import AsyncClient

from benchmarks import events
from benchmarks.accounts.tokens import token_create, token_revoke
from benchmarks.judgings import moves
from benchmarks.models import Event, Submission
from benchmarks.states import TokenScope
from benchmarks.views import streams

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """Where nothing wakes a stream it asks the table."""
    monkeypatch.setattr(streams, "POLL_S", 0.05)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def opened(path, **headers):
    return await AsyncClient().get(path, headers=headers)


async def read(response, until, seconds=30):
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


@pytest.mark.parametrize("after", ["\u00b2", "\u0663", "9" * 5000, "-1", "1_0"])
def test_what_is_no_number_of_an_event_is_no_place_to_go_on_from(rf, after):
    assert streams._last_id(rf.get("/events/", {"after": after})) is None


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
        await asyncio.sleep(0.2)  # the stream has told the second one by now
        await Event.objects.acreate(pk=late.pk, topic=late.topic, kind=late.kind, payload=late.payload)

    task = asyncio.create_task(commits())
    text = await read(response, '"done": 1')
    await task
    assert text.count('"done": 2') == text.count('"done": 1') == 1
    assert text.index('"done": 2') < text.index('"done": 1')


async def follow(evaluation, path, *, connected=False):
    """What a reader who has just opened the page is told of an event that comes later."""
    response = await opened(path)

    async def later():
        await until(lambda: streams._hub().connected is connected)
        await asyncio.sleep(0.2)  # the stream has read the table by now
        await sync_to_async(events.emit)(evaluation.topic, "progress", done=7)

    task = asyncio.create_task(later())
    text = await read(response, '"done": 7')
    await task
    return text


async def test_without_redis_the_table_is_polled(evaluation, path):
    assert "id: " in await follow(evaluation, path)


async def test_with_redis_an_event_arrives_at_once(evaluation, path, redis_server, monkeypatch):
    monkeypatch.setattr(streams, "PING_S", 60)  # so that only Redis can have woken the stream
    assert "id: " in await follow(evaluation, path, connected=True)


async def test_the_stream_survives_that_redis_goes_away(evaluation, path, redis_server, monkeypatch):
    monkeypatch.setattr(streams, "PING_S", 60)  # it does not wait for the next sign of life before it asks the table
    reading = asyncio.create_task(read(await opened(path), '"done": 9', seconds=30))
    await until(lambda: streams._hub().connected)
    redis_server.kill()
    await until(lambda: not streams._hub().connected)
    await sync_to_async(events.emit)(evaluation.topic, "progress", done=9)
    assert "evaluation-progress" in await reading


async def test_it_ends_when_the_evaluation_has_ended(evaluation, path):
    await sync_to_async(moves.evaluation_cancel)(evaluation, "Not wanted.")
    text = await read(await opened(path, **{"Last-Event-ID": "0"}), "event: end")
    assert '"state": "cancelled"' in text


@pytest.mark.parametrize(
    "topics",
    ["evaluation:00000000-0000-0000-0000-000000000000", "evaluation:x", "queue:abacus", "secrets:all", "queue"],
)
async def test_an_unknown_topic_is_not_found(version, topics):
    assert (await opened(f"/events/?topics={topics}")).status_code == 404


@pytest.mark.parametrize("topics", ["", ",".join(["queue:cpu-avx2"] * 21)])
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


@pytest.mark.parametrize("scope", TokenScope.values)
async def test_a_token_follows_what_its_owner_may_read(submit, person, scope):
    owner, stranger = await sync_to_async(person)("ann"), await sync_to_async(person)("bob")
    private = await sync_to_async(submit)(owner=owner, visibility="private")
    statuses = []
    for account in (owner, stranger):
        token = await sync_to_async(token_create)(account, "follows", scope)
        answer = await opened(f"/events/?topics={private.topic}", authorization=f"Bearer {token.text}")
        statuses.append(answer.status_code)
    assert statuses == [200, 404]


def _is_suspended(owner, _token, _evaluation):
    owner.is_active = False
    owner.save()


def _revokes(_owner, token, _evaluation):
    token_revoke(token.row.owner, token.row.pk)


def _is_anothers(_owner, _token, evaluation):
    bob = get_user_model().objects.create_user("bob")
    Submission.objects.filter(pk=evaluation.submission_id).update(owner=bob)


def _ends_sessions(owner, _token, _evaluation):
    owner.set_password("another one that is long")
    owner.save()


@pytest.mark.parametrize(
    ("change", "by_token"),
    [
        (_is_suspended, True),
        (_is_suspended, False),
        (_revokes, True),
        (_is_anothers, True),
        (_is_anothers, False),
        (_ends_sessions, False),
    ],
)
async def test_a_stream_ends_with_the_right_to_follow(submit, person, monkeypatch, change, by_token):
    monkeypatch.setattr(streams, "RECHECK_S", 0)
    owner = await sync_to_async(person)("ann")
    token = await sync_to_async(token_create)(owner, "follows")
    evaluation = await sync_to_async(submit)(owner=owner, visibility="private")
    client, headers = AsyncClient(), {"authorization": f"Bearer {token.text}"} if by_token else {}
    if not by_token:
        await client.aforce_login(owner)
    response = await client.get(f"/events/?topics={evaluation.topic}", headers=headers)
    chunks = aiter(response.streaming_content)
    async with asyncio.timeout(30):
        assert b"retry" in await anext(chunks)
        await sync_to_async(change)(owner, token, evaluation)
        async for _ in chunks:  # until it ends by itself
            pass


async def test_streams_are_capped(version, settings):
    settings.KBENCH_EVENT_STREAMS_MAX = 0
    response = await opened("/events/?topics=queue:cpu-avx2")
    assert (response.status_code, response["Retry-After"]) == (503, "10")


async def answered(client, path, **headers):
    """As the real handler does it: each request has a thread of its own, which ends without a connection."""
    async with ThreadSensitiveContext():
        try:
            return await client.get(path, headers=headers)
        finally:
            await sync_to_async(connections.close_all)()


async def waiting(client, path, count, **headers):
    """As many requests that wait, each with its place before the next asks."""
    tasks, hub = [], streams._hub()
    for number in range(count):
        before = len(hub._followers)
        tasks.append(asyncio.create_task(answered(client, path, **headers)))
        async with asyncio.timeout(30):
            while len(hub._followers) == before:
                assert not tasks[number].done()
                await asyncio.sleep(0.01)
    return tasks


@pytest.fixture
def wait_path(evaluation):
    return f"/api/v1/evaluations/{evaluation.code}?wait=20"


async def test_one_reader_cannot_wait_more_often_than_streams_may_be_open(
    evaluation, wait_path, path, person, monkeypatch
):
    monkeypatch.setattr(streams, "STREAMS_PER_READER_MAX", 2)
    client = AsyncClient()
    tasks = await waiting(client, wait_path, 2)
    refused = await answered(client, wait_path)
    assert (refused.status_code, refused["Retry-After"], refused.json()["code"]) == (503, "10", "too-many-streams")
    assert "You have 2" in refused.json()["detail"]
    assert (await answered(client, path)).status_code == 503  # the same places
    token = await sync_to_async(lambda: token_create(person("ann"), "waits"))()
    others = await waiting(AsyncClient(), wait_path, 1, authorization=f"Bearer {token.text}")
    await sync_to_async(moves.evaluation_cancel)(evaluation, "Not wanted.")
    answers = await asyncio.gather(*tasks, *others)
    assert [answer.json()["state"] for answer in answers] == ["cancelled"] * 3
    assert (await answered(client, wait_path)).status_code == 200


async def test_all_who_wait_have_one_limit_together_with_streams(evaluation, wait_path, path, settings):
    settings.KBENCH_EVENT_STREAMS_MAX = 1
    stream = await opened(path)
    following = asyncio.create_task(read(stream, "never", seconds=30))
    await until(lambda: streams._hub()._followers)
    refused = await answered(AsyncClient(), wait_path)
    assert (refused.status_code, refused.json()["code"]) == (503, "too-many-streams")
    await sync_to_async(moves.evaluation_cancel)(evaluation, "Not wanted.")
    await following


async def test_streams_that_begin_at_the_same_time_do_not_pass_the_limit(evaluation, path, monkeypatch):
    monkeypatch.setattr(streams, "STREAMS_PER_READER_MAX", 1)
    first, second = await opened(path), await opened(path)
    begun = [await anext(aiter(item.streaming_content)) for item in (first, second)]
    assert begun == [b"retry: 3000\n\n", b"retry: 10000\n\n"]
    await first.streaming_content.aclose()


def test_a_large_payload_is_refused(evaluation):
    with pytest.raises(ValueError, match="2048"):
        events.emit(evaluation.topic, "progress", text="x" * 3000)


def test_old_events_are_pruned(evaluation, settings):
    settings.KBENCH_EVENTS_KEPT_DAYS = 0
    assert events.prune() >= 1
    assert not Event.objects.exists()


async def test_a_process_that_stops_ends_its_streams_and_its_waits(evaluation, path, wait_path):
    """Their clients come back, to another process; none of them waits for an answer that was cancelled."""
    stream = await opened(path)
    messages = aiter(stream.streaming_content)
    await anext(messages)
    (task,) = await waiting(AsyncClient(), wait_path, 1)
    streams.end_all()
    async with asyncio.timeout(30):
        rest = [chunk async for chunk in messages]
        answer = await task
    assert b"event: end" not in b"".join(rest)
    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
