"""Banners that pass by themselves, in a real browser: they go without a reload, also from pages that are not live.

The site is Django's own test server on rows of the test: no worker runs.
"""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from benchmarks.states import WorkerState
from tests.browser.on_own_rows import visiting
from tests.web import factories

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("rows_beside_a_browser"),
]
LOOK_MS = 5000


def test_the_banner_of_a_starting_worker_goes_when_it_has_started(browser: Browser, live_server: Any) -> None:
    factories.worker(state=WorkerState.STARTING)
    with visiting(browser, live_server.url) as someone:
        page = someone.tab("about:blank")
        page.clock.install()
        page.goto("/contests/")
        banner = page.get_by_role("region", name="Notices")
        expect(banner).to_contain_text("is starting and testing itself")
        with page.expect_response("**/"):
            page.clock.run_for(LOOK_MS)
        expect(banner).to_contain_text("is starting and testing itself")
        factories.worker(state=WorkerState.ONLINE)
        page.clock.run_for(LOOK_MS)
        expect(banner).to_have_count(0)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(4 * LOOK_MS)
        assert asked == [], "nothing is left that could pass"
        assert someone.complaints == []
