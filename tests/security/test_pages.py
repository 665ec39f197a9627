"""Every page as a browser gets it: its policy, its headers, nothing inline, and no word of a stranger as markup."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.http import HttpResponse

from tests.web import contests

from . import routes
from .expected import PAGES
from .world import READERS, TAG, World

HEADERS = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin"}
CONTESTS = ("/contests/running/", "/api/v1/contests", "/api/v1/contests/running", "/api/v1/export")
ELSEWHERE = (*CONTESTS, "/api/v1/docs", "/api/v1/openapi.json", "/api/v1/status", "/admin/login/", "/no/such/page/")


Answer = tuple[str, HttpResponse]


def _answers(world: World) -> Iterator[Answer]:
    """Every page that can be read, as each reader reads it; what is reflected of an address is hostile as well."""
    for reader in READERS:
        client = world.client(reader, raise_request_exception=False)
        for path in _paths(world):
            response = client.get(path)
            if not response.streaming:
                yield f"{reader} {path}", response


def test_every_page_is_safe_for_every_reader(world: World) -> None:
    """The checks stand below; the last one makes sure that hostile texts were there to be seen."""
    met = 0
    for name, response in _answers(world):
        check_policy(name, response)
        check_headers(name, response)
        check_markup(name, response)
        assert not contests.is_marked(response.content.decode(errors="replace")), name
        met += b"&lt;kbx" in response.content
    assert met > 40


def _paths(world: World) -> Iterator[str]:
    shown = {"evaluations/": (world.public.code, world.failed.code)}
    for route in PAGES:
        path = routes.path_of(route, world)
        yield path
        yield f"{path}?q={TAG}&device={TAG}&page={TAG}&next={TAG}&methods={TAG}&language={TAG}&after={TAG}&a={TAG}"
        for code in next((codes for start, codes in shown.items() if route.startswith(start)), ()):
            yield path.replace(str(world.private.code), str(code))
    yield from ELSEWHERE


class Inline(HTMLParser):
    """What a strict policy would block."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.found += [f"{tag} {name}" for name in given if name == "style" or name.startswith(("on", "hx-on"))]
        self.found += [f"{tag} {name}" for name, value in given.items() if (value or "").startswith("javascript:")]
        data = (given.get("type") or "").endswith("json")
        self._in_script = tag == "style" or (tag == "script" and "src" not in given and not data)

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.found.append(f"inline: {data.strip()[:40]}")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def check_policy(name: str, response: HttpResponse) -> None:
    """Nothing is inline, and the policy forbids it."""
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy, name
    assert "default-src 'none'" in policy, name
    if response.headers.get("Content-Type", "").startswith("text/html"):
        page = Inline()
        page.feed(response.content.decode())
        assert page.found == [], name


def check_headers(name: str, response: HttpResponse) -> None:
    assert {key: response.headers.get(key) for key in HEADERS} == HEADERS, name


def check_markup(name: str, response: HttpResponse) -> None:
    """What strangers write is never markup. JSON and plain text may hold it: they are never read as a page."""
    if _is_markup(response):
        assert TAG not in response.content.decode(), name


def _is_markup(response: HttpResponse) -> bool:
    kind = response.headers.get("Content-Type", "")
    return not re.match(
        r"text/plain|text/csv|image/png|application/(problem\+)?json|application/x-ndjson|text/event-stream", kind
    )


def test_control_characters_of_a_compiler_do_not_reach_a_page(world: World) -> None:
    page = world.client("owner").get(f"/evaluations/{world.failed.code}/").content.decode()
    assert "&lt;kbx" in page
    assert "\x1b" not in page


def test_downloads_are_not_pages(world: World) -> None:
    for path in (f"/evaluations/{world.public.code}/report.json", f"/evaluations/{world.public.code}/source/"):
        response = world.client("anonymous").get(path)
        kind = response.headers["Content-Type"]
        assert not kind.startswith("text/html")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_error_pages_carry_the_same_policy(world: World, status: int, monkeypatch: Any, settings: Any) -> None:
    client = world.client("anonymous", raise_request_exception=False, enforce_csrf_checks=True)
    if status == 500:
        monkeypatch.setattr("benchmarks.views.home.render", _broken)
    answer = {
        400: lambda: client.get("/", headers={"host": "elsewhere.example"}),
        403: lambda: client.post("/accounts/login/", {}),
        404: lambda: client.get(f"/{TAG}/"),
        500: lambda: client.get("/"),
    }[status]()
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert TAG not in answer.content.decode()


def _broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a secret of the machine")
