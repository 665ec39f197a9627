"""Pages of Django's own test server in a real browser, on rows that a test makes itself: nothing is judged.

Does NOT start workers: `conftest.site` does.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser

from benchmarks.models import Method
from tests.rows import synced
from tests.web import factories

from .conftest import Visitor


@contextmanager
def visiting(browser: Browser, address: str) -> Iterator[Visitor]:
    visitor = Visitor(browser, address)
    yield visitor
    for context in visitor.contexts:
        context.close()


def two_methods(called: str) -> None:
    """`broad` is a little faster on two tasks, `deep`, whose title is given, much faster on one."""
    synced()
    for slug, op, speedup in (
        ("broad", "mnist_linear_relu", 1.2),
        ("broad", "layernorm", 1.2),
        ("deep", "layernorm", 5.0),
    ):
        title = called if slug == "deep" else "Broad"
        method, _ = Method.objects.get_or_create(slug=slug, defaults={"title": title, "kind": "agent"})
        text = f"{factories.SOURCE}// {slug} {op}\n"
        factories.judged(factories.passing(speedup, 0.05), text=text, version=factories.version(op), method=method)
