"""Submitting a kernel: an editor or a file, checked before it is queued. Typed text is never lost.

The page works without JavaScript; with it, the editor keeps a draft in the browser, and a quick check is answered
beside the editor (`beside` in the form). Does NOT compile anything.
"""

import json
import secrets
import uuid
from dataclasses import dataclass
from http import HTTPStatus

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks import harness, quotas, selectors, services, teams
from benchmarks.accounts import limits
from benchmarks.catalogue import folders
from benchmarks.forms import SubmissionForm
from benchmarks.judgings.waiting import nobody_there, outlook
from benchmarks.models import DeviceKind, EmulatorCheck, Evaluation, TaskVersion
from benchmarks.states import Switch, Visibility
from benchmarks.submissions.languages import languages_of, module_start, starter_of, titles_for
from benchmarks.switches import paused

from .beside import beside_part, compile_errors
from .parts.sessions import remember


def submit(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    task = folders.shown_spec(version)
    kinds = selectors.device_kinds(version)
    origin = _origin(request)
    first = _first(request, task, kinds, origin)
    form = SubmissionForm(
        task,
        harness.default_rules(settings.KBENCH_RULESET),
        data=request.POST or None,
        files=request.FILES or None,
        initial=first,
        kinds=kinds,
        signed_in=request.user.is_authenticated,
        teams=teams.teams_of(request.user),
        refusal=limits.log_in_demanded(request),
    )
    ready = request.method == "POST" and form.is_valid() and "check" not in request.POST
    outcome = _submitted(request, form, version) if ready else SubmitOutcome()
    if "beside" in request.POST:
        return _beside(request, form, outcome)
    if outcome.made is not None:
        return redirect(outcome.made)
    meters = limits.meters(request)
    context = {"form": form, "version": version, "task": version.task, "identical": outcome.identical}
    context |= {"meters": meters, "refusal": _refusal(request, meters), "paused": paused(Switch.SUBMISSIONS)}
    context |= {
        "checked": "check" in request.POST and not form.errors,
        "served": served(kinds, version, request.user.pk),
    }
    context |= {"language": form["language"].value(), "languages": titles_for(task).items()}
    context |= {
        "suffixes": ",".join(harness.LANGUAGE_OF_SUFFIX),
        "language_of_suffix": json.dumps(dict(harness.LANGUAGE_OF_SUFFIX)),
        "module_start": module_start(task),
        "syntaxes": json.dumps({item.name: item.syntax for item in harness.LANGUAGES.values()}),
    }
    if origin is not None and not form.is_bound:
        context |= {"origin": origin, "compiler": compile_errors(origin)}
    # CodeMirror makes a style element. The middleware allows that of this answer.
    request.style_nonce = context["style_nonce"] = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
    context |= {"choose_device": len(kinds) > (1 if task.takes_python else 2)}
    response = render(request, "tasks/submit.html", context, status=_status(form, outcome))
    if outcome.full is not None:
        response.headers["Retry-After"] = str(outcome.full.retry_after_s)
    return response


@dataclass(frozen=True)
class SubmitOutcome:
    """The outcome of a valid form: queued, an earlier evaluation of the same source, or refused for now."""

    made: Evaluation | EmulatorCheck | None = None
    identical: Evaluation | None = None
    full: quotas.QuotaUse | None = None


def _beside(request: HttpRequest, form: SubmissionForm, outcome: SubmitOutcome) -> HttpResponse:
    """A part of the page: the quick check that was made, or why there is none."""
    if isinstance(outcome.made, Evaluation):
        return beside_part(request, outcome.made)
    context = {"form": form, "identical": outcome.identical}
    return render(request, "tasks/_not_beside.html", context, status=_status(form, outcome))


@dataclass(frozen=True)
class Served:
    """A device kind, what it judges, why it would judge nothing now, and otherwise when it would."""

    kind: DeviceKind
    languages: str
    problem: str
    outlook: str


def served(kinds: list[DeviceKind], version: TaskVersion, user: int | None) -> list[Served]:
    return [
        Served(
            kind,
            ", ".join(
                harness.LANGUAGES[name].title
                for name in languages_of(kind.device_class, modules=version.definition.get("module", False))
            ),
            nobody_there(kind),
            outlook(kind, version, user),
        )
        for kind in kinds
    ]


def _submitted(request: HttpRequest, form: SubmissionForm, version: TaskVersion) -> SubmitOutcome:
    """Where nothing was queued, the form has an error or the outcome names the same source, judged before."""
    emulated = "emulate" in request.POST and "beside" not in request.POST
    if not (form.is_cuda() if emulated else form.choose_device()):
        return SubmitOutcome()
    made: Evaluation | EmulatorCheck
    try:
        made = _check_queued(request, form, version) if emulated else _queued(request, form, version)
    except services.Refused as error:
        form.add_error(None, str(error))
        return SubmitOutcome()
    except quotas.OverQuota as error:
        form.add_error(None, str(error))
        return SubmitOutcome(full=error.meter)
    except services.Identical as error:
        return SubmitOutcome(identical=error.evaluation)
    if isinstance(made, Evaluation):
        remember(request, made)
    return SubmitOutcome(made)


def _check_queued(request: HttpRequest, form: SubmissionForm, version: TaskVersion) -> EmulatorCheck:
    assert form.source is not None  # noqa: S101 - a valid form has one
    return services.check_create(
        version=version,
        text=form.source.text,
        owner=request.user if isinstance(request.user, AbstractBaseUser) else None,
        payer=limits.payer(request),
        client_token=form.token(),
    )


def _queued(request: HttpRequest, form: SubmissionForm, version: TaskVersion) -> Evaluation:
    """Beside the editor nothing is published: it is of an account alone, or of who has the link where there is none."""
    assert form.source is not None  # noqa: S101 - a valid form has one
    owner = request.user if isinstance(request.user, AbstractBaseUser) else None
    beside = "beside" in request.POST
    hidden = Visibility.PRIVATE if owner else Visibility.UNLISTED
    return services.submission_create(
        version=version,
        text=form.source.text,
        language=form.source.language,
        device_kind=form.device_kind,
        owner=owner,
        visibility=hidden if beside else form.cleaned_data["visibility"],
        title=form.cleaned_data["title"],
        client_token=form.token(),
        payer=limits.payer(request),
        judge_again="judge_again" in request.POST,
        quick=beside or "quick" in request.POST,
        team=None if beside else teams.team_for(request.user, form.cleaned_data["team"]),
    )


def _refusal(request: HttpRequest, meters: list[quotas.QuotaUse]) -> str | None:
    """Why nothing at all can be submitted now, said before the click."""
    full = (meter.refusal for meter in meters if meter.is_full and meter.kind is not quotas.PUBLIC)
    return limits.log_in_demanded(request) or next(full, None)


def _origin(request: HttpRequest) -> Evaluation | None:
    """The evaluation whose source is edited (`?from=CODE`). Raises Http404."""
    try:
        return selectors.evaluation_for(request.user, uuid.UUID(request.GET.get("from", "")))
    except ValueError:
        return None


def _first(
    request: HttpRequest, task: harness.TaskSpec, kinds: list[DeviceKind], origin: Evaluation | None
) -> dict[str, str]:
    """What the form begins with: an earlier source to edit, or the starter code of a language."""
    device = request.GET.get("device", "")
    if origin is None:
        language = _language(request.GET.get("language", ""), device, kinds)
        return {"language": language, "device": device, "text": starter_of(task, language) or ""}
    return {"language": origin.submission.language, "device": device, "text": origin.submission.blob.text}


def _language(wanted: str, device: str, kinds: list[DeviceKind]) -> str:
    """The one that is asked for, else one that the device runs, else C++."""
    if wanted in harness.LANGUAGES:
        return wanted
    chosen = next((kind for kind in kinds if kind.slug == device), None)
    return languages_of(chosen.device_class)[0] if chosen else next(iter(harness.LANGUAGES))


def _status(form: SubmissionForm, outcome: SubmitOutcome) -> HTTPStatus:
    if outcome.full is not None:
        return HTTPStatus.TOO_MANY_REQUESTS
    if outcome.identical is not None:
        return HTTPStatus.CONFLICT
    return HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
