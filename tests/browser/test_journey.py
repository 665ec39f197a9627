"""What a person does on the site, in a real browser: find, submit, watch, come back, compare."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
TASK = "/tasks/robust-kbench/mnist_linear_relu/forward/"
SUBMIT = f"{TASK}submit/"
BOARD = "/leaderboards/robust-kbench/mnist_linear_relu/forward/cpu-avx2/"
COMPARING = ["/leaderboards/robust-kbench/", "/compare/?methods=human", "/methods/", "/methods/human/"]
PAGES = ["/", "/tasks/", TASK, SUBMIT, "/leaderboards/", BOARD, *COMPARING, "/rules/", "/status/", "/accounts/signup/"]
JUDGED_MS = 30_000


def submit(page: Page, path: Path) -> None:
    page.goto(SUBMIT)
    page.get_by_label("Or upload a file").set_input_files(path)
    page.get_by_role("button", name="Submit for judging").click()
    page.wait_for_url("**/evaluations/**")


def test_find_a_task_upload_watch_leave_return_and_stand_on_the_board(visitor: Any, kernel: Any) -> None:
    page = visitor.tab()
    page.get_by_role("link", name="Pick a task").click()
    page.get_by_label("Search").fill("linear relu")
    page.get_by_label("Search").press("Enter")
    page.get_by_role("link", name="mnist_linear_relu/forward", exact=True).click()
    page.get_by_role("link", name="Submit a kernel").click()
    page.get_by_label("Or upload a file").set_input_files(kernel("speedup: 2.50", "seconds: 4"))
    page.get_by_label("Title").fill("Journey")
    page.get_by_role("button", name="Submit for judging").click()
    page.evaluate("window.sameDocument = true")
    expect(page.locator("[aria-current=step]")).to_contain_text("of 3", timeout=JUDGED_MS)
    assert page.evaluate("window.sameDocument")
    address = page.url
    page.close()

    page = visitor.watched(visitor.contexts[0].new_page(), address)
    page.evaluate("window.sameDocument = true")
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    expect(page.get_by_text("95 % interval 2.45× to 2.55×")).to_be_visible()
    assert page.evaluate("window.sameDocument")
    page.goto(BOARD)
    expect(page.get_by_role("row").filter(has_text="Journey")).to_contain_text("2.50×")
    assert visitor.complaints == []


@pytest.mark.parametrize(
    ("verdict", "words"), [("COMPILE_ERROR", "Does not compile"), ("INCORRECT_VALUE", "Wrong values")]
)
def test_a_bad_kernel_ends_with_its_verdict_and_a_next_step(
    visitor: Any, kernel: Any, verdict: str, words: str
) -> None:
    page = visitor.tab()
    submit(page, kernel(f"verdict: {verdict}"))
    expect(page.get_by_role("heading", name=words)).to_be_visible(timeout=JUDGED_MS)
    expect(page.get_by_text("What to try next:")).to_be_visible()


def test_without_scripts_a_kernel_gets_its_verdict(visitor: Any, kernel: Any) -> None:
    page = visitor.tab(SUBMIT, java_script_enabled=False)
    page.get_by_label("Source").fill(kernel("speedup: 1.25").read_text())
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    expect(page.get_by_role("heading", name="Configurations")).to_be_visible()


def test_without_the_event_stream_the_page_follows_by_asking(visitor: Any, kernel: Any) -> None:
    page = visitor.tab()
    page.route("**/events/**", lambda route: route.abort())
    submit(page, kernel("seconds: 2", "no stream"))
    page.evaluate("window.sameDocument = true")
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    assert page.evaluate("window.sameDocument")


def test_a_finished_page_asks_no_more(visitor: Any, kernel: Any) -> None:
    page = visitor.tab("about:blank")
    page.clock.install()
    submit(page, kernel("quiet afterwards"))
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    page.wait_for_timeout(1000)  # what was under way when the verdict came
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    page.evaluate("fetch('/healthz')")
    assert [url.removeprefix(visitor.site) for url in asked] == ["/healthz"]
    page.evaluate("document.querySelector('[data-finished]').removeAttribute('data-finished')")
    page.clock.run_for(11_000)
    assert len(asked) > 1, "under this clock a page that is not finished asks"


def test_bad_input_keeps_the_text_and_says_what_is_wrong(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    page.get_by_label("Source").fill("__global__ void kernel() {}\n// keep me")
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_role("alert").first).to_contain_text("This looks like CUDA")
    expect(page.locator("[name=text]")).to_have_value("__global__ void kernel() {}\n// keep me")


@pytest.mark.parametrize("scripts", [True, False])
def test_a_file_that_is_far_too_large_is_refused_with_a_sentence(visitor: Any, tmp_path: Path, scripts: bool) -> None:
    path = tmp_path / "huge.cpp"
    with path.open("wb") as file:
        file.truncate(60_000_000)
    page = visitor.tab(SUBMIT, java_script_enabled=scripts)
    page.get_by_label("Or upload a file").set_input_files(path)
    if scripts:
        expect(page.locator("[data-file-note]")).to_contain_text("60000000 bytes; the rules take at most 262144")
    else:
        page.get_by_role("button", name="Submit for judging").click()
        expect(page.get_by_role("heading", name="Request too large")).to_be_visible()


def test_the_colours_follow_the_system_until_somebody_chooses(visitor: Any) -> None:
    page = visitor.tab("/", color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.get_by_role("button", name="Use light colours").click()
    light = page.evaluate(colour)
    page.goto("/rules/")
    assert page.evaluate(colour) == light != dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_and_satisfies_its_own_policy(visitor: Any, scheme: str) -> None:
    page = visitor.tab(color_scheme=scheme, viewport={"width": 320, "height": 640})
    for path in PAGES:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
    assert visitor.complaints == []


def test_the_first_page_is_light(visitor: Any) -> None:
    page = visitor.tab("/rules/")
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.context.clear_cookies()
    page.goto("/")
    page.wait_for_timeout(1000)
    assert 0 < sum(sizes) < 150_000


def test_the_keyboard_skips_to_the_content(visitor: Any) -> None:
    page = visitor.tab()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#main$"))


def test_a_waiting_page_follows_its_place_in_the_queue(visitor: Any, kernel: Any) -> None:
    busy, next_one = visitor.tab(), visitor.tab()
    submit(busy, kernel("seconds: 15", "keeps the worker busy"))
    expect(busy.get_by_role("heading", name="Timing")).to_be_visible(timeout=JUDGED_MS)
    submit(next_one, kernel("waits for its turn"))
    next_one.evaluate("window.sameDocument = true")
    expect(next_one.get_by_text("You are next: another evaluation is being judged")).to_be_visible(timeout=JUDGED_MS)
    expect(next_one.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    assert next_one.evaluate("window.sameDocument")


def test_without_scripts_a_quick_check_has_a_page_and_is_judged_in_full_on_a_click(visitor: Any, kernel: Any) -> None:
    page = visitor.tab(SUBMIT, java_script_enabled=False)
    page.get_by_label("Or upload a file").set_input_files(kernel("speedup: 1.75"))
    page.get_by_label("Title").fill("Checked before")
    page.get_by_role("button", name="Quick check").click()
    expect(page.get_by_role("heading", name="Quick check passed")).to_be_visible(timeout=JUDGED_MS)
    expect(page.get_by_text("about 1.8× as fast as PyTorch eager. Not ranked.")).to_be_visible()
    page.get_by_role("button", name="Submit for full judging").click()
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)
    page.goto(BOARD)
    expect(page.get_by_role("row").filter(has_text="Checked before")).to_contain_text("1.75×")
    assert visitor.complaints == []
