"""Every page of a site with something on it, as a browser sees it: axe-core, widths, colours, complaints.

The pages are those that the bench measures, so a new one is looked at as well. Does NOT use them: the journeys do.
"""

from typing import Any

import pytest

from lab.site.addresses import PAGES, Address, addresses
from lab.site.serving import Site

from .seeded import AXE, GRAVE, demand_fits, grave_violations, log_in

pytestmark = pytest.mark.browser
NO_PAGES = (
    "badge",
    ".rss",
    ".atom",
    ".svg",
    ".png",
    ".json",
    ".zip",
    "/source/",
    "/starter/",
    "/beside/",
    "/live/",
    "/healthz",
    "/readyz",
    "/metrics",
)
FILES = ("format=csv", ".jsonl")
IMPACTS_LEFT_OUT = """
() => axe._audit.rules.filter((rule) => !rule.enabled && ["minor", "moderate"].includes(rule.impact))
  .map((rule) => [...rule.any, ...rule.all, ...rule.none].map((check) => axe._audit.checks[check.id ?? check].impact))
"""


@pytest.fixture(scope="module")
def site(seeded: Site) -> str:
    return f"http://127.0.0.1:{seeded.port}"


def pages(site: Site, reader: str) -> list[Address]:
    """As they are read by somebody without an account, or by the account."""
    every = [item for item in addresses(site.names) if not item.path.startswith("/api/")]
    return [item for item in every if item.reader == reader and not any(part in item.path for part in NO_PAGES + FILES)]


@pytest.mark.parametrize("reader", ["", "reader", "staff"])
def test_every_page_fits_and_can_be_read_by_everybody(seeded: Site, site: str, visitor: Any, reader: str) -> None:
    page = visitor.tab()
    page.add_init_script(AXE)  # sent to the browser once and not for each page
    if reader:
        log_in(page, site, seeded.names[reader]["session"])
    found = {}
    for address in pages(seeded, reader):
        page.goto(address.path)
        demand_fits(page)
        assert visitor.complaints == [], address
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found[scheme, address.path] = grave_violations(page, colours_only=scheme == "dark")
        visitor.complaints.clear()  # axe measures with styles of its own
    assert {where: what for where, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "other",
    [
        '<p style="color: #ccc">pale</p>',
        '<div style="background: #555"><p>on a ground of its own</p></div>',
        '<div style="opacity: 0.4"><p>seen through</p></div>',
        '<ul><li>of another kind, <em style="color: #ccc">pale</em></li></ul>',
        "",
    ],
)
def test_a_colour_that_one_text_of_many_has_is_found(browser: Any, other: str) -> None:
    hidden = '<p style="visibility: hidden">looks like nothing</p>' * 5
    page = browser.new_page()
    page.set_content(f'<body style="background: white; color: black">{hidden}{"<p>as others</p>" * 50}{other}')
    found = grave_violations(page, colours_only=True)
    page.close()
    assert [text.partition(":")[0] for text in found] == (["color-contrast"] if other else [])


def test_a_rule_that_is_left_out_could_find_nothing_grave(browser: Any) -> None:
    page = browser.new_page()
    page.evaluate(AXE)
    left_out = page.evaluate(IMPACTS_LEFT_OUT)
    page.close()
    assert len(left_out) > 10
    assert {impact for impacts in left_out for impact in impacts}.isdisjoint(GRAVE)


def test_most_addresses_are_pages() -> None:
    shown = [text for texts in PAGES.values() for text in texts if not any(part in text for part in NO_PAGES + FILES)]
    assert len(shown) > 50


@pytest.mark.parametrize("path", ["/nothing-here/", "/evaluations/00000000-0000-4000-8000-000000000000/"])
def test_a_missing_page_can_be_read_by_everybody(visitor: Any, path: str) -> None:
    page = visitor.tab(path)
    demand_fits(page)
    assert grave_violations(page) == []
