"""The compare page in a real browser: a slider that needs no reload, a form that needs no script.

The site is Django's own test server on a seeded database: nothing is judged here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visitor
from tests.browser.on_own_rows import two_methods, visiting

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("rows_beside_a_browser"),
]
COMPARE = "/compare/?methods=broad,deep&device=cpu-avx2"
SIZES = [(1280, 900), (320, 640)]


@pytest.fixture
def compared(browser: Browser, live_server: Any) -> Iterator[Visitor]:
    """`broad` is a little faster on two tasks, `deep` much faster on one."""
    two_methods(called="Deep")
    with visiting(browser, live_server.url) as someone:
        yield someone


def test_the_slider_moves_p_without_a_reload_and_a_reload_shows_the_same(compared: Visitor) -> None:
    page = compared.tab(COMPARE)
    leads, cell = page.locator("[data-leaders]"), page.locator("[data-fast=deep]")
    expect(leads).to_have_text("At p = 1: Broad leads.")
    page.evaluate("window.sameDocument = true")
    page.get_by_role("slider", name="p").fill("2")
    expect(leads).to_have_text("At p = 2: Deep leads.")
    expect(cell).to_contain_text("1 of 19")
    assert page.evaluate("window.sameDocument")
    page.get_by_role("slider", name="p").dispatch_event("change")
    assert page.url.endswith("p=2")
    moved, place = cell.inner_text(), page.locator("[data-guide]").get_attribute("x1")
    page.reload()
    expect(leads).to_have_text("At p = 2: Deep leads.")
    assert cell.inner_text() == moved
    assert page.locator("[data-guide]").get_attribute("x1") == place
    assert compared.complaints == []


def test_without_scripts_a_form_moves_p(compared: Visitor) -> None:
    page = compared.tab(COMPARE, java_script_enabled=False)
    expect(page.get_by_role("slider")).to_have_count(0)
    page.get_by_role("spinbutton", name="p").fill("1.5")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("[data-leaders]")).to_have_text("At p = 1.5: Deep leads.")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_no_page_of_methods_is_wider_than_its_window(compared: Visitor, width: int, height: int) -> None:
    page = compared.tab(COMPARE, viewport={"width": width, "height": height})
    for address in (COMPARE, "/compare/", "/methods/", "/methods/broad/", "/leaderboards/robust-kbench/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert compared.complaints == []


def test_methods_chosen_on_the_overall_board_are_compared(compared: Visitor) -> None:
    page = compared.tab("/leaderboards/robust-kbench/?device=cpu-avx2")
    page.get_by_role("checkbox", name="Compare Broad").check()
    page.get_by_role("checkbox", name="Compare Deep").check()
    page.get_by_role("button", name="Compare selected").click()
    expect(page.get_by_role("row").filter(has_text="layernorm/forward")).to_contain_text("5.00×")
