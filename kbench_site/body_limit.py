"""Refuses a request whose body is far larger than any form, before it is kept anywhere.

Django under ASGI first copies a body to a temporary file; this stands before it, throws the bytes away as they come
and answers with a page. Does NOT cover the size of a source: the form refuses that with the typed text kept.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.template.loader import render_to_string

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

DRAINED_MAX_BYTES = 4 << 30  # a browser shows the answer only if its upload was taken to the end


class BodyLimit:
    """An ASGI application around another one."""

    def __init__(self, application: Application, limit_bytes: int) -> None:
        self.application = application
        self.limit_bytes = limit_bytes

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
        elif _announced_bytes(scope) > self.limit_bytes:
            await _drain(receive)
            await self._refuse(send)
        else:
            await self.application(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        """A body of unannounced length ends as if its sender had gone when it becomes too large."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return message if taken <= self.limit_bytes else {"type": "http.disconnect"}

        return counted

    async def _refuse(self, send: Send) -> None:
        page = render_to_string("413.html", {"limit_bytes": self.limit_bytes}).encode()
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(page)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": page})


def _announced_bytes(scope: dict[str, Any]) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


async def _drain(receive: Receive) -> None:
    taken, more = 0, True
    while more and taken < DRAINED_MAX_BYTES:
        message = await receive()
        taken += len(message.get("body", b""))
        more = message.get("more_body", False)
