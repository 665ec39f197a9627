"""POST /submissions: the same checks, limits and service as the form of the site.

Does NOT judge: the answer is 202, and the evaluation that it names tells how it goes on.
"""

from http import HTTPStatus
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest

from benchmarks import harness, limits, selectors, services
from benchmarks.devices import NoDevice, kind_for
from benchmarks.harness import Source
from benchmarks.models import DeviceKind, Evaluation, TaskVersion
from benchmarks.states import Origin, TokenScope
from benchmarks.templatetags.numbers import size

from .problems import Problem
from .schemas import Remark, SubmissionIn

DEFAULT_SUITE = "robust-kbench"
KEY_MAX_CHARS = 80
CLI_AGENT = "kbench-cli"


def owner_of(request: HttpRequest) -> User:
    """Whose token the request carries, if it may write. Raises Problem."""
    token: Any = request.api_token  # type: ignore[attr-defined]
    if token.scope != TokenScope.SUBMIT:
        raise Problem(HTTPStatus.FORBIDDEN, "scope-missing", "This token may read only.")
    owner: User = token.owner
    return owner


def version_of(task: str) -> TaskVersion:
    """The version judged now of OP/DIRECTION or SUITE/OP/DIRECTION. Raises Problem."""
    parts = task.split("/")
    if len(parts) == 2:
        parts = [DEFAULT_SUITE, *parts]
    if len(parts) != 3:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-task", f"{task!r} is no OP/DIRECTION.")
    found = selectors.find_active_version(*parts)
    if found is None:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown-task", f"There is no task {task}.")
    return found


def submit(request: HttpRequest, wanted: SubmissionIn) -> tuple[Evaluation, list[Remark]]:
    """The queued evaluation and what a look at the text has noted. Raises Problem."""
    owner = owner_of(request)
    version = version_of(wanted.task)
    kind = _kind(wanted)
    remarks = _checked(wanted, version)
    key = _key(request)
    refusal = limits.refusal(request)
    if refusal:
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too-many-submissions", refusal)
    try:
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
        )
    except services.Refused as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "submissions-closed", str(error)) from error
    _demand_same(evaluation, wanted, kind)
    return evaluation, remarks


def _kind(wanted: SubmissionIn) -> DeviceKind:
    if wanted.language not in harness.LANGUAGES:
        names = ", ".join(harness.LANGUAGES)
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "unknown-language", f"The languages are {names}.")
    try:
        return kind_for(wanted.language, wanted.device)
    except NoDevice as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "no-such-device", str(error)) from error


def _checked(wanted: SubmissionIn, version: TaskVersion) -> list[Remark]:
    rules = harness.default_rules()
    size_bytes = len(wanted.source.encode(errors="surrogatepass"))
    if size_bytes > rules.source.max_bytes:
        detail = f"The source has {size(size_bytes)}; the rules take at most {size(rules.source.max_bytes)}."
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "source-too-large", detail)
    task = harness.find_task(harness.default_suites(), version.task.path)
    found = harness.check_source(Source(wanted.source, wanted.language), task, rules)
    if found.problem:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "source-refused", found.problem)
    return [Remark(code=flag.code, text=flag.text, line=flag.line) for flag in found.flags]


def _key(request: HttpRequest) -> str:
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
