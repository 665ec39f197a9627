"""`/requests`: kernels that somebody wants, with their best answers; posting one, voting for one.

Answers are ordinary submissions to the task of a request. Does NOT accept answers, close or hide requests: those are
pages. Posted files come back to nobody.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from benchmarks.harness import CPU
from benchmarks.models import DeviceKind, KernelRequest
from benchmarks.requests import asking, lists
from benchmarks.requests.files import FILES_MAX, NAME_MAX_CHARS
from benchmarks.requests.lists import RequestAnswer
from benchmarks.selectors import find_device_kind
from benchmarks.services import Refused
from benchmarks.templatetags.kbench import holder

from .auth import MAY_SEND_TOKEN, Token, owner_of
from .problems import Problem
from .schemas import PageNumber

router = Router(tags=["requests"])
RETRY_AFTER_S = 3600
DEVICES_MAX = 20
_STORABLE = r"^[^\x00]*$"
RequestNumber = Annotated[int, Field(ge=1, le=2**63 - 1)]


class RequestLine(Schema):
    id: int
    title: str
    by: str
    state: str = Field(description="queued, examining, refused, open, answered or closed")
    votes: int
    devices: list[str]
    task: str | None = Field(description="submit answers to this task; null until the definition is examined")
    worth_left_s: float = Field(description="judging time that is left for accepted answers")
    created: datetime
    url: str


class RequestPage(Schema):
    page: int
    pages: int
    requests: list[RequestLine]


class AnswerOut(Schema):
    device: str
    evaluation: uuid.UUID
    by: str
    speedup: float
    ci95: tuple[float, float]
    timing_trust: str
    timing_revision: int = Field(description="as in the score of a leaderboard")
    config: str | None = Field(description="the configuration that the next three fields refer to")
    kernel_us: float | None
    eager_us: float | None
    compile_us: float | None
    accepted: bool


class RequestDetail(RequestLine):
    reason: str = Field(description="plain text")
    licence: str
    state_text: str = Field(description="why it was refused by the importer, or closed by its owner")
    voted: bool = Field(description="by the owner of the token")
    answers: list[AnswerOut] = Field(description="the best verified kernel of each device kind")


class FileIn(Schema, extra="forbid"):
    name: Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS, pattern=_STORABLE)]
    text: Annotated[str, Field(pattern=_STORABLE)]


class RequestIn(Schema, extra="forbid"):
    title: Annotated[str, Field(min_length=1, max_length=asking.TITLE_MAX_CHARS, pattern=_STORABLE)]
    reason: Annotated[
        str, Field(min_length=1, max_length=asking.REASON_MAX_CHARS, pattern=_STORABLE, description="plain text")
    ]
    files: Annotated[list[FileIn], Field(min_length=1, max_length=FILES_MAX, description="of any importable format")]
    devices: Annotated[list[Annotated[str, Field(pattern=_STORABLE)]], Field(min_length=1, max_length=DEVICES_MAX)]
    worth_s: Annotated[int, Field(ge=0, le=asking.WORTH_MAX_S, description="judging time for accepted answers")] = 0
    licence: Annotated[
        str, Field(max_length=asking.LICENCE_MAX_CHARS, pattern=_STORABLE, description="of the definition")
    ] = ""


class VoteIn(Schema):
    vote: bool = Field(description="false takes the vote back")


@router.get("", response=RequestPage, summary="Requests for kernels", openapi_extra=MAY_SEND_TOKEN)
def request_list(request: HttpRequest, sort: Literal["votes", "newest", "open"] = "votes", page: PageNumber = 1) -> Any:
    """`open` leaves out what is answered or closed."""
    rows = lists.request_rows(request.user, sort, page)
    return RequestPage(
        page=rows.number, pages=rows.paginator.num_pages, requests=[RequestLine(**_facts(row)) for row in rows]
    )


@router.post("", response={201: RequestDetail}, summary="Post a request", auth=Token())
def request_create(request: HttpRequest, body: RequestIn) -> Any:
    """The definition is examined later: read the request again. Until a task was made of it, it is yours alone."""
    owner = owner_of(request)
    processors = find_device_kind(CPU) if CPU in body.devices else None
    wanted = {processors.slug if processors and name == CPU else name for name in body.devices}
    kinds = {kind.slug: kind for kind in DeviceKind.objects.usable().filter(slug__in=wanted)}
    if unknown := sorted(wanted - set(kinds)):
        raise Problem(HTTPStatus.CONFLICT, "request-refused", f"There is no device kind “{unknown[0]}”.")
    draft = asking.RequestDraft(
        title=body.title,
        reason=body.reason,
        files={item.name: item.text for item in body.files},
        device_kinds=list(kinds.values()),
        worth_s=body.worth_s,
        licence=body.licence,
    )
    with _refused_as_problem():
        made = asking.request_create(draft, by=owner)
    return Status(HTTPStatus.CREATED, _detail(request, made.pk))


@router.get("/{id}", response=RequestDetail, summary="A request with its best answers", openapi_extra=MAY_SEND_TOKEN)
def kernel_request(request: HttpRequest, id: RequestNumber) -> Any:
    return _detail(request, id)


@router.post("/{id}/vote", response=RequestDetail, summary="Vote for a request, or take the vote back", auth=Token())
def request_vote(request: HttpRequest, id: RequestNumber, body: VoteIn) -> Any:
    owner = owner_of(request)
    found = lists.request_for(owner, id)
    with _refused_as_problem():
        asking.request_vote(found, by=owner, wanted=body.vote)
    return _detail(request, id)


@contextmanager
def _refused_as_problem() -> Iterator[None]:
    try:
        yield
    except asking.TooManyRequests as error:
        status = HTTPStatus.TOO_MANY_REQUESTS
        raise Problem(status, "too-many-requests", str(error), retry_after_s=RETRY_AFTER_S) from error
    except Refused as error:
        raise Problem(HTTPStatus.CONFLICT, "request-refused", str(error)) from error


def _facts(row: KernelRequest) -> dict[str, Any]:
    return {
        "id": row.pk,
        "title": row.title,
        "by": row.asker.get_username(),
        "state": row.state,
        "votes": getattr(row, "vote_count", 0),
        "devices": [kind.slug for kind in row.device_kinds.all()],
        "task": row.task.path if row.task else None,
        "worth_left_s": row.worth_left_s,
        "created": row.created,
        "url": row.get_absolute_url(),
    }


def _detail(request: HttpRequest, pk: int) -> RequestDetail:
    row = lists.request_for(request.user, pk)
    return RequestDetail(
        **_facts(row),
        reason=row.reason,
        licence=row.licence,
        state_text=row.state_text,
        voted=getattr(row, "voted", False),
        answers=[_answer(row, answer) for answer in lists.answers_of(row)],
    )


def _answer(row: KernelRequest, answer: RequestAnswer) -> AnswerOut:
    first = answer.first
    return AnswerOut(
        device=answer.device.slug,
        evaluation=answer.evaluation.code,
        by=holder(answer.evaluation),
        speedup=answer.row.score,
        ci95=(answer.row.score_lo, answer.row.score_hi),
        timing_trust=answer.evaluation.timing_trust,
        timing_revision=min(answer.row.timing_revision, answer.evaluation.timing_revision),
        config=first.key if first else None,
        kernel_us=first.kernel_us if first else None,
        eager_us=first.eager_us if first else None,
        compile_us=first.compile_us if first else None,
        accepted=row.accepted_id == answer.evaluation.pk,
    )
