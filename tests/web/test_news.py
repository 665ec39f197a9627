"""News: who writes and reads a post, the feed, the line on the home page, and that a text stays text."""

from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client

from benchmarks import news
from benchmarks.models import NewsPost

from . import factories

ATOM = {"a": "http://www.w3.org/2005/Atom"}
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> javascript:alert(1) \"'>"
WORDS = {"title": "Rules rk-3", "text": "They begin on Monday.\r\n\r\nSee https://a.example.org/x.", "shown": "on"}


@pytest.fixture
def by() -> Any:
    return factories.user("author")


def post(by: Any, title: str = "A post", text: str = "Some words.", *, shown: bool = True) -> NewsPost:
    return news.post_save(title, text, shown=shown, by=by)


def entries(client: Client) -> list[ElementTree.Element]:
    answer = client.get("/news/newest.atom")
    assert answer["Content-Type"].startswith("application/atom+xml")
    return ElementTree.fromstring(answer.content).findall("a:entry", ATOM)  # noqa: S314 - our own answer


def words(entry: ElementTree.Element, name: str) -> str:
    return entry.findtext(f"a:{name}", "", ATOM)


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_staff_write_a_post_that_everybody_reads_on_three_pages_and_in_the_feed(
    as_staff: Client, visitor: Client
) -> None:
    answer = as_staff.post("/news/new/", WORDS)
    row = NewsPost.objects.get()
    assert answer["Location"] == row.get_absolute_url() == f"/news/{row.pk}/"
    for path in ("/", "/news/", row.get_absolute_url()):
        assert "Rules rk-3" in page(visitor, path)
    shown = page(visitor, row.get_absolute_url())
    assert "<p>They begin on Monday.</p>" in shown
    assert '<a href="https://a.example.org/x" rel="nofollow ugc noopener noreferrer">' in shown
    (entry,) = entries(visitor)
    assert words(entry, "title") == "Rules rk-3"
    assert "<p>They begin on Monday.</p>" in words(entry, "summary")
    assert words(entry, "published") == words(entry, "updated")


@pytest.mark.parametrize(("reader", "status"), [("visitor", 302), ("as_stranger", 403), ("as_owner", 403)])
def test_nobody_but_staff_writes(request: Any, reader: str, status: int, by: Any) -> None:
    row = post(by)
    client = request.getfixturevalue(reader)
    for path in ("/news/new/", f"/news/{row.pk}/edit/"):
        assert client.post(path, WORDS).status_code == status
    assert list(NewsPost.objects.values_list("title", "text")) == [("A post", "Some words.")]


def test_a_draft_is_for_staff_until_it_is_published(visitor: Client, as_staff: Client, by: Any) -> None:
    row = post(by, "Not yet", shown=False)
    assert visitor.get(row.get_absolute_url()).status_code == 404
    for path in ("/", "/news/"):
        assert "Not yet" not in page(visitor, path)
    assert entries(visitor) == []
    assert "Not yet" in page(as_staff, "/news/")
    assert "Not yet" not in page(as_staff, "/")
    as_staff.post(f"/news/{row.pk}/edit/", {**WORDS, "title": "Now"})
    assert "Now" in page(visitor, "/")


def test_a_post_keeps_its_day_says_that_it_was_changed_and_can_be_taken_back(visitor: Client, by: Any) -> None:
    row = post(by)
    day = row.published
    news.post_save(row.title, row.text, shown=True, by=by, post=row)
    assert (row.published, row.changed) == (day, None)
    news.post_save(row.title, "Other words.", shown=True, by=by, post=row)
    assert row.published == day
    assert row.changed is not None
    assert "changed" in page(visitor, row.get_absolute_url())
    (entry,) = entries(visitor)
    assert words(entry, "published") < words(entry, "updated")
    news.post_save(row.title, row.text, shown=False, by=by, post=row)
    assert visitor.get(row.get_absolute_url()).status_code == 404
    assert entries(visitor) == []


def test_what_is_written_is_never_markup(visitor: Client, as_staff: Client, by: Any) -> None:
    row = post(by, HOSTILE[:100], HOSTILE)
    for path in ("/", "/news/", row.get_absolute_url(), f"/news/{row.pk}/edit/"):
        shown = page(as_staff, path)
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "&lt;script&gt;" in shown
    (entry,) = entries(visitor)
    assert words(entry, "title") == HOSTILE[:100]  # Atom reads a title as text
    assert "<script" not in words(entry, "summary")  # and a summary as HTML
    assert "&lt;script&gt;" in words(entry, "summary")


@pytest.mark.parametrize("char", ["\x0b", "\x0c", "\x1b", "\x7f", "\x85", "\ufdd0", "\ufffe", "\uffff", "\U0001ffff"])
def test_no_character_of_a_post_breaks_the_feed(as_staff: Client, visitor: Client, by: Any, char: str) -> None:
    """Readers of feeds refuse the whole of one that holds a character which XML excludes."""
    as_staff.post("/news/new/", {**WORDS, "title": f"a{char}b", "text": f"c{char}d"})
    post(by, "Older", f"e{char}f")  # from before such characters were taken out
    assert len(entries(visitor)) == 2


@pytest.mark.parametrize("name", ["title", "text"])
@pytest.mark.parametrize("value", ["", "  \n ", "\u200e\u2800"])
def test_a_post_that_says_nothing_is_refused(as_staff: Client, name: str, value: str) -> None:
    answer = as_staff.post("/news/new/", {**WORDS, name: value})
    assert answer.status_code == 200
    assert "errors" in answer.content.decode()
    assert not NewsPost.objects.exists()


def test_the_newest_is_on_the_home_page_and_the_list_comes_in_pages(visitor: Client, by: Any) -> None:
    for number in range(news.PAGE_ROWS + 2):
        post(by, f"Post {number:02}.")
    newest = f"Post {news.PAGE_ROWS + 1:02}."
    home = page(visitor, "/")
    assert newest in home
    assert home.count("Post ") == 1
    first, second = page(visitor, "/news/"), page(visitor, "/news/?page=2")
    assert newest in first
    assert "Post 00." in second
    assert "Post 00." not in first


def test_a_post_stays_when_the_account_of_its_author_goes(visitor: Client, by: Any) -> None:
    row = post(by)
    by.delete()
    assert "Some words." in page(visitor, row.get_absolute_url())
