"""A body of any size: small ones reach the site, large ones are thrown away and answered, nothing is kept."""

import json
from typing import Any

from kbench_site.body_limit import BodyLimit

CHUNK = b"x" * 65_536


class Site:
    """An application that takes the body and remembers how much it got."""

    def __init__(self) -> None:
        self.taken_bytes: int | None = None
        self.ended = ""

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        self.taken_bytes = 0
        while not self.ended:
            message = await receive()
            self.taken_bytes += len(message.get("body", b""))
            self.ended = "" if message.get("more_body") else message["type"]
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def send_body(
    site: Site, chunks: int, *, announced: bool, path: str = "/", query: bytes = b""
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    left = chunks

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": CHUNK, "more_body": left > 0}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-length", str(chunks * len(CHUNK)).encode())] if announced else []
    scope = {"type": "http", "path": path, "query_string": query, "headers": headers}
    await BodyLimit(site, limit_bytes=10 * len(CHUNK))(scope, receive, send)
    return sent


async def test_a_body_within_the_limit_reaches_the_site() -> None:
    site = Site()
    sent = await send_body(site, 10, announced=True)
    assert site.taken_bytes == 10 * len(CHUNK)
    assert sent[0]["status"] == 200


async def test_a_gigabyte_is_thrown_away_and_answered_with_a_page() -> None:
    site = Site()
    sent = await send_body(site, 16_384, announced=True)
    assert site.taken_bytes is None
    assert sent[0]["status"] == 413
    assert b"the form still has your input" in sent[1]["body"]


async def test_a_path_longer_than_any_of_the_site_is_refused() -> None:
    site = Site()
    assert (await send_body(site, 1, announced=True, path="/" * 2049))[0]["status"] == 414
    assert site.taken_bytes is None
    assert (await send_body(site, 1, announced=True, path="/" * 2048))[0]["status"] == 200


async def test_a_program_is_answered_with_a_problem() -> None:
    sent = await send_body(Site(), 11, announced=True, path="/api/v1/submissions")
    assert (b"content-type", b"application/problem+json") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["code"] == "request-too-large"


async def test_a_body_of_unannounced_length_is_cut_off() -> None:
    site = Site()
    await send_body(site, 16_384, announced=False)
    assert site.ended == "http.disconnect"
    assert site.taken_bytes == 10 * len(CHUNK)


async def test_a_form_about_an_account_is_small() -> None:
    """It is kept in the session while the password is asked for again."""
    for announced in (True, False):
        site = Site()
        sent = await send_body(site, 2, announced=announced, path="/accounts/tokens/")
        assert (sent[0]["status"], site.ended) in [(413, ""), (200, "http.disconnect")]


async def test_a_long_query_is_refused() -> None:
    """Each word or name in it may be a condition of a query of the database."""
    for size, status in ((8192, 200), (8193, 414)):
        site = Site()
        assert (await send_body(site, 1, announced=True, query=b"q" * size))[0]["status"] == status
