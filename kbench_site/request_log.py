"""Gives every request an id, which is in its answer and in all its log lines, and logs one line per request.

An `X-Request-ID` from a proxy or a program is kept if it is well-formed. The line has method, path, status,
milliseconds and, for a known user, the id of the account. Does NOT log bodies.
"""

import logging
import re
import time
import uuid

from django.http import HttpRequest, HttpResponseBase

from benchmarks.operations.logs import log_fields

from .logs import OWN
from .middleware import GetResponse

logger = logging.getLogger("kbench.request")
HEADER = "X-Request-ID"
HARMLESS = re.compile(r"[A-Za-z0-9._-]{8,64}")
QUIET = ("/healthz", "/readyz", "/metrics", "/static/")  # asked all the time, and worth a line only when they fail


def request_log(get_response: GetResponse) -> GetResponse:
    """The outermost middleware, so that it sees what the others answer."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        request_id, started = _request_id(request), time.monotonic()
        with log_fields(request_id=request_id):
            response = get_response(request)
            _log(request, response.status_code, time.monotonic() - started)
        response.headers[HEADER] = request_id
        return response

    return middleware


def _request_id(request: HttpRequest) -> str:
    given = request.headers.get(HEADER, "")
    return given if HARMLESS.fullmatch(given) else uuid.uuid4().hex


def _log(request: HttpRequest, status: int, seconds: float) -> None:
    level = logging.DEBUG if request.path.startswith(QUIET) and status < 400 else logging.INFO
    fields = {"method": request.method, "path": request.path, "status": status, "duration_ms": round(1e3 * seconds, 1)}
    fields |= {"user_id": user_id} if (user_id := _known_user(request)) else {}
    logger.log(
        level, "%s %s %d in %.0f ms", request.method, _plain(request.path), status, 1e3 * seconds, extra={OWN: fields}
    )


def _known_user(request: HttpRequest) -> int | None:
    """The user, if a view has loaded it; a session is not looked up only for the log."""
    token = getattr(request, "api_token", None)
    user = token.owner if token is not None else getattr(request, "_cached_user", None)
    return getattr(user, "pk", None)


def _plain(path: str) -> str:
    """A path on one line: who asks chooses it."""
    return path.encode("unicode_escape").decode()
