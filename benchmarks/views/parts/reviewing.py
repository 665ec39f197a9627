"""Two pages that several kinds of things share: one on which a reader reports, and one on which staff decide.

Does NOT report or decide: the caller gives a function that does, and that may raise Refused.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks.models import Evaluation
from benchmarks.moderation.forms import ReasonForm, ReportForm
from benchmarks.services import Refused
from benchmarks.states import ActionKind

from .staff import person


def report_page(
    request: HttpRequest, evaluation: Evaluation, report: Callable[..., None], template: str, context: Mapping[str, Any]
) -> HttpResponse:
    """Of the evaluation itself or of something on its page. `report` is called with `by` and `text`."""
    form = ReportForm(request.POST or None)
    if form.is_valid():
        try:
            report(by=person(request), text=form.cleaned_data["text"])
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Thank you. Staff will look at it; their decision appears in the public log.")
            return redirect(evaluation)
    return render(request, template, {**context, "form": form, "evaluation": evaluation})


def decision_page(
    request: HttpRequest, form: ReasonForm, decide: Callable[..., None], template: str, context: Mapping[str, Any]
) -> HttpResponse:
    """`decide` is called with the kind of the decision, `by`, `reason` and `note`."""
    if form.is_valid():
        data = form.cleaned_data
        kind = ActionKind(data["kind"])
        try:
            decide(kind, by=person(request), reason=data["reason"], note=data["note"])
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"{kind.label}. The decision stands in the public log.")
            return redirect(request.path)
    return render(request, template, {**context, "form": form})
