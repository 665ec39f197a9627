"""The tools of `kbench mcp`: what a coding agent can ask of a site, over the Model Context Protocol.

Over standard input the token is KBENCH_TOKEN. Over HTTP it is that of each request (`Authorization: Bearer`), which is
passed on to the site and never kept. Needs the extra `mcp`. Does NOT judge anything: every tool is one or two requests
to the site's API.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from .client import ApiError, Client

WAIT_S = 50.0  # of one call; hosts give up after a minute
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

    def list_tasks(self, ctx: Context, search: str = "", device: str = "") -> Answer:
        """The tasks of the site with their best verified speedup on a device kind."""
        return {"tasks": self._ask(ctx, lambda site: site.get("tasks", q=search, device=device))}

    def show_task(self, ctx: Context, task: str, language: str = "cpp") -> Answer:
        """One task (OP/DIRECTION): formula, configurations, reference, and the starter code in a language."""
        path = quote(task if task.count("/") > 1 else f"robust-kbench/{task}")
        found = self._ask(ctx, lambda site: site.get(f"tasks/{path}"))
        return {**found, "starter": found["starter"].get(language, "")}

    def check(self, ctx: Context, task: str, source: str, language: str = "cpp", device: str = "") -> Answer:
        """Whether a kernel compiles and is correct, in seconds. It is never scored; PASS means correct."""
        wanted = {"task": task, "source": source, "language": language, "device": device}
        sent = self._ask(ctx, lambda site: site.submit({**wanted, "quick": True, "judge_again": True}))
        return self.wait(ctx, sent["evaluations"][0]["id"])

    def submit(self, ctx: Context, task: str, source: str, language: str = "cpp", device: str = "") -> Answer:
        """Submits a kernel for judging and the leaderboard. Call wait with the id of the evaluation."""
        wanted = {"task": task, "source": source, "language": language, "device": device}
        return _told(self._ask(ctx, lambda site: site.submit(wanted))["evaluations"][0])

    def wait(self, ctx: Context, evaluation: str) -> Answer:
        """An evaluation once it has ended, or as it is after 50 seconds: then call wait again."""
        return _told(self._ask(ctx, lambda site: site.evaluation(evaluation, wait_s=WAIT_S)))

    def board(self, ctx: Context, task: str, device: str = "") -> Answer:
        """The leaderboard of a task."""
        return dict(self._ask(ctx, lambda site: site.get("leaderboards", task=task, device=device)))

    def quota(self, ctx: Context) -> Answer:
        """What you may still submit."""
        return dict(self._ask(ctx, lambda site: site.get("quota")))

    def open_run(self, ctx: Context, task: str, judgings: int, agent: str = "", language: str = "") -> Answer:
        """Opens a run that people watch live while you search. Its page is `url`."""
        wanted = {"task": task, "kind": "external", "judgings": judgings, "agent": agent, "language": language}
        return dict(self._ask(ctx, lambda site: site.post("runs", wanted)))

    def propose(  # noqa: PLR0917 - the fields of a candidate
        self, ctx: Context, run: str, source: str, parents: list[str] | None = None, name: str = "", thought: str = ""
    ) -> Answer:
        """Sends a kernel of a run and waits for verdict and feedback. `parents`: the candidates it was made from."""
        about = {"source": source, "parents": parents or [], "name": name, "thought": thought}
        sent = self._ask(ctx, lambda site: site.send_candidate(run, about))
        return self.candidate(ctx, run, sent["id"])

    def candidate(self, ctx: Context, run: str, candidate: str) -> Answer:
        """A candidate of a run once it was judged, or as it is after 50 seconds: then ask again."""
        return dict(self._ask(ctx, lambda site: site.candidate(run, candidate, wait_s=WAIT_S)))

    def close_run(self, ctx: Context, run: str, text: str = "") -> Answer:
        """Ends a run; kernels that are being judged are still judged."""
        return dict(self._ask(ctx, lambda site: site.close_run(run, text)))

    def _ask(self, ctx: Context, request: Callable[[Client], Any]) -> Any:
        try:
            return request(self._client_of(ctx))
        except ApiError as error:
            raise ToolError(f"{error} ({error.code})" if error.code else str(error)) from error


def server(client_of: Callable[[Context], Client]) -> MCPServer:
    kbench: MCPServer = MCPServer("kbench", instructions=INSTRUCTIONS)
    tools = Tools(client_of)
    for name in (name for name in vars(Tools) if not name.startswith("_")):
        kbench.add_tool(getattr(tools, name))
    return kbench


def client_of_environment(ctx: Context) -> Client:
    return Client()


def client_of_request(ctx: Context) -> Client:
    """With the token of the HTTP request and no other: the environment's belongs to whoever started the server."""
    client = Client()
    scheme, _, token = (ctx.headers or {}).get("authorization", "").partition(" ")
    client.token = token.strip() if scheme.lower() == "bearer" else ""
    return client


def _told(found: Answer) -> Answer:
    """An evaluation without what only a page shows; the log of the stage that failed stays."""
    report = found.get("report") or {}
    logs = [stage["log_tail"] for stage in report.get("stages", []) if stage.get("log_tail")]
    names = ("id", "url", "task", "state", "queue", "verdict", "reason", "score", "finished", "quick")
    kept = {name: found.get(name) for name in names}
    passed = found.get("verdict") == "PASS"
    return {**kept, "configs": report.get("configs", []), "log": "" if passed or not logs else logs[-1][-LOG_CHARS:]}
