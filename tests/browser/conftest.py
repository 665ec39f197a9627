"""A real Chromium and a whole running site: web server, Redis and workers, with a judge that does what a source asks.

Does NOT judge for real: the sandbox and the clock have tests of their own.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from lab.site import serving
from lab.site.serving import Site
from tests.stack import Stack

from .seeded import SUBMISSIONS

# A page here ends before optimised code pays for its compiler.
RARELY_OPTIMISED = "--js-flags=--no-opt --invocation-count-for-maglev=4000"
NOTHING_ELSE = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGUMENTS = ["--no-sandbox", *NOTHING_ELSE, RARELY_OPTIMISED]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # cheapest first
expect.set_options(timeout=30_000)  # five seconds are too few beside other tests


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and os.environ.get("CI") == "true":
        pytest.fail("there is no Chromium on this machine, and CI must have one")
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A running site, for all files that `tests/scheduling.py` keeps together."""
    running = Stack.prepared(tmp_path_factory.mktemp("stack")).up()
    yield running
    running.end()


@pytest.fixture(scope="module")
def site(stack: Stack) -> str:
    """The address of a running site."""
    return f"http://127.0.0.1:{stack.port}"


@pytest.fixture(scope="package")
def seeded() -> Iterator[Site]:
    """A running site with some hundred submissions in it, for all files that `tests/scheduling.py` keeps together."""
    with serving.site(SUBMISSIONS) as running:
        yield running


class Visitor:
    """Opens tabs on the site and notes what a browser complains about: scripts, policies, missing files."""

    def __init__(self, browser: Browser, site: str) -> None:
        self.browser, self.site = browser, site
        self.complaints: list[str] = []
        self.contexts: list[BrowserContext] = []

    def tab(self, path: str = "/", **options: Any) -> Page:
        context = self.browser.new_context(base_url=self.site, **options)
        self.contexts.append(context)
        return self.watched(context.new_page(), path)

    def watched(self, page: Page, path: str) -> Page:
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.goto(path)
        return page

    def _note(self, kind: str, text: str) -> None:
        # A request that ends because the page is left is told the same way as one that is given up; it is neither
        # a failure of the site nor of a script, and an answer with an error is told under another name.
        if kind in ("error", "warning") and not text.startswith(("htmx:afterRequest", "htmx:sendAbort")):
            self.complaints.append(text)


@pytest.fixture(scope="module")
def rows_beside_a_browser() -> Iterator[None]:
    """The driver of the browser runs a loop in this thread, beside which Django would not touch its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def visitor(browser: Browser, site: str) -> Iterator[Visitor]:
    someone = Visitor(browser, site)
    yield someone
    for context in someone.contexts:
        context.close()


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    """Writes a source file that the judge of these tests reads its orders from."""

    def write(*orders: str) -> Path:
        path = tmp_path / "kernel.cpp"
        lines = ["#include <torch/extension.h>", 'PYBIND11_MODULE(x, m) { m.def("forward", 0); }']
        path.write_text("\n".join([*lines, *(f"// {order}" for order in (*orders, f"of {tmp_path.name}"))]))
        return path

    return write
