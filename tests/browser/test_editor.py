"""The editor of the submit page in a real browser: keys, colours, drafts, files, errors at their lines, a quick check.

Does NOT look at what a judging says: `test_journey.py` does.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .seeded import grave_violations, press

pytestmark = pytest.mark.browser
SUBMIT = "/tasks/robust-kbench/mnist_linear_relu/forward/submit/"
BOARD = "/leaderboards/robust-kbench/mnist_linear_relu/forward/cpu-avx2/"
JUDGED_MS = 30_000
BUNDLE = "**/codemirror*.js"


def editor_of(page: Page) -> Locator:
    return page.get_by_label("Source", exact=True)


def write(page: Page, text: str) -> None:
    """In place of what is in the editor, as somebody does it who types."""
    editor_of(page).press("Control+a")
    page.keyboard.insert_text(text)
    expect(sent_by(page)).to_have_value(text)


def sent_by(page: Page) -> Locator:
    """The text field whose value the form sends."""
    return page.locator("[name=text]")


def kernel_with(*orders: str) -> str:
    lines = ["#include <torch/extension.h>", 'PYBIND11_MODULE(x, m) { m.def("forward", 0); }']
    return "\n".join([*lines, *(f"// {order}" for order in orders)])


def beside(page: Page) -> Locator:
    return page.get_by_label("Result of the quick check")


def test_a_draft_survives_leaving_the_page(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    write(page, "// half a kernel")
    page.goto("/")
    page.goto(SUBMIT)
    expect(editor_of(page)).to_have_text("// half a kernel")
    page.get_by_role("button", name="Back to the starter code").click()
    assert "PYBIND11_MODULE" in sent_by(page).input_value()


def test_the_tab_key_indents_and_escape_leads_out(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    source = editor_of(page)
    source.press("Control+a")
    source.press("Delete")
    source.press("Tab")
    expect(sent_by(page)).to_have_value("    ")
    source.press("Escape")
    source.press("Tab")
    expect(source).not_to_be_focused()


def test_shift_and_tab_lead_out_of_a_line_that_is_not_indented(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    source = editor_of(page)
    write(page, "    int x;")
    source.press("Shift+Tab")
    expect(sent_by(page)).to_have_value("int x;")
    source.press("Shift+Tab")
    expect(source).not_to_be_focused()


def test_lines_are_indented_and_moved_with_the_keyboard(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    source = editor_of(page)
    write(page, "int f() {")
    source.press("End")
    source.press("Enter")
    page.keyboard.type("return 1;")
    source.press("Enter")
    page.keyboard.type("}")
    flat = "int f() {\n    return 1;\n}"
    expect(sent_by(page)).to_have_value(flat)
    source.press("Control+a")
    source.press("Tab")
    expect(sent_by(page)).to_have_value("    int f() {\n        return 1;\n    }")
    source.press("Control+z")
    expect(sent_by(page)).to_have_value(flat)
    source.press("Control+y")
    source.press("Control+a")
    source.press("Shift+Tab")
    expect(sent_by(page)).to_have_value(flat)
    assert visitor.complaints == []


def demand_coloured(page: Page, **words: str) -> None:
    """Each colour is that of the site, whose name is the key."""
    for name, word in words.items():
        colour = page.evaluate(
            "name => { const box = document.createElement('i'); box.style.color = `var(--code-${name})`;"
            " document.body.append(box); return getComputedStyle(box).color; }",
            name,
        )
        expect(editor_of(page).locator("span").get_by_text(word, exact=True).first).to_have_css("color", colour)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cuda_and_python_are_coloured_from_the_colours_of_the_site(visitor: Any, scheme: str) -> None:
    page = visitor.tab(f"{SUBMIT}?language=cuda", color_scheme=scheme)
    write(page, '__global__ void k(float4* x) { x[0] = 1; } // why\nauto s = "text";')
    demand_coloured(page, keyword="__global__", type="float4", comment="// why", string='"text"')
    page.get_by_label("Language").select_option("triton")
    write(page, "def kernel(x):\n    return x  # done")
    demand_coloured(page, keyword="def", comment="# done")
    assert visitor.complaints == [], "the policy of the page lets the editor make its style element"


def test_hostile_text_stays_text(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    hostile = '<b>&amp;</b><script>x</script> "open\n/* never closed ' + "x" * 400 + "\n" * 80
    write(page, hostile)
    expect(sent_by(page)).to_have_value(hostile)
    assert editor_of(page).locator("b, script").count() == 0
    assert visitor.complaints == []


def test_search_folding_and_brackets(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    source = editor_of(page)
    write(page, "int f() {\n    int needle = 1;\n    return needle;\n}\n")
    source.press("Control+Home")
    source.press("Control+f")
    page.keyboard.type("needle")
    expect(page.locator(".cm-searchMatch")).to_have_count(2)
    page.keyboard.press("Escape")
    source.press("Control+Home")
    source.press("End")
    expect(page.locator(".cm-matchingBracket")).to_have_count(2)
    source.press("Control+Shift+BracketLeft")
    expect(source).not_to_contain_text("needle")
    assert "needle" in sent_by(page).input_value()


def test_a_file_appears_in_the_editor_before_it_is_sent(visitor: Any, kernel: Any) -> None:
    page = visitor.tab(SUBMIT)
    path = kernel("shown first")
    page.get_by_label("Or upload a file").set_input_files(path)
    expect(sent_by(page)).to_have_value(path.read_text())
    expect(editor_of(page)).to_contain_text("// shown first")


def test_a_python_file_gets_the_language_that_was_chosen_or_that_of_a_module(visitor: Any, tmp_path: Path) -> None:
    page = visitor.tab(f"{SUBMIT}?language=tilelang")
    language, chosen = page.get_by_label("Language"), page.get_by_label("Or upload a file")
    kernel, module = tmp_path / "kernel.py", tmp_path / "module.py"
    kernel.write_text("def forward(x):\n    return x\n")
    module.write_text("import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n")
    chosen.set_input_files(kernel)
    expect(sent_by(page)).to_have_value(kernel.read_text())
    expect(language).to_have_value("tilelang")
    chosen.set_input_files(module)  # which this task does not take
    expect(sent_by(page)).to_have_value(module.read_text())
    expect(language).to_have_value("tilelang")
    page.evaluate(
        """() => {
            document.getElementById("id_file").dataset.module = "class ModelNew";
            document.getElementById("id_language").add(new Option("PyTorch module", "python"));
        }"""
    )  # as the page of a task is that is a module
    chosen.set_input_files(kernel)
    expect(sent_by(page)).to_have_value(kernel.read_text())
    expect(language).to_have_value("tilelang")
    chosen.set_input_files(module)
    expect(language).to_have_value("python")


def test_where_the_editor_does_not_load_the_text_field_is_one(visitor: Any, kernel: Any) -> None:
    page = visitor.tab("/")
    page.route(BUNDLE, lambda route: route.abort())
    page.goto(SUBMIT)
    path = kernel("speedup: 1.5", "typed without an editor")
    editor_of(page).fill(path.read_text())
    page.goto(SUBMIT)
    expect(page.get_by_text("This is your draft from this browser.")).to_be_visible()
    expect(sent_by(page)).to_be_visible()
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_text("Accepted").first).to_be_visible(timeout=JUDGED_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_editor_fits_a_phone_and_is_accessible(visitor: Any, scheme: str) -> None:
    page = visitor.tab(SUBMIT, color_scheme=scheme, viewport={"width": 320, "height": 640})
    editor_of(page).press("Control+f")
    expect(page.get_by_label("Find")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert grave_violations(page) == []


def test_a_quick_check_is_answered_beside_the_editor_and_its_source_submitted_afterwards(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    write(page, kernel_with("speedup: 1.75", "checked beside the editor"))
    page.get_by_label("Title").fill("Checked beside")
    page.get_by_role("button", name="Quick check").click()
    expect(beside(page)).to_contain_text("Quick check passed", timeout=JUDGED_MS)
    expect(beside(page)).to_contain_text("about 1.8× as fast as PyTorch eager. Not ranked.")
    expect(beside(page)).to_contain_text("Only people who have the link can see it.")
    assert page.url.endswith(SUBMIT)
    page.goto(BOARD)
    assert page.get_by_role("row").filter(has_text="Checked beside").count() == 0
    page.go_back()
    page.get_by_label("Title").fill("Checked beside")
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)
    page.goto(BOARD)
    expect(page.get_by_role("row").filter(has_text="Checked beside")).to_contain_text("1.75×")
    assert visitor.complaints == []


@pytest.mark.parametrize("width", [1280, 320])
def test_with_the_keyboard_alone_a_quick_check_shows_its_answer_and_keeps_the_focus(visitor: Any, width: int) -> None:
    page = visitor.tab(SUBMIT, viewport={"width": width, "height": 700})
    write(page, kernel_with("verdict: INCORRECT_VALUE", "seconds: 1", f"asked for with keys at {width}"))
    button = page.get_by_role("button", name="Quick check")
    press(page, button)
    expect(beside(page)).to_be_in_viewport()
    expect(button).to_be_focused()
    expect(beside(page)).to_contain_text("Wrong values", timeout=JUDGED_MS)
    expect(beside(page).get_by_text("Wrong values").first).to_be_in_viewport()
    expect(button).to_be_focused()


def test_errors_of_the_compiler_stand_at_their_lines_though_the_text_moved(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    wrong = kernel_with("verdict: COMPILE_ERROR", "log: kernel.cpp:4:1: error: expected a lesson", "seconds: 2")
    write(page, wrong)
    page.get_by_role("button", name="Quick check").click()
    expect(beside(page)).to_contain_text(re.compile("Queued|Compiling|Verifying|Timing"))
    editor_of(page).press("Control+Home")
    page.keyboard.type("// one line more\n")
    expect(beside(page)).to_contain_text("Does not compile", timeout=JUDGED_MS)
    marker = page.locator(".cm-lint-marker-error")
    expect(marker).to_have_count(1)
    row = page.locator(".cm-lineNumbers .cm-gutterElement").get_by_text("5", exact=True)
    assert abs(marker.bounding_box()["y"] - row.bounding_box()["y"]) < 12, "line 4 of what was sent is line 5 now"
    marker.hover()
    expect(page.locator(".cm-tooltip")).to_contain_text("expected a lesson")
    page.get_by_role("link", name="Line 4").click()
    expect(editor_of(page)).to_be_focused()
    page.keyboard.type("gone")
    assert "gone\n" in sent_by(page).input_value()
    assert "expected a lesson" not in sent_by(page).input_value(), "the line that was gone to was selected"


def test_what_cannot_be_checked_says_why_and_the_same_source_names_its_judging(visitor: Any, kernel: Any) -> None:
    page = visitor.tab(SUBMIT)
    write(page, "int main() {}\n")
    page.get_by_role("button", name="Quick check").click()
    expect(beside(page)).to_contain_text("There is no PYBIND11_MODULE")
    text = kernel_with("speedup: 2.25", "judged, then checked")
    write(page, text)
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)
    address = page.url
    page.goto(SUBMIT)
    write(page, text)
    page.get_by_role("button", name="Quick check").click()
    expect(beside(page).get_by_role("link", name="See that evaluation")).to_be_visible()
    page.get_by_role("link", name="See that evaluation").click()
    expect(page).to_have_url(address)


def test_the_same_source_can_be_checked_again_once_it_was_answered(visitor: Any) -> None:
    page = visitor.tab(SUBMIT)
    write(page, kernel_with("verdict: INCORRECT_VALUE", "checked twice"))
    pages = []
    for _ in range(2):
        page.get_by_role("button", name="Quick check").click()
        expect(beside(page)).to_contain_text("Wrong values", timeout=JUDGED_MS)
        pages.append(beside(page).get_by_role("link", name="Page of this check").get_attribute("href"))
    assert pages[0] != pages[1]
    assert Path(pages[0]).parent == Path(pages[1]).parent
