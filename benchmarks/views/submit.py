"""Submitting a kernel: an editor or a file, checked before it is queued, nothing typed is ever lost.

The page works without JavaScript; with it, the editor keeps a draft in the browser. Does NOT compile anything.
"""

import uuid
from dataclasses import dataclass
from http import HTTPStatus

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks import harness, limits, selectors, services
from benchmarks.forms import SubmissionForm
from benchmarks.languages import TITLES as LANGUAGE_TITLES
from benchmarks.languages import languages_of, starter_of
from benchmarks.models import DeviceKind, Evaluation, TaskVersion
from benchmarks.waiting import nobody_there

from .sessions import remember


def submit(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    task = harness.find_task(harness.default_suites(), version.task.path)
    kinds = selectors.device_kinds(version)
    first = _first(request, task, kinds)
    form = SubmissionForm(
        task,
        harness.default_rules(),
        data=request.POST or None,
        files=request.FILES or None,
        initial=first,
        kinds=kinds,
        signed_in=request.user.is_authenticated,
    )
    ready = request.method == "POST" and form.is_valid() and "check" not in request.POST
    evaluation = _submitted(request, form, version) if ready else None
    if evaluation is not None:
        return redirect(evaluation)
    context = {"form": form, "version": version, "task": version.task, "refusal": limits.refusal(request)}
    context |= {"paused": selectors.submissions_paused(), "checked": "check" in request.POST and not form.errors}
    context |= {"language": form["language"].value(), "languages": LANGUAGE_TITLES.items(), "served": served(kinds)}
    return render(request, "tasks/submit.html", context, status=_status(form))


@dataclass(frozen=True)
class Served:
    """A device kind, what it judges, and why it would judge nothing now."""

    kind: DeviceKind
    languages: str
    problem: str


def served(kinds: list[DeviceKind]) -> list[Served]:
    return [
        Served(kind, ", ".join(LANGUAGE_TITLES[name] for name in languages_of(kind.device_class)), nobody_there(kind))
        for kind in kinds
    ]


def _submitted(request: HttpRequest, form: SubmissionForm, version: TaskVersion) -> Evaluation | None:
    """The queued evaluation; None with an error on the form where it cannot be had now."""
    refusal = limits.refusal(request)
    if refusal:
        form.add_error(None, refusal)
        return None
    assert form.source is not None  # noqa: S101 - a valid form has one
    if not form.choose_device():
        return None
    try:
        evaluation = services.submission_create(
            version=version,
            text=form.source.text,
            language=form.source.language,
            device_kind=form.device_kind,
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


def _first(request: HttpRequest, task: harness.TaskSpec, kinds: list[DeviceKind]) -> dict[str, str]:
    """What the form begins with: an earlier source to edit (`?from=CODE`), or the starter code of a language."""
    device = request.GET.get("device", "")
    try:
        submission = selectors.evaluation_for(request.user, uuid.UUID(request.GET.get("from", ""))).submission
    except ValueError:
        language = _language(request.GET.get("language", ""), device, kinds)
        return {"language": language, "device": device, "text": starter_of(task, language) or ""}
    return {"language": submission.language, "device": device, "text": submission.blob.text}


def _language(wanted: str, device: str, kinds: list[DeviceKind]) -> str:
    """The one that is asked for, else one that the device runs, else C++."""
    if wanted in LANGUAGE_TITLES:
        return wanted
    chosen = next((kind for kind in kinds if kind.slug == device), None)
    return languages_of(chosen.device_class)[0] if chosen else harness.LANGUAGES[0]


def _status(form: SubmissionForm) -> HTTPStatus:
    return HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
