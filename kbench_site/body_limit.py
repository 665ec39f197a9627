"""Refuses requests whose body, path or query is far larger than any page needs, before anything is stored.

Django under ASGI first copies a body to a temporary file. This runs before it, discards the bytes as they arrive, and
answers with a page, or below /api/ with a problem. Does NOT cover the size of a source: the form refuses that with the
typed text kept.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.template.loader import render_to_string

from benchmarks.api.problems import CONTENT_TYPE, Problem, problem

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

API = "/api/"
ACCOUNTS, ACCOUNTS_MAX_BYTES = "/accounts/", 65_536  # a form is kept in the session while the password is asked for
PATH_MAX_CHARS = 2048  # Django's own routes search a path in more than proportional time
QUERY_MAX_BYTES = 8192
DRAINED_MAX_BYTES = 4 << 30  # a browser shows the answer only if its upload was taken to the end


class BodyLimit:
    """An ASGI application around another one."""

    def __init__(self, application: Application, limit_bytes: int) -> None:
        self.application = application
        self.limit_bytes = limit_bytes

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
        elif len(scope.get("path", "")) > PATH_MAX_CHARS:
            await _drain(receive)
            await _say(send, HTTPStatus.REQUEST_URI_TOO_LONG, f"A path has at most {PATH_MAX_CHARS} characters.\n")
        elif len(scope.get("query_string", b"")) > QUERY_MAX_BYTES:
            await _drain(receive)
            await _say(send, HTTPStatus.REQUEST_URI_TOO_LONG, f"A query has at most {QUERY_MAX_BYTES} bytes.\n")
        elif _announced_bytes(scope) > (limit_bytes := self._limit_bytes(scope.get("path", ""))):
            await _drain(receive)
            await self._refuse(scope.get("path", ""), send)
        else:
            await self.application(scope, self._counted(receive, limit_bytes), send)

    def _limit_bytes(self, path: str) -> int:
        return min(ACCOUNTS_MAX_BYTES, self.limit_bytes) if path.startswith(ACCOUNTS) else self.limit_bytes

    def _counted(self, receive: Receive, limit_bytes: int) -> Receive:
        """A body of unannounced length ends as if its sender had gone when it becomes too large."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return message if taken <= limit_bytes else {"type": "http.disconnect"}

        return counted

    async def _refuse(self, path: str, send: Send) -> None:
        content_type, body = self._for_program() if path.startswith(API) else self._for_person(self._limit_bytes(path))
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _for_person(self, limit_bytes: int) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", render_to_string("413.html", {"limit_bytes": limit_bytes}).encode()

    def _for_program(self) -> tuple[str, bytes]:
        detail = f"A request has at most {self.limit_bytes} bytes."
        told = problem(Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request-too-large", detail))
        return CONTENT_TYPE, told.content


async def _say(send: Send, status: HTTPStatus, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def _announced_bytes(scope: dict[str, Any]) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


async def _drain(receive: Receive) -> None:
    taken, more = 0, True
    while more and taken < DRAINED_MAX_BYTES:
        message = await receive()
        taken += len(message.get("body", b""))
        more = message.get("more_body", False)
