"""One request to a site on the standard library, with time-outs and retries.

A lost connection, 429 and 503 are retried with growing pauses, or when the site says so (`Retry-After`), if that is
soon. A redirect to another site is refused, as the token is for one site only. Every failure is an ApiError with its
exit code. Does NOT know the API's addresses.
"""

import json
import os
import random
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPMessage
from typing import IO
from urllib.parse import urlsplit

from .output import OUR_FAULT, WRONG_USAGE, progress

TIMEOUT_S = 90.0  # of one request; KBENCH_TIMEOUT_S changes it
TRIES_MAX = 5
PAUSE_FIRST_S, PAUSE_MAX_S = 0.5, 8.0
PAUSES_S = 120.0  # all pauses of one request together
AGAIN = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)


class ApiError(Exception):
    """A request that was refused or got no answer; the text is for the person."""

    def __init__(self, text: str, exit_code: int, code: str = "") -> None:
        super().__init__(text)
        self.exit_code, self.code = exit_code, code


class Lost(Exception):
    """No answer that counts; `after_s` is when the site wants to be asked again, None where it did not say."""

    def __init__(self, error: ApiError, after_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.after_s = error, after_s


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to the same scheme, host and port: urllib sends all headers on, the token among them."""

    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if _origin(newurl) != _origin(req.full_url):
            fp.close()
            scheme, host = urlsplit(newurl)[:2]
            text = f"{req.host} redirects to {scheme}://{host}, where the token is not sent. Is KBENCH_URL right?"
            raise ApiError(text, WRONG_USAGE)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


_opener = urllib.request.build_opener(_SameOrigin)


def send(request: urllib.request.Request, pauses_s: float = PAUSES_S) -> bytes:
    """The body of the answer. Raises ApiError when it is refused, or lost again and again.

    `pauses_s` is the longest that all pauses before further tries may take together; 0 means one try.
    """
    paused_s = 0.0
    for number in range(TRIES_MAX):
        try:
            return _once(request)
        except Lost as lost:
            pause_s = _pause_s(number) if lost.after_s is None else lost.after_s
            paused_s += pause_s
            if number == TRIES_MAX - 1 or paused_s > pauses_s:
                raise lost.error from lost
            if pause_s >= 1:
                progress.print(f"{lost.error} Trying again in {pause_s:.0f} s.", style="dim")
            time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


def _once(request: urllib.request.Request) -> bytes:
    try:
        with _opener.open(request, timeout=_timeout_s()) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        if error.code in AGAIN:
            raise Lost(_refusal(error), _after_s(error)) from error
        raise _refusal(error) from error
    except (urllib.error.URLError, OSError) as error:
        host = request.host
        text = f"{host} does not answer: {getattr(error, 'reason', error)}. Is KBENCH_URL right?"
        raise Lost(ApiError(text, OUR_FAULT)) from error


def _timeout_s() -> float:
    text = os.environ.get("KBENCH_TIMEOUT_S", "")
    try:
        return float(text) if text else TIMEOUT_S
    except ValueError as error:
        raise ApiError(f"KBENCH_TIMEOUT_S must be a number of seconds, not {text!r}", WRONG_USAGE) from error


def _pause_s(number: int) -> float:
    """Doubles each time, with a random part, so that clients that lost the same answer do not retry together."""
    return min(PAUSE_MAX_S, PAUSE_FIRST_S * (1 << number)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def _after_s(error: urllib.error.HTTPError) -> float | None:
    text = error.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else None


def _refusal(error: urllib.error.HTTPError) -> ApiError:
    exit_code = WRONG_USAGE if error.code < HTTPStatus.INTERNAL_SERVER_ERROR else OUR_FAULT
    try:
        told = json.load(error)
        return ApiError(str(told["detail"]), exit_code, str(told["code"]))
    except (ValueError, KeyError, TypeError):
        return ApiError(f"The site answered {error.code} {error.reason}.", exit_code)
