"""Charts that are explored in a real browser: the figure in their place, its values, its colours, and the way back.

The site is Django's own test server on a seeded database: nothing is judged here.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from agents.models import Run
from tests.agents import factories as runs
from tests.browser.conftest import Visitor
from tests.browser.on_own_rows import two_methods, visiting

from .seeded import demand_fits, grave_violations, reach

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("rows_beside_a_browser"),
]
COMPARE = "/compare/?methods=broad,deep&device=cpu-avx2&p=1.5"
BOARD = "/leaderboards/robust-kbench/layernorm/forward/cpu-avx2/"
HOSTILE = "Deep <a href='https://elsewhere.example'>here</a>"


@pytest.fixture
def reader(browser: Browser, live_server: Any) -> Iterator[Visitor]:
    """Two methods on two tasks, one of them with a name that is a link where text is read as markup."""
    two_methods(called=HOSTILE)
    with visiting(browser, live_server.url) as someone:
        yield someone


def searched(**options: Any) -> Run:
    """A run with all its events, made in a thread of its own, since the search and the driver each run a loop."""

    def work() -> Run:
        try:
            return runs.driven(**options)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def explore(page: Page) -> None:
    button = page.get_by_role("button", name="Explore this chart").first
    reach(page, button)
    page.keyboard.press("Enter")
    expect(page.locator(".figure-box .scatterlayer").first).to_be_visible(timeout=20_000)
    expect(page.get_by_role("button", name="Back to the plain chart")).to_be_visible()


def colours(page: Page) -> tuple[str, str]:
    """Of the first line and of the paper."""
    line, paper = page.locator(".figure-box .scatterlayer .js-line").first, page.locator(".figure-box .main-svg").first
    return (
        line.evaluate("item => getComputedStyle(item).stroke"),
        paper.evaluate("item => getComputedStyle(item).backgroundColor"),
    )


def test_a_chart_is_explored_and_left_again_under_the_policy_of_every_page(reader: Visitor) -> None:
    page = reader.tab(COMPARE)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.reload()
    assert not any("plotly" in address or "figures.css" in address for address in fetched)
    explore(page)
    expect(page.locator("svg.figure").first).to_be_hidden()
    page.locator(".figure-box .draglayer").hover(position={"x": 2, "y": 2})
    corner = page.evaluate("""() => {
      const place = document.querySelector(".figure-box"), area = place._fullLayout;
      const box = place.getBoundingClientRect();
      return [box.x + area._size.l + area.xaxis.d2p(5), box.y + area._size.t + area.yaxis.d2p(0)];
    }""")
    page.mouse.move(*corner, steps=3)
    label = page.locator(".figure-box .hoverlayer .hovertext")
    expect(label).to_contain_text(re.compile(r"0 of \d+ tasks \(0 %\) faster than 5×"))
    expect(label).to_contain_text("over the stronger baseline")
    expect(page.locator(".figure-box .legend")).to_contain_text(HOSTILE)
    assert page.locator(".figure-box a[href]").count() == 0
    with page.expect_response(re.compile("figure.json.*p=2")):
        page.get_by_role("slider", name="p").fill("2")
        page.get_by_role("slider", name="p").dispatch_event("change")
    wait_until_redrawn(page, at=2)
    page.get_by_role("button", name="Back to the plain chart").click()
    expect(page.locator("svg.figure").first).to_be_visible()
    assert page.locator(".figure-box").count() == 0
    assert reader.complaints == []


def wait_until_redrawn(page: Page, *, at: float) -> None:
    """Asks from here: a page whose policy forbids `eval` cannot poll by itself."""
    for _ in range(200):
        if page.evaluate("document.querySelector('.figure-box').layout.shapes[0].x0") == at:
            return
        page.wait_for_timeout(50)
    pytest.fail("the figure was not drawn anew within 10 s")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_takes_the_colours_of_the_page_and_its_width(reader: Visitor, scheme: str) -> None:
    page = reader.tab(BOARD, color_scheme=scheme)
    explore(page)
    before = colours(page)
    assert grave_violations(page) == []
    page.get_by_role("button", name=re.compile("Use (light|dark) colours")).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light" if scheme == "dark" else "dark")
    assert all(was != now for was, now in zip(before, colours(page), strict=True))
    page.get_by_role("button", name=re.compile("Use (light|dark) colours")).click()
    page.evaluate("delete document.documentElement.dataset.theme")
    demand_fits(page)
    assert reader.complaints == []


def test_the_best_so_far_of_a_run_is_explored_as_of_the_event_that_is_shown(reader: Visitor) -> None:
    run = searched()
    page = reader.tab(f"{run.get_absolute_url()}?x=minutes&at={run.last_seq - 5}")
    with page.expect_response(re.compile("figure.json")) as answered:
        explore(page)
    assert f"x=minutes&at={run.last_seq - 5}" in answered.value.url
    expect(page.locator(".figure-box .xtitle")).to_have_text("Minutes since the start")
    assert grave_violations(page) == []
    assert reader.complaints == []


def test_a_figure_stays_where_it_is_while_the_page_of_its_run_changes(reader: Visitor) -> None:
    run = searched()
    page = reader.tab(run.get_absolute_url())
    explore(page)
    steps = page.locator(".figure-box .scatterlayer .js-line").last
    before, plain = steps.get_attribute("d"), page.locator("svg.chart").inner_html()
    earlier = page.get_by_role("slider", name="At event")
    with page.expect_response(re.compile(f"figure.json.*at={run.last_seq // 2}")):
        earlier.fill(str(run.last_seq // 2))
        earlier.dispatch_event("change")
    expect(steps).not_to_have_attribute("d", before or "")
    page.get_by_role("button", name="Back to the plain chart").click()
    expect(page.locator("svg.chart")).to_be_visible()
    assert page.locator("svg.chart").inner_html() != plain
    assert reader.complaints == []


def test_a_figure_that_does_not_arrive_leaves_the_chart_and_says_so(reader: Visitor) -> None:
    page = reader.tab(COMPARE)
    page.route("**/figure.json*", lambda route: route.fulfill(status=503))
    page.get_by_role("button", name="Explore this chart").first.click()
    said = page.locator("[data-figure-text]").first
    expect(said).to_have_text(re.compile("could not be loaded: the site answered 503. The plain chart stays"))
    expect(page.locator("svg.figure").first).to_be_visible()
    page.unroute("**/figure.json*")
    explore(page)


def test_without_scripts_there_is_only_the_chart(reader: Visitor) -> None:
    page = reader.tab(COMPARE, java_script_enabled=False)
    expect(page.locator("svg.figure").first).to_be_visible()
    expect(page.locator("[data-figure]").first).to_be_hidden()
