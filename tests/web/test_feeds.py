"""The RSS of records and of requests: well-formed whatever people write, nothing that is private, no markup."""

from xml.etree import ElementTree

from django.test import Client

from tests import asking

from . import factories


def test_the_feed_lists_first_places_newest_first(visitor: Client) -> None:
    best = factories.judged(factories.passing(3.0, 0.02), owner=factories.user("olga<&>"))
    factories.judged(factories.passing(1.5, 0.02), text="// slower\n", owner=factories.user("slow"))
    factories.judged(
        factories.passing(9.0, 0.02), text="// private\n", owner=factories.user("paul"), visibility="private"
    )
    newest = factories.judged(factories.passing(2.0, 0.02), version=factories.version("layernorm"), text="// norm\n")
    answer = visitor.get("/leaderboards/records.rss")
    assert answer["Content-Type"].startswith("application/rss+xml")
    items = ElementTree.fromstring(answer.content).findall("channel/item")  # noqa: S314 - our own answer
    links = [(item.findtext("link") or "").removeprefix("http://testserver") for item in items]
    assert links == [newest.get_absolute_url(), best.get_absolute_url()]
    assert items[1].findtext("title") == "mnist_linear_relu/forward on cpu-avx2: 3.00× by olga<&>"


def test_readers_that_take_a_description_for_html_find_no_markup_of_strangers(visitor: Client) -> None:
    asking.opened(factories.user("rita"), reason="Faster <script>alert(1)</script>")
    answer = visitor.get("/requests/newest.rss")
    (item,) = ElementTree.fromstring(answer.content).findall("channel/item")  # noqa: S314 - our own answer
    assert item.findtext("description") == "Faster &lt;script&gt;alert(1)&lt;/script&gt;"
