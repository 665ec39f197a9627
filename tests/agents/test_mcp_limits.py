"""The tools of `kbench mcp` under many calls at once: waiting holds no thread, and one caller cannot take them all."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from kbench_site.cli import mcp_tools
from kbench_site.cli.mcp_tools import ALL_CALLS_MAX, CALLS_MAX, Tools, client_of_request

THREADS = 40  # of the event loop, shared by all calls
GIVE_UP_S = 60.0


class SiteStandIn:
    """A site without a network. Evaluations end when `ended` is set, lists are held until `open` is."""

    def __init__(self) -> None:
        self.asked = 0
        self.ended, self.open = threading.Event(), threading.Event()
        self.open.set()

    def of(self, token: str) -> Any:
        return SimpleNamespace(token=token, evaluation=self.evaluation, get=self.get)

    def evaluation(self, code: str, wait_s: float = 0) -> dict[str, Any]:
        self.asked += 1
        if wait_s:
            self.ended.wait(wait_s)
        return {"id": code, "finished": "2026-11-23" if self.ended.is_set() else None}

    def get(self, path: str, **query: Any) -> list[Any]:
        self.asked += 1
        self.open.wait(GIVE_UP_S)
        return []


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> SiteStandIn:
    monkeypatch.setattr(mcp_tools, "POLL_S", 0.05)
    return SiteStandIn()


@pytest.fixture
def tools(site: SiteStandIn) -> Any:
    """The place of the context is taken by the token of the call."""
    return Tools(site.of)  # type: ignore[arg-type]


async def _until(holds: Any) -> None:
    async with asyncio.timeout(GIVE_UP_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_calls_that_wait_hold_no_thread(site: SiteStandIn, tools: Any) -> None:
    waits = [asyncio.create_task(tools.wait(f"token {number}", "x")) for number in range(THREADS + 5)]
    await _until(lambda: site.asked >= 2 * len(waits))
    assert await asyncio.wait_for(tools.list_tasks("another"), GIVE_UP_S) == {"tasks": []}
    assert not any(task.done() for task in waits)
    site.ended.set()
    assert {found["finished"] for found in await asyncio.gather(*waits)} == {"2026-11-23"}


async def test_without_a_token_nothing_waits(site: SiteStandIn, tools: Any) -> None:
    assert (await tools.wait("", "x"))["finished"] is None
    assert site.asked == 1


@pytest.mark.parametrize(("token", "words"), [("", "without a token"), ("one", "with this token")])
async def test_a_caller_has_only_so_many_calls_at_once(site: SiteStandIn, tools: Any, token: str, words: str) -> None:
    site.open.clear()
    calls = [asyncio.create_task(tools.list_tasks(token)) for _ in range(CALLS_MAX)]
    await _until(lambda: site.asked == CALLS_MAX)
    with pytest.raises(ToolError, match=rf"{words}.*\(too-many-calls\)"):
        await tools.list_tasks(token)
    others = asyncio.create_task(tools.list_tasks("other"))
    await _until(lambda: site.asked == CALLS_MAX + 1)
    site.open.set()
    assert await asyncio.gather(*calls, others) == [{"tasks": []}] * (CALLS_MAX + 1)
    assert await tools.list_tasks(token) == {"tasks": []}


async def test_all_callers_together_have_only_so_many_calls_at_once(site: SiteStandIn, tools: Any) -> None:
    """Every call may come with a token of its own, which the site has not seen yet."""
    waits = [asyncio.create_task(tools.wait(f"token {number}", "x")) for number in range(ALL_CALLS_MAX)]
    await _until(lambda: site.asked >= ALL_CALLS_MAX)
    for token in ("another", ""):
        with pytest.raises(ToolError, match=r"This server is running .*\(too-many-calls\)"):
            await tools.list_tasks(token)
    site.ended.set()
    await asyncio.gather(*waits)
    assert await tools.list_tasks("another") == {"tasks": []}
    assert not tools._running, "no token is remembered"


def test_over_http_a_thread_never_sleeps_between_tries() -> None:
    context: Any = SimpleNamespace(headers={"authorization": "Bearer abc"})
    client = client_of_request(context)
    assert (client.token, client.pauses_s) == ("abc", 0.0)
