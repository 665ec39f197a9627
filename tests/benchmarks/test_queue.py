"""Messages to the broker, with a real Redis and without one. Which row runs next is in `test_services.py`."""

import time

import pytest
import redis
from celery import Celery

from benchmarks import jobs
from benchmarks.judgings import queue
from kbench_site.celery import app as site
from kbench_site.celery import broker_url

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(redis_server):
    """An application like the site's that talks to the test's own Redis."""
    with Celery("test", changes={**site.conf.changes, "broker_url": broker_url(redis_server.url)}) as app:
        app.set_current()
        with redis.Redis.from_url(redis_server.url) as client:
            yield client
        site.set_current()


def test_a_submission_wakes_the_compile_queue(submit, broker):
    submit()
    assert broker.llen("compile.cpu-avx2") == 1


def test_dispatch_sends_lost_messages_again_but_no_more_than_a_few(submit, broker):
    for _ in range(9):
        submit()
    broker.flushall()
    jobs.dispatch.apply().get()
    jobs.dispatch.apply().get()
    assert broker.llen("compile.cpu-avx2") == queue.OUTSTANDING_MAX


def test_dispatch_sends_nothing_when_nothing_waits(version, broker):
    jobs.dispatch.apply().get()
    assert broker.llen("compile.cpu-avx2") == broker.llen("judge.cpu") == 0


@pytest.mark.alone
def test_a_submission_without_redis_is_taken_at_once(submit):
    started = time.monotonic()
    assert submit().state == "queued"
    assert time.monotonic() - started < 1.5
