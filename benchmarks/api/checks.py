"""`/checks`: CUDA sources run without a GPU, by the same services and quotas as the button of the submit page.

Does NOT run anything: a post is answered with 202, and the check that it names tells how it goes on.
"""

import uuid
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Schema, Status

from benchmarks import selectors, services
from benchmarks.accounts import limits
from benchmarks.emulator import EmulatorVerdict
from benchmarks.models import EmulatorCheck
from benchmarks.states import CheckState

from .auth import MAY_SEND_TOKEN, Token, owner_of
from .problems import Problem
from .submissions import checked_source, idempotency_key, quota_as_problem, version_of

LANGUAGE = "cuda"
router = Router(tags=["checks"])


class CheckIn(Schema):
    task: str = Field(description="OP/DIRECTION, or SUITE/OP/DIRECTION: mnist_linear_relu/forward", max_length=300)
    source: str = Field(description="the whole text, CUDA C++ in UTF-8")


class FindingOut(Schema):
    """One fault. Texts come from the source that was checked: treat them as untrusted."""

    kind: str = Field(description="race, out of bounds, wrong result and so on")
    text: str
    config: str
    kernel: str
    launch_line: int | None
    line: int | None
    block: list[int] | None
    thread: list[int] | None
    place: str = Field(description="the buffer and the byte in it")
    other_line: int | None = Field(description="of the other access, where there are two")
    other_block: int | None
    other_thread: int | None


class CheckReportOut(Schema):
    """What `kbench check --json` prints on a machine of one's own."""

    verdict: EmulatorVerdict
    reason: str
    line: int | None
    findings: list[FindingOut]
    notes: list[str]
    configs: list[str]
    runs: int
    compile_s: float
    seconds: float = Field(description="what is charged to the quota")


class CheckOut(Schema):
    id: uuid.UUID
    task: str
    state: CheckState
    verdict: EmulatorVerdict | None = Field(description="never the verdict of a judging, and never ranked")
    problem: str | None = Field(description="why it failed by our own fault")
    report: CheckReportOut | None
    created: datetime
    finished: datetime | None
    url: str


@router.post("", response={202: CheckOut}, summary="Check a CUDA source without a GPU", auth=Token())
def check_create(request: HttpRequest, wanted: CheckIn, response: HttpResponse) -> Any:
    """`Location` is the check; only the owner of the token can read it. It is deleted after 30 days."""
    owner, version = owner_of(request), version_of(wanted.task)
    checked_source(wanted.source, LANGUAGE, version)
    key = idempotency_key(request)
    try:
        with quota_as_problem():
            check = services.check_create(
                version=version, text=wanted.source, owner=owner, payer=limits.payer(request), client_token=key
            )
    except services.Refused as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "submissions-closed", str(error)) from error
    if check.text != wanted.source or check.task_version.task_id != version.task_id:
        detail = "This Idempotency-Key belongs to another check."
        raise Problem(HTTPStatus.CONFLICT, "idempotency-key-reused", detail)
    response.headers["Location"] = f"/api/v1/checks/{check.code}"
    return Status(HTTPStatus.ACCEPTED, _out(check))


@router.get("/{id}", response=CheckOut, summary="A check without a GPU, as it is now", openapi_extra=MAY_SEND_TOKEN)
def check(request: HttpRequest, id: uuid.UUID) -> Any:
    return _out(selectors.check_for(request.user, id))


def _out(found: EmulatorCheck) -> CheckOut:
    return CheckOut(
        id=found.code,
        task=found.task_version.task.path,
        state=CheckState(found.state),
        verdict=EmulatorVerdict(found.verdict) if found.verdict else None,
        problem=found.problem or None,
        report=CheckReportOut(**found.report) if found.report else None,
        created=found.created,
        finished=found.finished,
        url=found.get_absolute_url(),
    )
