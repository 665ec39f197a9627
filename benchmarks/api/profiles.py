"""`/evaluations/{id}/profile`: what limits a kernel. Uses the services and quotas of the button on the page.

Does NOT run anything: a post is answered with 202, and reading it tells how it goes on.
"""

import uuid
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Schema, Status

from benchmarks import selectors, services
from benchmarks.accounts import limits
from benchmarks.models import ProfileRequest
from benchmarks.states import CheckState, Visibility

from .auth import MAY_SEND_TOKEN, Token, owner_of
from .problems import Problem
from .submissions import quota_as_problem

router = Router(tags=["evaluations"])


class ProfileOut(Schema):
    """Texts come from the source that was profiled: treat them as untrusted."""

    evaluation: uuid.UUID
    state: CheckState
    problem: str | None = Field(description="why there is no profile")
    text: str | None = Field(description="the short form for prompts, at most 400 tokens")
    profile: dict[str, Any] | None = Field(description="as `kbench profile --json` prints it")
    created: datetime
    finished: datetime | None
    url: str


@router.get("/{id}/profile", response=ProfileOut, summary="The profile of an evaluation", openapi_extra=MAY_SEND_TOKEN)
def profile(request: HttpRequest, id: uuid.UUID) -> Any:
    """404 if nobody has requested it yet: send a POST to the same address."""
    evaluation = selectors.evaluation_for(request.user, id)
    asked = ProfileRequest.objects.filter(evaluation=evaluation).select_related("evaluation").first()
    if asked is None:
        raise Problem(
            HTTPStatus.NOT_FOUND, "not-profiled", "No profile has been requested yet. Send a POST to this address."
        )
    return _out(asked)


@router.post("/{id}/profile", response={202: ProfileOut}, summary="Request a profile of a submission", auth=Token())
def profile_create(request: HttpRequest, id: uuid.UUID, response: HttpResponse) -> Any:
    """Its seconds are charged to the owner of the token. A repeated request gives the same profile unless it failed."""
    owner = owner_of(request)
    evaluation = selectors.evaluation_for(request.user, id)
    submission = evaluation.submission
    if submission.visibility != Visibility.PUBLIC and submission.owner_id != owner.pk and not owner.is_staff:
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", "Only its author can request this profile: it is not public.")
    try:
        with quota_as_problem():
            asked = services.profile_request(evaluation, limits.payer(request))
    except services.Refused as error:
        raise Problem(HTTPStatus.CONFLICT, "cannot-be-profiled", str(error)) from error
    response.headers["Location"] = f"/api/v1/evaluations/{evaluation.code}/profile"
    return Status(HTTPStatus.ACCEPTED, _out(asked))


def _out(asked: ProfileRequest) -> ProfileOut:
    result = asked.result
    return ProfileOut(
        evaluation=asked.evaluation.code,
        state=CheckState(asked.state),
        problem=asked.problem or None,
        text=result["text"] if result else None,
        profile=result,
        created=asked.created,
        finished=asked.finished,
        url=asked.get_absolute_url(),
    )
