"""Errors of the API: `application/problem+json` with a `code` that programs may rely on.

Does NOT decide when something is an error; the endpoints raise `Problem`.
"""

from http import HTTPStatus
from typing import Any

from django.http import HttpResponseBase, JsonResponse

CONTENT_TYPE = "application/problem+json"
RETRIED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
RETRY_AFTER_S = 60  # where nothing better is known
CODES = {
    HTTPStatus.BAD_REQUEST: "bad-request",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request-too-large",
    HTTPStatus.NOT_FOUND: "not-found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method-not-allowed",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internal-error",
}


class Problem(Exception):
    """A request that cannot be granted; `detail` is for the person, `code` for the program."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.extra = status, code, detail, extra


def problem(error: Problem) -> JsonResponse:
    status = error.status
    body = {"type": "about:blank", "title": status.phrase, "status": status.value}
    body |= {"code": error.code, "detail": error.detail, **error.extra}
    response = JsonResponse(body, status=status, content_type=CONTENT_TYPE)
    if "retry_after_s" in error.extra:
        response.headers["Retry-After"] = str(error.extra["retry_after_s"])
    if status in RETRIED:
        response.headers["Retry-After"] = str(error.extra.get("retry_after_s") or RETRY_AFTER_S)
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="kbench"'
    return response


def problem_of(response: HttpResponseBase) -> JsonResponse:
    """For errors that arise outside the endpoints: an unknown address, a wrong method. Says which methods there are."""
    told = problem_of_status(response.status_code)
    if "Allow" in response.headers:
        told.headers["Allow"] = response.headers["Allow"]
    return told


def problem_of_status(status_code: int) -> JsonResponse:
    status = HTTPStatus(status_code)
    return problem(Problem(status, CODES.get(status, status.phrase.lower().replace(" ", "-")), status.description))
