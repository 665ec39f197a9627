"""The tools of `kbench mcp`: what a coding agent can ask of a site, over the Model Context Protocol.

Over standard input the token is KBENCH_TOKEN. Over HTTP it is that of each request (`Authorization: Bearer`), which is
passed on to the site and never kept. A call occupies a thread only during a request, never while it waits, and calls
without a token do not wait. Needs the extra `mcp`. Does NOT judge anything: every tool asks the site's API.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from .client import ApiError, Client

WAIT_S = 50.0  # of one call; hosts give up after a minute
POLL_S = 1.0  # between two requests of a call that waits
CALLS_MAX = 8  # at once with one token, or of everybody without one; as many again that wait
ALL_CALLS_MAX = 256  # at once of all callers together: whoever calls can invent tokens
LOG_CHARS = 4_000
Answer = dict[str, Any]
INSTRUCTIONS = """kbench judges compute kernels: correctness against a float64 reference, then speed against torch eager
and torch.compile. Read a task with show_task, begin with its starter code, check a kernel in seconds with check, and
submit it for a score. To be watched while you search, open_run and propose every kernel in it with its parents and
thoughts."""


class Tools:
    """Every public method is a tool; `client_of` says in whose name a call is made."""

    def __init__(self, client_of: Callable[[Context], Client]) -> None:
        self._client_of = client_of
        self._running: Counter[tuple[str, bool]] = Counter()

    async def list_tasks(self, ctx: Context, search: str = "", device: str = "") -> Answer:
        """The tasks of the site with their best verified speedup on a device kind."""
        return {"tasks": await self._ask(ctx, lambda site: site.get("tasks", q=search, device=device))}

    async def show_task(self, ctx: Context, task: str, language: str = "cpp") -> Answer:
        """One task (OP/DIRECTION): formula, configurations, reference, and the starter code in a language."""
        path = quote(task if task.count("/") > 1 else f"robust-kbench/{task}")
        found = await self._ask(ctx, lambda site: site.get(f"tasks/{path}"))
        return {**found, "starter": found["starter"].get(language, "")}

    async def check(self, ctx: Context, task: str, source: str, language: str = "cpp", device: str = "") -> Answer:
        """Whether a kernel compiles and is correct, in seconds. It is never scored; PASS means correct."""
        wanted = {"task": task, "source": source, "language": language, "device": device}
        sent = await self._ask(ctx, lambda site: site.submit({**wanted, "quick": True, "judge_again": True}))
        return await self.wait(ctx, sent["evaluations"][0]["id"])

    async def submit(self, ctx: Context, task: str, source: str, language: str = "cpp", device: str = "") -> Answer:
        """Submits a kernel for judging and the leaderboard. Call wait with the id of the evaluation."""
        wanted = {"task": task, "source": source, "language": language, "device": device}
        sent = await self._ask(ctx, lambda site: site.submit(wanted))
        return _told(sent["evaluations"][0])

    async def wait(self, ctx: Context, evaluation: str) -> Answer:
        """An evaluation once it has ended, or as it is after 50 seconds: then call wait again."""
        return _told(await self._ask(ctx, lambda site: site.evaluation(evaluation), until="finished"))

    async def profile(self, ctx: Context, evaluation: str) -> Answer:
        """What limits an evaluated kernel: `text` names the bottleneck. Not `finished`: call it again."""
        asked = await self._ask(ctx, lambda site: site.ask_for_profile(evaluation))
        if not asked["finished"]:
            asked = await self._ask(ctx, lambda site: site.profile(evaluation), until="finished")
        return {name: asked[name] for name in ("evaluation", "state", "problem", "text", "finished", "url")}

    async def board(self, ctx: Context, task: str, device: str = "") -> Answer:
        """The leaderboard of a task."""
        return dict(await self._ask(ctx, lambda site: site.get("leaderboards", task=task, device=device)))

    async def requests(self, ctx: Context, sort: str = "open") -> Answer:
        """Kernels that people want, by votes; answer one by submitting to its task. Sort: open, votes or newest."""
        return dict(await self._ask(ctx, lambda site: site.get("requests", sort=sort)))

    async def quota(self, ctx: Context) -> Answer:
        """What you may still submit."""
        return dict(await self._ask(ctx, lambda site: site.get("quota")))

    async def open_run(self, ctx: Context, task: str, judgings: int, agent: str = "", language: str = "") -> Answer:
        """Opens a run that people watch live while you search. Its page is `url`."""
        wanted = {"task": task, "kind": "external", "judgings": judgings, "agent": agent, "language": language}
        return dict(await self._ask(ctx, lambda site: site.post("runs", wanted)))

    async def propose(  # noqa: PLR0917 - the fields of a candidate
        self, ctx: Context, run: str, source: str, parents: list[str] | None = None, name: str = "", thought: str = ""
    ) -> Answer:
        """Sends a kernel of a run and waits for verdict and feedback. `parents`: the candidates it was made from."""
        about = {"source": source, "parents": parents or [], "name": name, "thought": thought}
        sent = await self._ask(ctx, lambda site: site.send_candidate(run, about))
        return await self.candidate(ctx, run, sent["id"])

    async def candidate(self, ctx: Context, run: str, candidate: str) -> Answer:
        """A candidate of a run once it was judged, or as it is after 50 seconds: then ask again."""
        return dict(await self._ask(ctx, lambda site: site.candidate(run, candidate), until="ended"))

    async def close_run(self, ctx: Context, run: str, text: str = "") -> Answer:
        """Ends a run; kernels that are being judged are still judged."""
        return dict(await self._ask(ctx, lambda site: site.close_run(run, text)))

    async def _ask(self, ctx: Context, request: Callable[[Client], Any], until: str = "") -> Any:
        """The site's answer. It is asked again until the field `until` is set, but only once without a token."""
        site = self._client_of(ctx)
        with self._counted(site.token, waits=bool(until)):
            end_s = anyio.current_time() + (WAIT_S if until and site.token else 0.0)
            while True:
                try:
                    found = await anyio.to_thread.run_sync(request, site)
                except ApiError as error:
                    raise ToolError(f"{error} ({error.code})" if error.code else str(error)) from error
                if anyio.current_time() + POLL_S > end_s or found.get(until):
                    return found
                await anyio.sleep(POLL_S)

    @contextmanager
    def _counted(self, token: str, *, waits: bool) -> Iterator[None]:
        """Refuses a call while as many as may run are running, of the same caller or of all."""
        kind = (token, waits)
        if self._running[kind] >= CALLS_MAX:
            whose = "with this token" if token else "without a token; send one"
            raise ToolError(f"{CALLS_MAX} calls are running {whose}. Try again later. (too-many-calls)")
        if self._running.total() >= ALL_CALLS_MAX:
            raise ToolError(f"This server is running {ALL_CALLS_MAX} calls. Try again later. (too-many-calls)")
        self._running[kind] += 1
        try:
            yield
        finally:
            self._running[kind] -= 1
            self._running += Counter()  # forgets tokens without a call


def server(client_of: Callable[[Context], Client]) -> MCPServer:
    kbench: MCPServer = MCPServer("kbench", instructions=INSTRUCTIONS)
    tools = Tools(client_of)
    for name in (name for name in vars(Tools) if not name.startswith("_")):
        kbench.add_tool(getattr(tools, name))
    return kbench


def client_of_environment(ctx: Context) -> Client:
    return Client()


def client_of_request(ctx: Context) -> Client:
    """A client with the token of the HTTP request only; that of the environment belongs to the operator."""
    client = Client()
    scheme, _, token = (ctx.headers or {}).get("authorization", "").partition(" ")
    client.token = token.strip() if scheme.lower() == "bearer" else ""
    client.pauses_s = 0.0  # a thread of the server is not for sleeping: whoever asks can try again
    return client


def _told(found: Answer) -> Answer:
    """An evaluation without what only a page shows; the log of the stage that failed stays."""
    report = found.get("report") or {}
    logs = [stage["log_tail"] for stage in report.get("stages", []) if stage.get("log_tail")]
    names = ("id", "url", "task", "state", "queue", "verdict", "reason", "score", "finished", "quick")
    kept = {name: found.get(name) for name in names}
    passed = found.get("verdict") == "PASS"
    return {**kept, "configs": report.get("configs", []), "log": "" if passed or not logs else logs[-1][-LOG_CHARS:]}
