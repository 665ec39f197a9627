"""The RSS of records: first places alone, well-formed whatever people call themselves, nothing that is private."""

from xml.etree import ElementTree

from django.test import Client

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
