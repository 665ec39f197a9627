"""The journey with the real judge: what a person uploads is compiled, verified and timed, and stands on the board.

Does NOT repeat what the journeys with a fake judge look at.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks.harness import Paths, default_suites
from benchmarks.harness.hosts.processors import processor
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.sandbox, pytest.mark.alone]
TASK = "/tasks/robust-kbench/mnist_linear_relu/forward/"
KERNELS = default_suites() / "robust_kbench" / "mnist_linear_relu" / "kernels"
BOARD = f"/leaderboards/robust-kbench/mnist_linear_relu/forward/{processor().kind}/"
JUDGED_MS = 240_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, paths: Paths) -> Iterator[str]:
    """A site whose compiled headers, kernels and baselines are those of the other tests."""
    stack = Stack.prepared(tmp_path_factory.mktemp("site"), "kbench_site.settings")
    (stack.folder / "cache").symlink_to(paths.builds.parent)
    stack.up()
    yield f"http://127.0.0.1:{stack.port}"
    stack.end()


def ends_with(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", name=words)).to_be_visible(timeout=JUDGED_MS)


def test_upload_watch_and_stand_on_the_board(visitor: Any) -> None:
    page = visitor.tab(f"{TASK}submit/")
    text = (KERNELS / "forward_cpu.cpp").read_text() + "// mine\n"  # the same source would be offered its judging
    upload = {"name": "kernel.cpp", "mimeType": "text/plain", "buffer": text.encode()}
    page.get_by_label("Or upload a file").set_input_files(upload)
    page.get_by_label("Title").fill("A real one")
    page.get_by_role("button", name="Submit for judging").click()
    page.wait_for_url("**/evaluations/**")
    ends_with(page, "Accepted")
    expect(page.get_by_role("row").filter(has_text="num_input_features=1600")).to_contain_text("µs")
    page.goto(BOARD)
    expect(page.get_by_role("row").filter(has_text="A real one")).to_contain_text("×")
    assert visitor.complaints == []


def test_in_the_dark_an_edited_kernel_that_does_not_compile_shows_its_line(visitor: Any) -> None:
    page = visitor.tab(f"{TASK}submit/", color_scheme="dark")
    text = page.locator("[name=text]").input_value()
    page.get_by_label("Source", exact=True).fill(text.replace("return y;", "return y"))
    page.get_by_role("button", name="Submit for judging").click()
    ends_with(page, "Does not compile")
    expect(page.get_by_text("expected ‘;’").first).to_be_visible()


def test_without_scripts_the_starter_code_is_judged_wrong(visitor: Any) -> None:
    page = visitor.tab(f"{TASK}submit/", java_script_enabled=False)
    page.get_by_role("button", name="Submit for judging").click()
    page.wait_for_url("**/evaluations/**")
    ends_with(page, "Wrong values")
