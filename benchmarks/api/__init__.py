"""The HTTP API `/api/v1/`: submitting kernels and following them, for programs.

Reading what is public needs no token; a token reads what its owner may read, and one with the scope `submit` writes.
Browser sessions are ignored here, so no other site can act through one. Errors are problem+json with a
stable `code` (`problems.py`). Does NOT stream: events are at `/events/`, which takes the same tokens.
"""

import logging
import uuid
from http import HTTPStatus
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Field
from ninja.errors import AuthenticationError, HttpError, ValidationError

from benchmarks import harness, selectors, services
from benchmarks.catalogue import folders
from benchmarks.catalogue.devices import kinds_for
from benchmarks.selectors import WORDS_MAX_CHARS, TaskFilter
from benchmarks.states import Difficulty
from benchmarks.submissions.languages import starter_of
from benchmarks.views.streams import FULL_RETRY_S, TooManyStreams, wait_for_end

from . import (
    boards,
    checks,
    comments,
    comparison,
    contests,
    dataset,
    export,
    notifications,
    profiles,
    recorded,
    requests,
    schemas,
    status,
    submissions,
    whoami,
)
from .auth import MAY_SEND_TOKEN, Token, owner_of
from .bodies import JsonParser
from .description import KbenchApi
from .problems import Problem, problem

logger = logging.getLogger(__name__)
WAIT_MAX_S = 60.0
NO_ID = "This is not an id: an id is a UUID, such as 0f8fad5b-d9cb-469f-a165-70867728950e."


api = KbenchApi(
    title="kbench",
    version="1",
    urls_namespace="api",
    parser=JsonParser(),
    description="""Submit kernels, follow their judging, read leaderboards, search with agent runs.

Send `Authorization: Bearer TOKEN`; tokens are made under *API tokens* of an account. Errors are
`application/problem+json` with a `code` that does not change. Pages have `page` and `pages`, and a `Link` header with
`rel="next"` unless they are the last. After 429 and 503 wait for `Retry-After` seconds.

Live events are outside: `GET /events/?topics=evaluation:ID` is a stream of server-sent events (`text/event-stream`)
that takes the same tokens, replays what came after `Last-Event-ID` and ends with `event: end`.""",
)


@api.get("/tasks", response=list[schemas.TaskOut], summary="All tasks with their best verified entry")
def task_list(
    request: HttpRequest,
    q: Annotated[str, Field(max_length=WORDS_MAX_CHARS)] = "",
    device: str = "",
    difficulty: Difficulty | Literal[""] = "",
) -> Any:
    wanted = TaskFilter(words=q, device=device, difficulty=difficulty)
    return [schemas.task_out(task) for task in selectors.all_tasks(wanted)]


@api.get("/tasks/{suite}/{op}/{direction}", response=schemas.TaskDetail, summary="One task with starter code")
def task(request: HttpRequest, suite: str, op: str, direction: str) -> Any:
    version = selectors.active_version(suite, op, direction)
    spec = folders.shown_spec(version)
    starter = {language: text for language in harness.LANGUAGES if (text := starter_of(spec, language))}
    kinds = {language: [kind.slug for kind in kinds_for(language)] for language in harness.LANGUAGES}
    return schemas.task_detail(version, starter, kinds)


api.add_router("/submissions", submissions.router)
api.add_router("/quota", submissions.quota_router)
api.add_router("/checks", checks.router)
api.add_router("/evaluations", profiles.router)
api.add_router("/leaderboards", boards.router)
api.add_router("", comments.router)
api.add_router("", comparison.router)
api.add_router("/recorded", recorded.router)
api.add_router("/contests", contests.router)
api.add_router("/requests", requests.router)
api.add_router("/data", dataset.router)
api.add_router("/export", export.router)
api.add_router("/status", status.router)
api.add_router("/whoami", whoami.router)
api.add_router("/notifications", notifications.router)


@api.get(
    "/evaluations/{id}",
    response=schemas.EvaluationOut,
    summary="An evaluation, immediately or (with `wait`) when it has ended",
    openapi_extra=MAY_SEND_TOKEN,
)
async def evaluation(
    request: HttpRequest,
    id: uuid.UUID,
    wait: Annotated[float, Field(ge=0, le=WAIT_MAX_S, description="seconds to wait for its end")] = 0.0,
) -> Any:
    found = await sync_to_async(selectors.evaluation_for)(request.user, id)
    if wait and not found.is_finished:
        await wait_for_end(request, found.topic, wait)
        found = await sync_to_async(selectors.evaluation_for)(request.user, id)
    return await sync_to_async(schemas.evaluation_out)(found, whole=True)


@api.get(
    "/evaluations/{id}/source",
    response=schemas.SourceOut,
    summary="The source of an evaluation as it was submitted",
    openapi_extra=MAY_SEND_TOKEN,
)
def evaluation_source(request: HttpRequest, id: uuid.UUID) -> Any:
    submission = selectors.evaluation_for(request.user, id).submission
    return schemas.SourceOut(language=submission.language, sha256=submission.blob.sha256, source=submission.blob.text)


@api.post(
    "/evaluations/{id}/cancel",
    response=schemas.EvaluationOut,
    summary="End an evaluation without a verdict",
    auth=Token(),
)
def evaluation_cancel(request: HttpRequest, id: uuid.UUID) -> Any:
    owner = owner_of(request)
    found = selectors.evaluation_for(request.user, id)
    if found.submission.owner_id != owner.pk and not owner.is_staff:
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", "Only the author can cancel an evaluation.")
    if not owner.is_staff and not services.is_withdrawable(found):
        text = "This evaluation was requested by staff or a contest, not by the author, so only staff can cancel it."
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", text)
    if not services.evaluation_withdraw(found, by_author=found.submission.owner_id == owner.pk):
        raise Problem(HTTPStatus.CONFLICT, "already-ended", "The evaluation had already ended.")
    return schemas.evaluation_out(selectors.evaluation_for(request.user, found.code))


@api.exception_handler(Problem)
def _on_problem(request: HttpRequest, error: Problem) -> HttpResponse:
    return problem(error)


@api.exception_handler(TooManyStreams)
def _on_too_many_streams(request: HttpRequest, error: TooManyStreams) -> HttpResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return problem(Problem(status, "too-many-streams", str(error), retry_after_s=FULL_RETRY_S))


@api.exception_handler(AuthenticationError)
def _on_no_token(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    detail = "Send a token: Authorization: Bearer kb_..."
    return problem(Problem(HTTPStatus.UNAUTHORIZED, "token-required", detail))


@api.exception_handler(Http404)
def _on_missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(Problem(HTTPStatus.NOT_FOUND, "not-found", "Not found, or private."))


@api.exception_handler(ValidationError)
def _on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [{"place": ".".join(map(str, item["loc"])), "text": _fault(item)} for item in error.errors]
    detail = "; ".join(f"{item['place']}: {item['text']}" for item in errors)
    return problem(Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=errors))


def _fault(error: dict[str, Any]) -> str:
    """The validator's own sentence, except for what people mistype most: an id."""
    return NO_ID if error["type"] == "uuid_parsing" else str(error["msg"])


@api.exception_handler(HttpError)
def _on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Problem):  # ninja wraps whatever a parser raises
        return problem(error.__cause__)
    return problem(Problem(HTTPStatus(error.status_code), "bad-request", str(error)))


@api.exception_handler(Exception)
def _on_crash(request: HttpRequest, error: Exception) -> HttpResponse:
    """The edge of the API: whatever broke here is our fault, and the caller wants JSON all the same."""
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    detail = "Something failed on our side. The error has been logged."
    return problem(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", detail))
