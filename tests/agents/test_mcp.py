"""`kbench mcp` with the SDK's own client: over standard input, as a coding agent starts it, and over HTTP."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from agents.models import Run
from benchmarks import services
from benchmarks.accounts.tokens import token_create
from benchmarks.judgings import profiles
from benchmarks.models import Evaluation
from kbench_site.cli.mcp_tools import client_of_request, server
from tests import profiled
from tests.web import factories
from tests.web.test_outside_agent import judge_everything

pytestmark = pytest.mark.django_db(transaction=True)
TASK = "mnist_linear_relu/forward"
Call = Callable[..., Any]


@pytest.fixture
def token(owner: Any) -> str:
    return str(token_create(owner, "agent").text)


@contextmanager
def connected(portal: BlockingPortal, to: Any) -> Iterator[Call]:
    """A function that calls a tool; what the tool refuses is returned as text."""
    with portal.wrap_async_context_manager(Client(to)) as client:

        def call(tool: str, **arguments: Any) -> Any:
            result = portal.call(partial(client.call_tool, tool, arguments))
            return result.content[0].text if result.is_error else result.structured_content

        call.names = {tool.name for tool in portal.call(client.list_tools).tools}  # type: ignore[attr-defined]
        yield call


def profiled_now(code: str) -> None:
    """What a worker does with a request for a profile."""
    evaluation = Evaluation.objects.get(code=code)
    services.profile_request(evaluation, None)
    holding = profiles.profile_claim(evaluation.device_kind.slug)
    assert holding is not None
    assert holding.record(profiled.profile())


def test_a_coding_agent_works_over_standard_input(live_server: Any, token: str) -> None:
    environment = {**os.environ, "KBENCH_URL": live_server.url, "KBENCH_TOKEN": token}
    command = StdioServerParameters(command=sys.executable, args=["-m", "kbench_site.cli", "mcp"], env=environment)
    with start_blocking_portal() as portal, connected(portal, command) as call:
        assert {"list_tasks", "show_task", "check", "submit", "wait", "board", "propose"} <= call.names  # type: ignore[attr-defined]
        assert TASK in [task["name"] for task in call("list_tasks")["tasks"]]
        assert "forward" in call("show_task", task=TASK)["starter"]
        assert "There is no task no/such. (unknown-task)" in call("submit", task="no/such", source="x")

        sent = call("submit", task=TASK, source=f"{factories.SOURCE}// speedup: 2.5\n")
        judge_everything()
        found = call("wait", evaluation=sent["id"])
        assert (found["verdict"], found["score"]["speedup"]) == ("PASS", 2.5)
        profiled_now(sent["id"])
        assert call("profile", evaluation=sent["id"])["text"].startswith("Profile on nvidia-h200")
        assert call("board", task=TASK)["entries"][0]["score"]["speedup"] == 2.5

        run = call("open_run", task=TASK, judgings=3, agent="coder")["id"]
        code = call("show_task", task=TASK)["starter"]
        refused = call("propose", run=run, source=code.replace("forward", "backward"), thought="none")
        assert refused["refused"].startswith("wrong_task")
        assert call("close_run", run=run)["state"] == "finished"
    assert Run.objects.get().config["options"] == {"agent": "coder"}


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server, on a free port of this machine."""
    app = server(client_of_request).streamable_http_app(stateless_http=True)
    web = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        thread.join(0.02)
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        thread.join()


def test_over_http_each_request_brings_its_own_token(
    live_server: Any, token: str, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_URL", live_server.url)
    monkeypatch.setenv("KBENCH_TOKEN", token)  # of whoever started the server: nobody else may use it
    with serving() as address, start_blocking_portal() as portal:
        with connected(portal, address) as call:
            assert "(token-required)" in call("submit", task=TASK, source=factories.SOURCE)
            assert call("list_tasks")["tasks"]
        headers = {"Authorization": f"Bearer {token}"}
        with (
            portal.wrap_async_context_manager(httpx2.AsyncClient(headers=headers)) as http,
            connected(portal, streamable_http_client(address, http_client=http)) as call,
        ):
            assert call("submit", task=TASK, source=factories.SOURCE)["state"] == "queued"
    assert Evaluation.objects.get().submission.owner == owner
