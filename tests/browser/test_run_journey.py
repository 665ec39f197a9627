"""What a person does with a run, in a real browser: start, watch, see it survive its worker, look at what it found.

The search, its templates and the static verifier are real; the judge is a fake. Does NOT measure how fast events come.
"""

import os
import sys
from functools import partial
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from playwright.sync_api import Page, expect

from kbench_site.cli.external import ExternalRun
from tests.stack import Stack

pytestmark = pytest.mark.browser
TASK = "/tasks/robust-kbench/mnist_pool/forward/"
TICKETS = """
    select count(*), count(distinct s.client_token) from benchmarks_submission s
    join benchmarks_taskversion v on v.id = s.task_version_id join benchmarks_task t on t.id = v.task_id
    where t.op = 'mnist_pool'
"""  # other files submit to other tasks of this site
REJUDGED = """
    select count(*) from benchmarks_evaluation e join benchmarks_submission s on s.id = e.submission_id
    join benchmarks_taskversion v on v.id = s.task_version_id join benchmarks_task t on t.id = v.task_id
    where t.op = 'mnist_pool' and e.reason = 'rejudge'
"""
ENDED_MS = 90_000
KERNEL = '#include <torch/extension.h>\n// speedup: {speedup}\nPYBIND11_MODULE(x, m) {{ m.def("forward", 0); }}\n'


def start(page: Page, judgings: int) -> None:
    page.get_by_role("link", name="Start a run").click()
    page.get_by_label("Maximum judgings").fill(str(judgings))
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Compile: builds it").uncheck()  # takes seconds of a real compiler each
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/*-*/")


def judged(stack: Stack) -> int:
    return int(stack.rows("select sum(judged_count) from agents_run")[0][0] or 0)


def test_start_watch_lose_the_worker_and_see_the_end(visitor: Any, stack: Stack) -> None:
    page = visitor.tab(TASK)
    start(page, 30)
    page.evaluate("window.sameDocument = true")
    expect(page.get_by_text("following live")).to_be_visible()
    expect(page.locator(".score-number")).to_contain_text("×", timeout=ENDED_MS)
    before = judged(stack)
    assert before < 30
    stack.kill("agents@")
    expect(page.get_by_text("Finished", exact=True)).to_be_visible(timeout=ENDED_MS)
    assert page.evaluate("window.sameDocument")
    expect(page.get_by_text("26 judged").first).to_be_visible()
    expect(page.locator(".score")).to_contain_text("confirmed by 2 more judgings")
    rows = stack.rows("select seq from agents_runevent order by seq")
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert stack.rows(TICKETS) == [(26, 26)]
    assert stack.rows(REJUDGED) == [(4,)]
    assert stack.rows("select count(*) from agents_runevent where type = 'run.resumed'")[0][0] >= 1

    page.get_by_role("link", name="Full log").click()
    page.get_by_label("Type").select_option("run.resumed")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("row").filter(has_text="run.resumed").first).to_be_visible()
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").nth(1).click()
    page.locator(".score").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.get_by_role("link", name="evaluation", exact=True).click()
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible()
    page.get_by_role("link", name="candidate").click()
    page.wait_for_url("**/candidates/**")
    assert visitor.complaints == []


def test_an_agent_outside_is_watched_from_start_to_end(visitor: Any, site: str, monkeypatch: Any) -> None:
    """Its kernels come through the shipped client, then through the MCP server as a coding agent starts it."""
    page = visitor.tab("/accounts/signup/")
    for label in ("Password", "Password confirmation"):
        page.get_by_label(label, exact=True).fill("a-password-nobody-has")
    page.get_by_label("Username").fill("outsider")
    page.get_by_role("button", name="Sign up").click()
    page.goto("/accounts/tokens/")
    page.get_by_label("Purpose").fill("my agent")
    page.get_by_role("button", name="Create token").click()
    page.get_by_label("Password").fill("a-password-nobody-has")
    page.get_by_role("button", name="Confirm").click()
    environment = {"KBENCH_URL": site, "KBENCH_TOKEN": page.locator("#token").inner_text().strip()}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with ExternalRun("mnist_pool/forward", judgings=5, agent="the outsider") as run:
        page.goto(f"/runs/{run.id}/")
        expect(page.get_by_text("following live")).to_be_visible()
        expect(page.get_by_text("agent the outsider")).to_be_visible()
        page.evaluate("window.sameDocument = true")
        first = run.judge(KERNEL.format(speedup=1.5), name="plain loops", thought="correct first", prompt="Write it.")
        expect(page.locator(".score-number")).to_contain_text("1.50", timeout=ENDED_MS)
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "kbench_site.cli", "mcp"], env={**os.environ, **environment}
        )
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(command)) as agent:
            about = {"run": run.id, "source": KERNEL.format(speedup=2.5), "parents": [first["id"]], "name": "by MCP"}
            told = portal.call(partial(agent.call_tool, "propose", about)).structured_content
        assert (told["score"], told["best"]) == (2.5, True)
        expect(page.locator(".score-number")).to_contain_text("2.50", timeout=ENDED_MS)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible(timeout=ENDED_MS)
    assert page.evaluate("window.sameDocument")
    page.locator(".score").get_by_role("link").click()
    expect(page.get_by_role("heading", name="by MCP")).to_be_visible()
    page.get_by_role("link", name=first["id"], exact=True).first.click()
    page.get_by_text("Prompt", exact=True).click()
    expect(page.get_by_text("Write it.")).to_be_visible()
    assert visitor.complaints == []


def test_pause_resume_stop_and_look_back(visitor: Any) -> None:
    page = visitor.tab(TASK)
    start(page, 2000)
    expect(page.locator(".score-number")).to_be_visible(timeout=ENDED_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=ENDED_MS)
    expect(page.get_by_text("Paused", exact=True)).to_be_visible(timeout=ENDED_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Running", exact=True)).to_be_visible(timeout=ENDED_MS)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Finished", exact=True)).to_be_visible(timeout=ENDED_MS)
    slider = page.get_by_role("slider")
    slider.fill("3")
    expect(page.get_by_text("No correct kernel yet.")).to_be_visible()
    slider.fill(slider.get_attribute("max") or "")
    expect(page.locator(".score-number")).to_be_visible()


def test_without_scripts_a_run_is_started_and_its_page_complete(visitor: Any) -> None:
    page = visitor.tab(TASK, java_script_enabled=False)
    start(page, 6)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible(timeout=ENDED_MS)  # it renews itself
    expect(page.get_by_role("heading", name="Lineage")).to_be_visible()
