"""A site with a GPU in a real browser: the editor per language, a .cu file, the audit, the switch between boards."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.stack import Stack

from .seeded import VISIBLE_FOCUS

pytestmark = pytest.mark.browser
TASK = "/tasks/robust-kbench/mnist_linear_relu/forward/"
JUDGED_MS = 30_000
KERNEL = '#include <torch/extension.h>\n// speedup: {}\nPYBIND11_MODULE(x, m) {{ m.def("forward", 0); }}\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    stack = Stack.prepared(tmp_path_factory.mktemp("stack"), "tests.stack_gpu_settings").up()
    stack.wait(lambda: stack.rows("select 1 from benchmarks_devicekind where slug = 'nvidia-h200'"), 60, "no GPU came")
    yield f"http://127.0.0.1:{stack.port}"
    stack.end()


@pytest.fixture
def cuda_file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.cu"
    path.write_text(KERNEL.format("3.25"))
    return path


def test_the_editor_follows_the_language_while_nothing_is_typed(visitor: Any) -> None:
    page = visitor.tab(f"{TASK}submit/")
    page.get_by_label("Language").select_option("triton")
    expect(page.get_by_label("Source")).to_contain_text("import triton")
    page.get_by_label("Source").press("Control+a")
    page.keyboard.insert_text("# mine")
    page.get_by_label("Language").select_option("cpp")
    expect(page.get_by_label("Source")).to_have_text("# mine")
    assert visitor.complaints == []


def test_a_cuda_file_is_judged_on_the_gpu_audited_and_ranked_there(visitor: Any, cuda_file: Path) -> None:
    page = visitor.tab(f"{TASK}submit/")
    page.get_by_label("Or upload a file").set_input_files(cuda_file)
    expect(page.get_by_label("Language")).to_have_value("cuda")
    page.get_by_role("button", name="Submit for judging").click()
    page.wait_for_url("**/evaluations/**")
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)
    expect(page.locator(".badge", has_text="audited")).to_be_visible()
    page.get_by_role("link", name="rank 1").click()
    expect(page.get_by_text("3.25×").first).to_be_visible()
    page.get_by_role("link", name="CPU with AVX2").click()
    page.wait_for_url("**/cpu-avx2/")
    expect(page.get_by_text("3.25×")).to_have_count(0)
    assert visitor.complaints == []


def test_the_page_of_the_api_works_under_the_content_policy(visitor: Any) -> None:
    page = visitor.tab("/api/v1/docs")
    expect(page.get_by_text("Submit a source for judging")).to_be_visible()
    page.get_by_role("button", name="Difficulty").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(VISIBLE_FOCUS)
    page.get_by_role("link", name="Back to kbench").click()
    expect(page).to_have_url(re.compile("/$"))
    assert visitor.complaints == []


@pytest.mark.parametrize(("width", "shaded"), [(320, True), (1280, False)])
def test_a_table_that_goes_on_has_a_shade_at_its_edge(visitor: Any, width: int, shaded: bool) -> None:
    page = visitor.tab("/tasks/", viewport={"width": width, "height": 640})
    table = page.locator(".table-box").first
    shade = "item => getComputedStyle(item).boxShadow"
    assert (table.evaluate(shade) != "none") is shaded
    if shaded:
        before = table.evaluate(shade)
        table.evaluate("item => { item.scrollLeft = item.scrollWidth; }")
        page.wait_for_timeout(200)
        assert table.evaluate(shade) != before


@pytest.mark.parametrize("path", [TASK, f"{TASK}submit/", "/leaderboards/", "/tasks/", "/api/v1/docs", "/status/"])
def test_nothing_scrolls_sideways_on_a_narrow_screen(visitor: Any, path: str) -> None:
    page = visitor.tab(path, viewport={"width": 320, "height": 800}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
