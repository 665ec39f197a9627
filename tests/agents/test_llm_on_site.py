"""Runs with language models on the site: the real client over a real socket, the queue and the pages of the site."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client

from agents.driving import one_run
from agents.evolve.budget import Caps
from agents.models import Run
from agents.states import RunStatus
from tests.evolve import world
from tests.evolve.llm_kit import KEY, calculated_usd
from tests.evolve.llm_server import Decide, Reply, Server, error, serve
from tests.rows import synced

from . import factories
from .test_driving import Bench, bench, drive  # noqa: F401 - the fixture

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = "NAME: {name}\nTHOUGHT: <script>alert(1)</script> larger tiles\nCODE:\n```cpp\n{code}```\n"
CAPS = Caps(judgings=6, usd=1.0)


@pytest.fixture(autouse=True)
def tasks(transactional_db: None, two_operations: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caches["pages"].clear()
    synced(two_operations)
    settings.ANTHROPIC_API_KEY = KEY
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(one_run, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr("agents.driving.evaluator.LOOK_EVERY_S", 0.05)
    one_run.draining.clear()


@contextmanager
def vendor(settings: Any, decide: Decide) -> Iterator[Server]:
    """The server in a thread of its own, as the run has its own loop."""
    loop, ready, held = asyncio.new_event_loop(), threading.Event(), {}

    async def work() -> None:
        async with serve(decide) as server:
            held["server"], held["over"] = server, asyncio.Event()
            ready.set()
            await held["over"].wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),), daemon=True)
    thread.start()
    ready.wait(5)
    settings.ANTHROPIC_BASE_URL = held["server"].url
    yield held["server"]
    loop.call_soon_threadsafe(held["over"].set)
    thread.join(5)
    loop.close()


def kernels(body: dict[str, Any], number: int) -> Reply:
    """Slower ones first; now and then the model answers with prose or the vendor is overloaded."""
    if number == 2:
        return Reply(text="I would rather talk about the weather.")
    if number == 3:
        return error(529, "overloaded_error", retry_after="0")
    value = 5 * (number + 1)
    return Reply(text=HEAD.format(name=f"tiles {number}", code=world.kernel(value, value, value)))


def finished(**options: Any) -> Run:
    return drive(factories.started(proposer="anthropic", verifiers=(), caps=CAPS, **options))


def test_models_propose_kernels_that_the_site_judges_and_pays_for_exactly(bench: Bench, settings: Any) -> None:  # noqa: F811
    with vendor(settings, kernels) as server:
        run = finished()
    assert (run.state, run.judged_count) == (RunStatus.FINISHED, 6)
    assert run.best_score == max(row.score for row in run.candidates.exclude(score=None))
    billed = [calculated_usd(item.body["model"], item.billed) for item in server.served if item.billed]
    assert run.spent["usd"] == pytest.approx(sum(billed), abs=1e-6)
    assert not any(item.open for item in server.served)
    assert {item.headers["authorization"] for item in server.served} == {f"Bearer {KEY}"}


def test_pages_of_such_a_run_show_what_was_said_as_text_and_never_the_key(
    bench: Bench,  # noqa: F811
    settings: Any,
) -> None:
    with vendor(settings, kernels):
        run = finished()
    visitor = Client()
    candidate = run.candidates.exclude(score=None).first()
    for path in ("", "candidates/", "log/", f"candidates/{candidate.key}/"):
        response = visitor.get(f"{run.get_absolute_url()}{path}")
        assert response.status_code == 200, path
        text = response.content.decode()
        assert "<script>alert(1)" not in text
        assert KEY not in text


def test_a_vendor_who_refuses_the_key_pauses_the_run_and_says_why(bench: Bench, settings: Any) -> None:  # noqa: F811
    refused = error(401, "authentication_error", "invalid x-api-key")
    with vendor(settings, lambda _body, _number: refused):
        run = finished()
    assert run.state == RunStatus.PAUSED
    assert "key" in run.reason_text.lower()
    assert run.spent.get("usd", 0) == 0
