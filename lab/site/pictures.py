"""The pictures of the user guide: `python -m lab.site.pictures http://127.0.0.1:8000`, beside a new site (`make run`).

Opens the pages of a running site in Chromium, checks a kernel that does not compile in the editor, and writes
docs/images. Waits until the worker is online, so that no page shows that it is starting. Does NOT start the site.
"""

import io
import json
import shutil
import sys
import time
import urllib.request
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.stack import ROOT

IMAGES = ROOT / "docs" / "images"
KERNEL = ROOT / "benchmarks/suites/robust_kbench/mnist_linear_relu/kernels/forward_cpu.cpp"
ONLINE_S = 300
CHECKED_MS = 180_000
BYTES_MAX = 200_000
PAGES = {
    "home": "/",
    "task": "/tasks/robust-kbench/mnist_linear_relu/forward/",
    "board": "/recorded/nvidia-h200-rk-2/robust-kbench/layernorm/forward/",
    "compare": "/compare/",
    "profile": "/recorded/nvidia-h200-rk-1/entries/mnist_linear-forward-cuda-c9dcd946/profile/",
}
SCROLLED_TO = {"compare": ".notice"}  # what is at the top of the picture, instead of the top of the page


def main(address: str) -> None:
    wait_for_worker(address)
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, page_path in PAGES.items():
            page = opened(browser, address + page_path, 1120, 820)
            if name in SCROLLED_TO:
                page.locator(SCROLLED_TO[name]).first.evaluate("item => scrollTo(0, item.offsetTop - 30)")
            keep(page, name)
        page = opened(browser, f"{address}{PAGES['task']}submit/", 1280, 740)
        check_broken_kernel(page)
        keep(page, "editor")
        browser.close()


def wait_for_worker(address: str) -> None:
    deadline = time.monotonic() + ONLINE_S
    while not judges_online(address):
        if time.monotonic() > deadline:
            raise SystemExit(f"no worker of {address} came online within {ONLINE_S} seconds")
        time.sleep(2)


def judges_online(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/api/v1/status") as answer:  # noqa: S310 - our own http address
        workers: list[dict[str, Any]] = json.load(answer)["workers"]
    return any(row["role"] == "judge" and row["alive"] for row in workers)


def opened(browser: Browser, address: str, width: int, height: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    page.goto(address)
    return page


def keep(page: Page, name: str) -> None:
    target = IMAGES / f"{name}.png"
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
    if target.stat().st_size > BYTES_MAX:
        raise SystemExit(f"{target} has {target.stat().st_size} bytes, more than {BYTES_MAX}")


def check_broken_kernel(page: Page) -> None:
    """Checks a kernel without one of its semicolons, and shows the line that the compiler names."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(KERNEL.read_text().replace("    return y;\n", "    return y\n"))
    page.get_by_role("button", name="Quick check").click()
    beside = page.locator("#beside")
    expect(beside.get_by_text("Does not compile")).to_be_visible(timeout=CHECKED_MS)
    beside.get_by_role("link", name="Line").first.click()
    page.locator("#text-label").evaluate("item => scrollTo(0, item.getBoundingClientRect().top + scrollY - 20)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1].rstrip("/"))
