"""Judging entries again, for staff: choose, check number and duration, start, then pause, resume or cancel.

Nothing is written before the confirmation. Does NOT show the results: that page is public (`moderation/changes.py`).
"""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from benchmarks import selectors
from benchmarks.models import RejudgeBatch, RuleSet
from benchmarks.moderation import changes, rejudging
from benchmarks.moderation.forms import ConfirmBatchForm, RejudgeForm
from benchmarks.moderation.rejudging import Wanted
from benchmarks.services import Refused

from .parts.staff import person, staff_only

TURNS = {"pause": rejudging.batch_pause, "resume": rejudging.batch_resume, "cancel": rejudging.batch_cancel}


@staff_only
def rejudge(request: HttpRequest) -> HttpResponse:
    form = RejudgeForm(request.GET if request.GET else None)
    ruleset = _ruleset(form) if form.is_valid() else None
    wanted = form.wanted() if ruleset else None
    preview = rejudging.preview(wanted, ruleset) if wanted and ruleset else None
    confirm = ConfirmBatchForm(request.POST or None, initial={"expected": preview.count if preview else 0})
    if request.method == "POST" and wanted and ruleset and confirm.is_valid():
        batch = _started(request, confirm, wanted, ruleset)
        if batch is not None:
            return redirect("rejudge-batch", batch.code)
    context: dict[str, Any] = {"form": form, "confirm": confirm, "preview": preview, "ruleset": ruleset}
    context |= {"batches": changes.batches(request.GET.get("page", 1))}
    return render(request, "moderation/rejudge.html", context)


def _ruleset(form: RejudgeForm) -> RuleSet | None:
    name = form.cleaned_data["ruleset"]
    return RuleSet.objects.filter(name=name).first() if name else selectors.active_ruleset()


def _started(request: HttpRequest, confirm: ConfirmBatchForm, wanted: Wanted, ruleset: RuleSet) -> RejudgeBatch | None:
    try:
        return rejudging.batch_create(wanted, ruleset, by=person(request), **confirm.cleaned_data)
    except Refused as error:
        confirm.add_error(None, str(error))
        confirm.expect(rejudging.preview(wanted, ruleset).count)
        return None


@staff_only
def batch(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return render(request, "moderation/batch.html", _batch(code))


@staff_only
def batch_live(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return render(request, "moderation/_batch.html", _batch(code))


def _batch(code: uuid.UUID) -> dict[str, Any]:
    found = get_object_or_404(RejudgeBatch.objects.select_related("ruleset", "requested_by"), code=code)
    return {
        "batch": found,
        "progress": changes.progress(found),
        "open": changes.at_work(found),
        "actions": found.actions.select_related("actor"),
    }


@require_POST
@staff_only
def batch_turn(request: HttpRequest, code: uuid.UUID, turn: str) -> HttpResponse:
    found = get_object_or_404(RejudgeBatch, code=code)
    try:
        TURNS[turn](found, by=person(request))
    except Refused as error:
        messages.warning(request, str(error))
    return redirect("rejudge-batch", code)
