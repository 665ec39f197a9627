"""What an owner does with a submission, in a real browser: quota, the same again, compare, hide, delete, leave."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .test_journey import BOARD, JUDGED_MS, SUBMIT, submit

pytestmark = pytest.mark.browser
PASSWORD = "a-password-nobody-has"


def sign_up(page: Page, name: str) -> None:
    page.goto("/accounts/signup/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password confirmation").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_submission_from_quota_to_deletion(visitor: Any, kernel: Any, scripts: bool) -> None:
    page = visitor.tab(java_script_enabled=scripts, viewport={"width": 320, "height": 800})
    title = f"Mine, scripts {scripts}"
    sign_up(page, f"owner-{scripts}")
    page.goto(SUBMIT)
    expect(page.get_by_text("0 of 20")).to_be_visible()

    source = kernel("speedup: 1.80", title)
    submit(page, source)
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)
    first = page.url
    page.goto(SUBMIT)
    page.get_by_label("Or upload a file").set_input_files(source)
    page.get_by_role("button", name="Submit for judging").click()
    expect(page.get_by_text("You submitted this exact source")).to_be_visible()
    page.get_by_role("button", name="Judge it again").click()
    page.wait_for_url("**/evaluations/**")
    assert page.url != first
    expect(page.get_by_role("heading", name="Accepted")).to_be_visible(timeout=JUDGED_MS)

    page.goto(first)
    page.get_by_role("link", name="Edit or delete").click()
    page.get_by_label("Title").fill(title)
    page.get_by_role("radio", name="Only me").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Only you can see it; it appears on no leaderboard.")).to_be_visible()
    page.goto("/accounts/submissions/")
    expect(page.get_by_role("row").filter(has_text=title)).to_contain_text("Only me")

    page.goto(first)
    page.get_by_role("link", name="Edit or delete").click()
    page.get_by_label("Delete the source and all its results").check()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("The submission and its results were deleted.")).to_be_visible()
    page.goto("/accounts/quota/")
    expect(page.get_by_role("row").filter(has_text="(deleted)")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 320

    page.goto("/accounts/data/")
    page.get_by_label("are deleted, with their results").check()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Delete my account").click()
    expect(page.get_by_text("The account was deleted.")).to_be_visible()
    page.goto(BOARD)
    expect(page.get_by_text(f"owner-{scripts}")).to_have_count(0)


def test_the_archive_is_downloaded(visitor: Any, kernel: Any) -> None:
    page = visitor.tab()
    sign_up(page, "collector")
    submit(page, kernel("speedup: 1.10"))
    page.goto("/accounts/data/")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the archive").click()
    assert download.value.suggested_filename == "kbench-data.zip"
    assert download.value.path().read_bytes().startswith(b"PK")


def test_two_submissions_are_compared(visitor: Any, kernel: Any) -> None:
    page = visitor.tab()
    submit(page, kernel("speedup: 1.20", "the older one"))
    older = page.url
    submit(page, kernel("speedup: 1.30", "the newer one"))
    newer = page.url
    page.goto("/submissions/diff/")
    page.get_by_label("Left").fill(older)
    page.get_by_label("Right").fill("nothing")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("The right field does not name a submission")).to_be_visible()
    page.get_by_label("Right").fill(newer)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("// the newer one")).to_be_visible()
    page.get_by_role("link", name="Two columns").click()
    expect(page.get_by_role("cell", name="+ // the newer one")).to_be_visible()
    assert visitor.complaints == []
