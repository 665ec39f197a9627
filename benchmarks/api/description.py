"""The API object: its OpenAPI description names every error of every operation, and pages link to the next one.

`PROBLEMS` lists all codes with their status, as does `docs/user-guide.md`. Does NOT define operations.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from .problems import CONTENT_TYPE

PROBLEMS: dict[int, tuple[str, ...]] = {
    400: ("bad-request", "bad-idempotency-key"),
    401: ("token-required", "invalid-token"),
    403: ("scope-missing", "not-yours", "not-a-member"),
    404: ("not-found", "unknown-task", "unknown-method", "not-profiled", "not-written"),
    405: ("method-not-allowed",),
    409: (
        "identical-source",
        "idempotency-key-reused",
        "already-ended",
        "cannot-be-changed",
        "cannot-be-profiled",
        "made-by-a-run",
        "paid-answer",
        "run-ended",
        "run-paused",
        "run-full",
        "budget-spent",
        "not-external",
        "not-open",
        "comment-refused",
        "request-refused",
    ),
    413: ("source-too-large", "request-too-large"),
    415: ("unsupported-media-type",),
    422: (
        "invalid-request",
        "unknown-language",
        "no-such-device",
        "source-refused",
        "no-such-proposer",
        "too-many-methods",
        "unknown-parent",
    ),
    429: (
        "too-many-submissions",
        "run-refused",
        "too-many-open",
        "too-many-refused",
        "too-many-comments",
        "too-many-requests",
    ),
    500: ("internal-error",),
    503: ("submissions-closed", "too-many-streams", "busy"),
}
STATUS_OF = {code: status for status, codes in PROBLEMS.items() for code in codes}

# What single operations answer beside what follows from their form.
OWN: dict[tuple[str, str], tuple[str, ...]] = {
    ("get", "/data"): ("not-written",),
    ("get", "/submissions"): ("token-required", "unknown-task", "not-found"),
    ("post", "/submissions"): (
        "bad-idempotency-key",
        "not-a-member",
        "unknown-task",
        "identical-source",
        "idempotency-key-reused",
        "source-too-large",
        "unknown-language",
        "no-such-device",
        "source-refused",
        "too-many-submissions",
        "submissions-closed",
        "busy",
    ),
    ("post", "/checks"): (
        "bad-idempotency-key",
        "unknown-task",
        "idempotency-key-reused",
        "source-too-large",
        "source-refused",
        "too-many-submissions",
        "submissions-closed",
        "busy",
    ),
    ("patch", "/submissions/{id}"): ("not-yours", "paid-answer", "cannot-be-changed", "too-many-submissions"),
    ("delete", "/submissions/{id}"): ("not-yours", "made-by-a-run", "paid-answer", "cannot-be-changed"),
    ("post", "/submissions/{id}/comments"): ("comment-refused", "too-many-comments"),
    ("post", "/evaluations/{id}/cancel"): ("not-yours", "already-ended"),
    ("get", "/evaluations/{id}"): ("too-many-streams",),
    ("get", "/evaluations/{id}/profile"): ("not-profiled",),
    ("post", "/evaluations/{id}/profile"): ("not-yours", "cannot-be-profiled", "too-many-submissions"),
    ("get", "/runs/{id}/events"): ("too-many-streams",),
    ("get", "/leaderboards"): ("unknown-task", "not-found"),
    ("get", "/leaderboards/record"): ("unknown-task", "not-found"),
    ("get", "/export"): ("not-found",),
    ("get", "/methods"): ("not-found",),
    ("get", "/overall"): ("not-found", "unknown-method", "too-many-methods"),
    ("get", "/compare"): ("not-found", "unknown-method", "too-many-methods"),
    ("post", "/contests/{slug}/join"): ("not-open",),
    ("post", "/requests"): ("request-refused", "too-many-requests"),
    ("post", "/requests/{id}/vote"): ("request-refused", "too-many-requests"),
    ("post", "/runs"): ("unknown-task", "no-such-proposer", "run-refused"),
    ("post", "/runs/{id}/fork"): ("no-such-proposer", "run-refused"),
    ("post", "/runs/{id}/candidates"): (
        "not-yours",
        "not-external",
        "run-ended",
        "run-paused",
        "run-full",
        "budget-spent",
        "source-too-large",
        "source-refused",
        "unknown-parent",
        "too-many-open",
        "too-many-refused",
        "too-many-submissions",
        "submissions-closed",
        "busy",
    ),
    ("get", "/runs/{id}/candidates/{key}"): ("too-many-streams",),
    ("post", "/runs/{id}/close"): ("not-yours", "not-external", "run-ended", "busy"),
    ("post", "/runs/{id}/{wish}"): ("not-yours", "run-ended", "run-refused"),
}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "two identical requests with the same key make one submission or check",
    "schema": {"type": "string", "maxLength": 80},
}
LOCATION = {"Location": {"description": "of the created object", "schema": {"type": "string"}}}
SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "An error: `detail` is for people; `code` is for programs and does not change.",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {"place": {"type": "string"}, "text": {"type": "string"}}},
        },
        "retry_after_s": {"type": "integer"},
    },
}


class KbenchApi(NinjaAPI):
    """An API of ninja's whose answers and description are complete."""

    def create_response(
        self,
        request: HttpRequest,
        data: Any,
        *,
        status: int | None = None,
        temporal_response: HttpResponse | None = None,
    ) -> HttpResponse:
        response = super().create_response(request, data, status=status, temporal_response=temporal_response)
        if isinstance(data, Mapping) and data.get("page", 0) < data.get("pages", 0):
            query = urlencode({**request.GET.dict(), "page": data["page"] + 1})
            response.headers["Link"] = f'<{request.path}?{query}>; rel="next"'
        return response

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        root = path_prefix if path_prefix is not None else self.get_root_path(path_params or {})
        schema["components"].setdefault("schemas", {})["Problem"] = SCHEMA
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                name = "/" + path.removeprefix(root).lstrip("/")
                _describe(operation, _codes(method, name, operation))
                _describe_csv(operation)
                _describe_made(operation)
        for made in ("submissions", "checks"):
            posting = schema["paths"][f"{root}{made}"]["post"]
            posting["parameters"] = [*posting.get("parameters", []), IDEMPOTENCY_KEY]
        return schema


def _codes(method: str, path: str, operation: Mapping[str, Any]) -> list[str]:
    """Every code that an operation may answer with."""
    codes = ["bad-request", "invalid-token", "internal-error"]
    if operation.get("parameters") or "requestBody" in operation:
        codes.append("invalid-request")
    if "{" in path:
        codes.append("not-found")
    if {} not in operation.get("security", [{}]):
        codes += ["token-required"] if method == "get" else ["token-required", "scope-missing"]
    if "requestBody" in operation:
        codes += ["request-too-large", "unsupported-media-type"]
    return [*codes, *OWN.get((method, path), ())]


def _describe(operation: dict[str, Any], codes: Iterable[str]) -> None:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS_OF[code], []).append(code)
    for status, found in sorted(by_status.items()):
        operation["responses"][str(status)] = _response(HTTPStatus(status), list(dict.fromkeys(found)))


def _describe_csv(operation: dict[str, Any]) -> None:
    """Where one may ask for another format, that is CSV."""
    if any(parameter["name"] == "format" for parameter in operation.get("parameters", [])):
        operation["responses"][200]["content"]["text/csv; charset=utf-8"] = {"schema": {"type": "string"}}


def _describe_made(operation: dict[str, Any]) -> None:
    if HTTPStatus.ACCEPTED in operation["responses"]:
        operation["responses"][HTTPStatus.ACCEPTED.value]["headers"] = LOCATION


def _response(status: HTTPStatus, codes: list[str]) -> dict[str, Any]:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "code": codes[0]}
    body["detail"] = "What happened and what to do about it, in one sentence."
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": body}
    described = f"{status.phrase}: {', '.join(f'`{code}`' for code in codes)}"
    response: dict[str, Any] = {"description": described, "content": {CONTENT_TYPE: content}}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        response["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return response
