"""Errors of the API: `application/problem+json` with a `code` that programs may rely on.

Does NOT decide when something is an error; the endpoints raise `Problem`.
"""

from http import HTTPStatus
from typing import Any

from django.http import JsonResponse

CONTENT_TYPE = "application/problem+json"
CODES = {
    HTTPStatus.BAD_REQUEST: "bad-request",
    HTTPStatus.FORBIDDEN: "forbidden",
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
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="kbench"'
    return response


def problem_of_status(status_code: int) -> JsonResponse:
    """For errors that arise outside the endpoints: an unknown address, a wrong method."""
    status = HTTPStatus(status_code)
    return problem(Problem(status, CODES.get(status, status.phrase.lower().replace(" ", "-")), status.description))
