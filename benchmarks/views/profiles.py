"""The profile of an evaluated submission: asked for, followed while it is made, and read; and recorded ones.

Does NOT judge access by itself: `selectors.evaluation_for` does. Who may read an evaluation may read its profile.
"""

import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from benchmarks import quotas, selectors, services
from benchmarks.accounts import limits
from benchmarks.boards.figures import answer
from benchmarks.harness import METRICS, STALLS
from benchmarks.models import Evaluation, ProfileRequest, RecordedEntry
from benchmarks.recorded import selectors as recorded
from benchmarks.recorded.profiles import profile_of
from benchmarks.states import Visibility

from .parts.rooflines import roofline_chart, roofline_figure
from .parts.sessions import is_by


def profile_detail(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    return render(request, "profiles/detail.html", _context(request, evaluation))


def profile_live(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """204 while it is in the state that the page shows already, so that nothing is swapped or read out again."""
    evaluation = selectors.evaluation_for(request.user, code)
    context = _context(request, evaluation)
    asked = context["asked"]
    if asked is not None and request.GET.get("state") == asked.state:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return render(request, "profiles/_live.html", context)


@require_POST
def profile_ask(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    if not may_ask(request, evaluation):
        messages.error(request, "Only the author can request a profile of an evaluation that is not public.")
        return redirect(evaluation)
    try:
        return redirect(services.profile_request(evaluation, limits.payer(request)))
    except (services.Refused, quotas.OverQuota) as error:
        messages.warning(request, str(error))
        return redirect(evaluation)


def profile_json(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    response = JsonResponse(_result(evaluation), json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="kbench-profile-{evaluation.code}.json"'
    return response


def profile_figure(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return _figure_of(_result(selectors.evaluation_for(request.user, code)))


def recorded_profile(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    """One that came with kbench, beside the recorded entry of the same source and device."""
    row, profile = _recorded(bundle, entry)
    names = [bundle, entry]
    context = {
        "bundle": row.bundle,
        "entry": row,
        "json_url": reverse("recorded-profile-json", args=names),
        "figure_url": reverse("recorded-profile-figure", args=names),
        "source": row.source or "",
        "language": row.language,
        **shown(profile),
    }
    return render(request, "recorded/profile.html", context)


def recorded_json(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    response = JsonResponse(_recorded(bundle, entry)[1], json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="kbench-profile-{entry}.json"'
    return response


def recorded_figure(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    return _figure_of(_recorded(bundle, entry)[1])


def may_ask(request: HttpRequest, evaluation: Evaluation) -> bool:
    """The author and staff; of a public submission everybody, at their own expense."""
    public = evaluation.submission.visibility == Visibility.PUBLIC
    return public or request.user.is_staff or is_by(request, evaluation)


def shown(profile: Mapping[str, Any]) -> dict[str, Any]:
    """What `profiles/_result.html` shows of a profile in its JSON form."""
    return {
        "profile": profile,
        "configs": [{**config, "rows": metric_rows(config["kernels"])} for config in profile["configs"]],
        "stalls": STALLS,
        "chart": roofline_chart(profile),
    }


def metric_rows(kernels: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """A row per metric that any of the kernels has: its title with the unit, and one figure per kernel."""
    rows = []
    for metric in METRICS:
        values = [kernel["metrics"].get(metric.key) for kernel in kernels]
        if any(value is not None for value in values):
            title = f"{metric.title} ({metric.unit})" if metric.unit else metric.title
            rows.append((title, ["not known" if value is None else figure_text(value) for value in values]))
    return rows


def figure_text(value: float) -> str:
    """Four digits, or all of them before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _figure_of(profile: Mapping[str, Any]) -> HttpResponse:
    drawn = roofline_figure(profile)
    if drawn is None:
        raise Http404("This profile has no roofline.")
    return answer(drawn)


def _recorded(bundle: str, entry: str) -> tuple[RecordedEntry, dict[str, Any]]:
    row = recorded.entry_named(recorded.bundle_named(bundle), entry)
    profile = profile_of(row.bundle.device, row.source_sha256)
    if profile is None:
        raise Http404("There is no recorded profile of this entry.")
    return row, profile


def _result(evaluation: Evaluation) -> dict[str, Any]:
    asked = ProfileRequest.objects.filter(evaluation=evaluation, result__isnull=False).first()
    if asked is None or asked.result is None:
        raise Http404("There is no profile of this evaluation.")
    found: dict[str, Any] = asked.result
    return found


def _context(request: HttpRequest, evaluation: Evaluation) -> dict[str, Any]:
    asked = ProfileRequest.objects.filter(evaluation=evaluation).first()
    return {
        "evaluation": evaluation,
        "task": evaluation.task_version.task,
        "asked": asked,
        "askable": services.is_profilable(evaluation) and may_ask(request, evaluation),
        "json_url": reverse("evaluation-profile-json", args=[evaluation.code]),
        "figure_url": reverse("evaluation-profile-figure", args=[evaluation.code]),
        "source": evaluation.submission.blob.text,
        "language": evaluation.submission.language,
        **(shown(asked.result) if asked is not None and asked.result else {}),
    }
