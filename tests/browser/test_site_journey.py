"""Five people go through the twelve screens of the site, with nothing but a keyboard.

A visitor: home, catalogue, task, board, comparison, rules, status. An author: account, editor, submission. An agent:
the API, and a run to look at. A moderator and an operator: review queue and switches. Every screen on the way is
looked at in both widths and colours. Does NOT look for what axe finds: `test_accessibility.py` does.
"""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from lab.site.serving import Site

from .seeded import demand_fits, log_in, press, reach, write

pytestmark = pytest.mark.browser
TASK = "/tasks/robust-kbench/mnist_linear_relu/forward/"
JUDGED_MS = 30_000
PASSWORD = "a-password-nobody-has"
KERNEL = '#include <torch/extension.h>\n// speedup: {speedup}\nPYBIND11_MODULE(x, m) {{ m.def("forward", 0); }}\n'


@pytest.fixture(scope="module")
def site(seeded: Site) -> str:
    return f"http://127.0.0.1:{seeded.port}"


@pytest.fixture
def page(visitor: Any) -> Any:
    """A tab on the home page; nothing may be complained about until the end."""
    yield (tab := visitor.tab())
    tab.close()
    assert visitor.complaints == []


def by_name(page: Page, role: Any, name: str) -> Any:
    return page.get_by_role(role, name=name, exact=True).first


def test_a_visitor_finds_a_task_its_board_and_who_leads(page: Page) -> None:
    demand_fits(page)
    press(page, page.get_by_role("link", name="Pick a task"))
    page.wait_for_url("**/tasks/")
    demand_fits(page)
    write(page, page.get_by_label("Search"), "mnist_linear_relu")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/?**")
    press(page, by_name(page, "link", "mnist_linear_relu/forward"))
    page.wait_for_url(f"**{TASK}**")
    demand_fits(page)
    press(page, page.locator("main a[href^='/leaderboards/robust-kbench/mnist_linear_relu/forward/']").first)
    page.wait_for_url("**/leaderboards/**/forward/**")
    expect(page.get_by_text("95 %").first).to_be_attached()
    demand_fits(page)
    press(page, by_name(page.locator("nav.site-nav"), "link", "Leaderboards"))
    page.wait_for_url("**/leaderboards/")
    demand_fits(page)
    press(page, page.locator("main table a").first)
    expect(page.get_by_role("heading", level=1)).to_contain_text(": leaderboard")


def test_a_visitor_compares_methods_and_moves_p(page: Page) -> None:
    press(page, by_name(page.locator("nav.site-nav"), "link", "Compare"))
    page.wait_for_url("**/compare/?**methods=human**method-01**")  # it opens with methods that share tasks
    press(page, page.locator("summary", has_text="Choose methods"))
    press(page, page.locator("input[name=methods][value=method-01]"), "Space")
    press(page, by_name(page, "button", "Compare"))
    page.wait_for_url(lambda url: "methods=human&" in url and "method-01" not in url)
    demand_fits(page)
    write(page, page.locator("#p"), "1.5")
    press(page, by_name(page, "button", "Show"))
    page.wait_for_url("**p=1.5**")
    expect(page.locator("[data-leaders]")).to_contain_text("At p = 1.5")


def test_a_visitor_reads_rules_and_status(page: Page) -> None:
    press(page, page.locator("footer").get_by_role("link", name="Rules"))
    page.wait_for_url("**/rules/")
    demand_fits(page)
    press(page, page.locator("footer").get_by_role("link", name="Status"))
    page.wait_for_url("**/status/")
    expect(page.get_by_role("heading", name="Workers").first).to_be_visible()
    demand_fits(page)


def test_an_author_signs_up_submits_and_reads_the_verdict(page: Page) -> None:
    press(page, by_name(page, "link", "Sign up"))
    page.wait_for_url("**/accounts/signup/**")
    demand_fits(page)
    write(page, page.get_by_label("Username"), "author-with-keys")
    write(page, page.get_by_label("Password", exact=True), PASSWORD)
    write(page, page.get_by_label("Password confirmation"), PASSWORD)
    press(page, by_name(page, "button", "Sign up"))
    reach(page, by_name(page, "button", "Log out"))

    page.goto(f"{TASK}submit/")
    demand_fits(page)
    write(page, page.get_by_label("Source"), KERNEL.format(speedup="1.71"))
    write(page, page.get_by_label("Title"), "Made with keys")
    press(page, by_name(page, "button", "Submit for judging"))
    page.wait_for_url("**/evaluations/**")
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)
    expect(page.get_by_text("95 % interval").first).to_be_visible()
    demand_fits(page)
    press(page, page.get_by_role("link", name="Edit or delete"))
    page.wait_for_url("**/submissions/**")
    demand_fits(page)

    page.goto("/accounts/tokens/")
    write(page, page.get_by_label("Purpose"), "my agent")
    press(page, by_name(page, "button", "Create token"))
    write(page, page.get_by_label("Password"), PASSWORD)
    press(page, by_name(page, "button", "Confirm"))
    expect(page.locator("#token")).to_contain_text("kb_")
    demand_fits(page)
    page.goto("/accounts/quota/")
    demand_fits(page)


def test_an_agent_submits_over_the_api_and_its_owner_sees_it(page: Page, seeded: Site, site: str) -> None:
    body = {
        "task": "robust-kbench/mnist_linear_relu/forward",
        "language": "cpp",
        "title": "By an agent",
        "source": KERNEL.format(speedup="1.93"),
    }
    status, submitted = _asked(seeded, "/api/v1/submissions", body)
    assert status == 202
    status, judged = _asked(seeded, f"/api/v1/evaluations/{submitted['evaluations'][0]['id']}?wait=30")
    assert (status, judged["verdict"]) == (200, "PASS")
    assert judged["score"]["ci95"][0] <= judged["score"]["speedup"] <= judged["score"]["ci95"][1]
    log_in(page, site, seeded.names["reader"]["session"])
    page.goto("/accounts/submissions/")
    press(page, page.get_by_role("row").filter(has_text="By an agent").get_by_role("link").first)
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible()


def test_a_visitor_looks_into_a_run(page: Page) -> None:
    press(page, by_name(page.locator("nav.site-nav"), "link", "Runs"))
    page.wait_for_url("**/runs/")
    demand_fits(page)
    press(page, page.locator("main table a[href^='/runs/']").first)
    page.wait_for_url("**/runs/*-*/")
    expect(page.get_by_role("heading", name="Lineage")).to_be_visible()
    demand_fits(page)


def test_a_report_is_decided_with_a_public_reason(page: Page, visitor: Any, seeded: Site, site: str) -> None:
    log_in(page, site, seeded.names["reader"]["session"])
    page.goto(f"/evaluations/{seeded.names['failed']}/")
    press(page, by_name(page, "link", "Report this submission"))
    page.wait_for_url("**/moderation/report/**")
    demand_fits(page)
    write(page, page.get_by_label("What is wrong"), "It carries a text that does not belong here.")
    press(page, by_name(page, "button", "Report it"))
    page.wait_for_url("**/evaluations/**")

    staff = visitor.tab()
    log_in(staff, site, seeded.names["staff"]["session"])
    staff.goto("/moderation/")
    demand_fits(staff)
    row = staff.get_by_role("row").filter(has_text="It carries a text that does not belong here.")
    press(staff, row.get_by_role("link").first)
    staff.wait_for_url("**/moderation/submissions/**")
    demand_fits(staff)
    press(staff, staff.get_by_role("radio").first, "Space")
    choice = staff.get_by_role("radio", name="Invalidate")
    while not choice.is_checked():  # arrow keys move within a group
        staff.keyboard.press("ArrowDown")
    write(staff, staff.get_by_label("Public reason"), "The text is an advertisement.")
    with staff.expect_navigation():
        press(staff, by_name(staff, "button", "Decide"))
    staff.goto("/moderation/log/")
    expect(staff.get_by_text("The text is an advertisement.").first).to_be_visible()
    demand_fits(staff)


def test_an_operator_closes_and_opens_the_door(page: Page, visitor: Any, seeded: Site, site: str) -> None:
    log_in(page, site, seeded.names["staff"]["session"])
    page.goto("/moderation/switches/")
    demand_fits(page)
    form = page.locator("form[aria-labelledby=switch-submissions]")
    write(page, form.get_by_role("textbox"), "The disk is being replaced.")
    press(page, form.get_by_role("button", name="Turn off"))
    expect(form.get_by_role("button", name="Turn on")).to_be_visible()

    somebody = visitor.tab("/")
    expect(somebody.get_by_text("The disk is being replaced.").first).to_be_visible()
    demand_fits(somebody)
    body = {"task": "robust-kbench/mnist_linear_relu/forward", "language": "cpp", "source": KERNEL.format(speedup="3")}
    status, problem = _asked(seeded, "/api/v1/submissions", body)
    assert (status, problem["code"]) == (503, "submissions-closed")

    press(page, form.get_by_role("button", name="Turn on"))
    expect(form.get_by_role("button", name="Turn off")).to_be_visible()
    somebody.goto("/")
    expect(somebody.get_by_text("The disk is being replaced.")).to_have_count(0)


def test_staff_have_entries_judged_again_and_everybody_reads_what_changed(page: Page, seeded: Site, site: str) -> None:
    log_in(page, site, seeded.names["staff"]["session"])
    page.goto(
        "/moderation/rejudge/?scope=boards&device=cpu-avx2&method=human&task=robust-kbench/mnist_linear_relu/forward"
    )
    demand_fits(page)
    write(page, page.get_by_label("Reason for judging again"), "A compiler was updated.")
    press(page, by_name(page, "button", "Start"))
    page.wait_for_url("**/moderation/rejudge/*-*/")
    demand_fits(page)
    page.goto("/changes/")
    press(page, page.locator("main table a").first)
    expect(page.get_by_text("A compiler was updated.").first).to_be_visible()
    demand_fits(page)


def _asked(site: Site, path: str, body: dict[str, str] | None = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {site.names['token']}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"http://127.0.0.1:{site.port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own http address
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
