"""Submitting a kernel: an editor or a file, checked before it is queued, nothing typed is ever lost.

The page works without JavaScript; with it, the editor keeps a draft in the browser. Does NOT compile anything.
"""

import uuid
from http import HTTPStatus

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks import harness, limits, selectors, services
from benchmarks.forms import SubmissionForm
from benchmarks.models import Evaluation, TaskVersion

from .sessions import remember


def submit(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    task = harness.find_task(harness.default_suites(), version.task.path)
    form = SubmissionForm(
        task,
        harness.default_rules(),
        data=request.POST or None,
        files=request.FILES or None,
        initial={"text": _first_text(request, task)},
        signed_in=request.user.is_authenticated,
    )
    ready = request.method == "POST" and form.is_valid() and "check" not in request.POST
    evaluation = _submitted(request, form, version) if ready else None
    if evaluation is not None:
        return redirect(evaluation)
    context = {"form": form, "version": version, "task": version.task, "refusal": limits.refusal(request)}
    context |= {"paused": selectors.submissions_paused(), "checked": "check" in request.POST and not form.errors}
    return render(request, "tasks/submit.html", context, status=_status(form))


def _submitted(request: HttpRequest, form: SubmissionForm, version: TaskVersion) -> Evaluation | None:
    """The queued evaluation; None with an error on the form where it cannot be had now."""
    refusal = limits.refusal(request)
    if refusal:
        form.add_error(None, refusal)
        return None
    assert form.source is not None  # noqa: S101 - a valid form has one
    try:
        evaluation = services.submission_create(
            version=version,
            text=form.source.text,
            language=form.source.language,
            owner=request.user if isinstance(request.user, AbstractBaseUser) else None,
            visibility=form.cleaned_data["visibility"],
            title=form.cleaned_data["title"],
            client_token=form.token(),
        )
    except services.Refused as error:
        form.add_error(None, str(error))
        return None
    limits.count(request)
    remember(request, evaluation)
    return evaluation


def _first_text(request: HttpRequest, task: harness.TaskSpec) -> str:
    """An earlier source to edit (`?from=CODE`), or the starter code."""
    try:
        code = uuid.UUID(request.GET.get("from", ""))
    except ValueError:
        return harness.starter_code(task)
    return str(selectors.evaluation_for(request.user, code).submission.blob.text)


def _status(form: SubmissionForm) -> HTTPStatus:
    return HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
