"""`/submissions` and `/quota`: the same checks, quotas and services as the pages.

Does NOT judge: a post is answered with 202, and the evaluation that it names tells how it goes on.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from benchmarks import harness, quotas, selectors, services, teams
from benchmarks.accounts import limits, ownership
from benchmarks.catalogue import folders
from benchmarks.catalogue.devices import NoDevice, kind_for
from benchmarks.harness import Source
from benchmarks.models import DeviceKind, Evaluation, Submission, TaskVersion, Team
from benchmarks.states import Origin
from benchmarks.submissions import checking
from benchmarks.submissions import selectors as submission_selectors
from benchmarks.templatetags.numbers import size

from . import schemas
from .auth import MAY_SEND_TOKEN, Token, owner_of
from .problems import Problem
from .schemas import Remark, SubmissionIn

DEFAULT_SUITE = "robust-kbench"
KEY_MAX_CHARS = 80
CLI_AGENT = "kbench-cli"
_CODES: dict[type[services.Refused], str] = {ownership.PaidAnswer: "paid-answer", ownership.MadeByRun: "made-by-a-run"}
router = Router(tags=["submissions"])
quota_router = Router(tags=["submissions"])


@router.post("", response={202: schemas.SubmissionOut}, summary="Submit a source for judging", auth=Token())
def submission_create(request: HttpRequest, wanted: SubmissionIn, response: HttpResponse) -> Any:
    """`Location` is the evaluation. With an `Idempotency-Key` the same post twice is one submission.

    A source that was submitted before is answered with 409 `identical-source` and the address of that evaluation,
    unless `judge_again` is true.
    """
    evaluation, remarks = submit(request, wanted)
    response.headers["Location"] = f"/api/v1/evaluations/{evaluation.code}"
    shown = selectors.evaluation_for(request.user, evaluation.code)
    return Status(HTTPStatus.ACCEPTED, schemas.submission_out(shown.submission, [shown], remarks))


@router.get("", response=schemas.SubmissionPage, summary="Submissions, newest first", openapi_extra=MAY_SEND_TOKEN)
def submission_list(
    request: HttpRequest,
    task: str = "",
    mine: bool = False,
    team: schemas.TeamName = "",
    page: schemas.PageNumber = 1,
) -> Any:
    """What everybody may list, or with `mine` what the owner of the token has made.

    With `team` what was made for it: for its members all, for others what is public.
    """
    if mine and not request.user.is_authenticated:
        raise Problem(HTTPStatus.UNAUTHORIZED, "token-required", "Send a token to list your own submissions.")
    wanted = version_of(task).task if task else None
    of = teams.team_named(team, request.user)[0] if team else None
    rows = submission_selectors.submission_rows(request.user, mine=mine, task=wanted, team=of, page=page)
    shown = [schemas.submission_line(row) for row in rows]
    return schemas.SubmissionPage(page=rows.number, pages=rows.paginator.num_pages, submissions=shown)


@router.get(
    "/{id}",
    response=schemas.SubmissionOut,
    summary="A submission with its evaluations",
    openapi_extra=MAY_SEND_TOKEN,
)
def submission(request: HttpRequest, id: uuid.UUID) -> Any:
    found, evaluations = selectors.submission_for(request.user, id)
    return schemas.submission_out(found, evaluations)


@router.patch("/{id}", response=schemas.SubmissionOut, summary="Change title or visibility", auth=Token())
def submission_change(request: HttpRequest, id: uuid.UUID, wanted: schemas.SubmissionChange) -> Any:
    """A submission that is not public is on no leaderboard; made public again, it is ranked by its score."""
    found = _own(request, id)
    if wanted.title is not None:
        ownership.submission_rename(found, wanted.title)
    if wanted.visibility is not None:
        with quota_as_problem(), _refused_as_problem():
            ownership.visibility_change(found, wanted.visibility)
    return submission(request, id)


@router.delete("/{id}", response={204: None}, summary="Delete a submission with its results", auth=Token())
def submission_delete(request: HttpRequest, id: uuid.UUID) -> Any:
    """Its source, results and place on the board go; the lines of the ledger stay."""
    found = _own(request, id)
    with _refused_as_problem():
        ownership.submission_delete(found)
    return Status(HTTPStatus.NO_CONTENT, None)


@quota_router.get("", response=schemas.QuotaOut, summary="Remaining quota", openapi_extra=MAY_SEND_TOKEN)
def quota(request: HttpRequest) -> Any:
    """Of the owner of the token; without a token, of the address the request comes from."""
    return schemas.QuotaOut(meters=[schemas.meter_out(meter) for meter in limits.meters(request)])


def _own(request: HttpRequest, code: uuid.UUID) -> Submission:
    """A submission of the owner of the token. Raises Problem if it belongs to another account."""
    owner = owner_of(request)
    found, _ = selectors.submission_for(request.user, code)
    if found.owner_id != owner.pk:
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", "Only the author can change or delete a submission.")
    return found


@contextmanager
def quota_as_problem() -> Iterator[None]:
    """Turns OverQuota into a Problem that names the full meter."""
    try:
        yield
    except quotas.OverQuota as error:
        meter = schemas.meter_out(error.meter).dict()
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-submissions",
            str(error),
            meter=meter,
            retry_after_s=error.meter.retry_after_s,
        ) from error


@contextmanager
def _refused_as_problem() -> Iterator[None]:
    try:
        yield
    except services.Refused as error:
        code = _CODES.get(type(error), "cannot-be-changed")
        raise Problem(HTTPStatus.CONFLICT, code, str(error)) from error


def version_of(task: str) -> TaskVersion:
    """The version judged now of OP/DIRECTION or SUITE/OP/DIRECTION. Raises Problem."""
    parts = task.split("/")
    if len(parts) == 2:
        parts = [DEFAULT_SUITE, *parts]
    if len(parts) != 3:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-task", f"{task!r} is not of the form OP/DIRECTION.")
    found = selectors.find_active_version(*parts)
    if found is None:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-task", f"There is no task {task}.")
    return found


def submit(request: HttpRequest, wanted: SubmissionIn) -> tuple[Evaluation, list[Remark]]:
    """The queued evaluation and what a look at the text has noted. Raises Problem."""
    owner = owner_of(request)
    version = version_of(wanted.task)
    kind = _kind(wanted)
    remarks = checked_source(wanted.source, wanted.language, version)
    key, team = idempotency_key(request), _team(owner, wanted.team)
    try:
        with quota_as_problem():
            evaluation = services.submission_create(
                version=version,
                text=wanted.source,
                language=wanted.language,
                device_kind=kind,
                owner=owner,
                visibility=wanted.visibility,
                origin=Origin.CLI if CLI_AGENT in request.headers.get("User-Agent", "") else Origin.API,
                title=wanted.title,
                client_token=key,
                payer=limits.payer(request),
                judge_again=wanted.judge_again,
                quick=wanted.quick,
                team=team,
            )
    except services.Refused as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "submissions-closed", str(error)) from error
    except services.Identical as error:
        raise _identical(error.evaluation) from error
    _demand_same(evaluation, wanted, kind)
    return evaluation, remarks


def _identical(evaluation: Evaluation) -> Problem:
    again = "or send judge_again (--again) to have it judged again."
    detail = f"{services.IDENTICAL} See {evaluation.get_absolute_url()}, {again}"
    place = {"evaluation": str(evaluation.code), "submission": str(evaluation.submission.code)}
    return Problem(HTTPStatus.CONFLICT, "identical-source", detail, **place, url=evaluation.get_absolute_url())


def _team(owner: User, name: str) -> Team | None:
    try:
        return teams.team_for(owner, name)
    except services.Refused as error:
        raise Problem(HTTPStatus.FORBIDDEN, "not-a-member", str(error)) from error


def _kind(wanted: SubmissionIn) -> DeviceKind:
    if wanted.language not in harness.LANGUAGES:
        names = ", ".join(harness.LANGUAGES)
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "unknown-language", f"The languages are {names}.")
    try:
        return kind_for(wanted.language, wanted.device)
    except NoDevice as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "no-such-device", str(error)) from error


def checked_source(source: str, language: str, version: TaskVersion) -> list[Remark]:
    """What a look at the text has noted. Raises Problem."""
    rules = harness.default_rules(settings.KBENCH_RULESET)
    size_bytes = len(source.encode(errors="surrogatepass"))
    if size_bytes > rules.source.max_bytes:
        detail = f"The source has {size(size_bytes)}; the rules take at most {size(rules.source.max_bytes)}."
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "source-too-large", detail)
    task = folders.shown_spec(version)
    try:
        found = checking.checked(Source(source, language), task, rules)
    except checking.Busy as error:
        busy = {"retry_after_s": checking.RETRY_S}
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), **busy) from error
    if found.problem:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "source-refused", found.problem)
    return [Remark(code=flag.code, text=flag.text, line=flag.line) for flag in found.flags]


def idempotency_key(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_MAX_CHARS:
        detail = f"An Idempotency-Key has at most {KEY_MAX_CHARS} characters."
        raise Problem(HTTPStatus.BAD_REQUEST, "bad-idempotency-key", detail)
    return f"key:{key}" if key else ""


def _demand_same(evaluation: Evaluation, wanted: SubmissionIn, kind: DeviceKind) -> None:
    """A key that comes again must come with the same submission."""
    submission = evaluation.submission
    same = (
        submission.blob_id == Source(wanted.source, wanted.language).sha256
        and submission.language == wanted.language
        and evaluation.device_kind == kind
        and evaluation.task_version.task == version_of(wanted.task).task
    )
    if not same:
        detail = "This Idempotency-Key belongs to another submission."
        raise Problem(HTTPStatus.CONFLICT, "idempotency-key-reused", detail)
